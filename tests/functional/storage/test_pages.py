# SPDX-License-Identifier: Apache-2.0
"""Each kind of database counts the bytes of a page alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from tests.functional.storage.conftest import opened
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


def test_postgresql_finds_each_row_of_a_page_by_its_key_though_it_takes_the_table_for_empty(
    migrated_postgresql_url: str,
) -> None:
    store = opened(migrated_postgresql_url)
    count, table = 500, store.tables.entities["meter"].name
    executed: list[tuple[str, Any]] = []
    try:
        cycle = cycle_on(store)
        cycle.run(Batch(events=[told(0, meter("m"))]))
        with store.database.begin() as connection:
            connection.exec_driver_sql(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")
        cycle.run(Batch(events=[told(1 + n, meter(f"m{n:03}", owner=str(n))) for n in range(count)]))
        with store.database.begin() as connection:
            # As the first statistics say that are made while the rows come.
            connection.exec_driver_sql(f"UPDATE pg_class SET reltuples = 0, relpages = 9 WHERE relname = '{table}'")
        with store.database.connect() as connection:
            sa.event.listen(
                connection, "before_cursor_execute", lambda _c, _cursor, sql, given, *_: executed.append((sql, given))
            )
            page = read_page(
                connection,
                store.tables,
                store.kinds["meter"],
                names=["owner"],
                sort=Sort("owner"),
                after=None,
                limit=count,
            )
            assert len(page.rows) == count
            (sql, given) = executed[-1]
            plan = connection.exec_driver_sql(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", given).scalar()
        assert sum(rows_compared(plan[0]["Plan"])) < 20 * count, plan
    finally:
        store.database.dispose()


def rows_compared(node: dict[str, Any]) -> Iterator[int]:
    """The rows that each node of a plan took or refused, of all its runs."""
    refused = sum(node.get(f"Rows Removed by {what}", 0) for what in ("Filter", "Join Filter"))
    yield (node["Actual Rows"] + refused) * node["Actual Loops"]
    for each in node.get("Plans", ()):
        yield from rows_compared(each)
