# SPDX-License-Identifier: Apache-2.0
"""The epochs of sources that number their events themselves: the database counts them, above all that it has."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.functional.storage.conftest import on_one_database
from tests.functional.storage.writing import commit, cycle_on
from tests.simulated import by_facet, told
from watcher_sync.events import Event
from watcher_sync.model.changes import Delete, Upsert, Version, absent, after
from watcher_sync.storage.writing.source_cursors import next_epoch, write_cursor

CLOCK = 1_700_000_000_000_000


def version(epoch: int) -> Version:
    return Version(f"{epoch:017d}.{7:012d}")


def pod(epoch: int) -> Upsert:
    return Upsert("pod", f"pod-{epoch}", version(epoch), by_facet("pod", name="p", cluster="edge"))


def test_each_start_of_any_source_has_a_greater_epoch(store):
    def start(source: str) -> int:
        return next_epoch(store.database, store.tables, source)

    assert [start(source) for source in ("edge", "core", "edge", "new-name")] == [1, 2, 3, 4]
    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(start, ["edge", "core"] * 4)) == list(range(5, 13))


@pytest.mark.parametrize("where", ["row", "tombstone", "absence", "traced", "cursor", "quarantine"])
@on_one_database
def test_the_count_begins_above_the_epochs_that_earlier_releases_took_from_clocks(store, where):
    cycle = cycle_on(store)
    ahead = CLOCK + 3_600 * 10**6
    if where == "row":
        commit(cycle, told(1, pod(ahead)), told(2, pod(CLOCK)))
    elif where == "tombstone":
        commit(cycle, told(1, Delete("pod", "gone", version(ahead))))
    elif where == "absence":
        commit(cycle, told(1, pod(CLOCK)), told(2, Delete("pod", f"pod-{CLOCK}", absent(version(ahead)))))
    elif where == "traced":
        traced = after(version(ahead))
        commit(cycle, told(1, pod(CLOCK)))
        commit(cycle, told(2, Upsert("pod", f"pod-{CLOCK}", traced, {"workload": {"workload_uid": "w"}})))
    elif where == "cursor":
        write_cursor(store.database, store.tables, "other", str(ahead))
    else:
        bad = Event(id="b", type="kubernetes.pod.added", source="edge", sequence=(ahead, 1), undecodable="no")
        commit(cycle, bad)
    assert next_epoch(store.database, store.tables, "edge") == ahead + 1


def test_a_position_of_the_source_that_is_ahead_of_the_count_is_respected(store):
    assert next_epoch(store.database, store.tables, "edge") == 1
    write_cursor(store.database, store.tables, "edge", "9")
    assert next_epoch(store.database, store.tables, "edge") == 10
    write_cursor(store.database, store.tables, "stream", '{"next": 4}')
    assert next_epoch(store.database, store.tables, "stream") == 11


@pytest.mark.parametrize("source", ["edge", "~epoch"])
def test_a_stored_position_that_is_no_epoch_counts_for_none(store, source):
    write_cursor(store.database, store.tables, source, "9" * 4400)
    assert [next_epoch(store.database, store.tables, "edge") for _ in range(2)] == [1, 2]
