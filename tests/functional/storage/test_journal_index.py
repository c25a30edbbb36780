# SPDX-License-Identifier: Apache-2.0
"""The last changes of a rare kind are found without reading the changes of others."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from tests.functional.storage.writing import commit, cycle_on, meter
from tests.simulated import by_facet, told
from watcher_sync.extensions.vnf import level_drifts
from watcher_sync.model.changes import Upsert
from watcher_sync.read import differences, reading
from watcher_sync.read.past import undoing
from watcher_sync.storage.writing.store import Store

RARE = 3
COMMON = 4000


def filled(store: Store, *, analyzed: bool = True) -> None:
    """Some aggregates, and then many changes of meters.

    :param analyzed: whether the database has statistics.
    """
    cycle = cycle_on(store)
    rare = [Upsert("aggregate", f"a{n}", "1", by_facet("aggregate", name=f"a{n}")) for n in range(RARE)]
    changes = [*rare, *(meter(f"m{n}", owner="o", reading=n) for n in range(COMMON))]
    for start in range(0, len(changes), 500):
        commit(cycle, *(told(start + n, change) for n, change in enumerate(changes[start : start + 500])))
    if not analyzed:
        return
    with store.database.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        if connection.dialect.name == "mysql":
            connection.exec_driver_sql("ANALYZE TABLE journal")
        else:
            connection.exec_driver_sql("ANALYZE")


@contextlib.contextmanager
def queries_of(store: Store) -> Iterator[list[tuple[str, Any]]]:
    """The queries of the journal in the block."""
    sent: list[tuple[str, Any]] = []

    def listen(_connection: Any, _cursor: Any, sql: str, parameters: Any, _context: Any, _many: bool) -> None:
        if "FROM journal" in sql.replace("\n", " ") and not sql.startswith("EXPLAIN"):
            sent.append((sql, parameters))

    sa.event.listen(store.database, "before_cursor_execute", listen)
    try:
        yield sent
    finally:
        sa.event.remove(store.database, "before_cursor_execute", listen)


def plans(connection: sa.Connection, queries: list[tuple[str, Any]]) -> Iterator[str]:
    """How the database finds the rows of each query."""
    explain = "EXPLAIN QUERY PLAN " if connection.dialect.name == "sqlite" else "EXPLAIN "
    for sql, parameters in queries:
        yield "\n".join(str(tuple(row)) for row in connection.exec_driver_sql(explain + sql, parameters))


def test_the_last_changes_of_a_rare_kind_come_from_the_index(store: Store) -> None:
    filled(store)
    with store.database.connect() as connection:
        with queries_of(store) as sent:
            rows = reading.read_last(connection, store.tables, 20, kind="aggregate")
        assert [row.entity_id for row in rows] == [f"a{n}" for n in range(RARE)]
        assert len(sent) == 1
        for plan in plans(connection, sent):
            assert "ix_journal_kind" in plan, plan


@pytest.mark.parametrize("analyzed", [False, True])
def test_the_changes_of_one_entity_come_from_the_index_by_entity(store: Store, analyzed: bool) -> None:
    """SQLite without statistics prefers the index by kind, if it may."""
    filled(store, analyzed=analyzed or store.database.dialect.name != "sqlite")
    kind = store.kinds["meter"]
    with store.database.connect() as connection:
        with queries_of(store) as sent:
            reading.read_history(connection, store.tables, "meter", "m7", marker=0, limit=5)
            reading.last_change(connection, store.tables, "meter", "m7")
            reading.read_last(connection, store.tables, 5, kind="meter", entity_id="m7")
            undoing.read_item_at(connection, store.tables, kind, "m7", RARE)
            undoing.last_writes(connection, store.tables, "meter", ["m7", "m8"], RARE + COMMON)
            list(differences._rows(connection, store.tables, ("meter", "m7"), 0, RARE + COMMON))
            level_drifts._since(connection, store.tables, ["v7"])
        assert len(sent) == 7
        for plan in plans(connection, sent):
            assert "ix_journal_entity" in plan, plan
