# SPDX-License-Identifier: Apache-2.0
"""The changes of a batch to the indexes, as an overlay over the indexes that it began with.

For each indexed value it has the entities that joined and those that left. An entity that left and came back is in
neither. For the writer's thread.
"""

from __future__ import annotations

import collections
from collections.abc import Collection, Set

from watcher_sync.model.kinds import Entity, Kind
from watcher_sync.model.table import Members, ids_of, index_values, join

Where = tuple[str, str]
"""(kind, indexed field)."""

Ids = dict[str, Members]
"""Indexed value -> ids."""


class IndexOverlay:
    """Joined and left, for every index of every kind."""

    def __init__(self) -> None:
        self.joined: dict[Where, Ids] = collections.defaultdict(dict)
        """For each indexed value, the entities that have it now and did not before."""
        self.left: dict[Where, Ids] = collections.defaultdict(dict)
        """For each indexed value, the entities that had it before and do not now."""
        self._joining: dict[str, list[Ids]] = {}
        """Kind -> those of ``joined`` that are its, in the order of its indexes."""

    def over(self, ids: Set[str], where: Where, value: str) -> Set[str]:
        """Ids by indexed value, from those that have it without the overlay. Not to be retained."""
        left = self.left[where].get(value) if where in self.left else None
        joined = self.joined[where].get(value) if where in self.joined else None
        if left:
            ids = ids - ids_of(left)
        return ids | ids_of(joined) if joined else ids

    def growth(self, where: Where, value: str) -> int:
        """How many more entities have the value than without the overlay."""
        joined = self.joined[where].get(value, ()) if where in self.joined else ()
        left = self.left[where].get(value, ()) if where in self.left else ()
        return (1 if isinstance(joined, str) else len(joined)) - (1 if isinstance(left, str) else len(left))

    def enter(self, kind: Kind, entity_id: str, entity: Entity) -> None:
        """Add a new entity while no entity has left any value. That is the case of a first listing.

        The result is that of :meth:`move`, in less time.
        """
        joining = self._joining.get(kind.name)
        if joining is None:
            joining = self._joining[kind.name] = [self.joined[kind.name, field] for field in kind.indexes]
        for into, value in zip(joining, kind.indexed(entity), strict=True):
            if value.__class__ is str:
                if value in into:
                    join(into, value, entity_id)
                else:
                    into[value] = entity_id  # as join does, but without the call
            elif value is not None:
                for each in index_values(value):
                    join(into, each, entity_id)

    def move(
        self, kind: Kind, entity_id: str, before: Entity | None, after: Entity | None, fields: Collection[str]
    ) -> None:
        """An entity changes, comes or goes.

        :param fields: the indexed ones among those that may differ.
        """
        for field in fields:
            was = getattr(before, field) if before is not None else None
            now = getattr(after, field) if after is not None else None
            if was is now or was == now:
                continue
            old: Collection[str] = index_values(was)
            new: Collection[str] = index_values(now)
            if len(old) > 1 and len(new) > 1:  # an aggregate may have thousands of hosts
                old, new = set(old), set(new)
            where = (kind.name, field)
            for value in old:
                if value not in new:
                    _move(self.left, self.joined, where, value, entity_id)
            for value in new:
                if value not in old:
                    _move(self.joined, self.left, where, value, entity_id)


def _move(into: dict[Where, Ids], out_of: dict[Where, Ids], where: Where, value: str, entity_id: str) -> None:
    others = out_of[where].get(value) if where in out_of else None
    if others == entity_id:
        del out_of[where][value]
    elif isinstance(others, dict) and entity_id in others:
        del others[entity_id]
    else:
        join(into[where], value, entity_id)
