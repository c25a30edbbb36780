# SPDX-License-Identifier: Apache-2.0
"""The loop that drives everything: stand by, lead, take a batch, commit it, ack it.

One thread runs :meth:`Engine.run`; it owns the model. The stop sequence, step by step:

1. :meth:`Engine.stop` sets the deadline and tells every source to stop; sources take in nothing more.
2. The loop goes on: what the sources emitted is committed and acked, until every source has stopped
   (its acks are with the transport) or the deadline comes.
3. The intake is closed; what is left in it is released, to be delivered again elsewhere.
4. Signs of life are written, and the lease is given back, so that a standby leads at once.

While the database is away nothing is acked and nothing more is taken in: the batch in hand is tried
again with back-off, at less than one attempt a second, and the sources are held back by the intake.
"""

from __future__ import annotations

import collections
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence

from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.dispatch import Dispatcher
from watcher_sync.engine.companion import Companion
from watcher_sync.engine.cycle import Batch, CommitCycle
from watcher_sync.engine.housekeeping import Kept, Purger, SignsOfLife, SourceReporter
from watcher_sync.engine.intake import JOINED, Intake, most_in_hand
from watcher_sync.engine.leadership import Heartbeat
from watcher_sync.engine.pipeline import Pipeline
from watcher_sync.engine.supervision import MakeSource, Supervisor
from watcher_sync.engine.tally import Tally
from watcher_sync.events import Event
from watcher_sync.exceptions import DatabaseUnavailable, LeaseHeld, LeaseLost
from watcher_sync.model.model import Model
from watcher_sync.sources.base import Source, SourceStatus
from watcher_sync.storage.leases import EngineLease
from watcher_sync.storage.source_status import SourceRow
from watcher_sync.storage.store import Store

LOG = logging.getLogger(__name__)

_FIRST_RETRY = 1.2
_LONGEST_RETRY = 4.0
"""Seconds between two attempts at a database that is away: less than one a second, and soon back."""

_FLOW = 2.0
"""Seconds after which the engine looks after other things than batches, however many wait."""

_REDELIVER = 1.0
"""Seconds after which what was not committed may be delivered again."""

Taken = Sequence[tuple[Source, Sequence[Event]]]
"""Events of one batch, with the sources that they are acked to."""


