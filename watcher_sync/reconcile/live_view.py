# SPDX-License-Identifier: Apache-2.0
"""What a cluster has, as a view: built of listings with the handlers' own eyes.

Each listed object goes to the handler that its event would go to, over an empty view, so the same object
gives the same fields as it does through a notification. What cannot be listed, or holds an object that cannot
be read, is not in the view and said to be unknown: of what is not known nothing may be concluded.

Made and read by one thread.
"""

from __future__ import annotations

import collections
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from watcher_sync.dispatch import Dispatcher
from watcher_sync.events import Event
from watcher_sync.exceptions import InvalidEvent
from watcher_sync.model.changes import Upsert
from watcher_sync.model.kinds import Entity, Kinds
from watcher_sync.model.table import index_values


class LiveEntity(msgspec.Struct, frozen=True, gc=False):
    """One entity as the live system has it."""

    entity: Entity
    fields: Mapping[str, Any] = {}
    """What the live system tells of it, of the facet that it owns; empty where the model has the same."""
    event: Event | None = None
    """What tells it; None where the model has the same."""


class LiveView:
    """See the module. It implements :class:`~watcher_sync.model.view.View`."""

    def __init__(
        self, kinds: Kinds, dispatcher: Dispatcher, known: Mapping[str, Mapping[str, Entity]] = MappingProxyType({})
    ) -> None:
        """:param known: kind -> id -> what the model has: an object that says the same is not kept twice."""
        self._kinds = kinds
        self._dispatcher = dispatcher
        self._known = known
        self.found: dict[str, dict[str, LiveEntity]] = collections.defaultdict(dict)
        """kind -> id -> what was found."""
        self._indexes: dict[tuple[str, str], dict[str, list[Entity]]] = {}

    def forget(self, added: Iterable[tuple[str, str]]) -> None:
        """What was added counts for nothing: it is listed anew.

        :param added: (kind, id).
        """
        for kind, entity_id in added:
            self.found[kind].pop(entity_id, None)
        self._indexes.clear()

    def add(self, events: Iterable[Event]) -> Iterator[tuple[str, str]]:
        """Objects that exist: (kind, id) of each, while it is added.

        :raises InvalidEvent: one of them cannot be read, or nobody reads its like.
        """
        self._indexes.clear()
        for event in events:
            entry = self._dispatcher.find(event.type)
            if entry is None or entry.call is None:
                raise InvalidEvent(f"there is no handler for {event.type}")
            change = next(iter(entry.call(event, NOTHING) or ()))
            assert isinstance(change, Upsert)
            (fields,) = change.facets.values()
            model = self._known.get(change.kind, {}).get(change.id)
            if model is not None and all(getattr(model, name) == value for name, value in fields.items()):
                found = LiveEntity(model)
            else:
                found = LiveEntity(self._entity(change.kind, change.id, fields), fields, event)
            self.found[change.kind][change.id] = found
            yield change.kind, change.id

    def _entity(self, kind_name: str, entity_id: str, fields: Mapping[str, Any]) -> Entity:
        kind = self._kinds[kind_name]
        entity = kind.cls(id=entity_id, **fields)
        for derived in kind.derived:
            if derived.alone:
                entity = msgspec.structs.replace(entity, **{derived.field: derived.compute(NOTHING, entity)})
        return entity

    def get(self, kind: str, entity_id: str) -> Entity | None:
        """The entity, or None where it does not exist."""
        found = self.found[kind].get(entity_id)
        return found.entity if found is not None else None

    def by(self, kind: str, index: str, value: Any) -> Collection[Entity]:
        """The entities whose indexed field has this value."""
        buckets = self._indexes.get((kind, index))
        if buckets is None:
            if index not in self._kinds[kind].indexes:
                raise KeyError((kind, index))
            buckets = self._indexes[kind, index] = {}
            for found in self.found[kind].values():
                for each in index_values(getattr(found.entity, index)):
                    buckets.setdefault(each, []).append(found.entity)
        return buckets.get(str(value), ())


class _Nothing:
    """A view in which nothing exists."""

    def get(self, kind: str, entity_id: str) -> Entity | None:
        """None."""
        return None

    def by(self, kind: str, index: str, value: Any) -> Collection[Entity]:
        """Nobody."""
        return ()


NOTHING = _Nothing()
