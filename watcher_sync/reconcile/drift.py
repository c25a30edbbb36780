# SPDX-License-Identifier: Apache-2.0
"""The objects of a listed cluster as a view, and where the model differs from what a live system has.

A difference is a field of an entity. A difference with an empty field is a whole entity that one side lacks. The
comparison covers only the fields that the live system reports, so facets of other writers stay out of it.

The functions are pure. One thread makes and reads a view.
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
from watcher_sync.model.changes import Upsert, Version
from watcher_sync.model.kinds import Entity, Kinds, kind_of
from watcher_sync.model.model import Model
from watcher_sync.model.table import index_values
from watcher_sync.model.view import View, not_declared
from watcher_sync.storage.drifts import FieldDifference


class LiveEntity(msgspec.Struct, frozen=True, gc=False):
    """One entity as the live system has it."""

    entity: Entity
    fields: Mapping[str, Any] = {}
    """The fields that the live system owns; empty if there is nothing to compare, such as if the model has the same."""
    event: Event | None = None
    """The event of the listed object; None if the model has the same, or the listing yields entities."""


class LiveView:
    """The listed objects as entities. It implements :class:`~watcher_sync.model.view.View`.

    Each listed object goes to the handler of its event, over an empty view. So an object yields the same fields as its
    notification. The view lacks objects that could not be listed or read. The caller marks their kinds as unknown, and
    concludes nothing from their absence.
    """

    def __init__(
        self, kinds: Kinds, dispatcher: Dispatcher, known: Mapping[str, Mapping[str, Entity]] = MappingProxyType({})
    ) -> None:
        """:param known: kind -> id -> the model's entity; an equal object shares it, which saves memory."""
        self.kinds = kinds
        self._nothing = Model(kinds).snapshot()
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
            change = next(iter(entry.call(event, self._nothing) or ()))
            assert isinstance(change, Upsert)
            (fields,) = change.facets.values()
            kind = self.kinds[change.kind]
            if not kind.messages.isdisjoint(fields):
                fields = dict(fields)
                kind.fit_messages(fields)
            model = self._known.get(change.kind, {}).get(change.id)
            if model is not None and all(getattr(model, name) == value for name, value in fields.items()):
                found = LiveEntity(model)
            else:
                found = LiveEntity(self._entity(change.kind, change.id, fields), fields, event)
            self.found[change.kind][change.id] = found
            yield change.kind, change.id

    def _entity(self, kind_name: str, entity_id: str, fields: Mapping[str, Any]) -> Entity:
        kind = self.kinds[kind_name]
        entity = kind.cls(id=entity_id, **fields)
        for derived in kind.derived:
            if derived.alone:
                entity = msgspec.structs.replace(entity, **{derived.field: derived.compute(self._nothing, entity)})
        return entity

    def get(self, kind: str, entity_id: str) -> Entity | None:
        """The entity, or None where it does not exist. O(1)."""
        if kind not in self.kinds:
            raise not_declared(self.kinds, kind)
        found = self.found[kind].get(entity_id)
        return found.entity if found is not None else None

    def by(self, kind: str, index: str, value: Any) -> Collection[Entity]:
        """The entities whose indexed field has this value. The first call for an index makes it: O(listed objects)."""
        buckets = self._indexes.get((kind, index))
        if buckets is None:
            if kind not in self.kinds or index not in self.kinds[kind].indexes:
                raise not_declared(self.kinds, kind, index)
            buckets = self._indexes[kind, index] = {}
            for found in self.found[kind].values():
                for each in index_values(getattr(found.entity, index)):
                    buckets.setdefault(each, []).append(found.entity)
        return buckets.get(str(value), ())

    def all(self, kind: str, prefix: str = "") -> Iterator[Entity]:
        """The listed entities of a kind, in no order. O(listed objects)."""
        if kind not in self.kinds:
            raise not_declared(self.kinds, kind)
        return iter([each.entity for i, each in self.found[kind].items() if i.startswith(prefix)])


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """One entity that differs between the model and the live system."""

    kind: str
    id: str
    model: Entity | None
    """The entity in the model before the listing began."""
    live: LiveEntity | None
    fields: Collection[str] = ()
    """The fields that differ, if both sides have the entity."""

    @property
    def gone(self) -> bool:
        """Whether the live system no longer has it."""
        return self.live is None

    def is_unwritten_since(self, view: View) -> bool:
        """Whether no event has written the entity since the listing began.

        Fields that follow from other entities, such as a pod's workload, do not count. The repair of those entities
        may have written them.
        """
        return declared_version(view.get(self.kind, self.id)) == declared_version(self.model)

    def differences(self, policy: str) -> Iterator[FieldDifference]:
        """Yield the differences, field by field.

        :param policy: heal or observe.
        """
        if self.model is None or self.live is None:
            yield FieldDifference(
                kind=self.kind,
                entity_id=self.id,
                field="",
                model_value=_name(self.model),
                live_value=_name(self.live.entity if self.live is not None else None),
                policy=policy,
            )
            return
        for field in self.fields:
            yield FieldDifference(
                kind=self.kind,
                entity_id=self.id,
                field=field,
                model_value=plain(getattr(self.model, field)),
                live_value=plain(self.live.fields[field]),
                policy=policy,
            )


def compare(kind: str, model: Iterable[Entity], live: Mapping[str, LiveEntity]) -> Iterator[Divergence]:
    """Yield the entities of one kind that differ.

    :param model: all entities of the model in the scope of the listing.
    :param live: all listed entities.
    """
    known = {entity.id: entity for entity in model}
    for entity_id, found in live.items():
        entity = known.pop(entity_id, None)
        if not found.fields:
            continue
        if entity is None:
            yield Divergence(kind=kind, id=entity_id, model=None, live=found)
            continue
        fields = [name for name, value in found.fields.items() if getattr(entity, name) != value]
        if fields:
            yield Divergence(kind=kind, id=entity_id, model=entity, live=found, fields=fields)
    for entity in known.values():
        yield Divergence(kind=kind, id=entity.id, model=entity, live=None)


def declared_version(entity: Entity | None) -> Version | None:
    """Return the version of the entity's anchor facet, or None if there is no entity."""
    return entity.versions[kind_of(type(entity)).anchor_position] if entity is not None else None


def plain(value: object) -> object:
    """Return a value as JSON types."""
    return msgspec.to_builtins(value)


def _name(entity: Entity | None) -> object:
    """Return the name or id that represents a whole entity; None if it does not exist."""
    return None if entity is None else getattr(entity, "name", None) or entity.id
