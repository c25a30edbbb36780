# SPDX-License-Identifier: Apache-2.0
"""What is deleted by age has the time of the database's clock, and ages by it, whatever this machine's clock says."""

from __future__ import annotations

import datetime

import pytest
import sqlalchemy as sa

from tests.unit.commit.test_clock_of_writes import Late
from tests.unit.engine.conftest import Spoken, until
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.batch_dispatch import CommitOptions
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.commit.stats import CommitStats
from watcher_sync.dispatch import Dispatcher
from watcher_sync.engine.retention import RetentionWorker, TombstoneForgetting
from watcher_sync.events import Event
from watcher_sync.storage.drifts import FieldDifference, list_drifts, replace_drifts

NOON = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
DAY = 86_400.0
TABLES = ("parked", "tombstones", "quarantine", "journal")
EVENTS = [
    Event(id="late", type="late", source="spoken", data={}),
    Event(id="gone", type="gone", source="spoken", data={}),
    Event(id="bad", type="late", source="spoken", data=b"x", undecodable="no"),
]


class Clock:
    """The time of the database and of this machine in the eyes of the store; the real clock is at another day."""

    def __init__(self, store):
        self.passed = 0.0
        self.store = store
        store.time._clock = store.time._wall = lambda: NOON + datetime.timedelta(seconds=self.passed)
        store.time._monotonic = lambda: self.passed


@pytest.fixture
def clock(store, conf):
    conf.set_override("quarantine_days", 1, group="retention")
    return Clock(store)


def count(store):
    """Rows by table."""
    with store.database.connect() as connection:
        return {
            name: connection.execute(sa.select(sa.func.count()).select_from(getattr(store.tables, name))).scalar_one()
            for name in TABLES
        }


def test_rows_and_tombstones_in_memory_age_by_the_database(store, conf, clock):
    store.time.read()
    model = store.load()
    cycle = CommitCycle(store, model, Dispatcher([("late", Late())]), CommitOptions(now=store.time.now))
    cycle.run(Batch(events=EVENTS))
    worker, forgetting = RetentionWorker(conf, store, CommitStats()), TombstoneForgetting(conf, store, model)

    def age(seconds):
        clock.passed += seconds
        worker.purge_now()
        forgetting._next = 0.0
        forgetting.forget_if_due()

    age(60)
    assert count(store) == dict.fromkeys(TABLES, 1)
    assert model.tombstone("compute_node", "gone") is not None
    age(9 * DAY)
    # One row of the journal remains: it shows which change was the last before each time within the age.
    assert count(store) == dict.fromkeys(TABLES, 0) | {"journal": 1}
    assert model.tombstone("compute_node", "gone") is None


def test_the_rows_of_an_engine_have_the_time_of_the_database(store, clock, run):
    source = Spoken()
    run(source, Dispatcher([("late", Late())]))
    source.say(*EVENTS)
    assert until(lambda: count(store) == dict.fromkeys(TABLES, 1))
    t = store.tables
    columns = (t.parked.c.parked_at, t.parked.c.expires_at, t.tombstones.c.deleted_at, t.quarantine.c.received_at)
    with store.database.connect() as connection:
        found = [connection.execute(sa.select(column)).scalar_one() for column in columns]
    assert [(time - NOON).total_seconds() for time in found] == pytest.approx([0, 3600, 0, 0], abs=60)


def test_a_count_of_the_engine_forgets_the_drifts_that_are_healed(store, conf):
    gone, missing = (
        FieldDifference(kind="instance", entity_id=one, field="", model_value=model, live_value=live, policy="heal")
        for one, model, live in (("a", "a", None), ("b", None, "b"))
    )
    now = datetime.datetime.now(datetime.UTC)
    replace_drifts(store.database, [gone, missing], source="nova", kinds=["instance"], now=now)
    worker = RetentionWorker(conf, store, CommitStats())
    worker.count()
    assert [drift.entity_id for drift in list_drifts(store.database)] == ["b"]
    assert worker.stored_counts.drifts == {"instance": 1}
