# SPDX-License-Identifier: Apache-2.0
"""A filter finds on every database what the same comparison in Python finds."""

from __future__ import annotations

import datetime
import itertools
import random
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
import sqlalchemy as sa
from hypothesis import strategies as st

from tests.functional.storage.conftest import opened
from tests.functional.storage.listing import read_page
from tests.functional.storage.writing import cycle_on
from tests.simulated import by_facet, told
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.model.changes import Delete, Upsert
from watcher_sync.model.kinds import Entity, Kind, Kinds
from watcher_sync.read import search
from watcher_sync.read.entity_reader import After, Sort, state_reader
from watcher_sync.read.filters import FieldCondition
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds

TEXTS = (
    "web", "Web", "WEB", "web ", "web  ", " web", "web-1", "web-10", "web%", "web_", "web!", "web\\", "w%b", "wéb", "é",
    "we\u0301b", "É", "ß", "ss", "日本", "\U0001f600", "\U0010ffff", "x\U0010ffff", "\ud7ff", "\ue000", "a,b", "a", "b",
    "a,", ",b", ",", "", 'q"q', "x'; DROP TABLE instances; --", "web\n", "web\t", "true", "false", "4", "04", "null",
    "[]", "{}", "~", "z", "[web]",
)  # fmt: skip
MEMBERS = ("app", "App", "app.kubernetes.io/name", "a b", "é", "$", "*", "[0]", "hw:cpu_policy", "x'y", "日本")
NUMBERS = (0, 1, 4, 5, 2**40)
RATIOS = (0.1, 1.0, 16.0, 0.30000000000000004)
NOON = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
TIMES = (
    NOON,
    NOON + datetime.timedelta(microseconds=1),
    NOON + datetime.timedelta(days=1),
    NOON - datetime.timedelta(hours=3),
)
MEMBER_VALUES = (*TEXTS, True, False, 4, 0, -7, 2.5, None, {"app": "web"}, ["web"])


@pytest.fixture
def declared_kinds() -> Kinds:
    return builtin_kinds()


@pytest.fixture
def store(any_migrated_url: str) -> Iterator[Store]:
    store = opened(any_migrated_url, builtin_kinds())
    yield store
    store.close()
    store.database.dispose()


def some(chance: random.Random, values: Any) -> Any:
    return None if chance.random() < 0.2 else chance.choice(values)


def population() -> list[Upsert]:
    """Entities whose fields have every value above, or none."""
    chance = random.Random(17)
    changes = []
    for n in range(160):
        values = {
            "name": some(chance, TEXTS) if n >= len(TEXTS) else TEXTS[n],
            "state": some(chance, ("active", "Active", "error")),
            "vcpus": some(chance, NUMBERS),
            "locked": some(chance, (True, False)),
            "created_at": some(chance, TIMES),
            "ip_addresses": some(chance, [chance.sample(TEXTS, chance.randrange(4)) for _ in range(5)]),
            "metadata": {m: chance.choice(MEMBER_VALUES) for m in chance.sample(MEMBERS, chance.randrange(5))},
            "host": "h",
        }
        changes.append(Upsert("instance", f"i{n:03}", "1", by_facet("instance", **values)))
    for n in range(20):
        values = {"vcpu_ratio": some(chance, RATIOS), "status": some(chance, ("enabled", "disabled"))}
        changes.append(Upsert("compute_node", f"node-{n}", "1", by_facet("compute_node", **values)))
    return changes


FIELDS = {
    "name": (TEXTS, ("eq", "neq", "in", "nin", "gt", "gte", "lt", "lte", "prefix")),
    "id": (("i001", "i150", "I001", "i15", ""), ("eq", "neq", "in", "nin", "gt", "gte", "lt", "lte", "prefix")),
    "state": (("active", "Active", "error", "other"), ("eq", "neq", "in", "nin", "prefix")),
    "vcpus": (NUMBERS, ("eq", "neq", "in", "nin", "gt", "gte", "lt", "lte")),
    "locked": ((True, False), ("eq", "neq")),
    "created_at": (TIMES, ("eq", "neq", "gt", "gte", "lt", "lte")),
    "ip_addresses": (TEXTS, ("eq", "neq", "in", "nin")),
}  # fmt: skip


