# SPDX-License-Identifier: Apache-2.0
"""The model in memory: a replica of the tables at one journal seq, its *generation*.

One thread writes: it publishes a committed :class:`~watcher_sync.model.transaction.Transaction`, or
journal rows of another writer. Any thread reads, through :meth:`Model.snapshot`: a consistent state
that never changes under the reader, made without copying the entities.

For a while the model remembers deleted entities (:mod:`~watcher_sync.model.tombstones`): an event from before the
deletion that arrives after it cannot create them again. The model also has the time when each entity was last seen.
That changes too often for the journal, so it is no part of a generation.

:class:`Staged` is an entity that a batch touched, and :func:`differ` says how its values differ from before.
"""

from __future__ import annotations

import datetime
import operator
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, Final

import msgspec

from watcher_sync.events import Event
from watcher_sync.model.kinds import Entity, Kind, Kinds
from watcher_sync.model.table import Bucket, FrozenTable, Index, Members, Table, ids_of, index_values, join
from watcher_sync.model.tombstones import FinalTombstones, Tombstone, Tombstones, WholeTombstones
from watcher_sync.model.view import not_declared

Key = tuple[str, str]
"""(kind, id)."""


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
    revives: bool = False
    """Whether the entity was remembered as deleted, before the batch or within it."""

    def delta(self) -> dict[str, Any] | tuple[dict[str, Any] | None, dict[str, Any] | None]:
        """What differs, as the journal stores it.

        An update is field -> (old, new) of the public fields that differ, and empty when only versions moved. A
        creation is (None, values) and a deletion (values, None), without the values that are None.
        """
        base, entity = self.base, self.entity
        if base is entity:
            return {}
        fields = self.kind.fields
        if base is None or entity is None:
            known = self.kind.values(entity if base is None else base)
            values = {n: v for n, v in zip(fields, known, strict=True) if v is not None}
            return (None, values) if base is None else (values, None)
        names = [n for n in fields if n in self.touched] if len(self.touched) > 1 else self.touched
        return {n: (old, new) for n in names if differ(old := getattr(base, n), new := getattr(entity, n))}

    def change(self) -> str:
        """created, updated or deleted.

        An entity that did not exist before and does not exist now has an empty update: only versions moved.
        """
        if self.entity is None:
            return "updated" if self.base is None else "deleted"
        return "created" if self.base is None else "updated"


_canonical = msgspec.json.Encoder(order="deterministic", enc_hook=str.__str__).encode
"""Also of texts of a class of a library, which are equal to their JSON."""

NESTED: Final = frozenset({dict, list})
"""The classes of values that contain others."""


def differ(old: Any, new: Any) -> bool:
    """Whether two values are not the same in JSON either: to Python 1, 1.0 and true are equal."""
    if old != new or old.__class__ is not new.__class__:
        return True
    return bool(old) and old.__class__ in NESTED and _canonical(old) != _canonical(new)


class Written(msgspec.Struct, frozen=True, gc=False):
    """One entity as a commit leaves it: alive, or deleted with a tombstone; never both."""

    kind: str
    id: str
    entity: Entity | None
    tombstone: Tombstone | None


class Snapshot:
    """A consistent state of the model. It implements :class:`~watcher_sync.model.view.View`."""

    def __init__(
        self,
        kinds: Kinds,
        generation: int,
        tables: Mapping[str, FrozenTable[Entity]],
        indexes: Mapping[tuple[str, str], FrozenTable[Bucket]],
        last_seen: Mapping[str, Mapping[str, datetime.datetime]],
        seen_by: Mapping[str, Mapping[str, str]],
    ) -> None:
        self.kinds = kinds
        self.generation = generation
        self._tables = tables
        self._indexes = indexes
        self._last_seen = last_seen
        self._seen_by = seen_by

    def get(self, kind: str, entity_id: str) -> Entity | None:
        """The entity, or None where it does not exist. O(1)."""
        try:
            table = self._tables[kind]
        except KeyError:
            raise not_declared(self.kinds, kind) from None
        return table.get(entity_id)

    def by(self, kind: str, index: str, value: Any) -> Collection[Entity]:
        """The entities whose indexed field has this value. O(number found)."""
        try:
            table, buckets = self._tables[kind], self._indexes[kind, index]
        except KeyError:
            raise not_declared(self.kinds, kind, index) from None
        return [entity for i in ids_of(buckets.get(str(value))) if (entity := table.get(i)) is not None]

    def all(self, kind: str, prefix: str = "") -> Iterator[Entity]:
        """The entities of a kind, in no order. O(entities of the kind), without a copy of them."""
        if kind not in self._tables:
            raise not_declared(self.kinds, kind)
        return _with_prefix(self._tables[kind].values(), prefix)

    def ids(self, kind: str) -> list[str]:
        """The ids of a kind, sorted by code point."""
        return sorted(self._tables[kind].keys())

    def count(self, kind: str) -> int:
        """How many entities of the kind exist."""
        return len(self._tables[kind])

    def last_seen(self, kind: str, entity_id: str) -> datetime.datetime | None:
        """When the entity was last seen. Liveness is no part of the generation: it is as of now."""
        return self._last_seen[kind].get(entity_id)

    def seen_by(self, kind: str, entity_id: str) -> str | None:
        """The source that brought this process the last sign of life; None: there was none. It is as of now, too."""
        return self._seen_by[kind].get(entity_id)

    def dump(self, kind: str) -> Iterator[dict[str, Any]]:
        """The entities' public fields, sorted by id."""
        declared = self.kinds[kind]
        for entity_id in self.ids(kind):
            entity = self.get(kind, entity_id)
            assert entity is not None
            yield declared.to_json(entity, self.last_seen(kind, entity_id))


