# SPDX-License-Identifier: Apache-2.0
"""The memory of deleted entities, for the ordering guard.

Where an entity may appear again, the guard needs the versions (:class:`Tombstone`): where ids are used again, and after
an absence. Where a deletion is final, it needs only that the id is dead. Such a tombstone is two integers, with their
place in a dictionary about 115 bytes. One is a hash of the id. The other one has the seq, the time within ten minutes
and 22 bits of the version.

A hash of 60 bits takes a new id for a dead one once in 10**12 times, among a million tombstones. The bits of the
version only count duplicates.

For the thread that writes the model.
"""

from __future__ import annotations

import datetime
from typing import Final, Protocol

import msgspec

from watcher_sync.model.changes import ABSENT, FOLLOWED, Version

_HASH_MASK: Final = (1 << 60) - 1
_EPOCH: Final = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
_UNIT: Final = datetime.timedelta(minutes=10)
_TIME_BITS: Final = 20
_TIME_MASK: Final = (1 << _TIME_BITS) - 1
_CHECK_BITS: Final = 22
_CHECK_MASK: Final = (1 << _CHECK_BITS) - 1


class Tombstone(msgspec.Struct, frozen=True, gc=False):
    """The memory of a deleted entity."""

    id: str
    versions: tuple[Version, ...]
    """Empty for a final deletion that is remembered in short."""
    deleted_at: datetime.datetime
    seq: int = 0
    check: int = -1
    """A hash of the version of the deletion, where ``versions`` is empty."""

    @property
    def is_of_absence(self) -> bool:
        """Whether only a listing suggests the deletion."""
        return any(version.endswith(ABSENT) for version in self.versions)

    @property
    def is_of_followed(self) -> bool:
        """Whether the deletion is that of a followed region."""
        return any(version.startswith(FOLLOWED) for version in self.versions)

    def ends(self, version: Version) -> bool:
        """Whether it is final for a change of this version, where ids are never used again.

        What the region of a site says overrules a deletion of this installation.
        """
        is_overruled = bool(self.versions) and version.startswith(FOLLOWED) and not self.is_of_followed
        return not (is_overruled or self.is_of_absence)

    def is_of(self, version: Version, position: int) -> bool:
        """Whether this version deleted the entity, as far as it is remembered.

        :param position: of the anchor facet.
        """
        return self.versions[position] == version if self.versions else self.check == _check_of(version)


class Tombstones(Protocol):
    """The tombstones of one kind."""

    def get(self, entity_id: str) -> Tombstone | None:
        """The tombstone of an entity, or None. O(1)."""

    def add(self, tombstone: Tombstone) -> None:
        """Remember a deletion; a later one replaces it."""

    def discard(self, entity_id: str) -> None:
        """Forget a deletion, if it is remembered."""

    def forget(self, before: datetime.datetime) -> int:
        """Forget the deletions before this time; how many there were."""

    def states(self) -> dict[object, tuple[int, object]]:
        """id or its hash -> (seq, what is remembered of the version), to compare two replicas of one process."""

    def __len__(self) -> int: ...


class WholeTombstones:
    """Tombstones with their versions, for kinds whose ids are used again."""

    def __init__(self) -> None:
        self._found: dict[str, Tombstone] = {}

    def __len__(self) -> int:
        return len(self._found)

    def get(self, entity_id: str) -> Tombstone | None:
        """As :class:`Tombstones`."""
        return self._found.get(entity_id)

    def states(self) -> dict[object, tuple[int, object]]:
        """As :class:`Tombstones`."""
        return {entity_id: (tombstone.seq, tombstone.versions) for entity_id, tombstone in self._found.items()}

    def add(self, tombstone: Tombstone) -> None:
        """As :class:`Tombstones`."""
        self._found[tombstone.id] = tombstone

    def discard(self, entity_id: str) -> None:
        """As :class:`Tombstones`."""
        self._found.pop(entity_id, None)

    def forget(self, before: datetime.datetime) -> int:
        """As :class:`Tombstones`."""
        old = [i for i, tombstone in self._found.items() if tombstone.deleted_at < before]
        for entity_id in old:
            del self._found[entity_id]
        return len(old)


class FinalTombstones(WholeTombstones):
    """Tombstones in short, for kinds whose ids are never used again.

    They are whole where only a listing suggests the deletion, or the id may be that of a site which is followed later.

    :param position: of the kind's anchor facet.
    """

    def __init__(self, position: int) -> None:
        super().__init__()
        self._position = position
        # Hash of the id -> seq, time and check bits.
        self._packed: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._packed) + len(self._found)

    def get(self, entity_id: str) -> Tombstone | None:
        """As :class:`Tombstones`; the time of a final one is up to ten minutes late."""
        packed = self._packed.get(hash(entity_id) & _HASH_MASK)
        if packed is None:
            return self._found.get(entity_id)
        units = (packed >> _CHECK_BITS) & _TIME_MASK
        seq = packed >> _CHECK_BITS + _TIME_BITS
        return Tombstone(entity_id, (), _EPOCH + units * _UNIT, seq, packed & _CHECK_MASK)

    def states(self) -> dict[object, tuple[int, object]]:
        """As :class:`Tombstones`."""
        found = super().states()
        found |= {key: (p >> _CHECK_BITS + _TIME_BITS, p & _CHECK_MASK) for key, p in self._packed.items()}
        return found

    def add(self, tombstone: Tombstone) -> None:
        """As :class:`Tombstones`."""
        if tombstone.is_of_absence or (":" in tombstone.id and tombstone.versions and not tombstone.is_of_followed):
            super().add(tombstone)
            return
        super().discard(tombstone.id)
        check = _check_of(tombstone.versions[self._position]) if tombstone.versions else tombstone.check
        units = _units_of(tombstone.deleted_at)
        packed = (tombstone.seq << _TIME_BITS | units) << _CHECK_BITS | check
        self._packed[hash(tombstone.id) & _HASH_MASK] = packed

    def discard(self, entity_id: str) -> None:
        """As :class:`Tombstones`."""
        self._packed.pop(hash(entity_id) & _HASH_MASK, None)
        super().discard(entity_id)

    def forget(self, before: datetime.datetime) -> int:
        """As :class:`Tombstones`."""
        limit = _units_of(before - _UNIT) if before - _EPOCH > _UNIT else 0
        left = {i: packed for i, packed in self._packed.items() if (packed >> _CHECK_BITS) & _TIME_MASK > limit}
        forgotten = len(self._packed) - len(left)
        if forgotten:
            self._packed = left  # a dictionary does not shrink when its keys are deleted
        return forgotten + super().forget(before)


def _units_of(time: datetime.datetime) -> int:
    """A time as a number, rounded up."""
    return min(_TIME_MASK, max(0, -((_EPOCH - time) // _UNIT)))


def _check_of(version: Version) -> int:
    return hash(version) & _CHECK_MASK