@st.composite
def conditions_of_instances(draw: st.DrawFn) -> FieldCondition:
    field = draw(st.sampled_from([*FIELDS, "metadata", "metadata"]))
    values, operators = FIELDS.get(field, (TEXTS, ("eq", "neq", "in", "nin", "prefix")))
    operator = draw(st.sampled_from(operators))
    several = operator in ("in", "nin")
    chosen = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3 if several else 1))
    member = draw(st.sampled_from(MEMBERS)) if field == "metadata" else None
    return FieldCondition(field, operator, tuple(chosen), member)  # type: ignore[arg-type]


def member_text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (str, int)) else None


def holds(entity: Entity, condition: FieldCondition) -> bool:
    """What the condition means, in Python."""
    value = getattr(entity, condition.field)
    wanted, operator = condition.values, condition.operator
    if condition.member is not None:
        value = member_text((value or {}).get(condition.member))
    if isinstance(value, list):
        found = any(each in value for each in wanted)
    else:
        found = value is not None and value in wanted
    if operator in ("neq", "nin"):
        return not found
    if operator in ("eq", "in"):
        return found
    if value is None:
        return False
    if operator == "prefix":
        return bool(value.startswith(wanted[0]))
    order = {"gt": value > wanted[0], "gte": value >= wanted[0], "lt": value < wanted[0], "lte": value <= wanted[0]}
    return order[operator]


def read_ids(store: Store, kind: Kind, conditions: list[FieldCondition], limit: int = 1000) -> list[str]:
    """All ids, page by page."""
    found: list[str] = []
    with store.database.connect() as connection:
        more, after = True, None
        while more:
            page = read_page(
                connection,
                store.tables,
                kind,
                names=["id"],
                conditions=conditions,
                sort=Sort(),
                after=after,
                limit=limit,
            )
            found += [row["id"] for row in page.rows]
            after, more = After(None, found[-1]) if found else None, page.more
    return found


def filled(store: Store) -> CommitCycle:
    cycle = cycle_on(store)
    cycle.run(Batch(events=[told(1, *population())]))
    return cycle


def test_a_filter_finds_what_the_same_comparison_in_python_finds(store: Store) -> None:
    filled(store)
    kind, entities = store.kinds["instance"], list(store.load().snapshot().all("instance"))
    assert len(entities) == 160
    tried = set()

    @hypothesis.settings(max_examples=100, deadline=None, derandomize=True, database=None)
    @hypothesis.given(st.lists(conditions_of_instances(), min_size=1, max_size=3))
    def each(conditions: list[FieldCondition]) -> None:
        tried.update((c.field, c.operator) for c in conditions)
        expected = sorted(e.id for e in entities if all(holds(e, c) for c in conditions))
        assert read_ids(store, kind, conditions) == expected

    each()
    assert len(tried) >= 35


def test_every_text_is_found_by_itself_alone(store: Store) -> None:
    filled(store)
    entities = list(store.load().snapshot().all("instance"))
    for text in TEXTS:
        for field in ("name", "ip_addresses"):
            one = FieldCondition(field, "eq", (text,))
            assert read_ids(store, store.kinds["instance"], [one]) == sorted(e.id for e in entities if holds(e, one))


def test_a_document_with_a_nul_character_is_no_obstacle_to_filters_by_members(store: Store) -> None:
    """PostgreSQL cannot make a text of it."""
    documents = {
        "nul": {"app": "a\0b", "name": "x"},
        "escaped": {"app": "a\\u0000b", "name": "x"},
        "both": {"app": "\\\0", "name": "x"},
        "plain": {"app": "web", "name": "x"},
    }
    changes = [Upsert("instance", i, "1", by_facet("instance", metadata=found)) for i, found in documents.items()]
    cycle_on(store).run(Batch(events=[told(1, *changes)]))
    kind = store.kinds["instance"]
    for operator in ("eq", "prefix"):
        assert read_ids(store, kind, [FieldCondition("metadata", operator, ("web",), "app")]) == ["plain"]  # type: ignore[arg-type]
    found = set(read_ids(store, kind, [FieldCondition("metadata", "eq", ("x",), "name")]))
    assert found >= {"escaped", "plain"}
    assert read_ids(store, kind, [FieldCondition("metadata", "eq", ("a\\u0000b",), "app")]) == ["escaped"]


