# SPDX-License-Identifier: Apache-2.0
"""The read-only faces of the model: what handlers, reconcilers and readers see of it, and what a transaction reads."""

from __future__ import annotations

from collections.abc import Collection, Set
from typing import Any, Protocol, runtime_checkable

from watcher_sync.model.kinds import Entity, Kinds
from watcher_sync.model.tombstones import Tombstone


class View(Protocol):
    """One consistent state of the model."""

    def get(self, kind: str, entity_id: str) -> Entity | None:
        """The entity, or None where it does not exist. O(1)."""

    def by(self, kind: str, index: str, value: Any) -> Collection[Entity]:
        """The entities whose indexed field has this value; for a list field, that contain it.

        O(number found).

        :raises KeyError: when the kind declares no such index.
        """


class ModelReader(Protocol):
    """The committed state at one journal seq, on which a transaction is based. For the writer's thread.

    Two implementations: :class:`~watcher_sync.model.model.Model` in memory, and
    :class:`~watcher_sync.storage.table_model.TableModel` over the tables of the database.
    """

    kinds: Kinds
    generation: int
    """The journal seq of the state."""

    def get(self, kind: str, entity_id: str) -> Entity | None:
        """The entity, or None where it does not exist."""

    def tombstone(self, kind: str, entity_id: str) -> Tombstone | None:
        """The tombstone of a deleted entity, or None."""

    def indexed_ids(self, kind: str, index: str, value: str) -> Set[str]:
        """Ids by indexed value. The caller must not change or store the set."""

    def ids_with_prefix(self, kind: str, prefix: str) -> set[str]:
        """The ids of a kind that begin with a prefix. The set is the caller's."""


@runtime_checkable
class WholeView(View, Protocol):
    """A view that also names its kinds and lists ids. The views of the commit cycle are such."""

    kinds: Kinds
    """The kinds of this process."""

    def ids_with_prefix(self, kind: str, prefix: str) -> set[str]:
        """The ids of a kind that begin with a prefix. O(entities of the kind)."""
