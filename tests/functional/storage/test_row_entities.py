# SPDX-License-Identifier: Apache-2.0
"""The values of fields at a row are those that a replay of the whole journal has there, on every database."""

from __future__ import annotations

import random

import pytest
import sqlalchemy as sa

from tests.functional.storage.conftest import opened
from tests.simulated import batches, cloud, nova
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.read import row_entities
from watcher_sync.read.row_entities import values_at
from watcher_sync.storage.writing.journal import read_since
from watcher_sync.testing.kinds import builtin_kinds

FIELDS = {"instance": ("name", "host", "source_host"), "aggregate": ("name", "hosts"), "compute_node": ()}


@pytest.fixture
def store(any_migrated_url):
    store = opened(any_migrated_url, builtin_kinds())
    yield store
    store.close()
    store.database.dispose()


@pytest.fixture
def rows(store):
    """The journal of a cloud with creations, moves, renames and deletions."""
    events, _ = cloud(seed=11, n=600)
    cycle = CommitCycle(store, store.load(), nova())
    for part in batches(events, random.Random(1), 25):
        cycle.run(Batch(events=part))
    with store.database.connect() as connection:
        return read_since(connection, store.tables, 0, 100_000)


def replayed(rows):
    """seq -> the values that a reader of the whole journal knows."""
    state, found = {}, {}
    for row in rows:
        known = state.setdefault((row.kind, row.entity_id), {})
        names = FIELDS.get(row.kind, ())
        if row.change == "deleted":
            found[row.seq] = {name: row.delta.get(name, (None, None))[0] for name in names}
            known.clear()
            continue
        known.update({name: new for name, (_, new) in row.delta.items()})
        found[row.seq] = {name: known.get(name) for name in names}
    return found


def read(store, rows):
    with store.database.connect() as connection:
        return values_at(connection, store.tables, FIELDS, rows)


@pytest.mark.parametrize("later_rows", [2, 2_000])
def test_every_page_has_the_values_of_a_replay(store, rows, monkeypatch, later_rows):
    monkeypatch.setattr(row_entities, "_MAX_LATER_ROWS", later_rows)
    expected = replayed(rows)
    for start in range(0, len(rows), 37):
        page = rows[start : start + 37]
        assert read(store, page) == {row.seq: expected[row.seq] for row in page}


def test_a_selection_with_gaps_has_the_same_values(store, rows):
    expected = replayed(rows)
    chosen = random.Random(3).sample(rows, len(rows) // 3)
    chosen.sort(key=lambda row: row.seq)
    assert read(store, chosen) == {row.seq: expected[row.seq] for row in chosen}


def test_the_history_has_what_makes_it_hard(rows):
    """Updates without the fields before later changes of them, and deletions; else the tests above prove little."""
    kinds = [(row.kind, row.change) for row in rows]
    assert ("instance", "deleted") in kinds
    moved = [row for row in rows if row.kind == "instance" and row.change == "updated" and "host" in row.delta]
    silent = [row for row in rows if row.kind == "instance" and row.change == "updated" and "host" not in row.delta]
    assert len(moved) > 10
    assert any(s.entity_id == m.entity_id and s.seq < m.seq for s in silent for m in moved)


def test_rows_of_the_head_need_one_query_for_each_kind(store, rows):
    statements = []
    sa.event.listen(store.database, "before_cursor_execute", lambda *args: statements.append(args[2]))
    latest = {}
    for row in rows:
        if row.kind == "instance":
            latest[row.entity_id] = row
    page = sorted((row for row in latest.values() if row.change == "updated"), key=lambda row: row.seq)
    read(store, page)
    assert len([s for s in statements if s.startswith("SELECT")]) == 1


def test_no_rows_need_no_query(store):
    assert read(store, []) == {}