def test_numbers_with_a_fraction_and_the_pages_of_states_are_filtered_too(store: Store) -> None:
    filled(store)
    kind, nodes = store.kinds["compute_node"], list(store.load().snapshot().all("compute_node"))
    reader = state_reader(store.tables, kind, store.database.dialect.name)
    for operator, ratio in itertools.product(("eq", "neq", "gt", "gte", "lt", "lte"), RATIOS):
        one = FieldCondition("vcpu_ratio", operator, (ratio,))  # type: ignore[arg-type]
        expected = sorted(e.id for e in nodes if holds(e, one))
        assert read_ids(store, kind, [one]) == expected
        with store.database.connect() as connection:
            assert len(reader.page(connection, limit=100, conditions=[one]).rows) == len(expected)


def test_a_filtered_list_has_each_entity_that_matches_throughout_once_while_others_change(store: Store) -> None:
    cycle, chance = cycle_on(store), random.Random(5)
    kind, wanted = (
        store.kinds["instance"],
        [FieldCondition("state", "eq", ("active",)), FieldCondition("name", "prefix", ("web",))],
    )
    version = itertools.count(1)

    def write(entity_id: str, **values: Any) -> None:
        change = Upsert("instance", entity_id, f"{next(version):06}", by_facet("instance", **values))
        cycle.run(Batch(events=[told(next(version), change)]))

    staying = [f"s{n:02}" for n in range(30)]
    moving = [f"s{n:02}-x" for n in range(30)]
    for entity_id in (*staying, *moving):
        write(entity_id, state="active", name=f"web-{entity_id}")
    found: list[str] = []
    after, more = None, True
    while more:
        with store.database.connect() as connection:
            page = read_page(
                connection, store.tables, kind, names=["state"], conditions=wanted, sort=Sort(), after=after, limit=4
            )  # fmt: skip
        found += [row["id"] for row in page.rows]
        assert all(row["state"] == "active" for row in page.rows)
        after, more = After(None, found[-1]), page.more
        for entity_id in chance.sample(moving, 4):
            write(entity_id, state=chance.choice(("active", "error")), name=chance.choice(("web-z", "db")))
        for entity_id in chance.sample(staying, 2):
            write(entity_id, state="active", name=f"web-{chance.random()}")
        gone = chance.choice(moving)
        cycle.run(Batch(events=[told(next(version), Delete("instance", gone, f"{next(version):06}"))]))
        moving.remove(gone)
        write(f"s{chance.randrange(30):02}-new{next(version)}", state="active", name="web-new")
    assert [each for each in found if each in staying] == staying
    assert found == sorted(set(found))


def test_a_list_sorted_by_any_field_has_each_entity_once(store: Store) -> None:
    filled(store)
    ids = store.load().snapshot().ids("instance")
    for sort, descending in itertools.product(("vcpus", "locked", "created_at", "name", "state"), (False, True)):
        found = read_sorted(store, sort, descending)
        assert sorted(entity_id for _, entity_id in found) == ids
        values = [value for value, _ in found if value is not None]
        if sort != "name":  # the order of texts is that of the database
            assert values == sorted(values, reverse=descending)


def read_sorted(store: Store, sort: str, descending: bool) -> list[tuple[Any, str]]:
    """Value and id of each instance, page by page."""
    kind, found = store.kinds["instance"], []
    more, after = True, None
    while more:
        with store.database.connect() as connection:
            page = read_page(
                connection, store.tables, kind, names=[sort], sort=Sort(sort, descending), after=after, limit=7
            )  # fmt: skip
        found += [(row[sort], row["id"]) for row in page.rows]
        after, more = After(*found[-1]), page.more
    return found


