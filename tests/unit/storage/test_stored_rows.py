# SPDX-License-Identifier: Apache-2.0
"""The versions and the delta of a row: as stored, and as readers get them."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.simulated import NOON
from watcher_sync.events import Event
from watcher_sync.model.changes import Delete, Upsert, Version
from watcher_sync.model.model import Model
from watcher_sync.model.transaction import Transaction
from watcher_sync.storage.database.types import DeltaDocument, VersionsDocument
from watcher_sync.storage.schema import schema
from watcher_sync.storage.writing.commits import Commit
from watcher_sync.storage.writing.journal import follow, read_since, versions_of
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds

SQLITE = sa.create_engine("sqlite://").dialect


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(sa.create_engine(f"sqlite:///{tmp_path / 'database.sqlite'}"), builtin_kinds(), now=lambda: NOON)
    schema.upgrade(store.database, store.tables)
    return store


def write(store: Store, model: Model, *changes: Upsert | Delete) -> None:
    transaction = Transaction(model)
    transaction.apply(Event(id=f"e{model.generation}", type="t", source="nova", time=NOON), list(changes))
    store.commit(Commit(generation=model.generation, staged=transaction.staged()))
    model.publish(transaction)


def instance(version: str, *facets: str) -> Upsert:
    return Upsert("instance", "i", Version(version), {facet: {} for facet in facets})


def column(store: Store, table: sa.Table, name: str) -> list[str]:
    """The texts of a column, in the order of the rows."""
    with store.connect() as connection:
        texts = sa.select(sa.type_coerce(table.c[name], sa.Text)).order_by(table.c.seq)
        return list(connection.execute(texts).scalars())


@pytest.mark.parametrize(
    ("versions", "stored"),
    [
        ({}, "{}"),
        ({"state": "1"}, '{"1":"state"}'),
        ({"state": "2", "power": "1", "lock": "2"}, '{"2":"state lock","1":"power"}'),
        ({"state": "2", "power": ""}, '{"2":"state"}'),
    ],
)
def test_a_version_that_facets_have_in_common_is_stored_once(versions: dict[str, str], stored: str) -> None:
    document = VersionsDocument()
    assert document.process_bind_param(versions, SQLITE) == stored
    assert document.process_result_value(stored, SQLITE) == {facet: v for facet, v in versions.items() if v}


def test_rows_of_entities_the_journal_and_tombstones_store_a_version_once(store: Store) -> None:
    model = store.load()
    write(store, model, instance("v1", "state", "power", "details"))
    write(store, model, instance("v2", "power"))
    last = '{"v1":"state details","v2":"power"}'
    assert column(store, store.tables.entities["instance"], "versions") == [last]
    assert column(store, store.tables.journal, "versions") == ['{"v1":"state details power"}', last]
    write(store, model, Delete("instance", "i", Version("v3")))
    assert column(store, store.tables.tombstones, "versions") == ['{"v3":"state"}']


def test_replicas_by_the_tables_and_by_the_journal_have_the_versions_of_the_writer(store: Store) -> None:
    model, follower = store.load(), store.load()
    write(store, model, instance("v1", "state", "power", "details"))
    write(store, model, instance("v2", "power"))
    with store.connect() as connection:
        follow(follower, read_since(connection, store.tables, 0, 10))
    written = model.get("instance", "i")
    assert written is not None
    assert set(written.versions) == {"", "v1", "v2"}
    for replica in (follower, store.load()):
        found = replica.get("instance", "i")
        assert found == written
        assert found is not None
        assert len({id(v) for v in found.versions if v}) == 2, "equal versions share one string"


def test_facets_without_a_version_have_the_empty_one() -> None:
    kind = builtin_kinds()["instance"]
    assert versions_of(kind, {"power": "1"}) == tuple("1" if f == "power" else "" for f in kind.facets)


def test_the_journal_stores_one_side_only_of_a_creation_and_of_a_deletion(store: Store) -> None:
    model = store.load()
    write(store, model, Upsert("instance", "i", Version("1"), {"state": {"state": "active", "task_state": "spawning"}}))
    write(store, model, Upsert("instance", "i", Version("2"), {"state": {"state": "active", "task_state": None}}))
    write(store, model, Upsert("instance", "i", Version("3"), {"power": {}}))
    write(store, model, Delete("instance", "i", Version("4")))
    assert column(store, store.tables.journal, "delta") == [
        '[null,{"state":"active","task_state":"spawning"}]',
        '{"task_state":["spawning",null]}',
        "{}",
        '[{"state":"active"},null]',
    ]
    with store.connect() as connection:
        rows = read_since(connection, store.tables, 0, 10)
    assert [row.document()["delta"] for row in rows] == [
        {"state": [None, "active"], "task_state": [None, "spawning"]},
        {"task_state": ["spawning", None]},
        {},
        {"state": ["active", None]},
    ]


def test_a_delta_with_both_sides_is_read_as_it_is_stored() -> None:
    delta = {"tags": [None, ["a", "b"]], "state": ["active", None]}
    document = DeltaDocument()
    stored = document.process_bind_param(delta, SQLITE)
    assert stored == '{"tags":[null,["a","b"]],"state":["active",null]}'
    assert document.process_result_value(stored, SQLITE) == delta
