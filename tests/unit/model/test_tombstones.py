# SPDX-License-Identifier: Apache-2.0
"""Tombstones in memory: what the guard needs of them, in little memory, until they are forgotten."""

from __future__ import annotations

import datetime
import gc
import tracemalloc
import uuid

import msgspec
import pytest

from tests.simulated import NOON
from watcher_sync.model import tombstones as tombstones_module
from watcher_sync.model.changes import Version, absent
from watcher_sync.model.model import Model, Written
from watcher_sync.model.tombstones import FinalTombstones, Tombstone
from watcher_sync.testing.kinds import builtin_kinds

DAY = datetime.timedelta(days=1)
COUNT = 100_000


def tombstone(entity_id: str, time: datetime.datetime = NOON, seq: int = 7) -> Tombstone:
    version = Version(f"2026-03-01T12:00:00.000000Z/{seq:020d}/{entity_id}")
    return Tombstone(entity_id, (version, version, version), time, seq)


def bytes_each() -> float:
    """The memory that the module of the tombstones has, of all threads, for each of them."""
    own = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, tombstones_module.__file__)])
    return sum(each.size for each in own.statistics("filename")) / COUNT


@pytest.mark.rare
def test_a_tombstone_of_an_instance_takes_at_most_120_bytes_and_forgetting_gives_them_back():
    model = Model(builtin_kinds())
    gc.collect()
    tracemalloc.start()
    try:
        written = (
            Written("instance", i, None, tombstone(i, seq=n))
            for n in range(COUNT)
            for i in [str(uuid.UUID(int=n * 2**64 + n))]
        )
        model.write(written, COUNT)
        assert 50 < bytes_each() <= 120
        assert model.forget_tombstones(NOON + DAY) == COUNT
        assert bytes_each() < 1
    finally:
        tracemalloc.stop()


def test_a_short_tombstone_has_the_seq_the_time_and_the_version_that_the_guard_asks_for():
    tombstones = FinalTombstones(0)
    whole = tombstone("a", NOON + datetime.timedelta(minutes=3), seq=123_456_789_012)
    tombstones.add(whole)
    found = tombstones.get("a")
    assert found is not None
    assert (found.id, found.seq, found.is_of(whole.versions[0], 0)) == ("a", 123_456_789_012, True)
    assert datetime.timedelta(0) <= found.deleted_at - whole.deleted_at < datetime.timedelta(minutes=10)
    others = sum(found.is_of(Version(f"v{n}"), 0) for n in range(1000))
    assert others < 100, "another version is rarely taken for it"
    tombstones.add(found)
    assert tombstones.get("a") == found
    assert tombstones.get("b") is None


def test_an_absence_is_remembered_whole_until_a_deletion_is_reported():
    tombstones, version = FinalTombstones(0), absent(Version("005"))
    absence = Tombstone("a", (version, Version("")), NOON, 7)
    tombstones.add(absence)
    assert (tombstones.get("a"), len(tombstones), tombstones.states()) == (absence, 1, {"a": (7, absence.versions)})
    tombstones.add(tombstone("a", seq=8))
    found = tombstones.get("a")
    assert found is not None
    assert (found.is_of_absence, found.seq, len(tombstones)) == (False, 8, 1)
    tombstones.add(msgspec.structs.replace(absence, id="b"))
    tombstones.discard("b")
    tombstones.add(msgspec.structs.replace(absence, id="c"))
    assert (tombstones.forget(NOON + DAY), len(tombstones)) == (2, 0)


def test_only_older_tombstones_are_forgotten():
    tombstones = FinalTombstones(0)
    for hours in range(48):
        tombstones.add(tombstone(f"t{hours}", NOON + datetime.timedelta(hours=hours)))
    assert tombstones.forget(NOON - DAY) == 0
    assert tombstones.forget(NOON + DAY) in (23, 24)
    assert tombstones.get("t24") is not None
    tombstones.discard("t24")
    assert (tombstones.get("t24"), len(tombstones)) in ((None, 23), (None, 24))
