# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811 - pytest finds a fixture by the name of a parameter
"""What the dearest request of each operation costs is what the page of the threat model says."""

from __future__ import annotations

import itertools
import re
import urllib.parse
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.simulated import by_facet, telling, told
from tests.unit.api.conftest import application, client, conf, store  # noqa: F401 - fixtures
from tests.unit.security.test_parsers import operations  # noqa: F401 - a fixture
from watcher_sync.api.entities.entity_filters import MAX_FILTERS, MAX_MEMBERS, MAX_OF_FIELD
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.model.changes import Upsert
from watcher_sync.model.kinds import Kind
from watcher_sync.storage.writing.store import Store

PAGE = Path("doc/source/admin/security.rst")
ROW = re.compile(r"^\* \*\*(?P<what>[^*]+)\*\*: (?P<text>.*?)(?=^\* |^[^ \n]|\Z)", re.DOTALL | re.MULTILINE)
OPERATION = re.compile(r"``((?:GET|POST|PUT|DELETE) [^`]+)``")
STEPS = re.compile(r"(\d+) steps")

ROWS = 300
"""Entities of each kind. Each has a row in the journal."""
EMPTY_DATABASE_STEPS = 20_000
"""Of a request that reads no row of these: of the positions, the sources and the schema."""
TICK = 100
"""Steps of SQLite's virtual machine of which the test learns."""

VALUES = ("nin:x{n},y{n}", "neq:zz", "neq:1", "neq:true", "neq:2026-01-31T12:00:00Z", "1", "true", "zz")
NAMED = {
    "root": "instance/instance-000001",
    "q": "zz",
    "fields": "id",
    "ids": "x",
    "since": "1",
    "from": "1",
    "to": "2",
    "as_of": "1",
}
"""Parameter -> a value that makes sense. Texts without one are searched for in vain."""


def section() -> str:
    text = PAGE.read_text()
    begin = text.index(".. _costs:")
    return text[begin : text.index(".. _parsers:")]


def rows() -> Iterator[tuple[str, list[str], str]]:
    """What each row of the page is about, its operations and its text."""
    for match in ROW.finditer(section()):
        yield match["what"], OPERATION.findall(" ".join(match["text"].split())), " ".join(match["text"].split())


def shape(store: Store, method: str, path: str) -> str:
    """An operation as the page names it: all kinds are one."""
    plurals = "|".join(kind.plural for kind in store.kinds.values())
    return f"{method} {re.sub(f'/({plurals})(?=/|$)', '/{kinds}', path)}"


def test_each_operation_of_the_document_is_in_one_row_of_the_page(store, operations) -> None:
    declared = {shape(store, method, path) for method, path, _ in operations}
    named = [each for _, names, _ in rows() for each in names]
    assert sorted(named) == sorted(declared)


class Meter:
    """Counts the steps of every statement, on the database of the store and on the copies of the past."""

    def __init__(self) -> None:
        self.steps = 0

    def listen(self, connection: sa.Connection, *_: Any) -> None:
        """Count those of the statement that comes."""
        connection.connection.driver_connection.set_progress_handler(self._tick, TICK)

    def _tick(self) -> None:
        self.steps += TICK


@pytest.fixture
def meter() -> Iterator[Meter]:
    """Of all databases of the process."""
    meter = Meter()
    sa.event.listen(sa.Engine, "before_cursor_execute", meter.listen)
    yield meter
    sa.event.remove(sa.Engine, "before_cursor_execute", meter.listen)


@pytest.fixture
def full(store: Store) -> Store:
    """Entities of each kind, whose objects and lists have members."""
    write(store, range(ROWS))
    return store


def write(store: Store, numbers: Iterable[int]) -> int:
    """An entity of each kind for each number, which its values have, too; gives the seq.

    The number of an entity is that modulo ROWS.
    """
    cycle = CommitCycle(store, store.load(), telling())
    for name, kind in store.kinds.items():
        events = []
        for n in numbers:
            texts = {f.name: f"{f.name}-{n}" for f in kind.fields.values() if f.python is str and not f.words}
            objects = {
                f.name: {f"m{i}": f"v{n}" for i in range(10)}
                for f in kind.fields.values()
                if f.python is dict and name != "vnf_instance"  # whose objects have forms of their own
            }
            values = {f: v for f, v in {**texts, **objects}.items() if kind.fields[f].facet is not None}
            made = kind.from_json(values)
            change = Upsert(name, f"{name}-{n % ROWS:06}", f"{n // ROWS}", by_facet(name, **made))
            events.append(told(f"{name}{n}", change))
        cycle.run(Batch(events=events))
    return cycle.model.generation


