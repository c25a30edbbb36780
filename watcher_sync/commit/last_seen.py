# SPDX-License-Identifier: Apache-2.0
"""Writes at intervals when entities were last seen.

Almost every event changes these times, so they are held in memory and written without a journal row.
"""

from __future__ import annotations

import datetime
import time

from watcher_sync.commit.batch_dispatch import CommitLimits
from watcher_sync.model.model import Model
from watcher_sync.storage.writing.store import Store


class LastSeenWriter:
    """Writes the times of this replica and reads those of other engines. For the engine's thread."""

    def __init__(self, store: Store, model: Model, limits: CommitLimits) -> None:
        self._store = store
        self._model = model
        self._limits = limits
        self._written: dict[str, dict[str, datetime.datetime]] = {}
        self._next = time.monotonic() + limits.liveness_interval

    def persist_if_due(self) -> None:
        """Write new times if the interval is over; after an error, the next interval writes them.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + self._limits.liveness_interval
        self.persist()
        for kind, seen in self._store.read_last_seen().items():
            self._model.set_last_seen(kind, seen)

    def persist(self) -> None:
        """Write new times now.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        for name, kind in self._model.kinds.items():
            if kind.last_seen_field is None:
                continue
            written = self._written.setdefault(name, {})
            fresh = {
                entity_id: seen
                for entity_id, seen in self._model.last_seen(name).items()
                if written.get(entity_id) != seen and self._model.get(name, entity_id) is not None
            }
            self._store.persist_last_seen({name: fresh})
            written.update(fresh)
