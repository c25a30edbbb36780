# SPDX-License-Identifier: Apache-2.0
"""The objects of a listed cluster as a view, built by the handlers.

Each listed object goes to the handler of its event, over an empty view. So an object yields the same fields as its
notification. The view lacks objects that could not be listed or read. The caller marks their kinds as unknown, and
concludes nothing from their absence.

One thread makes and reads a view.
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
    """The fields of the facet that the live system owns; empty if the model has the same."""
    event: Event | None = None
    """The event of the listed object; None if the model has the same."""


class LiveView:
    """The listed objects as entities. It implements :class:`~watcher_sync.model.view.View`."""

    def __init__(
        self, kinds: Kinds, dispatcher: Dispatcher, known: Mapping[str, Mapping[str, Entity]] = MappingProxyType({})
    ) -> None:
        """:param known: kind -> id -> the model's entity; an equal object shares it, which saves memory."""
        self._kinds = kinds
        self._dispatcher = dispatcher
        self._known = known
        self.found: dict[str, dict[str, LiveEntity]] = collections.defaultdict(dict)
        """kind -> id -> listed entity."""
        self._indexes: dict[tuple[str, str], dict[str, list[Entity]]] = {}

    def forget(self, added: Iterable[tuple[str, str]]) -> None:
        """Remove objects, because their list is read again from its start.

        :param added: (kind, id).
        """
        for kind, entity_id in added:
            self.found[kind].pop(entity_id, None)
        self._indexes.clear()

    def add(self, events: Iterable[Event]) -> Iterator[tuple[str, str]]:
        """Add listed objects, and yield (kind, id) of each.

        :raises InvalidEvent: when an object cannot be read, or no handler is installed for it.
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
        """Return None."""
        return None

    def by(self, kind: str, index: str, value: Any) -> Collection[Entity]:
        """Return nothing."""
        return ()


NOTHING = _Nothing()
