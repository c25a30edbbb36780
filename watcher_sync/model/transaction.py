# SPDX-License-Identifier: Apache-2.0
"""The changes of one batch of events, before they are committed.

A transaction is an overlay over the model. Handlers read through it and stage their changes in it; then it is
published or discarded. The *ordering guard* is here: of two changes of one facet the newer wins, in any order of
arrival. So any permutation and repetition of a history ends in the same model.

Derived fields and placeholders are computed after every event, so a view inside a batch is consistent.

An event that fails changes nothing: the transaction undoes its changes step by step.

A transaction may be based on another one that is not yet committed. It is valid only after that one is published.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from watcher_sync.events import Event
from watcher_sync.exceptions import InvalidEvent, NotYet
from watcher_sync.model.changes import Change, Delete, Outcome, Seen, Upsert, Version
from watcher_sync.model.clock import NO_LIMIT, ClockLimit
from watcher_sync.model.kinds import Entity, Kind
from watcher_sync.model.model import Tombstone, Written
from watcher_sync.model.overlay import IndexOverlay
from watcher_sync.model.reader import ModelReader
from watcher_sync.model.table import index_values
from watcher_sync.wire.limits import MAX_DOCUMENT_BYTES

Key = tuple[str, str]
"""(kind, id)."""

_NO_FIELDS: set[str] = set()
"""The touched fields of a new entity, which are never read. Never written."""


class Staged(msgspec.Struct, gc=False):
    """One entity that the batch touched, from what it was to what it is now."""

    kind: Kind
    id: str
    seq: int
    base: Entity | None
    entity: Entity | None
    tombstone: Tombstone | None
    event: Event
    """The last event that touched it."""
    merged: int
    """How many events touched it."""
    touched: set[str]
    """At least the fields that differ between base and entity, when there are both."""

    def delta(self) -> dict[str, tuple[Any, Any]]:
        """field -> (old, new) of the public fields that differ; empty when only versions moved."""
        base, entity = self.base, self.entity
        if base is entity:
            return {}
        if base is None:
            return {n: (None, v) for n in self.kind.fields if (v := getattr(entity, n)) is not None}
        if entity is None:
            return {n: (v, None) for n in self.kind.fields if (v := getattr(base, n)) is not None}
        names = [n for n in self.kind.fields if n in self.touched] if len(self.touched) > 1 else self.touched
        return {n: (old, new) for n in names if _differ(old := getattr(base, n), new := getattr(entity, n))}

    def change(self) -> str:
        """created, updated or deleted."""
        if self.entity is None:
            return "deleted"
        return "created" if self.base is None else "updated"


class Transaction:
    """The staged changes of one batch. It implements :class:`~watcher_sync.model.view.View`.

    Belongs to the model's writer thread.
    """

    def __init__(
        self, model: ModelReader, *, on: Transaction | None = None, now: Callable[[], datetime.datetime] | None = None
    ) -> None:
        """:param on: a finished transaction that is not published yet; its changes count as published."""
        self._under: ModelReader | Transaction = model if on is None else on
        self.model = model
        self.kinds = model.kinds
        self._kinds = model.kinds.by_name
        self.base_generation = model.generation if on is None else on.head
        self.seen: dict[str, dict[str, datetime.datetime]] = {}
        self._now = (now or _utcnow)()
        self.clock_limit: ClockLimit = NO_LIMIT
        """The latest time of a sign of life."""
        self._staged: dict[Key, Staged] = {}
        self.indexes = IndexOverlay()
        """What the batch did to the model's indexes so far."""
        self._undo: list[tuple[Key, Staged | None]] = []
        self._outdated: dict[Key, None] = {}

    @property
    def below(self) -> ModelReader | Transaction:
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

    def indexed_ids(self, kind: str, index: str, value: str) -> set[str]:
        """Ids by indexed value as the batch has them, not to be retained or changed. O(1), or O(number found)."""
        ids, where = self._under.indexed_ids(kind, index, value), (kind, index)
        if where not in self.indexes.joined and where not in self.indexes.left:
            return ids
        return self.indexes.over(ids, where, value)

    def published(self) -> None:
        """The transaction below is published: from now on this one is based on the model."""
        self._under = self.model

    def staged(self) -> Collection[Staged]:
        """What was touched, in the order of seq, which is the order of the first touch."""
        return self._staged.values()

    def written(self) -> Iterator[Written]:
        """What the model must write when this is committed, or has written."""
        return (Written(s.kind.name, s.id, s.entity, s.tombstone) for s in self._staged.values())

    def apply(self, event: Event, changes: Iterable[Change]) -> Outcome:
        """Stage everything that one event does, or nothing of it.

        :param event: what is recorded as the cause.
        :param changes: what the handler yields; consumed here, so its exceptions come out here.
        :raises InvalidEvent: a change names an unknown kind, field or a value of a wrong type.
        :raises NotYet: a change writes facets of an entity that was never declared.
        """
        seen: list[Seen] = []
        outcome: Outcome | None = None
        self._undo.clear()
        self._outdated.clear()
        try:
            for change in changes:
                if isinstance(change, Upsert):
                    result = self._upsert(event, change)
                elif isinstance(change, Delete):
                    result = self._delete(event, change)
                else:
                    self._check_seen(change)
                    seen.append(change)
                    continue
                if outcome is None or _RANK[result] < _RANK[outcome]:
                    outcome = result
            while self._outdated:
                self._derive_from_others(event, *self._outdated.popitem()[0])
        except BaseException:
            self._roll_back()
            raise
        for sign in seen:
            known = self.seen.setdefault(sign.kind, {})
            if sign.id not in known or known[sign.id] < sign.time:
                known[sign.id] = sign.time
        return outcome if outcome is not None else Outcome.IGNORED

    def repair(
        self,
        event: Event,
        kind_name: str,
        entity_id: str,
        values: Mapping[str, Any] | None,
        versions: tuple[Version, ...],
    ) -> Outcome:
        """Stage what an administrator wants, whatever the ordering guard says.

        :param event: what is recorded as the cause.
        :param values: fields of the kind's declared types; None: the entity stays deleted.
        :param versions: of all facets.
        """
        self._undo.clear()
        self._outdated.clear()
        kind = self._kind(kind_name)
        entity, _ = self._current((kind_name, entity_id))
        if values is None:
            self._add_tombstone(event, kind, entity_id, entity, versions)
        else:
            self._write(event, kind, entity_id, entity, values, versions)
        while self._outdated:
            self._derive_from_others(event, *self._outdated.popitem()[0])
        return Outcome.APPLIED

    # The ordering guard

    def _upsert(self, event: Event, change: Upsert) -> Outcome:
        kind = self._kinds.get(change.kind) or self._kind(change.kind)
        _check_key(change)
        entity, tombstone = self._current((kind.name, change.id))
        if tombstone is not None and not kind.ids_reused:
            return Outcome.DUPLICATE if tombstone.versions[kind.anchor_position] == change.version else Outcome.STALE
        if entity is not None:
            versions = entity.versions
        elif tombstone is not None:
            versions = tombstone.versions
        else:
            versions = kind.no_versions
        values: dict[str, Any] = {}
        fresh: list[Version] = []
        older = False
        for facet, facet_values in change.facets.items():
            position = kind.check_facet(facet, facet_values)
            if change.version > versions[position]:
                if not fresh:
                    fresh = list(versions)
                fresh[position] = change.version
                values.update(facet_values)
            elif change.version < versions[position]:
                older = True
        if not fresh:
            return Outcome.STALE if older else Outcome.DUPLICATE
        declares = fresh[kind.anchor_position] is change.version
        if entity is None and not declares:
            if kind.anchor not in change.facets and tombstone is None:
                raise NotYet(kind.name, change.id)
            return Outcome.STALE
        if not (0 < event.size <= _SMALL_EVENT_BYTES or kind.limited.isdisjoint(values)):
            kind.check_bytes(values)
        if entity is not None:
            values = {n: v for n, v in values.items() if (old := getattr(entity, n)) is not v and _differ(old, v)}
        if entity is None and tombstone is None and kind.is_standalone and kind.name not in self.kinds.followers:
            self._create(event, kind, change.id, values, fresh)
            return Outcome.APPLIED
        if values:
            kind.check_values(values)
        if (
            declares
            and kind.is_placeholder
            and (entity is None or _flag(entity, "discovered") or _flag(entity, "gone"))
        ):
            values["discovered"] = values["gone"] = False
        self._write(event, kind, change.id, entity, values, tuple(fresh))
        return Outcome.APPLIED

    def _delete(self, event: Event, change: Delete) -> Outcome:
        kind = self._kind(change.kind)
        _check_key(change)
        entity, tombstone = self._current((kind.name, change.id))
        anchor = kind.anchor_position
        if entity is not None:
            versions = entity.versions
        elif tombstone is not None:
            versions = tombstone.versions
        else:
            versions = kind.no_versions
        if kind.ids_reused or entity is None:
            if change.version == versions[anchor]:
                return Outcome.DUPLICATE
            if change.version < versions[anchor] or (tombstone is not None and not kind.ids_reused):
                return Outcome.STALE
        # The other facets lose their versions, too: an id that is used again starts without them.
        new_versions = (*kind.no_versions[:anchor], change.version, *kind.no_versions[anchor + 1 :])
        if kind.is_placeholder and entity is not None:
            blank = {name: kind.defaults[name] for names in kind.facet_fields.values() for name in names}
            self._write(event, kind, change.id, entity, {**blank, "discovered": False, "gone": True}, new_versions)
        else:
            self._add_tombstone(event, kind, change.id, entity, new_versions)
        return Outcome.APPLIED

    # What follows from other entities

    def _derive_from_others(self, event: Event, kind_name: str, entity_id: str) -> None:
        """Make the existence and the derived fields of one entity what the others say."""
        kind = self._kinds[kind_name]
        entity, tombstone = self._current((kind_name, entity_id))
        if kind.is_placeholder:
            referred = self._is_referred_to(kind_name, entity_id)
            if entity is None and referred:
                _check_id(kind_name, entity_id)
                versions = tombstone.versions if tombstone is not None else kind.no_versions
                declared = bool(versions[kind.anchor_position])
                self._write(event, kind, entity_id, None, {"discovered": not declared, "gone": declared}, versions)
                entity = self.get(kind_name, entity_id)
            elif entity is not None and not referred and (_flag(entity, "discovered") or _flag(entity, "gone")):
                self._add_tombstone(event, kind, entity_id, entity, entity.versions)
                return
        if entity is None:
            return
        values = {
            derived.field: value
            for derived in kind.derived_from_others
            if (value := derived.compute(self, entity)) != getattr(entity, derived.field)
        }
        if values:
            self._write(event, kind, entity_id, entity, values, entity.versions)

    def _is_referred_to(self, kind_name: str, entity_id: str) -> bool:
        return any(self.indexed_ids(other, field, entity_id) for other, field in self.kinds.implying(kind_name))

    # Staging and undo

    def _kind(self, name: str) -> Kind:
        try:
            return self._kinds[name]
        except KeyError:
            raise InvalidEvent(f"{name!r} is no kind of entity") from None

    def _check_seen(self, sign: Seen) -> None:
        self._kind(sign.kind)
        if sign.time.tzinfo is None:
            raise InvalidEvent(f"{sign.kind} {sign.id}: a sign of life needs a time with a zone")
        if sign.time > self.clock_limit.latest:
            self.clock_limit.refuse(f"{sign.kind} {sign.id}: the time of a sign of life", sign.time)

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
    ) -> None:
        """Stage the entity with these fields changed; at best only such as really differ."""
        old = self._staged.get((kind.name, entity_id))
        seq = old.seq if old is not None else self.head + 1
        if entity is None:
            new: Entity = kind.cls(id=entity_id, seq=seq, versions=versions, **values)
        else:
            new = _replaced(entity, seq=seq, versions=versions, **values)
        derived = self._derive_from_self(kind, new, values if entity is not None else None)
        if derived and entity is not None:  # the touched fields of a new entity are never read
            values = {**values, **derived}
        self._stage(event, kind, entity_id, old, entity, new, None, values)

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
            value = derived.compute(self, new)
            if value != getattr(new, derived.field):
                _set(new, derived.field, value)
                changed[derived.field] = value
        return changed

    def _add_tombstone(
        self, event: Event, kind: Kind, entity_id: str, entity: Entity | None, versions: tuple[Version, ...]
    ) -> None:
        old = self._staged.get((kind.name, entity_id))
        seq = old.seq if old is not None else self.head + 1
        tombstone = Tombstone(entity_id, versions, self._now, seq)
        self._stage(event, kind, entity_id, old, entity, None, tombstone, ())

    def _stage(
        self,
        event: Event,
        kind: Kind,
        entity_id: str,
        old: Staged | None,
        before: Entity | None,
        entity: Entity | None,
        tombstone: Tombstone | None,
        touched: Collection[str],
    ) -> None:
        key = (kind.name, entity_id)
        if old is None:
            fields = _NO_FIELDS if before is None else set(touched)
            new = Staged(kind, entity_id, self.head + 1, before, entity, tombstone, event, 1, fields)
        else:
            merged = old.merged if old.event is event else old.merged + 1
            # Undone or not, a field that was touched may stay noted as such.
            fields = old.touched
            if old.base is not None:
                fields.update(touched)
                if before is None and entity is not None:
                    fields.update(kind.fields)  # created again, it lost every field that was not written again
            new = Staged(kind, entity_id, old.seq, old.base, entity, tombstone, event, merged, fields)
        self._undo.append((key, old))
        self._staged[key] = new
        if before is None or entity is None or kind.has_weak_references or not kind.indexed_fields.isdisjoint(touched):
            both = before is not None and entity is not None
            self._reindex(kind, entity_id, before, entity, [f for f in kind.indexes if f in touched] if both else None)
        if kind.is_placeholder or (
            kind.derived_from_others and (before is None or not kind.others_reads.isdisjoint(touched))
        ):
            self._outdated[key] = None
        if kind.name in self.kinds.followers:
            self._mark_followers_outdated(kind.name, before, entity)

    def _mark_followers_outdated(self, followed: str, *states: Entity | None) -> None:
        """Note the entities whose derived fields follow from one, before or after its change."""
        for follower, follow in self.kinds.followers[followed]:
            values = {str(getattr(state, follow.field)) for state in states if state is not None}
            for value in values:
                self._outdated.update(((follower, i), None) for i in self.indexed_ids(follower, follow.index, value))

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
        if before is None and after is not None and not kind.references and not self.indexes.left:
            self.indexes.enter(kind, entity_id, after)
            return
        self.indexes.move(kind, entity_id, before, after, kind.indexes if fields is None else fields)
        for reference in kind.references:
            was = getattr(before, reference.field) if before is not None else None
            now = getattr(after, reference.field) if after is not None else None
            if reference.implies and (was is now or was == now):
                continue
            concerned = set(index_values(was)) ^ set(index_values(now))
            if not reference.implies and not _alike(kind, before, after, reference.field):
                concerned.update(index_values(now))
            for value in concerned:
                self._outdated[reference.kind, value] = None