class Model:
    """The writer's side of the replica. For its thread, it implements :class:`~watcher_sync.model.view.View`, too."""

    def __init__(self, kinds: Kinds) -> None:
        self.kinds = kinds
        self.generation = 0
        self.epoch: str | None = None
        """The epoch of the database that this is a replica of; None: of no database."""
        self.mark: int | None = None
        """The mark of the commit at the generation; None: unknown."""
        # Guards the step from one generation to the next against the making of a snapshot.
        self._lock = threading.Lock()
        self._tables: dict[str, Table[Entity]] = {name: Table() for name in kinds}
        self._tombstones: dict[str, Tombstones] = {name: _tombstones_of(declared) for name, declared in kinds.items()}
        self._indexes: dict[tuple[str, str], Index] = {
            (name, field): Index() for name, declared in kinds.items() for field in declared.indexes
        }
        self._last_seen: dict[str, dict[str, datetime.datetime]] = {name: {} for name in kinds}
        self._seen_by: dict[str, dict[str, str]] = {name: {} for name in kinds}
        self._snapshot: Snapshot | None = None

    def get(self, kind: str, entity_id: str) -> Entity | None:
        """The entity, or None. For the writer's thread; O(1)."""
        try:
            table = self._tables[kind]
        except KeyError:
            raise not_declared(self.kinds, kind) from None
        return table.get(entity_id)

    def by(self, kind: str, index: str, value: Any) -> list[Entity]:
        """The entities whose indexed field has this value. For the writer's thread; O(number found)."""
        ids = self.indexed_ids(kind, index, str(value))
        table = self._tables[kind]
        return [entity for i in ids if (entity := table.get(i)) is not None]

    def all(self, kind: str, prefix: str = "") -> Iterator[Entity]:
        """The entities of a kind, in no order. For the writer's thread, which writes only after the iterator's end."""
        if kind not in self._tables:
            raise not_declared(self.kinds, kind)
        return _with_prefix(self._tables[kind].values(), prefix)

    def tombstone(self, kind: str, entity_id: str) -> Tombstone | None:
        """What is remembered of a deleted entity. For the writer's thread; O(1)."""
        return self._tombstones[kind].get(entity_id)

    def take_tombstones(self, kind: str, part: Model) -> None:
        """Remember the deleted entities that another model remembers, which is not used any more. O(1)."""
        self._tombstones[kind] = part._tombstones[kind]

    def indexed_ids(self, kind: str, index: str, value: str) -> Set[str]:
        """Ids by indexed value, not to be retained. For the writer's thread; O(1)."""
        try:
            found = self._indexes[kind, index]
        except KeyError:
            raise not_declared(self.kinds, kind, index) from None
        return found.ids(value)

    def last_seen(self, kind: str) -> Mapping[str, datetime.datetime]:
        """id -> when it was last seen, of this kind. For the writer's thread."""
        return self._last_seen[kind]

    def snapshot(self) -> Snapshot:
        """The state of this moment, for any thread; readers of one generation share it."""
        with self._lock:
            if self._snapshot is None:
                self._snapshot = Snapshot(
                    self.kinds,
                    self.generation,
                    {name: table.frozen() for name, table in self._tables.items()},
                    {name: index.frozen() for name, index in self._indexes.items()},
                    self._last_seen,
                    self._seen_by,
                )
            return self._snapshot

    def write(self, written: Iterable[Written], generation: int, mark: int | None = None) -> None:
        """Move to a new generation: everything that one commit wrote, at once.

        :param mark: of the commit at that generation; None: unknown.
        """
        with self._lock:
            for item in written:
                self._put(self.kinds[item.kind], item)
            self.generation, self.mark = generation, mark
            self._snapshot = None

    def add(self, kind: str, parts: Iterable[Sequence[Entity]]) -> None:
        """Add many entities that the model does not have, while it is made."""
        table, indexes = self._tables[kind], self.kinds[kind].indexes
        found: dict[str, dict[str, Members]] = {field: {} for field in indexes}
        for entities in parts:
            table.add_all({entity.id: entity for entity in entities})
            for field, ids in found.items():
                for entity, value in zip(entities, map(operator.attrgetter(field), entities), strict=True):
                    if value.__class__ is str:
                        join(ids, value, entity.id)
                    elif value is not None:
                        for one in index_values(value):
                            join(ids, one, entity.id)
        for field, ids in found.items():
            for value, members in ids.items():
                self._indexes[kind, field].add_all(value, members)
        self._snapshot = None

    def set_last_seen(self, kind: str, last_seen: Mapping[str, datetime.datetime]) -> None:
        """Store the newest of each time; ids need not exist (yet)."""
        known = self._last_seen[kind]
        for entity_id, time in last_seen.items():
            old = known.get(entity_id)
            if old is None or old < time:
                known[entity_id] = time

    def forget_last_seen(self, kind: str, entity_id: str) -> None:
        """The stored time was wrong: the next one is the newest, whatever it is."""
        self._last_seen[kind].pop(entity_id, None)

    def forget_tombstones(self, before: datetime.datetime) -> int:
        """Drop the tombstones of deletions before this time; how many there were. For the writer's thread."""
        return sum(tombstones.forget(before) for tombstones in self._tombstones.values())

    def replace_with(self, other: Model) -> None:
        """Become what another model of the same kinds is; that one must not be used any more."""
        with self._lock:
            self.generation, self.epoch, self.mark = other.generation, other.epoch, other.mark
            self._tables, self._tombstones, self._indexes = other._tables, other._tombstones, other._indexes
            self._snapshot = None
        for kind, times in other._last_seen.items():
            self.set_last_seen(kind, times)

    def publish(self, transaction: Any, mark: int | None = None) -> None:
        """What the transaction staged becomes the new generation.

        :param transaction: a :class:`~watcher_sync.model.transaction.Transaction` on this model; used up by this.
        :param mark: of its commit; None: unknown.
        """
        with self._lock:
            for where, left in transaction.indexes.left.items():
                index = self._indexes[where]
                for value, ids in left.items():
                    if ids:
                        index.discard_all(value, ids)
            for where, joined in transaction.indexes.joined.items():
                index = self._indexes[where]
                for value, ids in joined.items():
                    if ids:
                        index.add_all(value, ids)
            for staged in transaction.staged():
                self._replace(staged.kind, staged.id, staged.entity, staged.tombstone)
            self.generation, self.mark = transaction.head, mark
            self._snapshot = None
        for kind, times in transaction.seen.items():
            self.set_last_seen(kind, times)
        for kind, sources in transaction.seen_by.items():
            self._seen_by[kind].update(sources)

    def _put(self, declared: Kind, item: Written) -> None:
        old, new, indexed = self._tables[declared.name].get(item.id), item.entity, declared.indexed
        if declared.indexes and (old is None or new is None or indexed(old) != indexed(new)):
            for field in declared.indexes:
                before = index_values(getattr(old, field)) if old is not None else ()
                after = index_values(getattr(new, field)) if new is not None else ()
                if before == after:
                    continue
                index = self._indexes[declared.name, field]
                for value in before:
                    index.discard_all(value, item.id)
                for value in after:
                    index.add_all(value, new.id if new is not None else item.id)
        self._replace(declared, item.id, new, item.tombstone)

    def _replace(self, declared: Kind, entity_id: str, entity: Entity | None, tombstone: Tombstone | None) -> None:
        table, tombstones = self._tables[declared.name], self._tombstones[declared.name]
        if entity is not None:
            table.set(entity_id, entity)
        else:
            table.discard(entity_id)
        if tombstone is not None:
            tombstones.add(tombstone)
        elif tombstones:
            tombstones.discard(entity_id)


def _with_prefix(entities: Iterator[Entity], prefix: str) -> Iterator[Entity]:
    """Those whose id begins with the prefix."""
    return (entity for entity in entities if entity.id.startswith(prefix)) if prefix else entities


def _tombstones_of(kind: Kind) -> Tombstones:
    """Placeholders need the versions, too: an entity that others refer to appears again."""
    return WholeTombstones() if kind.ids_reused or kind.is_placeholder else FinalTombstones(kind.anchor_position)
