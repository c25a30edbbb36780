# SPDX-License-Identifier: Apache-2.0
"""A log in memory that behaves as a real one, outlets for it, and publishers of a store."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
from oslo_config import cfg

from tests.functional.storage.writing import commit, cycle_on
from tests.simulated import by_facet, told
from tests.waiting import PATIENCE_SECONDS, wait_until
from watcher_sync.conf import opts
from watcher_sync.extensions.log import base
from watcher_sync.extensions.log.base import ChangeTooLarge, LogChange, LogPositions, Outlet, OutletDeposed, OutletError
from watcher_sync.extensions.log.change_log import ChangeLogs
from watcher_sync.extensions.log.cursors import OutletCursor, read_outlet
from watcher_sync.extensions.log.leadership import PublisherLease
from watcher_sync.extensions.log.options import OUTLETS
from watcher_sync.extensions.log.publisher import OutletPublisher
from watcher_sync.extensions.log.selection import OutletSelection
from watcher_sync.model.changes import Change, Delete, Upsert
from watcher_sync.read.journal_reader import JournalReader
from watcher_sync.storage.groups.leases import EngineLease
from watcher_sync.storage.writing.store import Store

NAME = "bus"


class MemoryLog:
    """Messages in their order. Any thread may use it."""

    def __init__(self) -> None:
        self.changes: list[LogChange] = []
        self.batches: list[int] = []
        """The sizes of what was published at once."""
        self.failures = 0
        """So many calls fail next, of which every second one has published before it fails."""
        self.is_down = False
        self.fails_to_close = False
        self.tells_position = True
        self.limit: int | None = None
        """Bytes of the largest message that it takes, as it tells."""
        self.takes: int | None = None
        """What it takes where it tells something else."""
        self.refusal_tells = False
        """Whether it tells that in a refusal."""
        self.is_damaged = False
        """A verification fails once, and the next open says that a new reader needs a snapshot."""
        self.lacks_snapshot = False
        """Whether a new reader needs one: until it has been published."""
        self.refused = 0
        """Calls of a publisher after which another one has published."""
        self.gate = threading.Event()
        """Calls wait for it."""
        self.gate.set()
        self.waiting = 0
        """Calls that wait for the gate."""
        self._lock = threading.Lock()

    def append(self, changes: Sequence[LogChange], expected: int) -> int:
        """Add changes if the log has the expected length, as a server's own check does. Return the new length."""
        self.waiting += 1
        assert self.gate.wait(PATIENCE_SECONDS)
        self.waiting -= 1
        with self._lock:
            if self.is_down:
                raise OutletError("the log is down")
            if self.failures:
                self.failures -= 1
                if self.failures % 2:
                    self._add(changes, expected)
                raise OutletError("the log does not answer")
            return self._add(changes, expected)

    def _add(self, changes: Sequence[LogChange], expected: int) -> int:
        if len(self.changes) != expected:
            self.refused += 1
            raise OutletDeposed(f"wrong last sequence: {len(self.changes)}, not {expected}")
        self.changes += changes
        self.lacks_snapshot = self.lacks_snapshot and changes[-1].change != base.SNAPSHOT_END
        self.batches.append(len(changes))
        return len(self.changes)

    def seqs(self) -> list[int]:
        """Of the changes that are no part of a snapshot."""
        return [each.seq for each in self.changes if not each.change.startswith("snapshot")]

    def snapshots(self) -> int:
        """How many were completed."""
        return sum(each.change == base.SNAPSHOT_END for each in self.changes)

    def model(self) -> dict[tuple[str, str], Any]:
        """(kind, id) -> the entity, as a reader of the whole log knows it. It checks what a reader relies on."""
        model: dict[tuple[str, str], Any] = {}
        last: tuple[str, int] | None = None
        is_whole = False
        for each in self.changes:
            if each.change == base.SNAPSHOT_BEGIN:
                model, is_whole, last = {}, False, each.position
            elif each.change == base.SNAPSHOT_END:
                assert last == each.position
                is_whole = True
            elif each.change == base.SNAPSHOT:
                assert (is_whole, last) == (False, each.position)
                model[each.kind, each.id] = each.after
            else:
                assert is_whole, "a change within a snapshot"
                assert last is not None
                assert each.epoch == last[0]
                assert each.seq > last[1], "a change that the log has already"
                last = each.position
                known = model.get((each.kind, each.id))
                assert each.before == known, f"{each.kind} {each.id} at seq {each.seq}"
                assert (each.change == base.CREATED) == (known is None)
                assert (each.change == base.DELETED) == (each.after is None)
                if each.after is None:
                    del model[each.kind, each.id]
                else:
                    model[each.kind, each.id] = each.after
        return model if is_whole else {}


