# SPDX-License-Identifier: Apache-2.0
"""The table of a plugin's kind follows its declaration, as far as columns can be added."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest
import sqlalchemy as sa

from tests.functional.storage.conftest import on_one_empty_database, opened
from tests.functional.storage.writing import commit, cycle_on, kinds, meter
from tests.simulated import told
from tests.sites import parsed
from watcher_sync.assembly import store as assembly
from watcher_sync.assembly.store import usable_store
from watcher_sync.exceptions import SchemaMissing
from watcher_sync.model.changes import Upsert
from watcher_sync.model.kinds import Entity, In, Kinds, Text, kind
from watcher_sync.storage.schema import schema
from watcher_sync.storage.stored.quarantine import Quarantine
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import BUILTIN


class Wider(Entity, frozen=True, kw_only=True, gc=False):
    """The meter of a newer release of its plugin, with fields of every type."""

    owner: Annotated[Text | None, In("state")] = None
    reading: Annotated[int | None, In("state")] = None
    ratio: Annotated[float | None, In("state")] = None
    colour: Annotated[Text | None, In("state")] = None
    unit: Annotated[Text, In("state")] = "k'W\\h"
    tariff: Annotated[int, In("state")] = 3
    sealed: Annotated[bool, In("state")] = True
    labels: Annotated[dict[str, str], In("state")] = {}  # noqa: RUF012 - as msgspec takes it


class Retyped(Entity, frozen=True, kw_only=True, gc=False):
    """A field has become a text."""

    owner: Annotated[Text | None, In("state")] = None
    reading: Annotated[Text | None, In("state")] = None
    ratio: Annotated[float | None, In("state")] = None
    colour: Annotated[Text | None, In("state")] = None


def declared(cls: type[Entity], indexes: tuple[str, ...] = ("owner",)) -> Kinds:
    """Ours, and the plugin's meter as this class declares it."""
    return Kinds(*BUILTIN, kind("meter", plural="meters", indexes=indexes)(cls))


@pytest.fixture
def site(any_database_url: str) -> Iterator[Callable[[Kinds], Store]]:
    """Opens stores of processes with these kinds. The database has one meter that the older plugin wrote."""
    stores: list[Store] = []

    def open_one(kinds_: Kinds) -> Store:
        stores.append(opened(any_database_url, kinds_))
        return stores[-1]

    before = open_one(kinds())
    schema.upgrade(before.database, before.tables)
    commit(cycle_on(before), told(1, meter("m1", owner="o", reading=7)))
    yield open_one
    for store in stores:
        store.close()
        store.database.dispose()


def test_fields_that_a_plugin_adds_are_columns_after_db_sync_and_the_older_plugin_works_on(
    site: Callable[[Kinds], Store],
) -> None:
    older, newer = site(kinds()), site(declared(Wider, ("owner", "colour")))
    (problem,) = schema.check(newer.database, newer.tables).values()
    assert "entity kind 'meter' of tests.functional.storage.test_kind_tables: the database lacks " in problem
    assert "the column meters.colour, the column meters.unit, " in problem
    assert schema.plan(newer.database, newer.tables) == [
        "add the column meters.colour",
        "add the column meters.unit",
        "add the column meters.tariff",
        "add the column meters.sealed",
        "add the column meters.labels",
        "add the index ix_meters_colour",
    ]
    schema.upgrade(newer.database, newer.tables)
    assert schema.check(newer.database, newer.tables) == {}
    assert schema.plan(newer.database, newer.tables) == []
    commit(cycle_on(older), told(2, meter("m2", "2", owner="o")))
    known = newer.load().snapshot()
    for name in ("m1", "m2"):
        found: Any = known.get("meter", name)
        assert (found.owner, found.colour, found.unit) == ("o", None, "k'W\\h")
        assert (found.tariff, found.sealed, found.labels) == (3, True, {})
    commit(cycle_on(newer), told(3, meter("m1", "3", owner="p", colour="red", tariff=4, labels={"a": "b"})))
    again: Any = newer.load().snapshot().get("meter", "m1")
    assert (again.owner, again.reading, again.colour, again.tariff, again.labels) == ("p", 7, "red", 4, {"a": "b"})


@on_one_empty_database
def test_a_field_of_another_type_is_refused_with_the_plugins_name_and_its_table_is_unchanged(
    site: Callable[[Kinds], Store],
) -> None:
    store = site(declared(Retyped))
    with pytest.raises(SchemaMissing, match=r"kind 'meter' of .*_kind_tables: the column meters.reading has the type"):
        schema.upgrade(store.database, store.tables)
    assert "colour" not in {column["name"] for column in sa.inspect(store.database).get_columns("meters")}
    (line,) = schema.plan(store.database, store.tables)
    assert line.startswith("refuse: entity kind 'meter' of ")
    assert list(schema.check(store.database, store.tables)) == ["meter"]


@on_one_empty_database
def test_a_process_works_without_the_kind_that_lacks_a_column_and_loses_none_of_its_events(
    site: Callable[[Kinds], Store], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The events that it cannot apply wait in the quarantine for ``db_sync``."""
    monkeypatch.setattr(assembly, "_reported_problems", set())  # a process logs it once
    newer = site(declared(Wider))
    conf = parsed()
    conf.set_override("connection", newer.database.url.render_as_string(hide_password=False), group="database")
    running = usable_store(conf, newer)
    assert "meter" not in running.kinds
    assert [r.getMessage() for r in caplog.records if "run watcher-sync-manage db_sync" in r.getMessage()] != []
    cycle = commit(
        cycle_on(running),
        told(2, meter("m1", "2", owner="q", colour="red")),
        told(3, Upsert("instance", "i1", "1", {"state": {"state": "active"}})),
    )
    assert [row["reason"] for row in Quarantine(running).page()] == ["'meter' is no kind of entity"]
    assert cycle.model.snapshot().get("instance", "i1") is not None
    schema.upgrade(newer.database, newer.tables)
    started = usable_store(conf, site(declared(Wider)))
    known: Any = started.load().snapshot().get("meter", "m1")
    assert (known.owner, known.reading) == ("o", 7)
    running.dispose()
