# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811 - pytest finds a fixture by the name of a parameter
"""The threat model says of each operation what bounds its work, and the worst reads stay within it.

The work is counted as steps of SQLite's virtual machine, so it does not depend on the machine.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.simulated import by_facet, telling, told
from tests.unit.api.conftest import Client, application, client, conf, store  # noqa: F401 - fixtures
from tests.unit.security.test_parsers import filled, operations  # noqa: F401 - a fixture
from watcher_sync.api import service
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.model.changes import Upsert
from watcher_sync.storage.writing.store import Store

PAGE = Path("doc/source/admin/security.rst")
OPERATION = re.compile(r"``((?:GET|POST|PUT|DELETE) [^`]+)``")

ROWS = 300
HOST = "host"
STEPS_OF_A_ROW = 500
"""For each row of the model. The most costly read is a list with as many members in its filters as there may be."""
STEPS_OF_A_REQUEST = 20_000
"""Beside the rows."""
UNIT = 100
"""Steps after which SQLite reports."""

_MEMBERS = "&".join(
    f"metadata[k{i}]={'nin' if i < 9 else 'in'}:{','.join(f'v{i}{n}' for n in range(10))}" for i in range(10)
)
"""All values that a request may have. Each row matches all conditions but the last one."""

WORST: dict[str, list[str]] = {
    "GET /v1/{kinds}": ["limit=1000", "sort=-name&limit=1000", "as_of=SEQ&limit=1"],
    "GET /v1/instances": [_MEMBERS, f"{_MEMBERS}&sort=-name&limit=1", f"{_MEMBERS}&as_of=SEQ&limit=1"],
    "GET /v1/search": ["q=zz", "q=zz&as_of=SEQ"],
    "GET /v1/graph": [f"root=compute_node/{HOST}&depth=5&limit=500"],
    "GET /v1/impact": [f"root=compute_node/{HOST}"],
    "GET /v1/topology": ["", "search=zz"],
    "GET /v1/diff": ["from=1", "from=1&limit=1"],
    "GET /v1/states": ["limit=10000"],
    "GET /v1/events": ["since=0&limit=1000", "since=0&id=zz"],
    "GET /v1/{kinds}/{entity_id}": ["", "as_of=SEQ"],
}
"""Operation -> its queries beside the plain one. SEQ is the one before the last."""


def section() -> str:
    text = PAGE.read_text()
    begin = text.index(".. _costs:")
    return text[begin : text.index(".. _parsers:")]


def shape(store: Store, method: str, path: str) -> str:
    """An operation as the page names it: all kinds are one."""
    plurals = "|".join(kind.plural for kind in store.kinds.values())
    return f"{method} {re.sub(f'/({plurals})(?=/|$)', '/{kinds}', path)}"


def fill(store: Store, begin: int, end: int) -> None:
    """Commit instances on one host, each with members in its metadata."""
    cycle = CommitCycle(store, store.load(), telling())
    members = {f"k{n}": f"w{n}" for n in range(10)}
    changes = [Upsert("compute_node", HOST, "1", by_facet("compute_node", hypervisor_hostname=HOST))]
    changes += [
        Upsert("instance", f"i{n:05}", "1", by_facet("instance", name=f"n{n}", host=HOST, metadata=members))
        for n in range(begin, end)
    ]
    for change in changes[:3], changes[3:]:
        cycle.run(Batch(events=[told(begin + len(change), *change)]))


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], int]]:
    """The steps of all SQLite databases of this process."""
    count = 0

    def step() -> None:
        nonlocal count
        count += UNIT

    def connected(connection: Any, _record: object) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.set_progress_handler(step, UNIT)

    monkeypatch.setattr(service, "limited", lambda *_: contextlib.nullcontext())  # it would replace this handler
    sa.event.listen(sa.pool.Pool, "connect", connected)
    yield lambda: count
    sa.event.remove(sa.pool.Pool, "connect", connected)


def test_no_read_does_more_than_its_share_of_work_for_each_row_of_the_model(conf, store, steps, operations) -> None:
    store.database.dispose()
    client = Client(application.__wrapped__(conf, store))
    costs: dict[str, list[int]] = {}
    for begin, end in (0, ROWS), (ROWS, 4 * ROWS):
        fill(store, begin, end)
        for method, path, _ in operations:
            if method != "GET":
                continue
            named = filled(path, HOST if "compute_nodes" in path else "i00000")
            for query in {"", *WORST.get(shape(store, method, path), ()), *WORST.get(f"GET {path}", ())}:
                before = steps()
                client.simulate_get(named, query_string=query.replace("SEQ", str(end)))
                costs.setdefault(f"{named}?{query}", []).append(steps() - before)
    wrong = {
        name: cost
        for name, cost in costs.items()
        if any(c > STEPS_OF_A_REQUEST + STEPS_OF_A_ROW * n for c, n in zip(cost, (ROWS, 4 * ROWS), strict=True))
    }
    assert max(cost[1] for cost in costs.values()) > 4 * ROWS  # something was counted
    assert wrong == {}


def test_each_operation_of_the_document_is_in_one_row_of_the_page(store, operations) -> None:
    declared = {shape(store, method, path) for method, path, _ in operations}
    named = OPERATION.findall(" ".join(section().split()))
    assert sorted(named) == sorted(declared)
