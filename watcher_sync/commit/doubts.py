# SPDX-License-Identifier: Apache-2.0
"""Entities whose last events may have come in another order than they happened.

A handler marks them, and the reconciler of their system compares them soon. The set is bounded: an entity that does not
fit is compared at the next complete run. For any thread.
"""

from __future__ import annotations

import collections
import threading
from typing import Final

MAX_ENTITIES: Final = 10_000


class Doubts:
    """The marked entities of each kind, oldest mark first."""

    def __init__(self, max_entities: int = MAX_ENTITIES) -> None:
        """:param max_entities: of each kind."""
        self._max = max_entities
        # Guards the sets.
        self._lock = threading.Lock()
        self._marked: dict[str, dict[str, None]] = {}
        self._totals: collections.Counter[str] = collections.Counter()

    def add(self, kind: str, entity_id: str) -> None:
        """Mark an entity, if there is room."""
        with self._lock:
            marked = self._marked.setdefault(kind, {})
            self._totals[kind] += 1
            if len(marked) < self._max:
                marked[entity_id] = None

    def take(self, kind: str, limit: int, prefix: str = "") -> list[str]:
        """Remove and return the oldest marked entities of a kind.

        :param limit: their maximum number.
        :param prefix: only those whose id begins with it.
        """
        with self._lock:
            marked = self._marked.get(kind, {})
            taken = [each for each in marked if each.startswith(prefix)][:limit]
            for entity_id in taken:
                del marked[entity_id]
            return taken

    def total(self, kind: str) -> int:
        """How often an entity of a kind was marked, taken or not."""
        with self._lock:
            return self._totals[kind]

    def count(self, kind: str) -> int:
        """The number of marked entities of a kind."""
        with self._lock:
            return len(self._marked.get(kind, ()))
