# SPDX-License-Identifier: Apache-2.0
"""Where the model and the live system differ. Pure functions.

A difference is a field of an entity. A difference with an empty field is a whole entity that one side lacks. The
comparison covers only the fields that the live system reports, so facets of other writers stay out of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from watcher_sync.model.changes import Version
from watcher_sync.model.kinds import Entity, kind_of
from watcher_sync.model.view import View
from watcher_sync.reconcile.live_view import LiveEntity
from watcher_sync.storage.drifts import FieldDifference


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
        if found.event is None:
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
