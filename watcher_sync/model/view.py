# SPDX-License-Identifier: Apache-2.0
"""The read-only faces of the model: what handlers, reconcilers and readers see of it, and what a transaction reads.

Every view raises :class:`~watcher_sync.exceptions.NotDeclared` for a kind or an index that does not exist, with
:func:`not_declared`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Set
from typing import Any, Protocol

from watcher_sync.exceptions import NotDeclared
from watcher_sync.model.kinds import Entity, Kinds
from watcher_sync.model.tombstones import Tombstone


class View(Protocol):
    """One consistent state of the model.

    The view that a handler gets is the model with the changes of the batch so far. The one of a process without a
    replica reads the tables: each call is one query more.
    """

    kinds: Kinds
    """The kinds of this process. The keys are their names; the values are internal."""

    def get(self, kind: str, entity_id: str) -> Entity | None:
        """The entity, or None where it does not exist. O(1).

        :raises NotDeclared: there is no such kind.
        """

    def by(self, kind: str, index: str, value: Any) -> Collection[Entity]:
        """The entities whose indexed field has this value; for a list field, that contain it.

        O(number found).

        :raises NotDeclared: there is no such kind, or the kind has no such index. It is a :class:`KeyError`.
        """

    def all(self, kind: str, prefix: str = "") -> Iterator[Entity]:
        """The entities of a kind at the time of the call, in no order. O(entities of the kind).

        Over the tables it is one query that reads the found rows. Changes that are made meanwhile are not in it.

        :param prefix: only those whose id begins with it.
        :raises NotDeclared: there is no such kind.
        """


class ModelReader(View, Protocol):
    """The committed state at one journal seq, on which a transaction is based. For the writer's thread.

    Two implementations: :class:`~watcher_sync.model.model.Model` in memory, and
    :class:`~watcher_sync.storage.table_model.TableModel` over the tables of the database.
    """

    generation: int
    """The journal seq of the state."""

    def tombstone(self, kind: str, entity_id: str) -> Tombstone | None:
        """The tombstone of a deleted entity, or None."""

    def indexed_ids(self, kind: str, index: str, value: str) -> Set[str]:
        """Ids by indexed value. The caller must not change or store the set."""


def not_declared(kinds: Kinds, kind: str, index: str = "") -> NotDeclared:
    """The error of a view that was asked for a kind or an index that does not exist.

    :param index: the index of the kind; empty if only the kind was asked for.
    """
    if kind not in kinds:
        return NotDeclared(f"there is no kind {kind!r}; there are {', '.join(sorted(kinds)) or 'none'}")
    return NotDeclared(f"{kind} has no index {index!r}; it has {', '.join(kinds[kind].indexes) or 'none'}")
