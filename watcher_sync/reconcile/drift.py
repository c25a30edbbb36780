# SPDX-License-Identifier: Apache-2.0
"""Where the model and the live system differ. Pure functions.

A difference is a field of an entity, or, with an empty field, a whole entity that is missing on one side. Fields
that the live system does not tell of are nobody's business here: facets of other writers stay out of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from watcher_sync.model.changes import Version
from watcher_sync.model.kinds import Entity, kind_of
from watcher_sync.model.view import View
from watcher_sync.reconcile.live_view import LiveEntity
from watcher_sync.storage.drifts import Difference


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """One entity that is not what it should be."""

    kind: str
    id: str
    model: Entity | None
    """As the model had it before the listing began."""
    live: LiveEntity | None
    fields: Collection[str] = ()
    """Those that differ, where both sides have it."""

    @property
    def gone(self) -> bool:
        """Whether the live system has it no more."""
        return self.live is None

    def is_unwritten_since(self, view: View) -> bool:
        """Whether nobody has told of the entity since.

        What follows from other entities, such as a pod's workload, may have been written meanwhile, even by
        the healing of those others a moment ago.
        """
        return told_of(view.get(self.kind, self.id)) == told_of(self.model)

    def differences(self, policy: str) -> Iterator[Difference]:
        """The same, field by field.

        :param policy: heal or observe.
        """
        if self.model is None or self.live is None:
            yield Difference(
                kind=self.kind,
                entity_id=self.id,
                field="",
                model_value=_name(self.model),
                live_value=_name(self.live.entity if self.live is not None else None),
                policy=policy,
            )
            return
        for field in self.fields:
            yield Difference(
                kind=self.kind,
                entity_id=self.id,
                field=field,
                model_value=plain(getattr(self.model, field)),
                live_value=plain(self.live.fields[field]),
                policy=policy,
            )


def compare(kind: str, model: Iterable[Entity], live: Mapping[str, LiveEntity]) -> Iterator[Divergence]:
    """The entities of one kind that differ.

    :param model: all that the model has in the scope of the listing.
    :param live: all that the listing has.
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


def told_of(entity: Entity | None) -> Version | None:
    """The version of the facet that the entity is declared by."""
    return entity.versions[kind_of(type(entity)).anchor_position] if entity is not None else None


def plain(value: object) -> object:
    """A value as JSON has it."""
    return msgspec.to_builtins(value)


def _name(entity: Entity | None) -> object:
    """What a whole entity is shown as: what people call it; null where it does not exist."""
    return None if entity is None else getattr(entity, "name", None) or entity.id
