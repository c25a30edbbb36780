# SPDX-License-Identifier: Apache-2.0
"""What a leading engine does beside its batches.

* Retention: old journal rows, tombstones and quarantined events are purged (in a thread of its own,
  because a purge may take long), and parked events whose entity never came are dropped with one warning.
* Signs of life: ``last_heard`` of each entity is written at most once per ``liveness_interval``, and what
  other engines wrote is read back, so that all replicas agree within a minute.
"""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Callable

from futurist import periodics
from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.engine.tally import Tally
from watcher_sync.exceptions import DatabaseUnavailable
from watcher_sync.model.model import Model
from watcher_sync.storage.parking import ParkedEvents
from watcher_sync.storage.retention import Retention, purge
from watcher_sync.storage.store import Store

LOG = logging.getLogger(__name__)


class Purger:
    """Runs the retention every ``[retention] interval`` seconds in a thread."""

    def __init__(self, conf: cfg.ConfigOpts, store: Store, tally: Tally) -> None:
        self._conf = conf
        self._store = store
        self._tally = tally
        self._parked = ParkedEvents(store)
        self._next = time.monotonic() + conf.retention.interval

        @periodics.periodic(spacing=1.0, run_immediately=False)
        def task() -> None:
            self._look()

        self._worker = periodics.PeriodicWorker([(task, (), {})])
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
        purged = purge(self._store.engine, self._store.tables, Retention.from_conf(self._conf.retention), now)
        if any(purged.values()):
            LOG.info("Purged %s", ", ".join(f"{n} of {table}" for table, n in purged.items() if n))
        expired = self._parked.expire(now)
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

    def _look(self) -> None:
        if time.monotonic() < self._next:
            return
        try:
            self.run_now()
        except DatabaseUnavailable as exc:
            LOG.warning("Nothing can be purged now: %s", exc)
        self._next = time.monotonic() + self._conf.retention.interval


class SignsOfLife:
    """Persists and exchanges ``last_heard``. Used by the engine's thread."""

    def __init__(self, store: Store, model: Model, interval: Callable[[], float]) -> None:
        """:param interval: seconds between two writes, asked each time."""
        self._store = store
        self._model = model
        self._interval = interval
        self._written: dict[str, dict[str, datetime.datetime]] = {}
        self._next = time.monotonic() + interval()

    def persist_if_due(self) -> None:
        """Write what is new if the interval is over; an outage leaves it for the next time."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + self._interval()
        try:
            self.persist()
            for kind, heard in self._store.read_heard().items():
                self._model.hear(kind, heard)
        except DatabaseUnavailable as exc:
            LOG.info("Signs of life are not written now: %s", exc)

    def persist(self) -> None:
        """Write what is new now.

        :raises DatabaseUnavailable: when the database is away.
        """
        for name, kind in self._model.kinds.items():
            if kind.volatile is None:
                continue
            written = self._written.setdefault(name, {})
            fresh = {
                entity_id: heard
                for entity_id, heard in self._model.last_heard(name).items()
                if written.get(entity_id) != heard and self._model.get(name, entity_id) is not None
            }
            self._store.persist_heard({name: fresh})
            written.update(fresh)
