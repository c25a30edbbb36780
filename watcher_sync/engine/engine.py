# SPDX-License-Identifier: Apache-2.0
"""The engine's main loop: stand by, lead, consume, shut down.

One thread runs :meth:`Engine.run`; it owns the model. The stop sequence:

1. :meth:`Engine.stop` sets the deadline. The sources stop and take nothing more from their transports.
2. The loop continues to commit and ack what the sources emitted. It ends when every source has stopped (its transport
   has the acks) or at the deadline.
3. The intake closes. The events left in it are nacked, so that the transport delivers them again.
4. The engine writes ``last_heard`` of each entity and gives the lease back, so that a standby leads at once.

:mod:`watcher_sync.engine.consumer` takes, commits and acks the batches, and retries while the database is unavailable.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.commit.authorisation import Authority
from watcher_sync.commit.batch_dispatch import CommitOptions
from watcher_sync.commit.cycle import CommitCycle, LastSeenWriter
from watcher_sync.commit.doubts import Doubts
from watcher_sync.commit.evaluation import Evaluator, NoEvaluation
from watcher_sync.commit.spans import BatchTracer
from watcher_sync.commit.stats import CommitStats
from watcher_sync.commit.suspects import Suspects, path_of
from watcher_sync.dispatch import Dispatcher
from watcher_sync.engine.consumer import ConsumeLoop, DatabaseHealth, ShutdownState
from watcher_sync.engine.intake import Intake
from watcher_sync.engine.leadership import EnginePresence, Heartbeat
from watcher_sync.engine.retention import RetentionWorker, StoredCounts, TombstoneForgetting
from watcher_sync.engine.services import BackgroundService, HasSourceNotes, Reloadable
from watcher_sync.engine.source_reporter import SourceReporter
from watcher_sync.engine.standby import Standby
from watcher_sync.engine.supervision import MakeSource, PendingRewinds, Supervisor
from watcher_sync.engine.watchdog import Watchdog
from watcher_sync.exceptions import DatabaseUnavailable, HistoryChanged, LeaseHeld
from watcher_sync.model.model import Model
from watcher_sync.model.scopes import EntityScope
from watcher_sync.sources.base import SourceStatus
from watcher_sync.storage.groups.leases import EngineLease
from watcher_sync.storage.groups.source_status import SourceRow
from watcher_sync.storage.writing.store import Store

LOG = logging.getLogger(__name__)

_DRAIN_SHARE = 0.8
"""Part of the shutdown time that is for the drain; the rest is for the database and the lease."""
_DRAIN_SECONDS_WITHOUT_LEASE = 5.0
_UNANSWERED_SECONDS = 7.0
"""A commit without an answer for this time makes the engine unready, also if its time limit is longer."""
_SERVICE_STOP_SECONDS = 1.0
_SOURCE_STOP_SECONDS = 1.0


class Engine:
    """The work of one engine process, from the first attempt at the lease to the last ack."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        store: Store,
        dispatcher: Dispatcher,
        lease: EngineLease,
        sources: dict[str, MakeSource],
        services: Sequence[Callable[[Engine], BackgroundService]] = (),
        evaluation: Evaluator | None = None,
        authority: Authority | None = None,
        scopes: Mapping[str, Sequence[EntityScope]] | None = None,
        make_tracer: Callable[[], BatchTracer | None] = lambda: None,
    ) -> None:
        """:param sources: name -> maker of a driver instance, for each enabled source.

        :param services: makers of the background services, which run while this engine leads.
        :param evaluation: evaluates the entities that a batch concerns; None: nothing is evaluated.
        :param authority: decides which source may bring which events; None: every source may bring every event.
        :param scopes: source -> the entities that exist through it; None: unknown.
        :param make_tracer: makes what traces the batches, in the engine's process; None: nothing is traced.
        """
        self._scopes = scopes or {}
        self._make_tracer = make_tracer
        self._tracer: BatchTracer | None = None
        self.conf = conf
        self.store = store
        self.lease = lease
        self.stats = CommitStats()
        self.doubts = Doubts()
        """The entities that the reconcilers of this process are to compare soon."""
        self.model = Model(store.kinds)
        self.intake = Intake(conf.engine)
        self._dispatcher = dispatcher
        self._sources = sources
        self._rewinds = PendingRewinds(sources)
        self._supervisors: dict[str, Supervisor] = {}
        self._reporter: SourceReporter | None = None
        self._retention: RetentionWorker | None = None
        self._cycle: CommitCycle | None = None
        self._evaluation = evaluation
        self._authority = authority
        self._forgetting = TombstoneForgetting(conf, store, self.model)
        self._database_health = DatabaseHealth()
        self._presence = EnginePresence(
            conf, store, lease.holder, sources=list(sources), seq=lambda: self.model.generation,
            is_unavailable=self._database_health.is_unavailable,
        )  # fmt: skip
        self._leading = False
        self._shutdown = ShutdownState()
        self._ended = threading.Event()
        self.watchdog = Watchdog(conf.engine, dispatcher.handler_of)
        self.suspects = Suspects(path_of(conf.state_path, conf.engine.group), conf.engine)
        self.services = tuple(make(self) for make in services)
        """They run while this engine leads."""

    def run(self) -> None:
        """Work until :meth:`stop`.

        :raises LeaseHeld: another engine leads, and ``[engine] standby`` is false.
        :raises SchemaMissing: this release cannot work on the schema any more, and ``[engine] standby`` is false.
        """
        self._presence.start()
        try:
            self._run()
        finally:
            self._presence.stop()
            if self._tracer is not None:
                self._tracer.close()
            self._ended.set()

    def join(self, timeout: float) -> bool:
        """Wait at most ``timeout`` seconds for the end of :meth:`run`; whether it has ended."""
        return self._ended.wait(timeout)

    def _run(self) -> None:
        if not self._load():
            return
        while not self._shutdown.requested.is_set():
            if not self._stand_by():
                return
            self._lead()
            self._presence.stand_by()
            if self._shutdown.history_changed is not None:
                self._rewinds.begin()
            if (
                self._shutdown.lease_lost.is_set()
                and not self.conf.engine.standby
                and not self._shutdown.requested.is_set()
                and not self._has_other_history()
            ):
                with contextlib.suppress(DatabaseUnavailable):
                    self.lease.require_schema()
                raise LeaseHeld(f"engine group {self.lease.name!r}: another engine took the lease")

    def stop(self, timeout: float | None = None) -> None:
        """Have :meth:`run` end within ``timeout`` seconds (default ``graceful_shutdown_timeout``); returns at once."""
        if timeout is None:
            timeout = self.conf.engine.graceful_shutdown_timeout
        self._shutdown.deadline = time.monotonic() + timeout * _DRAIN_SHARE
        self._shutdown.requested.set()
        self.intake.wake()

    def reload(self, changed: Iterable[str]) -> None:
        """Apply changed mutable options. The model remains.

        :param changed: ``group.option`` names. A source restarts only if one of its own options or
            ``engine.batch_size`` is among them.
        """
        names = set(changed)
        for name, supervisor in self._supervisors.items():
            if "engine.batch_size" in names or any(n.startswith(f"source_{name}.") for n in names):
                supervisor.restart()
        for service in self.services:
            if isinstance(service, Reloadable):
                service.reload()

    def is_ready(self) -> tuple[bool, str]:
        """Whether this engine leads and can commit, and if not, why."""
        if (problem := self.database_problem) is not None:
            return False, f"the database is unavailable: {problem}"
        if not self._leading:
            return False, "this engine is a standby"
        return True, ""

    @property
    def ended(self) -> bool:
        """Whether :meth:`run` is over."""
        return self._ended.is_set()

    @property
    def leading(self) -> bool:
        """Whether this engine holds the lease of its group."""
        return self._leading and not self._shutdown.lease_lost.is_set()

    @property
    def database_problem(self) -> str | None:
        """Why the database is unavailable; None while it is available."""
        if (problem := self._database_health.problem) is not None:
            return problem
        seconds = self.store.watch.unanswered_seconds
        return f"commits have failed or waited for {seconds:.0f} s" if seconds >= _UNANSWERED_SECONDS else None

    @property
    def source_names(self) -> list[str]:
        """The enabled sources, running or not."""
        return list(self._sources)

    def source_rows(self) -> list[SourceRow]:
        """The state of each source as other processes read it; empty while this engine does not lead."""
        reporter = self._reporter
        return reporter.rows() if reporter is not None else []

    def stored_counts(self) -> StoredCounts | None:
        """The last count of stored events and drifts; None while this engine does not lead."""
        retention = self._retention
        return retention.stored_counts if retention is not None else None

    def _source_notes(self) -> dict[str, str]:
        """Source -> what the background services know about it."""
        notes: dict[str, str] = {}
        for service in self.services:
            if isinstance(service, HasSourceNotes):
                notes |= service.source_notes()
        return notes

    def source_status(self) -> dict[str, SourceStatus]:
        """name -> the status of each source that is supervised now."""
        return {name: supervisor.status() for name, supervisor in self._supervisors.items()}

    def _has_other_history(self) -> bool:
        """Whether the lead ended because the database went back in time, perhaps to a lease of before."""
        if self._shutdown.history_changed is not None:
            return True
        try:
            return not self._follow()
        except DatabaseUnavailable as exc:
            self._database_health.mark_unavailable(exc)
            return False

    # Standby

    def _load(self) -> bool:
        """Load the model and make the commit cycle; False when a stop was requested meanwhile."""
        self._tracer = self._tracer or self._make_tracer()
        while True:
            try:
                began = time.monotonic()
                self.model.replace_with(self.store.load())
                self.store.time.read()
                options = CommitOptions(
                    stats=self.stats,
                    evaluation=self._evaluation or NoEvaluation(),
                    authority=self._authority,
                    fence=self.lease.require_fence,
                    limits=self.conf.engine,
                    in_hand=self.watchdog.in_hand,
                    suspects=self.suspects,
                    doubts=self.doubts,
                    tracer=self._tracer,
                    now=self.store.time.now,
                )
                self._cycle = CommitCycle(self.store, self.model, self._dispatcher, options)
            except DatabaseUnavailable as exc:
                if self._shutdown.requested.wait(self._database_health.mark_unavailable(exc)):
                    return False
                continue
            self._database_health.mark_available()
            LOG.info("Loaded the model at seq %d in %.2f s", self.model.generation, time.monotonic() - began)
            return True

    def _stand_by(self) -> bool:
        """Apply the journal until this engine has the lease; False when a stop was requested."""
        assert self._cycle is not None
        return Standby(
            self.conf,
            self.lease,
            follow=self._follow,
            on_followed=self._forgetting.forget_if_due,
            on_taken=self._cycle.read_parked,
            database_health=self._database_health,
            shutdown=self._shutdown,
        ).wait()

    def _follow(self) -> bool:
        """Apply the journal; if the database has another history, the replica is loaded from it.

        :returns: whether it has the history that the replica knew.
        :raises DatabaseUnavailable: the database is unavailable.
        """
        assert self._cycle is not None
        try:
            self._cycle.follow()
        except HistoryChanged:
            self._rewinds.begin()
            return False
        return True

    # Leading

    def _lead(self) -> None:
        assert self._cycle is not None
        consumer = ConsumeLoop(
            self.conf, self.intake, self._cycle, database_health=self._database_health, shutdown=self._shutdown
        )
        LOG.info("Leading the engine group %s at seq %d", self.lease.name, self.model.generation)
        self._shutdown.lease_lost.clear()
        self._shutdown.history_changed = None
        is_unavailable = self._database_health.is_unavailable
        heartbeat = Heartbeat(self.lease, self._lose_lease, self.store.watch, is_unavailable)
        heartbeat.start()
        self.suspects.open()
        self.intake.open()
        self._retention = retention = RetentionWorker(
            self.conf, self.store, self.stats, is_unavailable=is_unavailable, on_awaited=self._cycle.add_awaited
        )
        retention.start()
        last_seen = LastSeenWriter(self.store, self.model, self.conf.engine)
        self._supervisors = {
            name: Supervisor(name, make, self.intake.emitter, self._rewinds) for name, make in self._sources.items()
        }
        self._reporter = reporter = SourceReporter(
            self.conf,
            self.store,
            self._supervisors,
            is_unavailable=is_unavailable,
            notes=self._source_notes,
            in_hand=self.intake.in_hand,
            published=lambda: self.stats.published,
            scopes=self._scopes,
        )
        reporter.report()  # before a source brings anything, all processes know which sites are followed
        for supervisor in self._supervisors.values():
            supervisor.start()
        reporter.start()
        self.watchdog.start()
        for service in self.services:
            service.start()
        self._leading = True
        try:
            self._consume(consumer, last_seen)
        finally:
            for service in self.services:
                service.begin_stop()
            self._drain(consumer)
            for service in self.services:
                service.join(_SERVICE_STOP_SECONDS)
            self.watchdog.join(_SERVICE_STOP_SECONDS)
            self._leading = False
            self._reporter = self._retention = None
            reporter.stop(write_stopped=not self._shutdown.lease_lost.is_set())
            retention.stop()
            heartbeat.stop()
            self._leave(last_seen)
        self.suspects.close()
        LOG.info("Ended the lead of the engine group %s at seq %d", self.lease.name, self.model.generation)

    def _consume(self, consumer: ConsumeLoop, last_seen: LastSeenWriter) -> None:
        """Take and commit batches until a stop is requested or the lease is lost."""
        while not self._shutdown.requested.is_set() and not self._shutdown.lease_lost.is_set():
            if not consumer.step(timeout=min(0.5, self.conf.database.journal_poll_interval)):
                consumer.poll_journal_if_due()
            for work in (last_seen.persist_if_due, self._forgetting.forget_if_due):
                try:
                    work()
                except DatabaseUnavailable as exc:  # it is due again after its interval
                    self._database_health.mark_unavailable(exc)

    # Shutdown

    def _drain(self, consumer: ConsumeLoop) -> None:
        """Stop the sources and commit what they emitted, until the deadline."""
        if not self._shutdown.requested.is_set():
            self._shutdown.deadline = time.monotonic() + _DRAIN_SECONDS_WITHOUT_LEASE
        for supervisor in self._supervisors.values():
            supervisor.begin_stop(self._shutdown.deadline)
        while time.monotonic() < self._shutdown.deadline and any(s.is_alive() for s in self._supervisors.values()):
            if self._shutdown.lease_lost.is_set():
                consumer.nack(self.intake.close())
                time.sleep(0.05)
            else:
                consumer.step(timeout=0.05)
        while (
            not self._shutdown.lease_lost.is_set()
            and time.monotonic() < self._shutdown.deadline
            and consumer.step(timeout=0)
        ):
            pass
        consumer.nack(self.intake.close())
        for supervisor in self._supervisors.values():
            supervisor.join(_SOURCE_STOP_SECONDS)
        self._supervisors = {}

    def _leave(self, last_seen: LastSeenWriter) -> None:
        """Write ``last_heard`` and give the lease back."""
        try:
            if not self._shutdown.lease_lost.is_set():
                last_seen.persist()
            self.lease.give_back()
        except DatabaseUnavailable as exc:
            LOG.warning("The lease %s cannot be given back: %s", self.lease.name, exc)
        self.lease.forget()
        self.store.close()

    def _lose_lease(self) -> None:
        self._shutdown.lease_lost.set()
        self.intake.wake()
