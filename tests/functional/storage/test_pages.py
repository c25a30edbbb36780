# SPDX-License-Identifier: Apache-2.0
"""Each kind of database counts the bytes of a page alike."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from tests.functional.storage.listing import read_page
from tests.functional.storage.writing import cycle_on, meter
from tests.simulated import told
from watcher_sync.commit.batch import Batch
from watcher_sync.model.changes import Upsert
from watcher_sync.model.kinds import Kind
from watcher_sync.read import reading
from watcher_sync.read.entity_reader import After, Sort
from watcher_sync.read.filters import FieldCondition
from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.writing.journal import read_since

KIND = "service_type_instance"
IDS = [f"i{n:02}" for n in range(24)]


def test_pages_end_at_their_bytes_and_reach_every_row(store):
    cycle = cycle_on(store)
    spec = {"service_type": "vm", "spec": {"x": "🦀" * 125_000}}
    for entity_id in IDS:
        cycle.run(Batch(events=[told(entity_id, Upsert(KIND, entity_id, "1", {"spec": spec}))]))
    cycle.run(Batch(events=[told("i00", Upsert(KIND, "i00", "2", {"spec": {"spec": {}}}))]))
    tables, kind = store.tables, store.kinds[KIND]
    with store.database.connect() as connection:
        for field in ("id", "service_type", "provider_name"):
            assert pages_of(connection, tables, kind, Sort(field)) == (IDS, [18, 6])
            assert pages_of(connection, tables, kind, Sort(field, descending=True)) == (IDS[::-1], [17, 7])
        wanted = [FieldCondition("service_type", "eq", ("vm",))]
        assert pages_of(connection, tables, kind, Sort(), wanted) == (IDS, [18, 6])
        assert [row.seq for row in reading.read_last(connection, tables, 100)] == list(range(9, 26))
        history = reading.read_history(connection, tables, KIND, "i00", marker=0, limit=1)
        assert ([row.seq for row in history.rows], history.more) == ([1], True)
        assert len(read_since(connection, tables, 0, 100, 8_388_608)) == 17


def pages_of(
    connection: sa.Connection, tables: Tables, kind: Kind, sort: Sort, conditions: Sequence[FieldCondition] = ()
) -> tuple[list[str], list[int]]:
    """The ids of a list, and the numbers of rows of its pages."""
    ids: list[str] = []
    sizes: list[int] = []
    after, more = None, True
    while more:
        names = ["spec", "output_spec", "service_type", "provider_name"]
        page = read_page(
            connection, tables, kind, names=names, conditions=conditions, sort=sort, after=after, limit=100
        )
        ids += [row["id"] for row in page.rows]
        sizes.append(len(page.rows))
        after, more = After(page.rows[-1][sort.field], ids[-1]), page.more
    return ids, sizes


def test_the_last_rows_of_a_kind_and_of_an_entity_are_chosen_by_the_database(store):
    cycle = cycle_on(store)
    cycle.run(Batch(events=[told(0, Upsert("cluster", "edge", "1", {"state": {"state": "connected"}}))]))
    for n in range(30):
        cycle.run(Batch(events=[told(1 + n, meter(f"m{n % 3}", version=f"{n:03}", owner=str(n)))]))
    with store.database.connect() as connection:
        last = reading.read_last(connection, store.tables, 5, kind="cluster")
        assert [(row.kind, row.seq) for row in last] == [("cluster", 1)]
        last = reading.read_last(connection, store.tables, 4, kind="meter", entity_id="m1", before=30)
        assert [(row.entity_id, row.seq) for row in last] == [("m1", seq) for seq in (18, 21, 24, 27)]
