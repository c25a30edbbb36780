# SPDX-License-Identifier: Apache-2.0
"""Dictionaries that can be handed to readers without being copied.

A snapshot has references to the writer's pieces. The writer copies a piece before it changes one that a snapshot
shares. A piece is a shard of a few hundred keys, or one bucket of an index. So a snapshot of a hundred thousand
entities costs a few hundred references, and the first write after it some microseconds.

Written by one thread; readers hold only what :meth:`Table.frozen` gave them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Generic, TypeVar

V = TypeVar("V")

_SHARDS = 256
_MASK = _SHARDS - 1


class FrozenTable(Generic[V]):
    """What a reader holds: it never changes."""

    __slots__ = ("_shards",)

    def __init__(self, shards: tuple[dict[str, V], ...]) -> None:
        self._shards = shards

    def get(self, key: str) -> V | None:
        """The value, or None. O(1)."""
        return self._shards[hash(key) & _MASK].get(key)

    def __contains__(self, key: str) -> bool:
        return key in self._shards[hash(key) & _MASK]

    def __len__(self) -> int:
        return sum(map(len, self._shards))

    def keys(self) -> Iterator[str]:
        """All keys, in no order."""
        for shard in self._shards:
            yield from shard

    def values(self) -> Iterator[V]:
        """All values, in no order."""
        for shard in self._shards:
            yield from shard.values()


class Table(Generic[V]):
    """What the writer holds: key -> value."""

    __slots__ = ("_epoch", "_epochs", "_shards")

    def __init__(self) -> None:
        # One empty dictionary for all: most tables of an installation are empty.
        self._shards: list[dict[str, V]] = [{}] * _SHARDS
        # _epochs[i] == _epoch: shard i is the writer's own. Older: a snapshot or another shard may share it.
        self._epochs = [-1] * _SHARDS
        self._epoch = 0

    def get(self, key: str) -> V | None:
        """The value, or None. O(1)."""
        return self._shards[hash(key) & _MASK].get(key)

    def __len__(self) -> int:
        return sum(map(len, self._shards))

    def values(self) -> Iterator[V]:
        """All values, in no order; do not write meanwhile."""
        for shard in self._shards:
            yield from shard.values()

    def set(self, key: str, value: V) -> None:
        """Insert or replace."""
        i = hash(key) & _MASK
        if self._epochs[i] != self._epoch:
            self._own(i)
        self._shards[i][key] = value

    def add_all(self, values: Mapping[str, V]) -> None:
        """Insert or replace many."""
        shards = [self._own(i) for i in range(_SHARDS)]
        for key, value in values.items():
            shards[hash(key) & _MASK][key] = value

    def discard(self, key: str) -> None:
        """Remove the key if it is there."""
        self._own(hash(key) & _MASK).pop(key, None)

    def frozen(self) -> FrozenTable[V]:
        """The table's state of this moment; it never changes. O(shards)."""
        self._epoch += 1
        return FrozenTable(tuple(self._shards))

    def _own(self, i: int) -> dict[str, V]:
        if self._epochs[i] != self._epoch:
            self._shards[i] = self._shards[i].copy()
            self._epochs[i] = self._epoch
        return self._shards[i]


Members = str | dict[str, None]
"""The ids of the entities with one value: a lone one as it is, several as keys. A set takes more memory."""

Bucket = str | tuple[int, dict[str, None]]
"""The members in an index; several with the epoch of the writer that made the dictionary."""


def ids_of(members: Members | Bucket | None) -> Set[str]:
    """The ids; not to be retained."""
    if isinstance(members, str):
        return {members}
    if isinstance(members, tuple):
        return members[1].keys()
    return (members or _NONE).keys()


def join(buckets: dict[str, Members], value: str, entity_id: str) -> None:
    """One more entity has the value."""
    members = buckets.get(value)
    if members is None:
        buckets[value] = entity_id
    elif isinstance(members, str):
        buckets[value] = {members: None, entity_id: None}
    else:
        members[entity_id] = None


class Index:
    """value -> ids of the entities that have it. Buckets are shared with snapshots like shards are."""

    __slots__ = ("_buckets", "_epoch")

    def __init__(self) -> None:
        self._buckets: Table[Bucket] = Table()
        self._epoch = 0

    def ids(self, value: str) -> Set[str]:
        """The ids with this value; not to be retained. O(1)."""
        bucket = self._buckets.get(value)
        if bucket is None:
            return _NONE.keys()
        return bucket[1].keys() if isinstance(bucket, tuple) else {bucket}

    def add_all(self, value: str, members: Members) -> None:
        """The entities have the value from now on; a dictionary is given away and not to be used any more."""
        if self._buckets.get(value) is None:
            self._buckets.set(value, members if isinstance(members, str) else (self._epoch, members))
        elif isinstance(members, str):
            self._own(value)[members] = None
        else:
            self._own(value).update(members)

    def discard_all(self, value: str, members: Members) -> None:
        """The entities have the value no more."""
        ids = self._own(value)
        for entity_id in (members,) if isinstance(members, str) else members:
            ids.pop(entity_id, None)
        if not ids:
            self._buckets.discard(value)

    def frozen(self) -> FrozenTable[Bucket]:
        """The index's state of this moment; it never changes."""
        self._epoch += 1
        return self._buckets.frozen()

    def _own(self, value: str) -> dict[str, None]:
        bucket = self._buckets.get(value)
        if isinstance(bucket, tuple):
            if bucket[0] == self._epoch:
                return bucket[1]
            ids = bucket[1].copy()
        else:
            ids = {} if bucket is None else {bucket: None}
        self._buckets.set(value, (self._epoch, ids))
        return ids


_NONE: dict[str, None] = {}


def index_values(value: object) -> tuple[str, ...]:
    """What an indexed field's value is found under: nothing for None, each element of a list once."""
    if value.__class__ is str:
        return (value,)
    if value is None:
        return ()
    if isinstance(value, (list, tuple)):
        return tuple(dict.fromkeys(map(str, value)))
    return (str(value),)
