# SPDX-License-Identifier: Apache-2.0
"""Many events that wait for one entity are applied in bounded commits, outside the request that creates the entity."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from tests.functional.storage.conftest import on_one_database
from tests.functional.storage.writing import Naming, commit, cycle_on, make, meter, naming, rename, rows
from tests.simulated import event
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.batch_dispatch import CommitLimits
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.commit.direct import DirectWriter
from watcher_sync.dispatch import Dispatcher
from watcher_sync.events import Event
from watcher_sync.exceptions import NotYet, RowRefused
from watcher_sync.model.changes import Change
from watcher_sync.model.view import View
from watcher_sync.storage.stored.parking import PORTION_EVENTS, expire_parked
from watcher_sync.storage.stored.quotas import DroppedEvents, EventQuotas
from watcher_sync.storage.stored.retention import enforce_quotas
from watcher_sync.storage.writing.store import Store

MANY = 6_000


def park(a_store: Store, number: int, entity_id: str = "a") -> Any:
    cycle = cycle_on(a_store, naming())
    for start in range(0, number, 2_000):
        events = [rename(n, entity_id, version=f"2{n:07d}", owner=f"o{n}") for n in range(start, start + 2_000)]
        cycle.run(Batch(events=events[: number - start]))
    return cycle


@pytest.mark.parametrize("any_migrated_url", ["sqlite"], indirect=True)
def test_a_request_creates_an_awaited_entity_in_one_row_and_the_engine_applies_the_rest(new_store):
    engine_store = new_store()
    engine_store._writer._entity_quota._limit = lambda: 0
    cycle = park(engine_store, MANY)
    api = new_store()
    statements: list[str] = []
    sa.event.listen(api.database, "before_cursor_execute", lambda _c, _k, sql, *_: statements.append(sql))
    outcomes, _ = DirectWriter(api, naming()).run([make(1)])
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


@on_one_database
def test_events_that_an_api_worker_parked_are_applied_when_the_api_creates_their_entity(new_store):
    cycle = cycle_on(new_store(), naming())
    writer = DirectWriter(new_store(), naming())
    writer.run([rename(1)])
    writer.run([make(2)])
    cycle.catch_up()
    assert cycle.model.get("meter", "a").owner == "renamed"
    assert rows(cycle.store, "parked") == []


def test_events_that_an_api_worker_parked_are_applied_when_the_engine_creates_their_entity(new_store):
    cycle = cycle_on(new_store(), naming())
    DirectWriter(new_store(), naming()).run([rename(1)])
    commit(cycle, make(2))
    assert len(rows(cycle.store, "parked")) == 1
    cycle.add_awaited(cycle._parked.awaited())  # as the retention worker does
    cycle.catch_up()
    assert cycle.model.get("meter", "a").owner == "renamed"
    assert rows(cycle.store, "parked") == []


@pytest.mark.parametrize("any_migrated_url", ["sqlite", "postgresql", "mariadb"], indirect=True)
def test_beyond_their_quotas_the_oldest_parked_events_are_dropped_and_counted(store):
    quotas = EventQuotas(parked_events_per_source=100, parked_bytes_per_source=0, parked_events_per_entity=20)
    store._writer._entity_quota._quotas = store._writer._parked_quota._quotas = quotas
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


@on_one_database
def test_the_retention_trims_what_was_parked_for_an_entity_under_a_higher_quota(store):
    store._writer._entity_quota._quotas = EventQuotas(parked_events_per_entity=0)
    cycle, dropped = cycle_on(store, naming()), DroppedEvents()
    commit(cycle, *(rename(n, "flooded", version=f"2{n:07d}") for n in range(30)), rename(9_000, "innocent"))
    enforce_quotas(store.database, store.tables, EventQuotas(parked_events_per_entity=20), dropped)
    left = {row.event_id for row in rows(store, "parked")}
    assert left == {"event-9000", *(f"event-{n}" for n in range(10, 30))}
    assert dropped.counts == {("parked", "test"): 10}


class Patient(Naming):
    """A handler whose events wait for an entity that exists: for its reading, or for another entity."""

    events = Naming.events | {"open": "open", "sibling": "sibling"}

    def rename(self, event: Event, view: View) -> Iterator[Change]:
        """The meter has to have a reading, except for owners that do not care."""
        entity_id, version, owner = event.read()
        found = view.get("meter", entity_id)
        if found is None or (found.reading is None and owner != "eager"):
            raise NotYet("meter", entity_id)
        yield meter(entity_id, version, owner=owner)

    def open(self, event: Event, view: View) -> Iterator[Change]:
        """Its reading from now on."""
        entity_id, version, reading = event.read()
        yield meter(entity_id, version, reading=reading)

    def sibling(self, event: Event, view: View) -> Iterator[Change]:
        """Two meters have to be there."""
        for entity_id in event.read():
            if view.get("meter", entity_id) is None:
                raise NotYet("meter", entity_id)
        yield meter(event.read()[0], "2", owner="complete")


def patient() -> Dispatcher:
    return Dispatcher([("patient", Patient())])


def opened(number: int, version: str = "11", reading: int | None = 1) -> Event:
    return event(number, "open", data=["a", version, reading])


def count(cycle: CommitCycle) -> None:
    """As the retention worker and the engine do every 15 seconds."""
    cycle.add_awaited(cycle._parked.awaited())
    cycle.catch_up()


@on_one_database
def test_an_event_that_still_waits_keeps_its_row_and_expires(store):
    now = [datetime.datetime(2026, 11, 22, 6, tzinfo=datetime.UTC)]
    cycle = cycle_on(store, patient(), now=lambda: now[0])
    commit(cycle, make(1), *(rename(n) for n in range(2, 700)))
    before = rows(store, "parked")
    for _ in range(3):
        now[0] += datetime.timedelta(minutes=5)
        count(cycle)
        commit(cycle, event(9_000 + now[0].minute, "make", data="a"))
        while cycle.has_ready:
            cycle.catch_up()
    assert rows(store, "parked") == before
    assert len(expire_parked(store.database, store.tables, now[0] + datetime.timedelta(hours=2))) == len(before)


@on_one_database
def test_a_count_tries_events_of_an_existing_entity_once(store):
    cycle = cycle_on(store, patient())
    commit(cycle, make(1), rename(2))
    count(cycle)
    tried = dict(cycle.stats.as_dict())
    for _ in range(3):
        count(cycle)
        assert not cycle.has_ready
    assert cycle.stats.as_dict() == tried
    commit(cycle, opened(3))
    assert cycle.model.get("meter", "a").owner == "renamed"
    assert rows(store, "parked") == []


@pytest.mark.parametrize("again", [False, True])
@on_one_database
def test_an_event_that_another_process_parked_for_an_existing_entity_is_found(new_store, again):
    cycle, api = cycle_on(new_store(), patient()), DirectWriter(new_store(), patient())
    commit(cycle, make(1))
    if again:  # the engine knew the entity, and its events were applied
        api.run([rename(2)])
        count(cycle)
        api.run([opened(3)])
        cycle.catch_up()
        assert rows(cycle.store, "parked") == []
        api.run([opened(4, "3", None)])
    api.run([rename(5, version="5")])
    assert len(rows(cycle.store, "parked")) == 1
    api.run([opened(6, "4")])
    cycle.follow()
    count(cycle)
    assert rows(cycle.store, "parked") == []


@on_one_database
def test_events_behind_those_that_still_wait_are_applied(store):
    cycle = cycle_on(store, patient())
    commit(cycle, *(rename(n) for n in range(1, PORTION_EVENTS + 100)), rename(2_000, version="3", owner="eager"))
    commit(cycle, make(2_001))
    while cycle.has_ready:
        cycle.catch_up()
    assert cycle.model.get("meter", "a").owner == "eager"
    assert len(rows(store, "parked")) == PORTION_EVENTS + 99


@pytest.mark.parametrize("any_migrated_url", ["sqlite", "postgresql", "mariadb"], indirect=True)
def test_an_event_that_waits_for_another_entity_now_keeps_its_time_and_its_place(store):
    now = [datetime.datetime(2026, 11, 22, 6, tzinfo=datetime.UTC)]
    cycle = cycle_on(store, patient(), now=lambda: now[0])
    commit(cycle, event(1, "sibling", data=["a", "b"]), rename(2, "b"))
    before = sorted(rows(store, "parked"))
    now[0] += datetime.timedelta(minutes=5)
    commit(cycle, make(3, "a"))
    first, second = sorted(rows(store, "parked"))
    assert (first.entity_id, second) == ("b", before[1])
    assert (first.id, first.parked_at, first.expires_at) == (before[0].id, before[0].parked_at, before[0].expires_at)
    commit(cycle, make(4, "b"))
    assert cycle.model.get("meter", "a").owner == "complete"
    assert [row.event_id for row in rows(store, "parked")] == ["event-2"]


@pytest.mark.parametrize("any_migrated_url", ["sqlite"], indirect=True)
def test_events_that_still_wait_stay_when_the_database_refuses_another_one(store, monkeypatch):
    cycle = cycle_on(store, patient())
    commit(cycle, *(rename(n) for n in range(1, 4)), rename(4, owner="eager"))
    plain = store.commit

    def refusing(work):
        if any(staged.event.type == "rename" for staged in work.staged):
            raise RowRefused("too large")
        plain(work)

    monkeypatch.setattr(store, "commit", refusing)
    commit(cycle, make(5))
    assert [row.event_id for row in rows(store, "parked")] == ["event-1", "event-2", "event-3"]
    assert [row.event_id for row in rows(store, "quarantine")] == ["event-4"]


@pytest.mark.parametrize("any_migrated_url", ["sqlite"], indirect=True)
def test_entities_whose_events_expired_are_forgotten(store):
    cycle = cycle_on(store, naming(), limits=CommitLimits(parked_ttl=0.0))
    for start in range(0, 5_000, 1_000):
        commit(cycle, *(rename(n, f"id-{n}") for n in range(start, start + 1_000)))
        expire_parked(store.database, store.tables, datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=1))
        count(cycle)
    assert len(cycle._awaited) <= 2_000, "those of the last two counts"
    for _ in range(2):
        count(cycle)
    assert not cycle._awaited


@pytest.mark.parametrize("any_migrated_url", ["sqlite"], indirect=True)
def test_an_entity_whose_event_was_parked_during_a_count_is_not_forgotten(store):
    cycle = cycle_on(store, naming())
    commit(cycle, rename(1, "first"))
    counted = cycle._parked.awaited()
    cycle.add_awaited(counted)
    late = cycle._parked.awaited()  # the next count begins before the engine's thread takes over this one
    commit(cycle, rename(2, "a"))
    cycle.catch_up()
    cycle.add_awaited(late)
    cycle.catch_up()
    commit(cycle, make(3, "a"))
    assert cycle.model.get("meter", "a").owner == "renamed"
