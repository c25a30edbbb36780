# SPDX-License-Identifier: Apache-2.0
"""The entities of one batch, as an overlay over the model.

It reads through to the state before the batch, and stages entities and tombstones. It computes what follows from a
change: indexes, derived fields, placeholders. It can undo the changes of one event step by step. Which changes are
admitted is the decision of :mod:`watcher_sync.model.transaction`.

An overlay may be based on another one that is not published yet. It belongs to the model's writer thread.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from typing import Any

import msgspec

from watcher_sync.events import Event
from watcher_sync.exceptions import InvalidEvent
from watcher_sync.model.changes import Version, check_id
from watcher_sync.model.declared_values import declare_values
from watcher_sync.model.kinds import Entity, Kind
from watcher_sync.model.model import Key, Staged, Written
from watcher_sync.model.overlay import IndexOverlay
from watcher_sync.model.table import index_values
from watcher_sync.model.tombstones import Tombstone
from watcher_sync.model.view import ModelReader

_NO_FIELDS: set[str] = set()
"""The touched fields of a new entity, which are never read. Never written."""


class EntityOverlay:
    """The state of the model with the changes of a batch so far."""

    def __init__(self, model: ModelReader, *, on: EntityOverlay | None, now: datetime.datetime) -> None:
        """:param on: a finished overlay that is not published yet; its changes count as published.

        :param now: the time of deletions.
        """
        self._under: ModelReader | EntityOverlay = model if on is None else on
        self.model = model
        self.kinds = model.kinds
        self._kinds = model.kinds.by_name
        self.base_generation = model.generation if on is None else on.head
        self._now = now
        self._staged: dict[Key, Staged] = {}
        self.indexes = IndexOverlay()
        """What the batch did to the model's indexes so far."""
        self._undo: list[tuple[Key, Staged | None]] = []
        """What the current event replaced, in the order of its changes."""
        self._outdated: dict[Key, bool] = {}
        """The entities whose existence the current event may have changed, and whether their derived fields, too."""

    @property
    def below(self) -> ModelReader | EntityOverlay:
        """The state before the batch."""
        return self._under

    @property
    def head(self) -> int:
        """The journal seq that the model will be at when this is committed."""
        return self.base_generation + len(self._staged)

    def get(self, kind: str, entity_id: str) -> Entity | None:
        """The entity as the batch has it so far, or None. O(1)."""
        staged = self._staged.get((kind, entity_id))
        return staged.entity if staged is not None else self._under.get(kind, entity_id)

    def tombstone(self, kind: str, entity_id: str) -> Tombstone | None:
        """What is remembered of a deleted entity, as the batch has it so far. O(1)."""
        staged = self._staged.get((kind, entity_id))
        return staged.tombstone if staged is not None else self._under.tombstone(kind, entity_id)

    def by(self, kind: str, index: str, value: Any) -> Collection[Entity]:
        """The entities whose indexed field has this value, as the batch has them so far."""
        staged, get = self._staged, self._under.get
        found = []
        for entity_id in self.indexed_ids(kind, index, str(value)):
            own = staged.get((kind, entity_id))
            entity = own.entity if own is not None else get(kind, entity_id)
            if entity is not None:
                found.append(entity)
        return found

    def indexed_ids(self, kind: str, index: str, value: str) -> Set[str]:
        """Ids by indexed value as the batch has them, not to be retained or changed. O(1), or O(number found)."""
        ids, where = self._under.indexed_ids(kind, index, value), (kind, index)
        if where not in self.indexes.joined and where not in self.indexes.left:
            return ids
        return self.indexes.over(ids, where, value)

    def indexed_count(self, kind: str, index: str, value: str) -> int:
        """The number of :meth:`indexed_ids`. O(1)."""
        under = self._under
        if isinstance(under, EntityOverlay):
            below = under.indexed_count(kind, index, value)
        else:
            below = len(under.indexed_ids(kind, index, value))
        return below + self.indexes.growth((kind, index), value)

    def all(self, kind: str, prefix: str = "") -> Iterator[Entity]:
        """The entities of a kind, as the batch has them at the time of the call. O(entities of the kind).

        The list is complete before the first one is returned, so the caller may stage changes of what it gets.
        """
        own = {i: staged.entity for (name, i), staged in self._staged.items() if name == kind and i.startswith(prefix)}
        found = [own.pop(entity.id, entity) for entity in self._under.all(kind, prefix)]
        found += own.values()
        return iter([entity for entity in found if entity is not None])

    def published(self) -> None:
        """The overlay below is published: from now on this one is based on the model."""
        self._under = self.model

    def staged(self) -> Collection[Staged]:
        """What was touched, in the order of seq, which is the order of the first touch."""
        return self._staged.values()

    def written(self) -> Iterator[Written]:
        """What the model must write when this is committed, or has written."""
        return (Written(s.kind.name, s.id, s.entity, s.tombstone) for s in self._staged.values())

    # Staging and undo

    def _kind(self, name: str) -> Kind:
        try:
            return self._kinds[name]
        except KeyError:
            raise InvalidEvent(f"{name!r} is no kind of entity") from None

    def _current(self, key: Key) -> tuple[Entity | None, Tombstone | None]:
        staged = self._staged.get(key)
        if staged is not None:
            return staged.entity, staged.tombstone
        entity = self._under.get(*key)
        return entity, None if entity is not None else self._under.tombstone(*key)

    def _create(
        self, event: Event, kind: Kind, entity_id: str, values: dict[str, Any], versions: list[Version]
    ) -> None:
        """Check and stage an entity that is new and concerns no other: a faster :meth:`_write`.

        :raises InvalidEvent: as :meth:`~watcher_sync.model.kinds.Kind.check_values` does.
        """
        seq = self.head + 1
        values["id"], values["seq"], values["versions"] = entity_id, seq, versions
        new = kind.make(values)
        self._derive_from_self(kind, new)
        key = (kind.name, entity_id)
        self._undo.append((key, None))
        self._staged[key] = Staged(kind, entity_id, seq, None, new, None, event, 1, _NO_FIELDS)
        self._reindex(kind, entity_id, None, new)

    def _write(
        self,
        event: Event,
        kind: Kind,
        entity_id: str,
        entity: Entity | None,
        values: Mapping[str, Any],
        versions: tuple[Version, ...],
        *,
        revives: bool = False,
    ) -> None:
        """Stage the entity with these fields changed; at best only such as really differ.

        :param revives: whether it is remembered as deleted.
        """
        old = self._staged.get((kind.name, entity_id))
        seq = old.seq if old is not None else self.head + 1
        if entity is None:
            new: Entity = kind.cls(id=entity_id, seq=seq, versions=versions, **values)
        else:
            new = _replaced(entity, seq=seq, versions=versions, **values)
        if kind.derived_from_self:
            derived = self._derive_from_self(kind, new, values if entity is not None else None)
            if derived and entity is not None:  # the touched fields of a new entity are never read
                values = {**values, **derived}
        self._stage(event, kind, entity_id, seq, old, entity, new, None, values, revives)

    def _derive_from_self(self, kind: Kind, new: Entity, written: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Set the derived fields that follow from the entity itself, before any other code can read it.

        :returns: the fields that it changed.
        :param written: the fields that differ from before; None: any may.
        """
        changed: dict[str, Any] = {}
        for derived in kind.derived_from_self:
            reads = derived.reads
            if written is not None and reads and written.keys().isdisjoint(reads) and changed.keys().isdisjoint(reads):
                continue  # one may read what another one gave
            found = {derived.field: derived.compute(self, new)}
            if found[derived.field] != getattr(new, derived.field):
                declare_values(found, kind.types, kind.name)
                _set(new, derived.field, found[derived.field])
                changed.update(found)
        return changed

    def _add_tombstone(
        self, event: Event, kind: Kind, entity_id: str, entity: Entity | None, versions: tuple[Version, ...]
    ) -> None:
        old = self._staged.get((kind.name, entity_id))
        seq = old.seq if old is not None else self.head + 1
        tombstone = Tombstone(entity_id, versions, self._now, seq)
        self._stage(event, kind, entity_id, seq, old, entity, None, tombstone, (), False)

    def _stage(
        self,
        event: Event,
        kind: Kind,
        entity_id: str,
        seq: int,
        old: Staged | None,
        before: Entity | None,
        entity: Entity | None,
        tombstone: Tombstone | None,
        touched: Collection[str],
        revives: bool,
    ) -> None:
        key = (kind.name, entity_id)
        if old is None:
            fields = _NO_FIELDS if before is None else set(touched)
            new = Staged(kind, entity_id, seq, before, entity, tombstone, event, 1, fields, revives)
        else:
            merged = old.merged if old.event is event else old.merged + 1
            # Undone or not, a field that was touched may stay noted as such.
            fields = old.touched
            if old.base is not None:
                fields.update(touched)
                if before is None and entity is not None:
                    fields.update(kind.fields)  # created again, it lost every field that was not written again
            revives = revives or old.revives
            new = Staged(kind, entity_id, seq, old.base, entity, tombstone, event, merged, fields, revives)
        self._undo.append((key, old))
        self._staged[key] = new
        if before is None or entity is None or kind.has_read_references or not kind.indexed_fields.isdisjoint(touched):
            both = before is not None and entity is not None
            self._reindex(kind, entity_id, before, entity, [f for f in kind.indexes if f in touched] if both else None)
        if kind.is_placeholder or (
            kind.derived_from_others and (before is None or not kind.others_reads.isdisjoint(touched))
        ):
            self._outdated[key] = True
        if kind.name in self.kinds.followers:
            self._mark_followers_outdated(kind.name, before, entity)

    def _mark_followers_outdated(self, followed: str, *states: Entity | None) -> None:
        """Note the entities whose derived fields follow from one, before or after its change."""
        for follower, follow in self.kinds.followers[followed]:
            values = {str(getattr(state, follow.field)) for state in states if state is not None}
            for value in values:
                self._outdated.update(((follower, i), True) for i in self.indexed_ids(follower, follow.index, value))

    def _roll_back(self) -> None:
        while self._undo:
            key, old = self._undo.pop()
            new = self._staged[key]
            if old is None:
                del self._staged[key]
                self._reindex(new.kind, new.id, new.entity, new.base)
            else:
                self._staged[key] = old
                self._reindex(new.kind, new.id, new.entity, old.entity)
        self._outdated.clear()

    def _reindex(
        self,
        kind: Kind,
        entity_id: str,
        before: Entity | None,
        after: Entity | None,
        fields: Collection[str] | None = None,
    ) -> None:
        """Update the overlay's indexes, and note which other entities the change concerns.

        :param fields: the indexed ones among those that may differ; None: any.
        """
        if before is None and after is not None and not kind.effective_references and not self.indexes.left:
            self.indexes.enter(kind, entity_id, after)
            return
        self.indexes.move(kind, entity_id, before, after, kind.indexes if fields is None else fields)
        for reference in kind.effective_references:
            was = getattr(before, reference.field) if before is not None else None
            now = getattr(after, reference.field) if after is not None else None
            if reference.implies:
                if was is not now and was != now:
                    for value in {*index_values(was)} ^ {*index_values(now)}:
                        self._outdated.setdefault((reference.kind, value), False)
                continue
            old, new = set(index_values(was)), set(index_values(now))
            concerned = old ^ new
            if both := old & new:
                if _alike(reference.reads, before, after, reference.field):
                    # A derived field may choose between several by their versions, and those have changed.
                    count = self.indexed_count
                    both = {value for value in both if count(kind.name, reference.field, value) > 1}
                concerned |= both
            for value in concerned:
                self._outdated[reference.kind, value] = True

    # What follows from other entities

    def _derive_from_others(self, event: Event, kind_name: str, entity_id: str, *, fields: bool) -> None:
        """Make the existence of one entity what the others say, and its derived fields if ``fields``."""
        kind = self._kinds[kind_name]
        entity, tombstone = self._current((kind_name, entity_id))
        if kind.is_placeholder:
            if entity is None:
                if self._is_referred_to(kind_name, entity_id):
                    check_id(kind_name, entity_id)
                    versions = tombstone.versions if tombstone is not None else kind.no_versions
                    declared = bool(versions[kind.anchor_position])
                    self._write(event, kind, entity_id, None, {"discovered": not declared, "gone": declared}, versions)
                return  # a new one is outdated itself
            is_undeclared = flag(entity, "discovered") or flag(entity, "gone")
            if is_undeclared and not self._is_referred_to(kind_name, entity_id):
                self._add_tombstone(event, kind, entity_id, entity, entity.versions)
                return
        if entity is None or not fields:
            return
        values = {
            derived.field: value
            for derived in kind.derived_from_others
            if (value := derived.compute(self, entity)) != getattr(entity, derived.field)
        }
        declare_values(values, kind.types, kind_name)
        values = {n: v for n, v in values.items() if v != getattr(entity, n)}
        if values:
            self._write(event, kind, entity_id, entity, values, entity.versions)

    def _is_referred_to(self, kind_name: str, entity_id: str) -> bool:
        return any(self.indexed_count(other, field, entity_id) for other, field in self.kinds.implying(kind_name))


_replaced = msgspec.structs.replace
_set = msgspec.structs.force_setattr


def _alike(fields: Iterable[str], before: Entity | None, after: Entity | None, but: str) -> bool:
    """Whether two states of an entity differ in none of these fields but one."""
    return all(name == but or getattr(before, name) == getattr(after, name) for name in fields)


def flag(entity: Entity, name: str) -> bool:
    """A field of placeholders, ``discovered`` or ``gone``."""
    return bool(getattr(entity, name))