def dearest(parameters: list[dict[str, Any]]) -> Iterator[str]:
    """Query strings: each parameter at its most alone, and then all the filters, sort and limit together."""
    query = [each for each in parameters if each["in"] == "query"]
    needed = [(each["name"], most(each)[0]) for each in query if each.get("required")]
    limits = [(each["name"], most(each)[0]) for each in query if each["name"] == "limit"]
    yield urllib.parse.urlencode([*needed, *limits])
    for each in query:
        if not each.get("required") and each["name"] != "limit":
            yield urllib.parse.urlencode([*needed, *limits, (each["name"], most(each)[0])])
    filters = [(name, value) for each in query for name, value in filters_of(each)]
    filters.sort(key=lambda each: (["nin:" in each[1], "neq:" in each[1]], "[" in each[0]), reverse=True)
    if filters:
        orders = [(each["name"], most(each)[0]) for each in query if each["name"] == "sort"]
        yield urllib.parse.urlencode([*needed, *limits, *orders, *filters[:MAX_FILTERS]])


def most(parameter: dict[str, Any]) -> list[str]:
    schema = parameter["schema"]
    if "enum" in schema:
        return [str(schema["enum"][-1])]
    if (name := parameter["name"]) in NAMED:
        return [NAMED[name]]
    kinds = schema.get("type")
    if "integer" in (kinds or ()):
        return [str(schema.get("maximum", 1))]
    if kinds == "boolean":
        return ["true"]
    return [value for _, value in filters_of(parameter)][:1] or ["zz"]


def filters_of(parameter: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The filters of one field."""
    schema, name = parameter["schema"], parameter["name"]
    if schema.get("type") == "object":
        values, names = schema["additionalProperties"]["items"], [f"{name}[m{i}]" for i in range(MAX_MEMBERS)]
    elif "x-form" in schema.get("items", {}):
        values, names = schema["items"], [name]
    else:
        return
    for member in names:
        for n in range(MAX_OF_FIELD):
            fitting = [v for v in (each.format(n=n) for each in VALUES) if re.search(values.get("pattern", ""), v)]
            yield from ((member, value) for value in fitting[:1])


def named(store: Store, path: str) -> tuple[Kind | None, str]:
    """The kind of a path, if it has one, and the path with an id."""
    kind = next((k for k in store.kinds.values() if f"/{k.plural}" in path), None)
    return kind, re.sub(r"\{.*?\}", "x" if kind is None else f"{kind.name}-000001", path)


@pytest.mark.slow
def test_no_operation_costs_more_steps_of_a_row_than_the_page_says(full, meter, client, operations) -> None:
    bounds = {each: STEPS.search(text) for _, names, text in rows() for each in names}
    found, accepted = {}, set()
    for method, path, operation in operations:
        name = shape(full, method, path)
        if method != "GET" or (bound := bounds[name]) is None:
            continue
        _, item = named(full, path)
        for query in dearest(operation["parameters"]):
            meter.steps = 0
            status = client.simulate_get(item, query_string=query).status_code
            assert status == 200 if query.count("nin") > 1 else status < 500, (item, query, status)
            if status == 200:
                accepted.add(name)
            if meter.steps - EMPTY_DATABASE_STEPS > found.get(name, (-1,))[0]:
                found[name] = (meter.steps - EMPTY_DATABASE_STEPS, item, query, status, int(bound[1]))
    assert accepted >= {"GET /v1/{kinds}", "GET /v1/search", "GET /v1/graph", "GET /v1/compute_model", "GET /v1/diff"}
    assert {n: v for n, v in found.items() if v[0] > v[-1] * ROWS} == {}


@pytest.mark.slow
def test_no_read_of_the_past_costs_more_steps_of_a_row_and_a_change_than_the_page_says(
    full, meter, client, operations
) -> None:
    bound = next(int(STEPS.search(text)[1]) for what, _, text in rows() if "as_of" in what)
    created, journal, found, accepted = full.load().generation, full.tables.journal.c, [], set()
    head = write(full, range(ROWS, 2 * ROWS))
    moments = itertools.count()
    for method, path, operation in operations:
        if not any(each["name"] == "as_of" for each in operation["parameters"]):
            continue
        kind, item = named(full, path)
        first, *_, last = dearest(operation["parameters"])
        for query, last_seq in itertools.product((first, last), (head, created, created // 2)):
            moment = last_seq - next(moments)  # no two are one, because a copy is made once
            meter.steps = 0
            status = client.simulate_get(item, query_string=f"{query}&as_of={moment}").status_code
            steps = meter.steps - EMPTY_DATABASE_STEPS
            later = sa.select(sa.func.count()).where(journal.seq > moment)
            with full.connect() as connection:
                changes = connection.execute(later.where(journal.kind == kind.name) if kind else later).scalar()
            found.append((steps / (changes + ROWS * (1 if kind else len(full.kinds))), item, query, moment))
            if status == 200:
                accepted.add(shape(full, method, path))
    assert accepted >= {"GET /v1/{kinds}", "GET /v1/{kinds}/{entity_id}", "GET /v1/search", "GET /v1/graph"}
    assert bound / 2 < max(found)[0] <= bound, max(found)