def statement_of(store: Store, kind: Kind, condition: FieldCondition) -> tuple[str, Any]:
    """The statement that finds what a condition holds of, and its parameters."""
    sent: list[tuple[str, Any]] = []

    def listen(_connection: Any, _cursor: Any, sql: str, parameters: Any, _context: Any, _many: bool) -> None:
        sent.append((sql, parameters))

    sa.event.listen(store.database, "before_cursor_execute", listen)
    read_ids(store, kind, [condition])
    sa.event.remove(store.database, "before_cursor_execute", listen)
    return next(each for each in sent if kind.plural in each[0])


def plan_of(store: Store, kind: Kind, condition: FieldCondition) -> str:
    """How the database finds the ids of a page."""
    sql, parameters = statement_of(store, kind, condition)
    dialect = store.database.dialect.name
    with store.database.connect() as connection:
        if dialect == "postgresql":
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
            connection.exec_driver_sql("SET LOCAL enable_sort = off")
        explain = "EXPLAIN QUERY PLAN " if dialect == "sqlite" else "EXPLAIN "
        rows = connection.exec_driver_sql(explain + sql, parameters).all()
    return "\n".join(str(tuple(row)) for row in rows)


def nodes_of(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for each in plan.get("Plans", ()):
        yield from nodes_of(each)


def test_postgresql_filters_each_row_once_if_it_has_no_statistics(migrated_postgresql_url: str) -> None:
    """It expects one row then, and would run a part of the statement again for each row of another part."""
    store = opened(migrated_postgresql_url, builtin_kinds())
    filled(store)
    sql, parameters = statement_of(store, store.kinds["instance"], FieldCondition("metadata", "eq", ("web",), "app"))
    with store.database.connect() as connection:
        ((found,),) = connection.exec_driver_sql(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", parameters).scalars()
    filtering = [each for each in nodes_of(found["Plan"]) if "metadata" in each.get("Filter", "")]
    rows = sum(e["Actual Loops"] * (e["Actual Rows"] + e["Rows Removed by Filter"]) for e in filtering)
    assert rows == store.load().snapshot().count("instance")
    store.close()
    store.database.dispose()


def test_a_filter_by_an_indexed_field_uses_its_index_and_reads_no_other_kind(store: Store) -> None:
    filled(store)
    tables = {kind.plural for kind in store.kinds.values()}
    for kind in store.kinds.values():
        for name in kind.filter_indexes:
            is_text = kind.fields[name].python is str
            condition = FieldCondition(name, "eq", ("nothing" if is_text else True,))
            plan = plan_of(store, kind, condition)
            assert f"ix_{kind.plural}_{name}" in plan, plan
            assert not any(f"'{other}'" in plan or f"on {other} " in plan for other in tables - {kind.plural}), plan


def test_a_filter_by_another_field_has_no_index_to_use(store: Store) -> None:
    """The test before could not fail otherwise."""
    filled(store)
    assert "ix_instances_flavor" not in plan_of(
        store, store.kinds["instance"], FieldCondition("flavor_name", "eq", ("x",))
    )


def test_a_search_finds_names_and_ids_exactly_and_whole_ones_first(store: Store) -> None:
    filled(store)
    entities = list(store.load().snapshot().all("instance"))
    with store.database.connect() as connection:
        for text in TEXTS:
            if not text:
                continue
            hits = search.search(connection, store.tables, {"instance": store.kinds["instance"]}, None, text, 500)
            expected = {e.id for e in entities if text in (e.name or "") or text in e.id}  # type: ignore[attr-defined]
            assert {hit.id for hit in hits} == expected, text
            assert [hit.rank for hit in hits] == sorted(hit.rank for hit in hits)
            exact = [e.id for e in entities if text in (e.name, e.id)]  # type: ignore[attr-defined]
            assert {hit.id for hit in hits if hit.rank == 0} == set(exact)
            kind = store.kinds["instance"]
            of_name = [e.id for e in entities if e.name == text]  # type: ignore[attr-defined]
            assert search.ids_of(connection, store.tables, kind, text, scope=None, limit=500) == sorted(of_name)
