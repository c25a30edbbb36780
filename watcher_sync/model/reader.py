# SPDX-License-Identifier: Apache-2.0
"""What a transaction reads of the committed state that it is based on.

Two implementations: :class:`~watcher_sync.model.model.Model` in memory, and
:class:`~watcher_sync.storage.reading.TableModel` over the tables of the database.
"""

from __future__ import annotations

from typing import Protocol

from watcher_sync.model.kinds import Entity, Kinds
from watcher_sync.model.model import Tombstone


class ModelReader(Protocol):
    """The committed state at one journal seq. For the writer's thread."""

    kinds: Kinds
    generation: int
    """The journal seq of the state."""

    def get(self, kind: str, entity_id: str) -> Entity | None:
        """The entity, or None where it does not exist."""

    def tombstone(self, kind: str, entity_id: str) -> Tombstone | None:
        """The tombstone of a deleted entity, or None."""

    def indexed_ids(self, kind: str, index: str, value: str) -> set[str]:
        """Ids by indexed value. The caller must not change or store the set."""