class Engine:
    """One engine process's work, from the first look at the lease to the last ack."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        store: Store,
        dispatcher: Dispatcher,
        lease: EngineLease,
        sources: dict[str, MakeSource],
        companions: Sequence[Callable[[Engine], Companion]] = (),
    ) -> None:
        """:param sources: name -> maker of a driver instance, for each enabled source.

        :param companions: makers of what works beside the batches while this engine leads.
        """
        self.conf = conf
        self.store = store
        self.lease = lease
        self.tally = Tally()
        self.model = Model(store.kinds)
        self.intake = Intake(limit=lambda: most_in_hand(conf))
        self._dispatcher = dispatcher
        self._sources = sources
        self._supervisors: dict[str, Supervisor] = {}
        self._reporter: SourceReporter | None = None
        self._purger: Purger | None = None
        self._cycle: CommitCycle | None = None
        self._database_away: str | None = None
        self._leading = False
        self._lost = threading.Event()
        self._stopping = threading.Event()
        self._ended = threading.Event()
        self._deadline = 0.0
        self._last_followed = 0.0
        self.companions = tuple(make(self) for make in companions)
        """Each starts and stops as often as this engine begins and ceases to lead."""

    def run(self) -> None:
        """Work until :meth:`stop`.

        :raises LeaseHeld: another engine leads and this one is not to stand by.
        """
        try:
            self._run()
        finally:
            self._ended.set()

    def join(self, timeout: float) -> bool:
        """Wait for the end of :meth:`run`; whether it came."""
        return self._ended.wait(timeout)

    def _run(self) -> None:
        if not self._load():
            return
        while not self._stopping.is_set():
            if not self._stand_by():
                return
            self._lead()
            if self._lost.is_set() and not self.conf.engine.standby and not self._stopping.is_set():
                raise LeaseHeld(f"engine group {self.lease.name!r}: another engine took the lease")

    def stop(self, timeout: float | None = None) -> None:
        """End within ``timeout`` seconds (default ``graceful_shutdown_timeout``); returns at once."""
        if timeout is None:
            timeout = self.conf.engine.graceful_shutdown_timeout
        # What is left of the time after the drain is for the database and the lease.
        self._deadline = time.monotonic() + timeout * 0.8
        self._stopping.set()
        self.intake.wake()

    def reload(self, changed: Iterable[str]) -> None:
        """Take over what changed in the mutable options; the model stays.

        :param changed: ``group.option`` names. A source is made anew only if an option that it reads once
            is among them.
        """
        names = set(changed)
        for name, supervisor in self._supervisors.items():
            if "engine.batch_size" in names or any(n.startswith(f"source_{name}.") for n in names):
                supervisor.restart()

    def is_ready(self) -> tuple[bool, str]:
        """Whether this engine leads and can commit, and if not, why."""
        if self._database_away is not None:
            return False, f"the database is away: {self._database_away}"
        if not self._leading:
            return False, "this engine stands by"
        return True, ""

    @property
    def ended(self) -> bool:
        """Whether :meth:`run` is over."""
        return self._ended.is_set()

    @property
    def leading(self) -> bool:
        """Whether the lease of the group is this engine's."""
        return self._leading and not self._lost.is_set()

    @property
    def database_trouble(self) -> str | None:
        """Why the database cannot be used; None while it can."""
        return self._database_away

    @property
    def source_names(self) -> list[str]:
        """The enabled sources, running or not."""
        return list(self._sources)

    def source_rows(self) -> list[SourceRow]:
        """What the sources are doing, as other processes read it; empty while this engine does not lead."""
        reporter = self._reporter
        return reporter.rows() if reporter is not None else []

    def kept(self) -> Kept | None:
        """How much is kept beside the model, as of the last count; None while this engine does not lead."""
        purger = self._purger
        return purger.kept if purger is not None else None

    def source_status(self) -> dict[str, SourceStatus]:
        """name -> the figures of each enabled source."""
        return {name: supervisor.status() for name, supervisor in self._supervisors.items()}

    # Standing by

    def _load(self) -> bool:
        """Load the model and make the commit cycle; False when told to stop meanwhile."""
        for pause in self._pauses():
            try:
                began = time.monotonic()
                self.model.adopt(self.store.load())
                self._cycle = CommitCycle(
                    self.store,
                    self.model,
                    self._dispatcher,
                    tally=self.tally,
                    fence=lambda: self.lease.fence,
                    parked_time=lambda: float(self.conf.engine.parked_time),
                )
            except DatabaseUnavailable as exc:
                self._report_away(exc)
                if self._stopping.wait(pause):
                    return False
                continue
            self._report_back()
            LOG.info("Loaded the model at seq %d in %.2f s", self.model.generation, time.monotonic() - began)
            return True
        return False

    def _stand_by(self) -> bool:
        """Follow the journal until the lease is ours; False when told to stop."""
        assert self._cycle is not None
        announced = False
        began = time.monotonic()
        while not self._stopping.is_set():
            try:
                if self.lease.try_take():
                    self._cycle.follow()
                    self._cycle.read_parked()
                    return True
                holder = self.lease.look()
                if not announced and holder is not None and time.monotonic() - began > self.lease.seconds:
                    if not self.conf.engine.standby:
                        raise LeaseHeld(
                            f"engine group {self.lease.name!r} is led by {holder.holder.split('/')[0]} "
                            f"since {holder.since:%Y-%m-%d %H:%M:%S}Z; "
                            "to have this engine stand by, set [engine] standby = true"
                        )
                    LOG.info("Standing by: the engine group %s is led by %s", self.lease.name, holder.holder)
                    announced = True
                self._cycle.follow()
                self._report_back()
                pause = float(self.conf.engine.follow_interval)
            except DatabaseUnavailable as exc:
                self._report_away(exc)
                pause = _FIRST_RETRY
            self._stopping.wait(pause)
        return False

    # Leading

    def _lead(self) -> None:
        assert self._cycle is not None
        LOG.info("Leading the engine group %s at seq %d", self.lease.name, self.model.generation)
        self._lost.clear()
        self.intake.open()
        heartbeat = Heartbeat(self.lease, self._lose)
        heartbeat.start()
        away = self._is_away
        self._purger = purger = Purger(self.conf, self.store, self.tally, away=away)
        purger.start()
        signs = SignsOfLife(self.store, self.model, lambda: float(self.conf.engine.liveness_interval))
        self._supervisors = {name: Supervisor(name, make, self.intake.emitter) for name, make in self._sources.items()}
        for supervisor in self._supervisors.values():
            supervisor.start()
        self._reporter = reporter = SourceReporter(self.conf, self.store, self._supervisors, away=away)
        reporter.start()
        for companion in self.companions:
            companion.start()
        self._leading = True
        try:
            self._loop(signs)
        finally:
            for companion in self.companions:
                companion.begin_stop()
            self._drain()
            for companion in self.companions:
                companion.join(1.0)
            self._leading = False
            self._reporter = self._purger = None
            reporter.stop(told=not self._lost.is_set())
            purger.stop()
            heartbeat.stop()
            self._leave(signs)

    def _loop(self, signs: SignsOfLife) -> None:
        """Take and commit until told to stop or the lease is lost."""
        while not self._stopping.is_set() and not self._lost.is_set():
            if not self._step(timeout=min(0.5, self.conf.engine.follow_interval)):
                self._follow_if_idle()
            signs.persist_if_due()

    def _step(self, *, timeout: float) -> bool:
        """One batch, or, while whole ones wait, one upon the other; False when there was none."""
        size, linger = self.conf.engine.batch_size, self.conf.engine.batch_linger
        taken = self.intake.take(size, linger=linger, timeout=timeout)
        if not taken:
            return False
        if self._is_pressed():
            self._flow(taken)
        else:
            committed = False
            try:
                committed = self._commit(_batch(taken))
            finally:
                self._settle(taken, committed)
        return True

    def _is_pressed(self) -> bool:
        """Whether a whole batch waits."""
        return self.intake.waiting() >= int(self.conf.engine.batch_size)

    def _flow(self, taken: Taken) -> None:
        """Dispatch each batch while the database works at the one before it, and join those that wait."""
        assert self._cycle is not None
        in_hand: collections.deque[Taken] = collections.deque()

        def settle(one: Taken, committed: bool) -> None:
            in_hand.popleft()
            if committed:
                self._report_back()
            self._settle(one, committed)

        def again(batch: Batch | None) -> bool:
            return self._commit(batch or Batch(events=()), uncertain=True)

        pipeline = Pipeline(self._cycle, again=again, settle=settle)
        stopping = self._stopping.is_set()
        until = self._deadline if stopping else time.monotonic() + _FLOW
        try:
            while taken:
                in_hand.append(taken)
                pipeline.add(taken, _batch(taken))
                turns = self._lost.is_set() or self._stopping.is_set() is not stopping
                if turns or time.monotonic() >= until or not self._is_pressed():
                    break
                taken = self.intake.take(JOINED * self.conf.engine.batch_size, linger=0, timeout=0)
        finally:
            try:
                pipeline.end()
            finally:
                for one in in_hand:
                    self._settle(one, committed=False)

    def _settle(self, taken: Taken, committed: bool) -> None:
        for source, events in taken:
            if committed:
                source.ack(events)
            else:
                source.release(events, _REDELIVER)
            self.intake.done(source, len(events))

    def _commit(self, batch: Batch, *, uncertain: bool = False) -> bool:
        """Commit, through any outage; False when it must be given up.

        :param uncertain: the journal may be past the model, perhaps by this very batch.
        """
        assert self._cycle is not None
        for pause in self._pauses():
            try:
                if uncertain:
                    self._cycle.catch_up()
                self._cycle.run(batch)
            except DatabaseUnavailable as exc:
                uncertain = True
                self._report_away(exc)
                if self._lost.is_set() or self._wait_to_retry(pause):
                    return False
                continue
            except LeaseLost:
                self._lose()
                return False
            self._report_back()
            return True
        return False

    def _wait_to_retry(self, pause: float) -> bool:
        """Wait; True when the time to stop came meanwhile."""
        if not self._stopping.wait(pause):
            return False
        left = self._deadline - time.monotonic()
        if left <= 0:
            return True
        time.sleep(min(pause, left))
        return time.monotonic() >= self._deadline

    def _follow_if_idle(self) -> None:
        assert self._cycle is not None
        now = time.monotonic()
        if now - self._last_followed < self.conf.engine.follow_interval:
            return
        self._last_followed = now
        try:
            self._cycle.catch_up()
            self._report_back()
        except DatabaseUnavailable as exc:
            self._report_away(exc)
            self._stopping.wait(_FIRST_RETRY)
        except LeaseLost:
            self._lose()

    # Ending

    def _drain(self) -> None:
        if not self._stopping.is_set():
            self._deadline = time.monotonic() + 5
        for supervisor in self._supervisors.values():
            supervisor.begin_stop(self._deadline)
        while time.monotonic() < self._deadline and any(s.is_alive() for s in self._supervisors.values()):
            if self._lost.is_set():
                self._release(self.intake.close())
                time.sleep(0.05)
            else:
                self._step(timeout=0.05)
        while not self._lost.is_set() and time.monotonic() < self._deadline and self._step(timeout=0):
            pass
        self._release(self.intake.close())
        for supervisor in self._supervisors.values():
            supervisor.join(1.0)
        self._supervisors = {}

    def _release(self, left: Sequence[tuple[Source, Sequence[Event]]]) -> None:
        for source, events in left:
            source.release(events, _REDELIVER)
            self.intake.done(source, len(events))

    def _leave(self, signs: SignsOfLife) -> None:
        try:
            if not self._lost.is_set():
                signs.persist()
                self.lease.give_back()
        except DatabaseUnavailable as exc:
            LOG.warning("The lease %s cannot be given back: %s", self.lease.name, exc)
        self.lease.forget()
        self.store.close()

    def _lose(self) -> None:
        self._lost.set()
        self.intake.wake()

    # The database's comings and goings

    def _pauses(self) -> _Pauses:
        return _Pauses()

    def _is_away(self) -> bool:
        return self._database_away is not None

    def _report_away(self, exc: DatabaseUnavailable) -> None:
        if self._database_away is None:
            LOG.error("The database is away, nothing is acknowledged until it is back: %s", exc)
        self._database_away = str(exc)

    def _report_back(self) -> None:
        if self._database_away is not None:
            LOG.info("The database is back")
            self._database_away = None


class _Pauses:
    """Endless back-off: seconds, growing, jittered, never below what keeps us under one attempt a second."""

    def __init__(self) -> None:
        self._pause = _FIRST_RETRY

    def __iter__(self) -> _Pauses:
        return self

    def __next__(self) -> float:
        pause = self._pause
        self._pause = min(pause * 1.5, _LONGEST_RETRY)
        return pause + random.uniform(0, 0.3)  # noqa: S311 - jitter


def _batch(taken: Taken) -> Batch:
    return Batch(events=[e for _, events in taken for e in events], cursors=_cursors(taken))


def _cursors(taken: Taken) -> dict[str, str]:
    """source -> the position after the last of its events in the batch."""
    cursors: dict[str, str] = {}
    for source, events in taken:
        position = source.cursor(events)
        if position is not None:
            cursors[source.name] = position
    return cursors
