# SPDX-License-Identifier: Apache-2.0
"""Reads the figures of the running engine for the demo.

Counts come from the engine's statistics and from a snapshot of its model. Changes and quarantine come from the
database, through separate connections. The engine's thread does no work for it. For one thread, except
:meth:`FigureWatch.committed`, which any thread may call.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from typing import Any, Final

from watcher_sync.demo.screen import ScreenFigures, VnfRow
from watcher_sync.engine.engine import Engine
from watcher_sync.model.model import Snapshot
from watcher_sync.storage.database.database import translated
from watcher_sync.storage.stored.quarantine import Quarantine
from watcher_sync.storage.writing import journal
from watcher_sync.storage.writing.store import Store

_SHOWN: Final = 40
_RATE_OVER: Final = 1.5
"""Seconds over which the rate is averaged, or the time between two reads if that is longer."""


class FigureWatch:
    """Reads the engine and its database from outside."""

    def __init__(self, engine: Engine, reader: Store) -> None:
        self._engine = engine
        self._reader = reader
        self._quarantine = Quarantine(reader)
        self._last_quarantined = 0
        self._quarantined: collections.deque[dict[str, Any]] = collections.deque(maxlen=_SHOWN)
        self._samples: collections.deque[tuple[float, int]] = collections.deque()

    def committed(self, source: str | None = None) -> int:
        """Events that are through, of one source or of all: applied, parked, in quarantine, or known before."""
        return self._engine.stats.through(source)

    def is_at_head(self) -> bool:
        """Whether the engine's model has the latest commit of every writer."""
        with translated(), self._reader.database.connect() as connection:
            return journal.read_head(connection, self._reader.tables) <= self._engine.model.snapshot().generation

    def figures(
        self,
        *,
        elapsed: float,
        length: float | None,
        phase: str,
        published: int,
        vnfs: Callable[[Snapshot], Sequence[VnfRow]],
        operations: str,
        webhooks: Sequence[str],
    ) -> ScreenFigures:
        """All that is to be seen now.

        :param vnfs: the VNF instances of a snapshot.
        :param webhooks: a line for each of the last deliveries.
        """
        committed = self.committed()
        self._samples.append((elapsed, committed))
        while len(self._samples) > 2 and elapsed - self._samples[1][0] >= _RATE_OVER:
            self._samples.popleft()
        (then, before), (now, _) = self._samples[0], self._samples[-1]
        snapshot = self._engine.model.snapshot()
        return ScreenFigures(
            elapsed=elapsed,
            length=length,
            phase=phase,
            rate=(committed - before) / (now - then) if now > then else 0.0,
            published=published,
            committed=committed,
            outcomes=self._engine.stats.as_dict(),
            counts={kind: snapshot.count(kind) for kind in sorted(snapshot.kinds)},
            seq=snapshot.generation,
            sources=self._engine.source_status(),
            changes=self._changes(),
            quarantined=self._count_quarantined(),
            quarantine=list(self._quarantined),
            vnfs=vnfs(snapshot),
            operations=operations,
            webhooks=webhooks,
        )

    def _changes(self) -> list[journal.JournalRow]:
        with translated(), self._reader.database.connect() as connection:
            head = journal.read_head(connection, self._reader.tables)
            return journal.read_since(connection, self._reader.tables, max(0, head - _SHOWN), _SHOWN)

    def _count_quarantined(self) -> int:
        while page := self._quarantine.page(after=self._last_quarantined):
            self._last_quarantined = page[-1]["id"]
            self._quarantined.extend(page)
        return self._quarantine.count()
