# SPDX-License-Identifier: Apache-2.0
"""The loop that drives everything: stand by, lead, take a batch, commit it, ack it.

One thread runs :meth:`Engine.run`; it owns the model. The stop sequence, step by step:

1. :meth:`Engine.stop` sets the deadline and tells every source to stop; sources take in nothing more.
2. The loop goes on: what the sources emitted is committed and acked, until every source has stopped
   (its acks are with the transport) or the deadline comes.
3. The intake is closed; what is left in it is released, to be delivered again elsewhere.
4. Signs of life are written, and the lease is given back, so that a standby leads at once.

How batches are taken, committed and acked, also while the database is away, is in :mod:`watcher_sync.engine.consumer`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence

from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.commit.evaluation import Evaluator
from watcher_sync.commit.last_seen import LastSeenWriter
from watcher_sync.commit.stats import CommitStats
from watcher_sync.dispatch import Dispatcher
from watcher_sync.engine.consumer import ConsumeLoop, ShutdownState
from watcher_sync.engine.database_health import FIRST_RETRY, DatabaseHealth, pauses
from watcher_sync.engine.housekeeping import RetentionWorker, SourceReporter, StoredCounts
from watcher_sync.engine.intake import Intake, most_in_hand
from watcher_sync.engine.leadership import Heartbeat
from watcher_sync.engine.services import BackgroundService
from watcher_sync.engine.supervision import MakeSource, Supervisor
from watcher_sync.exceptions import DatabaseUnavailable, LeaseHeld
from watcher_sync.model.model import Model
from watcher_sync.sources.base import SourceStatus
from watcher_sync.storage.leases import EngineLease
from watcher_sync.storage.source_status import SourceRow
from watcher_sync.storage.store import Store

LOG = logging.getLogger(__name__)


class Engine:
    """One engine process's work, from the first look at the lease to the last ack."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        store: Store,
        dispatcher: Dispatcher,
        lease: EngineLease,
        sources: dict[str, MakeSource],
        companions: Sequence[Callable[[Engine], BackgroundService]] = (),
        evaluation: Evaluator | None = None,
    ) -> None:
        """:param sources: name -> maker of a driver instance, for each enabled source.

        :param companions: makers of what works beside the batches while this engine leads.
        :param evaluation: evaluates the entities that a batch concerns; None: nothing is evaluated.
        """
        self.conf = conf
        self.store = store
        self.lease = lease
        self.tally = CommitStats()
        self.model = Model(store.kinds)
        self.intake = Intake(limit=lambda: most_in_hand(conf))
        self._dispatcher = dispatcher
        self._sources = sources
        self._supervisors: dict[str, Supervisor] = {}
        self._reporter: SourceReporter | None = None
        self._purger: RetentionWorker | None = None
        self._cycle: CommitCycle | None = None
        self._evaluation = evaluation
        self._outage = DatabaseHealth()
        self._leading = False
        self._ending = ShutdownState()
        self._ended = threading.Event()
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
        while not self._ending.asked.is_set():
            if not self._stand_by():
                return
            self._lead()
            if self._ending.lost.is_set() and not self.conf.engine.standby and not self._ending.asked.is_set():
                raise LeaseHeld(f"engine group {self.lease.name!r}: another engine took the lease")

    def stop(self, timeout: float | None = None) -> None:
        """End within ``timeout`` seconds (default ``graceful_shutdown_timeout``); returns at once."""
        if timeout is None:
            timeout = self.conf.engine.graceful_shutdown_timeout
        # What is left of the time after the drain is for the database and the lease.
        self._ending.deadline = time.monotonic() + timeout * 0.8
        self._ending.asked.set()
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
        if (trouble := self._outage.trouble) is not None:
            return False, f"the database is away: {trouble}"
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
        return self._leading and not self._ending.lost.is_set()

    @property
    def database_trouble(self) -> str | None:
        """Why the database cannot be used; None while it can."""
        return self._outage.trouble

    @property
    def source_names(self) -> list[str]:
        """The enabled sources, running or not."""
        return list(self._sources)

    def source_rows(self) -> list[SourceRow]:
        """What the sources are doing, as other processes read it; empty while this engine does not lead."""
        reporter = self._reporter
        return reporter.rows() if reporter is not None else []

    def kept(self) -> StoredCounts | None:
        """How much is kept beside the model, as of the last count; None while this engine does not lead."""
        purger = self._purger
        return purger.kept if purger is not None else None

    def source_status(self) -> dict[str, SourceStatus]:
        """name -> the figures of each enabled source."""
        return {name: supervisor.status() for name, supervisor in self._supervisors.items()}

    # Standing by

    def _load(self) -> bool:
        """Load the model and make the commit cycle; False when told to stop meanwhile."""
        for pause in pauses():
            try:
                began = time.monotonic()
                self.model.replace_with(self.store.load())
                self._cycle = CommitCycle(
                    self.store,
                    self.model,
                    self._dispatcher,
                    tally=self.tally,
                    evaluation=self._evaluation,
                    fence=lambda: self.lease.fence,
                    parked_time=lambda: float(self.conf.engine.parked_time),
                )
            except DatabaseUnavailable as exc:
                self._outage.begins(exc)
                if self._ending.asked.wait(pause):
                    return False
                continue
            self._outage.ends()
            LOG.info("Loaded the model at seq %d in %.2f s", self.model.generation, time.monotonic() - began)
            return True
        return False

    def _stand_by(self) -> bool:
        """Follow the journal until the lease is ours; False when told to stop."""
        assert self._cycle is not None
        announced = False
        began = time.monotonic()
        while not self._ending.asked.is_set():
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
                self._outage.ends()
                pause = float(self.conf.engine.follow_interval)
            except DatabaseUnavailable as exc:
                self._outage.begins(exc)
                pause = FIRST_RETRY
            self._ending.asked.wait(pause)
        return False

    # Leading

    def _lead(self) -> None:
        assert self._cycle is not None
        work = ConsumeLoop(self.conf, self.intake, self._cycle, outage=self._outage, ending=self._ending)
        LOG.info("Leading the engine group %s at seq %d", self.lease.name, self.model.generation)
        self._ending.lost.clear()
        self.intake.open()
        heartbeat = Heartbeat(self.lease, self._lose)
        heartbeat.start()
        away = self._outage.is_on
        self._purger = purger = RetentionWorker(self.conf, self.store, self.tally, away=away)
        purger.start()
        signs = LastSeenWriter(self.store, self.model, lambda: float(self.conf.engine.liveness_interval))
        self._supervisors = {name: Supervisor(name, make, self.intake.emitter) for name, make in self._sources.items()}
        for supervisor in self._supervisors.values():
            supervisor.start()
        self._reporter = reporter = SourceReporter(self.conf, self.store, self._supervisors, away=away)
        reporter.start()
        for companion in self.companions:
            companion.start()
        self._leading = True
        try:
            self._loop(work, signs)
        finally:
            for companion in self.companions:
                companion.begin_stop()
            self._drain(work)
            for companion in self.companions:
                companion.join(1.0)
            self._leading = False
            self._reporter = self._purger = None
            reporter.stop(told=not self._ending.lost.is_set())
            purger.stop()
            heartbeat.stop()
            self._leave(signs)

    def _loop(self, work: ConsumeLoop, signs: LastSeenWriter) -> None:
        """Take and commit until told to stop or the lease is lost."""
        while not self._ending.asked.is_set() and not self._ending.lost.is_set():
            if not work.step(timeout=min(0.5, self.conf.engine.follow_interval)):
                work.follow_if_due()
            signs.persist_if_due()

    # Ending

    def _drain(self, work: ConsumeLoop) -> None:
        if not self._ending.asked.is_set():
            self._ending.deadline = time.monotonic() + 5
        for supervisor in self._supervisors.values():
            supervisor.begin_stop(self._ending.deadline)
        while time.monotonic() < self._ending.deadline and any(s.is_alive() for s in self._supervisors.values()):
            if self._ending.lost.is_set():
                work.release(self.intake.close())
                time.sleep(0.05)
            else:
                work.step(timeout=0.05)
        while not self._ending.lost.is_set() and time.monotonic() < self._ending.deadline and work.step(timeout=0):
            pass
        work.release(self.intake.close())
        for supervisor in self._supervisors.values():
            supervisor.join(1.0)
        self._supervisors = {}

    def _leave(self, signs: LastSeenWriter) -> None:
        try:
            if not self._ending.lost.is_set():
                signs.persist()
                self.lease.give_back()
        except DatabaseUnavailable as exc:
            LOG.warning("The lease %s cannot be given back: %s", self.lease.name, exc)
        self.lease.forget()
        self.store.close()

    def _lose(self) -> None:
        self._ending.lost.set()
        self.intake.wake()