_SMALL_EVENT_BYTES = MAX_DOCUMENT_BYTES // 8
"""No field of a smaller event can be too large: encoded again, a number of five characters has at most twenty."""

_replaced = msgspec.structs.replace
_set = msgspec.structs.force_setattr

_canonical = msgspec.json.Encoder(order="deterministic").encode


def _differ(old: Any, new: Any) -> bool:
    """Whether two values are not the same in JSON either: to Python 1, 1.0 and true are equal."""
    if old != new or old.__class__ is not new.__class__:
        return True
    return (old.__class__ is dict or old.__class__ is list) and _canonical(old) != _canonical(new)


_RANK = {Outcome.APPLIED: 0, Outcome.STALE: 1, Outcome.DUPLICATE: 2}


def _check_id(kind: str, entity_id: str) -> None:
    if not 0 < len(entity_id) <= 255:
        raise InvalidEvent(f"{kind}: an id of {len(entity_id)} characters; 1 to 255 are allowed")
    if entity_id[-1] == " ":  # some databases compare texts without the spaces at their ends
        raise InvalidEvent(f"{kind}: an id that ends with a space")


def _check_key(change: Upsert | Delete) -> None:
    _check_id(change.kind, change.id)
    if not 0 < len(change.version) <= 200 or not change.version.isascii():
        raise InvalidEvent(f"{change.kind} {change.id}: a version is 1 to 200 ASCII characters")


def _alike(kind: Kind, before: Entity | None, after: Entity | None, but: str) -> bool:
    """Whether two states of an entity differ in nothing but this field."""
    if before is None or after is None:
        return False
    return all(name == but or getattr(before, name) == getattr(after, name) for name in kind.fields)


def _flag(entity: Entity, name: str) -> bool:
    return bool(getattr(entity, name))


def _utcnow() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
