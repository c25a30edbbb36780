# SPDX-License-Identifier: Apache-2.0
"""Real engines as processes, a cloud that publishes to them, and the checks that follow every fault.

An :class:`Installation` is one database with the project's executables. An :class:`EngineProcess` is one
``watcher-sync-engine`` with its worker, in its own session. A :class:`Line` is one queue of the broker and its
publisher. It declares the queue before an engine starts, so messages wait there.

After any fault, :meth:`Installation.check` asserts:

* The tables hold what the simulated cloud says.
* The journal is gapless, and each entity's changes follow one another.
* A replica that reads the whole journal has the same model.

The comparison leaves ``last_heard`` out, because the engine writes it once a minute only.
The variable ``WATCHER_SYNC_TEST_SCALE`` scales the amount of work (default 1).
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import amqp
import sqlalchemy as sa

from tests.functional.executables import BIN, PRELOADED, may_be_forked, run_preloaded, start
from tests.functional.storage.conftest import opened
from tests.migrated import migrate
from tests.rabbitmq_publisher import Publisher
from tests.waiting import PATIENCE_SECONDS, Deadline, deadline, seconds_until, wait_until
from watcher_sync.model.changes import ABSENT
from watcher_sync.model.loading import load_kinds
from watcher_sync.model.model import Model
from watcher_sync.storage.stored.quarantine import Quarantine
from watcher_sync.storage.writing import journal
from watcher_sync.storage.writing.journal import JournalRow
from watcher_sync.testing.nova.cloud import Truth
from watcher_sync.testing.nova.notifications import Document

SCALE = float(os.environ.get("WATCHER_SYNC_TEST_SCALE", "1"))

_PRIORITIES = ("info", "warn", "error", "critical")
_FRAMES = 200
"""Messages of one lot: published whole, or once more."""


def scaled(count: int) -> int:
    """So many events, as far as this run's scale allows."""
    return max(200, int(count * SCALE))


class EngineProcess:
    """One ``watcher-sync-engine``: the master, its worker, and what they log."""

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        self._log = log
        self._process = start(command, log, environment)

    @property
    def pid(self) -> int:
        """The master's."""
        return self._process.pid

    @property
    def workers(self) -> list[int]:
        """The pids of the master's workers. The process of a driver is a child of a worker and not one of them."""
        return _children(self._process.pid)

    @property
    def processes(self) -> list[int]:
        """The pids of the master and of all processes below it."""
        found = [self._process.pid]
        for pid in found:
            found += _children(pid)
        return found

    @property
    def log(self) -> str:
        """What was logged so far."""
        return self._log.read_text(errors="replace")

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def logged(self, text: str) -> int:
        """How many lines of the log contain this text."""
        return sum(text in line for line in self.log.splitlines())

    def wait_for_log(self, text: str, seconds: float = PATIENCE_SECONDS) -> float:
        """Wait until a line of the log contains this text; after how many seconds it did."""
        try:
            return seconds_until(lambda: self.logged(text) or not self.running, seconds, f"{text!r} in the log")
        finally:
            assert self.logged(text), f"the engine's log has no {text!r}:\n{self.log[-4000:]}"

    def wait_until_leading(self, seconds: float = PATIENCE_SECONDS) -> float:
        return self.wait_for_log("Leading the engine group", seconds)

    def signal(self, number: signal.Signals) -> None:
        """To the master alone, as systemd or an operator sends it."""
        self._process.send_signal(number)

    def signal_all(self, number: signal.Signals) -> None:
        """To all its processes, as a terminal sends it."""
        for pid in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self) -> None:
        """Sends SIGKILL to all its processes, so that none of them can flush data or close a connection."""
        if self.running:
            # Stopped first, so that the master cannot replace a dead worker meanwhile.
            with contextlib.suppress(ProcessLookupError):  # it has ended, and its status is under way
                os.kill(self._process.pid, signal.SIGSTOP)
            pids = self.processes
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait(deadline(60))
            wait_until(lambda: not any(map(_alive, pids)), what="the end of the killed processes")

    def terminate(self, seconds: float = PATIENCE_SECONDS) -> tuple[int, float]:
        """SIGTERM; the exit status, and after how many seconds it came."""
        began = time.monotonic()
        self.signal(signal.SIGTERM)
        return self._process.wait(deadline(seconds)), time.monotonic() - began

    def wait(self, seconds: float = PATIENCE_SECONDS) -> int:
        """The exit status, once it comes."""
        return self._process.wait(deadline(seconds))


