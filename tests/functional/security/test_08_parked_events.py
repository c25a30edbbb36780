# SPDX-License-Identifier: Apache-2.0
"""Many events that wait for one entity are applied in bounded commits, outside the request that creates the entity."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from tests.functional.storage.writing import commit, cycle_on, make, naming, rename, rows
from tests.simulated import event
from watcher_sync.commit.cycle import Batch
from watcher_sync.commit.direct import DirectWriter
from watcher_sync.storage.parking import PORTION_EVENTS
from watcher_sync.storage.quotas import Quotas, Usage
from watcher_sync.storage.store import Store

MANY = 20_000


def park(a_store: Store, number: int, entity_id: str = "a") -> Any:
    cycle = cycle_on(a_store, naming())
    for start in range(0, number, 2_000):
        events = [rename(n, entity_id, version=f"2{n:07d}", owner=f"o{n}") for n in range(start, start + 2_000)]
        cycle.run(Batch(events=events[: number - start]))
    return cycle


@pytest.mark.parametrize("any_database_url", ["sqlite"], indirect=True)
def test_a_request_that_creates_an_awaited_entity_writes_one_row_and_the_engine_applies_the_rest(new_store):
    engine_store = new_store()
    engine_store._writer._entity_quota._limit = lambda: 0
    cycle = park(engine_store, MANY)
    api = new_store()
    statements: list[str] = []
    sa.event.listen(api.database, "before_cursor_execute", lambda _c, _k, sql, *_: statements.append(sql))
    outcomes, _ = DirectWriter(api, naming(), lambda: 3600.0).run([make(1)])
    assert [outcome.value for outcome in outcomes] == ["applied"]
    assert len(statements) < 20, "the request's transaction is short"
    assert len(rows(api, "parked")) == MANY
    other, commits = cycle_on(new_store(), naming()), []
    cycle.catch_up()
    while cycle.has_ready:
        commits.append(len(rows(engine_store, "parked")))
        commit(other, event(len(commits), "make", data=f"b{len(commits)}"))  # another writer gets in between
        cycle.catch_up()
    assert rows(engine_store, "parked") == []
    assert len(commits) >= MANY // PORTION_EVENTS // 2 - 1  # the other writer applies portions, too
    assert cycle.model.get("meter", "a").owner == f"o{MANY - 1}"


def test_events_that_an_api_worker_parked_are_applied_when_the_api_creates_their_entity(new_store):
    cycle = cycle_on(new_store(), naming())
    writer = DirectWriter(new_store(), naming(), lambda: 3600.0)
    writer.run([rename(1)])
    writer.run([make(2)])
    cycle.catch_up()
    assert cycle.model.get("meter", "a").owner == "renamed"
    assert rows(cycle.store, "parked") == []


def test_events_that_an_api_worker_parked_are_applied_when_the_engine_creates_their_entity(new_store):
    cycle = cycle_on(new_store(), naming())
    DirectWriter(new_store(), naming(), lambda: 3600.0).run([rename(1)])
    commit(cycle, make(2))
    assert len(rows(cycle.store, "parked")) == 1
    cycle.add_awaited(cycle._parked.awaited())  # as the retention worker does
    cycle.catch_up()
    assert cycle.model.get("meter", "a").owner == "renamed"
    assert rows(cycle.store, "parked") == []


@pytest.mark.parametrize("any_database_url", ["sqlite", "postgresql", "mariadb"], indirect=True)
def test_beyond_their_quotas_the_oldest_parked_events_are_dropped_and_counted(store):
    quotas = Quotas(parked=Usage(100, 0), parked_of_entity=20)
    store._writer._entity_quota._limit = lambda: quotas.parked_of_entity
    store._writer._parked_quota._limit = lambda: quotas.parked
    cycle = cycle_on(store, naming())
    commit(cycle, rename(9_000, "innocent"))
    for start in range(0, 500, 10):
        commit(cycle, *(rename(n, "flooded", version=f"2{n:07d}") for n in range(start, start + 10)))
    left = rows(store, "parked")
    flooded = [row.event_id for row in left if row.entity_id == "flooded"]
    assert [row.event_id for row in left if row.entity_id == "innocent"] == ["event-9000"]
    assert flooded == [f"event-{n}" for n in range(500 - len(flooded), 500)]
    assert 10 <= len(flooded) <= 22
    assert store.dropped.counts["parked", "test"] == 500 - len(flooded)
    commit(cycle, make(9_001, "flooded"), event(9_002, "test"))
    assert cycle.model.get("meter", "flooded").owner == "renamed"