class MemoryOutlet(Outlet):
    """Publishes on a :class:`MemoryLog`."""

    def __init__(self, name: str, conf: cfg.ConfigOpts, log: MemoryLog) -> None:
        super().__init__(name, conf)
        self.log = log
        self._length = -1
        self.opened: list[LogPositions] = []
        """What each call of :meth:`open` got."""

    def open(self, position: LogPositions) -> LogPositions:
        self.opened.append(position)
        self._length, self.limit = len(self.log.changes), self.log.limit
        self.log.lacks_snapshot = self.lacks_snapshot = self.log.lacks_snapshot or self.log.is_damaged
        self.log.is_damaged = False
        if not self.log.tells_position:
            return position
        last = self.log.changes[-1] if self._length else None
        if last is None:
            return {}
        is_open = last.change in (base.SNAPSHOT, base.SNAPSHOT_BEGIN)
        return {self.partition: last.position._replace(is_in_snapshot=is_open)}

    def publish(self, changes: Sequence[LogChange]) -> LogPositions:
        assert all(each.partition == self.partition for each in changes)
        takes = self.log.takes or self.log.limit
        if takes is not None and any(len(each.body) > takes for each in changes):
            raise ChangeTooLarge("a message is larger than the log takes", takes if self.log.refusal_tells else None)
        self._length = self.log.append(changes, self._length)
        return (
            {} if changes[-1].change in (base.SNAPSHOT, base.SNAPSHOT_BEGIN) else {self.partition: changes[-1].position}
        )

    def verify(self) -> None:
        if self.log.is_damaged:
            raise OutletError("the log is damaged")

    def close(self) -> None:
        self._length = -1
        if self.log.fails_to_close:
            raise RuntimeError("a plugin's defect")


def configured(driver: type[Outlet] = Outlet, **options: Any) -> cfg.ConfigOpts:
    """The configuration of one outlet."""
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    opts.register_instance(conf, OUTLETS, NAME, driver.options)
    conf([], default_config_files=[], default_config_dirs=[])
    for option, value in options.items():
        conf.set_override(option, value, group=f"outlet_{NAME}")
    return conf


class Process:
    """What a process has that publishes on some logs."""

    def __init__(
        self,
        store: Store,
        *,
        seconds: float = 30.0,
        holder: str | None = None,
        poll_seconds: float = 0.005,
        quiet_seconds: float = 0.02,
    ) -> None:
        self.store = store
        self.reader = JournalReader(store.database, store.tables, interval=poll_seconds)
        self.logs = ChangeLogs(store, self.reader)
        self._seconds = seconds
        self._holder = holder
        self._quiet_seconds = quiet_seconds
        self._publishers: list[OutletPublisher] = []

    def publisher(self, log: MemoryLog, name: str = NAME, **options: Any) -> OutletPublisher:
        """A publisher on a log in memory, which runs."""
        conf = configured(**options)
        if name != NAME:
            opts.register_instance(conf, OUTLETS, name)
        return self.run(MemoryOutlet(name, conf, log), conf)

    def run(self, outlet: Outlet, conf: cfg.ConfigOpts) -> OutletPublisher:
        """A publisher of an outlet of any driver."""
        name = outlet.name
        lease = EngineLease(
            self.store.database, self.store.tables, f"outlet:{name}", seconds=self._seconds, holder=self._holder
        )
        publisher = OutletPublisher(
            outlet,
            "driver",
            OutletSelection(name, conf, self.store.kinds),
            PublisherLease(lease, name),
            self.store,
            self.reader,
            self.logs,
            quiet_seconds=self._quiet_seconds,
        )
        self._publishers.append(publisher)
        self.reader.start()
        publisher.start()
        return publisher

    def stop(self) -> None:
        """Stop in order."""
        for each in self._publishers:
            each.begin_stop()
        for each in self._publishers:
            each.join(PATIENCE_SECONDS)
        self._publishers.clear()
        self.reader.stop()


@contextlib.contextmanager
def publishing(store: Store, log: MemoryLog, *, seconds: float = 30.0, **options: Any) -> Iterator[OutletPublisher]:
    """A process that publishes on one log."""
    process = Process(store, seconds=seconds)
    try:
        yield process.publisher(log, **options)
    finally:
        process.stop()


class Cloud:
    """Instances that change, committed as an engine commits them."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.cycle = cycle_on(store)
        self._numbers = itertools.count(1)

    def write(self, *changes: Callable[[str], Change]) -> int:
        """One commit. Return the journal's head."""
        commit(self.cycle, *(told(n := next(self._numbers), change(f"{n:012d}")) for change in changes))
        return int(self.cycle.model.generation)

    def rows(self) -> dict[tuple[str, str], Any]:
        """(kind, id) -> the entity, as it is."""
        view = self.cycle.model.snapshot()
        return {
            (name, entity.id): msgspec.to_builtins(kind.to_json(entity))
            for name, kind in view.kinds.items()
            for entity in view.all(name)
        }


def instance(number: int, **fields: Any) -> Callable[[str], Change]:
    """A change of an instance."""
    return lambda version: Upsert("instance", f"i{number}", version, by_facet("instance", **fields))


def gone(number: int) -> Callable[[str], Change]:
    """The deletion of an instance."""
    return lambda version: Delete("instance", f"i{number}", version)


def cursor_of(store: Store, name: str = NAME) -> OutletCursor:
    """The row of an outlet, which is there."""
    found = read_outlet(store.database, name)
    assert found is not None
    return found


def wait_for_seq(log: MemoryLog, seq: int) -> None:
    """Wait until the log has a change, or a snapshot that contains it."""
    wait_until(
        lambda: any(each.seq >= seq and each.change != base.SNAPSHOT for each in log.changes[-1:]), what=f"seq {seq}"
    )