class Line:
    """One exchange with one queue, what is published to it, and how much of it waits.

    :param name: of the exchange, the queue and the engine's pool.
    :param url: the broker's, as oslo.messaging has it.
    :param durable: whether the queue and what is in it survive the broker's restart.
    :param quorum: whether it is a quorum queue, which is durable.
    """

    def __init__(self, name: str, url: str, *, durable: bool = False, quorum: bool = False) -> None:
        self.name = name
        self.url = f"{url}?rabbit_quorum_queue=true" if quorum else url
        self.durable = durable or quorum
        user_password, _, host = url.partition("://")[2].rpartition("@")
        user, _, password = user_password.partition(":")
        self._at = {"host": host.partition("/")[0], "user": user, "password": password}
        self._publisher: Publisher | None = None
        with self._channel() as channel:
            channel.exchange_declare(name, "topic", durable=self.durable, auto_delete=False)
            arguments = {"x-queue-type": "quorum"} if quorum else None
            channel.queue_declare(name, durable=self.durable, auto_delete=False, arguments=arguments)
            for priority in _PRIORITIES:
                channel.queue_bind(name, name, routing_key=f"versioned_notifications.{priority}")

    def source(self, name: str) -> dict[str, str]:
        """The options of a source of this name that reads the line."""
        options = {
            "driver": "rabbitmq", "transport_url": self.url, "exchange": self.name, "pool": self.name,
        }  # fmt: skip
        return {f"source_{name}.{option}": value for option, value in options.items()}

    def publish(
        self,
        messages: Iterable[Document | bytes],
        *,
        rate: float | None = None,
        ended: threading.Event | None = None,
        most: int = _FRAMES,
    ) -> None:
        """Publish in order, in lots; a lot that the broker's end interrupted is published again, whole.

        :param most: messages of a lot.
        :param ended: once it is set, no further message is taken; None: all are published.
        """
        began = time.monotonic()
        sent = 0
        iterator = iter(messages)
        size = most if rate is None else max(1, int(rate / 10))
        while (ended is None or not ended.is_set()) and (lot := list(itertools.islice(iterator, size))):
            if rate is not None:
                wait_until(lambda: sent / rate <= time.monotonic() - began, 600)  # noqa: B023 - waits here and now
            self._publish(lot)
            sent += len(lot)

    @contextlib.contextmanager
    def publishing(
        self, messages: Iterable[Document | bytes], *, rate: float | None = None, most: int | None = None
    ) -> Iterator[None]:
        """Publish in a thread meanwhile; leaves when all is published.

        :param most: publish as long as the block lasts, and so many at most. The messages may have no end; the rest is
            not taken. None: publish all.
        """
        failures: list[Exception] = []
        ended = threading.Event()

        def run() -> None:
            try:
                if most is None:
                    self.publish(messages, rate=rate)
                else:
                    self.publish(itertools.islice(messages, most), rate=rate, ended=ended)
            except Exception as exc:  # noqa: BLE001 - raised again in the test's thread
                failures.append(exc)

        thread = threading.Thread(target=run, name=f"publish-{self.name}", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
        thread.join(deadline(120))
        assert not thread.is_alive(), "publishing does not end"
        if failures:
            raise failures[0]

    def waiting(self) -> int:
        """The number of messages in the queue that no consumer holds."""
        with self._channel() as channel:
            return int(channel.queue_declare(self.name, passive=True).message_count)

    def close(self) -> None:
        if self._publisher is not None:
            with contextlib.suppress(OSError, amqp.AMQPError):
                self._publisher.close()
            self._publisher = None

    def _publish(self, lot: Sequence[Document | bytes]) -> None:
        limit = Deadline(180)
        while True:
            try:
                if self._publisher is None:
                    self._publisher = Publisher(**self._at, exchange=self.name, durable=self.durable)
                self._publisher.publish(lot)
                return
            except (OSError, amqp.AMQPError):
                self.close()
                assert not limit.is_over, "the broker does not come back"
                time.sleep(0.1)

    @contextlib.contextmanager
    def _channel(self) -> Iterator[amqp.Channel]:
        at = self._at
        connection = amqp.Connection(at["host"], userid=at["user"], password=at["password"])
        connection.connect()
        try:
            yield connection.channel()
        finally:
            connection.close()


class Installation:
    """One database with a schema, and the executables.

    :param folder: for configurations and logs.
    :param url: of the database, as SQLAlchemy has it.
    :param options: ``group.option`` -> value, for all its engines.
    """

    def __init__(self, folder: Path, url: str, options: Mapping[str, object] | None = None) -> None:
        self.folder = folder
        self.url = url
        self.options = dict(options or {})
        self.environment = dict(os.environ)
        self.engines: list[EngineProcess] = []
        self._names = itertools.count(1)
        self.kinds = load_kinds()
        self.store = opened(url, self.kinds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for engine in self.engines:
            engine.kill()
        self.store.database.dispose()

    def config(self, **more: object) -> Path:
        """A configuration file; ``more`` are options as ``group__option``."""
        path = self.folder / f"engine-{next(self._names)}.conf"
        self.write_config(path, {name.replace("__", "."): value for name, value in more.items()})
        return path

    def write_config(self, path: Path, more: Mapping[str, object]) -> None:
        """Write the installation's options, and these, to a file."""
        sections: dict[str, list[str]] = collections.defaultdict(list)
        options = {"DEFAULT.state_path": self.folder, "database.connection": self.url, **self.options, **more}
        for name, value in options.items():
            section, _, option = name.partition(".")
            sections[section].append(f"{option} = {value}")
        path.touch(mode=0o600)  # it may have passwords
        path.write_text("".join(f"[{s}]\n" + "\n".join(lines) + "\n\n" for s, lines in sections.items()))

    def tolerate_pauses(self) -> None:
        """Its engines take no pause of the machine for an outage of the database, which their log would tell of."""
        self.options |= {"database.commit_timeout": PATIENCE_SECONDS}
        self.options |= {"database.idle_transaction_timeout": int(PATIENCE_SECONDS)}
        url = sa.make_url(str(self.options.get("database.connection", self.url)))
        if url.get_backend_name() != "sqlite":
            url = url.update_query_dict({"connect_timeout": str(int(PATIENCE_SECONDS))})
            self.options["database.connection"] = url.render_as_string(hide_password=False)

    def upgrade(self) -> None:
        """What ``watcher-sync-manage db_sync`` does, in a fraction of its time."""
        migrate(self.store)

    def manage(self, *arguments: object, config: Path | None = None) -> str:
        """What ``watcher-sync-manage`` prints. :raises AssertionError: when it fails."""
        done = self.run("watcher-sync-manage", *arguments, config=config)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def run(
        self, name: str, *arguments: object, config: Path | None = None, seconds: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """An executable, to its end."""
        command = [*self.command(name, config or self.config()), *map(str, arguments)]
        program, *rest = command
        if Path(program).parent == BIN and name in PRELOADED and may_be_forked(self.environment):
            return run_preloaded(name, rest, program=program, environment=self.environment, timeout=deadline(seconds))
        return subprocess.run(command, capture_output=True, text=True, env=self.environment, timeout=deadline(seconds))

    def command(self, name: str, config: Path) -> list[str]:
        """An executable with its configuration: the one of the tested environment."""
        beside = str(Path(sys.executable).parent)
        program = shutil.which(name, path=beside) or shutil.which(name)
        assert program is not None, f"{name} is not installed beside {sys.executable}: pip install -e ."
        return [program, "--config-file", str(config)]

    def engine(self, config: Path) -> EngineProcess:
        """Start an engine and return at once."""
        log = self.folder / f"engine-{len(self.engines) + 1}.log"
        engine = EngineProcess(self.command("watcher-sync-engine", config), log, self.environment)
        self.engines.append(engine)
        return engine

    # What is in the database

    def head(self) -> int:
        """The seq of the last committed change."""
        with self.store.database.connect() as connection:
            return journal.read_head(connection, self.store.tables)

    def rows(self, since: int = 0) -> list[JournalRow]:
        """The rows of the journal after the seq ``since``."""
        return list(self.each_row(since))

    def each_row(self, since: int = 0) -> Iterator[JournalRow]:
        """The same, a part after the other."""
        with self.store.database.connect() as connection:
            while rows := journal.read_since(connection, self.store.tables, since, 5000):
                yield from rows
                since = rows[-1].seq

    def settle(self, line: Line) -> None:
        """Wait until everything that was published to the line is committed.

        A message that is no JSON is published behind it, and then is in quarantine.
        """
        kept = Quarantine(self.store)
        before = kept.count()
        line.publish([f"the last message {secrets.token_hex(6)}".encode()])
        wait_until(lambda: kept.count() > before, what="the last message in quarantine")

    def drain(self, config: Path, *lines: Line, engine: EngineProcess | None = None, seconds: float = 90) -> None:
        """Has an engine consume all messages of the lines, and stops it gracefully.

        The queue's count leaves out the messages that the engine holds. The broker requeues those when the engine
        ends, and another engine is started for them. So every message is acked when this returns.
        """
        limit = Deadline(seconds)
        while True:
            engine = engine or self.engine(config)
            wait_until(lambda: not any(line.waiting() for line in lines), seconds, "the end of the queue")
            head = -1
            while (now := self.head()) != head:
                head = now
                time.sleep(0.3)  # not for anything to come true: a shorter or longer look is as good
            status, _ = engine.terminate()
            assert status == 0, engine.log[-4000:]
            if not any(line.waiting() for line in lines):
                return
            assert not limit.is_over, "the queue is not worked off"
            engine = None

    def check(self, truth: Truth) -> None:
        """The tables are the truth, and the journal leads to the tables."""
        self.check_tables(truth)
        self.check_journal()

    def check_tables(self, truth: Truth) -> None:
        """Every entity of the cloud is there, with every field, and no other."""
        model = self.store.load().snapshot()
        wrong: list[str] = []
        for kind, entities in truth.items():
            have = {entity["id"]: entity for entity in model.dump(kind)}
            wrong += [f"{kind} {name} should not be there" for name in have.keys() - entities.keys()]
            wrong += [f"{kind} {name} is missing" for name in entities.keys() - have.keys()]
            for name in have.keys() & entities.keys():
                for field, value in entities[name].items():
                    if field != "last_heard" and have[name][field] != value:
                        wrong.append(f"{kind} {name}: {field} is {have[name][field]!r}, should be {value!r}")
        assert not wrong, f"{len(wrong)} differences:\n" + "\n".join(wrong[:20])

    def check_journal(self, *, published_twice: str | None = None) -> None:
        """Gapless from 1 to the head, nothing applied twice, and a replica that reads it all is the tables.

        Reconcilers name an event after its entity, so these events are not counted. A repair from a listing is older
        than every event that is still to come, so an earlier event may be applied again after it. What only an absence
        deleted may come back, until an event deletes it.

        :param published_twice: a source that publishes some events twice, with others between the two.
        """
        twice = _applied_twice(row for row in self.each_row() if row.source != published_twice)
        assert not twice, f"{len(twice)} events were applied twice to one entity, such as {twice[:3]}"
        seq = 0
        versions: dict[tuple[str, str], dict[str, str]] = {}
        fields: dict[tuple[str, str], dict[str, Any]] = {}
        gone: set[tuple[str, str]] = set()
        for row in self.each_row():
            seq += 1
            assert row.seq == seq
            key = (row.kind, row.entity_id)
            assert key not in gone, f"seq {row.seq}: {key} came back after it was deleted for good"
            known = versions.setdefault(key, {})
            deletes = row.change == "deleted" or (key not in fields and row.change == "updated")
            by_absence = any(version.endswith(ABSENT) for version in row.versions.values())
            final = deletes and not self.kinds[row.kind].ids_reused and not by_absence
            for facet, version in row.versions.items():
                # A final deletion counts whatever its version is.
                assert final or version >= known.get(facet, ""), f"seq {row.seq}: {facet} of {key} went back"
            known.update(row.versions)
            gone.update([key] if final else [])
            if row.change == "deleted":
                fields.pop(key, None)
                continue
            if row.change == "created":
                assert key not in fields, f"seq {row.seq}: {key} was created twice"
                fields[key] = {}
            elif key not in fields:  # only the versions of a tombstone moved
                assert not row.delta, f"seq {row.seq}: {key} was not there, and changed"
                continue
            for field, (old, new) in row.delta.items():
                assert fields[key].get(field) == old, f"seq {row.seq}: {key} had another {field} than the journal says"
                fields[key][field] = new
        assert seq == self.head()
        replica = Model(self.kinds)
        self.store.catch_up(replica)
        tables = self.store.load()
        assert replica.generation == tables.generation
        for kind in self.kinds:
            assert _without_heard(replica, kind) == _without_heard(tables, kind)


def _applied_twice(rows: Iterable[JournalRow]) -> list[tuple[str, str, str, int, int]]:
    """(event id, kind, id, first seq, second seq) of the events that were applied again without a repair between."""
    applied: dict[tuple[str, str], dict[str, int]] = collections.defaultdict(dict)
    found = []
    for row in rows:
        since_repair = applied[row.kind, row.entity_id]
        if row.event_id.endswith("/reconciled"):
            since_repair.clear()
        elif row.event_id in since_repair:
            found.append((row.event_id, row.kind, row.entity_id, since_repair[row.event_id], row.seq))
        else:
            since_repair[row.event_id] = row.seq
    return found


def _without_heard(model: Model, kind: str) -> list[dict[str, Any]]:
    last_seen_field = model.kinds[kind].last_seen_field
    return [{k: v for k, v in entity.items() if k != last_seen_field} for entity in model.snapshot().dump(kind)]


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [int(child) for child in (task / "children").read_text().split()]
    return found


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
