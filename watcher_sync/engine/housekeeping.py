# SPDX-License-Identifier: Apache-2.0
"""What a leading engine does beside its batches.

* Retention: old journal rows, tombstones and quarantined events are purged (in a thread of its own,
  because a purge may take long), and parked events whose entity never came are dropped with one warning.
* What is kept: quarantined and parked events and drifts are counted now and then, for whoever monitors.
* Source status: what the sources are doing is written to a table every few seconds, for the processes that
  have none of their own (in a thread of its own too: it must go on while a purge or a commit takes long).
* Signs of life: ``last_heard`` of each entity is written at most once per ``liveness_interval``, and what
  other engines wrote is read back, so that all replicas agree within a minute.
"""

from __future__ import annotations

import datetime
import os
import socket
import threading
import time
from collections.abc import Callable

import msgspec
from futurist import periodics
from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.commit.stats import CommitStats
from watcher_sync.engine.supervision import Supervisor
from watcher_sync.exceptions import DatabaseUnavailable, StorageError
from watcher_sync.sources.base import SourceState
from watcher_sync.storage import source_status
from watcher_sync.storage.drifts import count_drifts
from watcher_sync.storage.parking import ParkedEvents, expire_parked
from watcher_sync.storage.quarantine import Quarantine
from watcher_sync.storage.retention import Retention, purge
from watcher_sync.storage.source_status import SourceRow
from watcher_sync.storage.store import Store

LOG = logging.getLogger(__name__)


_COUNT = 15.0
"""Seconds between two counts of what is kept; a count of millions of rows is not for every scrape."""


class StoredCounts(msgspec.Struct, frozen=True):
    """How much is kept beside the model."""

    quarantined: int
    parked: int
    drifts: dict[str, int]
    """kind -> how many."""


class RetentionWorker:
    """Runs the retention every ``[retention] interval`` seconds in a thread, and counts what is kept."""

    def __init__(
        self, conf: cfg.ConfigOpts, store: Store, tally: CommitStats, *, away: Callable[[], bool] = lambda: False
    ) -> None:
        """:param away: whether the database is known to be away: then nothing is counted."""
        self._away = away
        self._conf = conf
        self._store = store
        self._tally = tally
        self._parked = ParkedEvents(store)
        self._quarantine = Quarantine(store)
        self.kept: StoredCounts | None = None
        """As of the last count; None until there is one."""
        self._next = time.monotonic() + conf.retention.interval

        # The decorator marks what it is given, and a bound method cannot be marked.
        @periodics.periodic(spacing=1.0, run_immediately=False)
        def look() -> None:
            self._look()

        @periodics.periodic(spacing=_COUNT, run_immediately=True)
        def count() -> None:
            self.count()

        self._worker = periodics.PeriodicWorker([(look, (), {}), (count, (), {})])
        self._thread = threading.Thread(target=self._worker.start, name="retention", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after what is being purged now."""
        self._worker.stop()
        self._thread.join(5)

    def run_now(self) -> None:
        """Purge once, in the caller's thread.

        :raises DatabaseUnavailable: when the database is away.
        """
        now = datetime.datetime.now(datetime.UTC)
        purged = purge(self._store.database, self._store.tables, Retention.from_conf(self._conf.retention), now)
        if any(purged.values()):
            LOG.info("Purged %s", ", ".join(f"{n} of {table}" for table, n in purged.items() if n))
        expired = expire_parked(self._store.database, self._store.tables, now)
        if expired:
            self._tally.expired += len(expired)
            kind, entity_id, event_type = expired[0]
            LOG.warning(
                "%d parked events expired because their entity never came, such as %s for %s %s",
                len(expired),
                event_type,
                kind,
                entity_id,
            )

    def count(self) -> None:
        """Count what is kept; while the database is away the last count stands."""
        if self._away():
            return
        try:
            parked = sum(self._parked.awaited().values())
            self.kept = StoredCounts(self._quarantine.count(), parked, count_drifts(self._store.database))
        except StorageError as exc:
            LOG.debug("What is kept cannot be counted now: %s", exc)

    def _look(self) -> None:
        if time.monotonic() < self._next:
            return
        try:
            self.run_now()
        except DatabaseUnavailable as exc:
            LOG.warning("Nothing can be purged now: %s", exc)
        self._next = time.monotonic() + self._conf.retention.interval


class SourceReporter:
    """Writes the state of a leader's sources to the table ``source_status``, in a thread.

    A failure is logged once and survived; the rows grow old meanwhile, which says the same.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        store: Store,
        supervisors: dict[str, Supervisor],
        *,
        away: Callable[[], bool] = lambda: False,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ) -> None:
        """:param supervisors: source -> its keeper, all that the engine has.

        :param away: whether the database is known to be away: then it is left in peace.
        """
        self._away = away
        self._store = store
        self._group: str = conf.engine.group
        self._supervisors = dict(supervisors)
        self._now = now
        self._states: dict[str, tuple[str, datetime.datetime]] = {}
        self._forgotten = False
        self._failing = False
        # Guards _states: several threads ask for the rows.
        self._states_lock = threading.Lock()
        # Guards a round against the last one, which another thread writes. Held while the database works.
        self._lock = threading.Lock()
        self._ended = False

        @periodics.periodic(spacing=conf.monitoring.status_interval, run_immediately=True)
        def look() -> None:
            self.report()

        self._worker = periodics.PeriodicWorker([(look, (), {})])
        self._thread = threading.Thread(target=self._worker.start, name="source-status", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, *, told: bool) -> None:
        """End, and say of all sources that they are stopped.

        :param told: False leaves the rows as they are, because they are another engine's now.
        """
        self._worker.stop()
        self._thread.join(5)
        if told:
            self.report(stopped=True)

    def report(self, *, stopped: bool = False) -> None:
        """Write the rows once, in the caller's thread; does not raise."""
        with self._lock:
            if self._ended or self._away():
                return
            self._ended = stopped
            try:
                if not self._forgotten:
                    source_status.forget_others(self._store.database, self._group, self._supervisors)
                    self._forgotten = True
                source_status.write_sources(self._store.database, self.rows(stopped=stopped))
                self._failing = False
            except StorageError as exc:
                if not self._failing:
                    LOG.warning("The status of the sources cannot be written: %s", exc)
                self._failing = True

    def rows(self, *, stopped: bool = False) -> list[SourceRow]:
        """The state of each source as a row; for any thread, never blocks."""
        now = self._now()
        rows: list[SourceRow] = []
        for name, supervisor in self._supervisors.items():
            status = supervisor.status()
            state = (SourceState.STOPPED if stopped else status.state).value
            with self._states_lock:
                since = self._states.get(name, ("", now))
                if since[0] != state:
                    since = self._states[name] = (state, now)
            rows.append(
                SourceRow(
                    source=name,
                    engine_group=self._group,
                    host=socket.gethostname(),
                    pid=os.getpid(),
                    state=state,
                    detail="" if stopped else _one_line(status.detail),
                    since=since[1],
                    lag=status.lag,
                    last_event_at=status.last_event_at,
                    reconnects=status.reconnects,
                    restarts=supervisor.restarts,
                    updated_at=now,
                )
            )
        return rows


def _one_line(text: str) -> str:
    """Fit for a text of every database."""
    return " ".join(text.encode("utf-8", "replace").decode().replace("\0", "").split())[:1000]
