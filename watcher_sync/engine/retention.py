# SPDX-License-Identifier: Apache-2.0
"""The thread that purges old rows and counts stored events and drifts.

Old journal rows, tombstones, quarantined events and ended operations are purged as ``[retention]`` says. So are stored
events that exceed a quota. Parked events whose entity never came are dropped, with one warning per purge. The clock of
the database decides (:mod:`watcher_sync.storage.database.database_time`).

A purge may take long, so it has a thread of its own. Every second the thread deletes events of sources that are close
to a quota, so that no commit has to.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import msgspec
from futurist import periodics
from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.commit.stats import CommitStats
from watcher_sync.exceptions import DatabaseUnavailable, StorageError
from watcher_sync.model.model import Model
from watcher_sync.storage.drifts import count_drifts, forget_healed
from watcher_sync.storage.stored.parking import Awaited, ParkedEvents, expire_parked
from watcher_sync.storage.stored.quotas import StoredUsage, usage_of
from watcher_sync.storage.stored.retention import Retention, enforce_quotas, purge
from watcher_sync.storage.writing.store import Store

LOG = logging.getLogger(__name__)

_COUNT_INTERVAL_SECONDS = 15.0
"""A count reads up to millions of rows, which is too much for every scrape."""
_CHECK_INTERVAL_SECONDS = 1.0


class StoredCounts(msgspec.Struct, frozen=True):
    """How many events and drifts the database stores beside the model."""

    quarantined: int
    parked: int
    drifts: dict[str, int]
    """kind -> number of drifts."""
    usage: dict[str, dict[str, StoredUsage]]
    """``quarantine`` and ``parked`` -> source -> its stored events and their bytes."""


class TombstoneForgetting:
    """Forgets tombstones in memory as the table does, for the thread that writes the model; a standby does so, too."""

    def __init__(self, conf: cfg.ConfigOpts, store: Store, model: Model) -> None:
        self._conf = conf
        self._store = store
        self._model = model
        self._next = time.monotonic() + conf.retention.interval

    def forget_if_due(self) -> None:
        """Forget the tombstones that are older than ``[retention] tombstone_hours``, once per interval.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + self._conf.retention.interval
        now = self._store.time.read()
        if now is None:
            return
        forgotten = self._model.forget_tombstones(now - Retention.from_conf(self._conf.retention).tombstone_age)
        if forgotten:
            LOG.debug("Forgot %d tombstones in memory", forgotten)


class RetentionWorker:
    """Purges every ``[retention] interval`` seconds and counts stored rows, in a thread."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        store: Store,
        stats: CommitStats,
        *,
        is_unavailable: Callable[[], bool] = lambda: False,
        on_awaited: Callable[[Awaited], None] = lambda awaited: None,
    ) -> None:
        """:param is_unavailable: whether the database is known to be unavailable; nothing is counted then.

        :param on_awaited: called with the entities that parked events wait for, at each count.
        """
        self._on_awaited = on_awaited
        self._is_unavailable = is_unavailable
        self._conf = conf
        self._store = store
        self._stats = stats
        self._parked = ParkedEvents(store)
        self.stored_counts: StoredCounts | None = None
        """The result of the last count; None before the first one."""
        self._next_purge = time.monotonic() + conf.retention.interval

        # The decorator marks what it is given, and a bound method cannot be marked.
        @periodics.periodic(spacing=_CHECK_INTERVAL_SECONDS, run_immediately=False)
        def purge_if_due() -> None:
            self._purge_if_due()

        @periodics.periodic(spacing=_COUNT_INTERVAL_SECONDS, run_immediately=True)
        def count() -> None:
            self.count()

        self._worker = periodics.PeriodicWorker([(purge_if_due, (), {}), (count, (), {})])
        self._thread = threading.Thread(target=self._worker.start, name="retention", daemon=True)

    def start(self) -> None:
        """Begin to purge and count."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread after the purge in progress, or after 5 seconds."""
        self._worker.stop()
        self._thread.join(5)

    def purge_now(self) -> None:
        """Purge once, in the caller's thread. While a clock is doubtful, nothing is deleted by its age.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        now = self._store.time.read()
        purged = purge(self._store.database, self._store.tables, Retention.from_conf(self._conf.retention), now)
        if any(purged.values()):
            LOG.info("Purged %s", ", ".join(f"{n} of {table}" for table, n in purged.items() if n))
        enforce_quotas(self._store.database, self._store.tables, self._conf.retention, self._store.dropped)
        if now is None:
            return
        expired = expire_parked(self._store.database, self._store.tables, now)
        if expired:
            self._stats.expired += len(expired)
            kind, entity_id, event_type = expired[0]
            LOG.warning(
                "%d parked events expired because their entity never came, such as %s for %s %s",
                len(expired),
                event_type,
                kind,
                entity_id,
            )

    def count(self) -> None:
        """Count stored events and drifts. While the database is unavailable the last result remains."""
        if self._is_unavailable():
            return
        try:
            tables = (self._store.tables.quarantine, self._store.tables.parked)
            with self._store.connect() as connection:
                usage = {table.name: usage_of(connection, table) for table in tables}
            quarantined, parked = (sum(found.events for found in usage[table.name].values()) for table in tables)
            if forget_healed(self._store.database, self._store.tables, self._store.kinds):
                LOG.debug("Healed drifts have left the list")
            drifts = count_drifts(self._store.database)
            self.stored_counts = StoredCounts(quarantined, parked, drifts, usage)
            self._store.time.read()
            self._on_awaited(self._parked.awaited())
        except StorageError as exc:
            LOG.debug("Stored events and drifts cannot be counted: %s", exc)

    def _relieve_quotas(self) -> None:
        if self._is_unavailable():
            return
        try:
            self._store.relieve_quotas()
        except StorageError as exc:
            LOG.debug("Stored events of sources close to their quota cannot be deleted: %s", exc)

    def _purge_if_due(self) -> None:
        self._relieve_quotas()
        if time.monotonic() < self._next_purge:
            return
        try:
            self.purge_now()
        except DatabaseUnavailable as exc:
            LOG.warning("Old rows cannot be purged, retrying in %d s: %s", self._conf.retention.interval, exc)
        self._next_purge = time.monotonic() + self._conf.retention.interval
