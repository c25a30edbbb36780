# SPDX-License-Identifier: Apache-2.0
"""Reads the figures of the running engine that the API does not serve.

Counters come from the engine's statistics. The quarantine comes from the database, through separate connections. The
engine's thread does no work for it. For one thread, except :meth:`FigureWatch.committed`, which any thread may call.
"""

from __future__ import annotations

import collections
from typing import Any, Final

from watcher_sync.engine.engine import Engine
from watcher_sync.storage.database.database import translated
from watcher_sync.storage.stored.quarantine import Quarantine
from watcher_sync.storage.writing import journal
from watcher_sync.storage.writing.store import Store

_SHOWN: Final = 40


class FigureWatch:
    """Reads the engine and its database from outside."""

    def __init__(self, engine: Engine, reader: Store) -> None:
        self._engine = engine
        self._reader = reader
        self._quarantine = Quarantine(reader)
        self._last_quarantined = 0
        self._quarantined: collections.deque[dict[str, Any]] = collections.deque(maxlen=_SHOWN)

    def committed(self, source: str | None = None) -> int:
        """Events that are through, of one source or of all: applied, parked, in quarantine, or known before."""
        return self._engine.stats.through(source)

    def is_at_head(self) -> bool:
        """Whether the engine's model has the latest commit of every writer."""
        with translated(), self._reader.database.connect() as connection:
            return journal.read_head(connection, self._reader.tables) <= self._engine.model.snapshot().generation

    def quarantined(self) -> int:
        """How many messages are in quarantine."""
        return self._quarantine.count()

    def latest_quarantined(self) -> list[dict[str, Any]]:
        """The latest messages in quarantine, the oldest first."""
        while page := self._quarantine.page(after=self._last_quarantined):
            self._last_quarantined = page[-1]["id"]
            self._quarantined.extend(page)
        return list(self._quarantined)
