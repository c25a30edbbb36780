# SPDX-License-Identifier: Apache-2.0
"""Stored events: parked until their entity exists, or in quarantine until an operator replays or drops them."""

from __future__ import annotations

import datetime
import logging

import msgspec
import pytest
from oslo_config import cfg

from tests.functional.storage.conftest import on_one_database
from tests.functional.storage.writing import commit, cycle_on, make, meter, naming, rename, rows
from tests.simulated import event, told, whole
from watcher_sync.commit.batch_dispatch import CommitLimits
from watcher_sync.commit.replay import decoded_again, replay, replay_quarantined
from watcher_sync.commit.stats import CommitStats
from watcher_sync.conf import retention as retention_conf
from watcher_sync.dispatch import Dispatcher
from watcher_sync.engine.retention import RetentionWorker
from watcher_sync.events import CLOUD_EVENTS, Event
from watcher_sync.exceptions import HeadMoved
from watcher_sync.model.changes import Outcome
from watcher_sync.model.transaction import Transaction
from watcher_sync.storage.stored.parking import ParkedEvents
from watcher_sync.storage.stored.quarantine import NoSuchEvent, Quarantine
from watcher_sync.storage.writing.commits import Commit

DATABASES = ["sqlite", "postgresql", "mariadb"]


def test_an_event_that_is_delivered_again_is_parked_once(store):
    cycle = cycle_on(store, naming())
    commit(cycle, rename(1), rename(1), rename(2, version="3"))
    commit(cycle, rename(1))
    assert [(r.event_id, r.kind, r.entity_id, r.deliveries) for r in sorted(rows(store, "parked"))] == [
        ("event-1", "meter", "a", 3),
        ("event-2", "meter", "a", 1),
    ]
    assert cycle.stats.total(Outcome.PARKED) == 4


def test_parked_events_are_applied_in_order_as_soon_as_their_entity_is_there(store):
    cycle = cycle_on(store, naming())
    commit(cycle, rename(1, version="2", owner="first"), rename(2, version="3", owner="second"), rename(3, "b"))
    commit(cycle, make(4))
    assert cycle.model.get("meter", "a").owner == "second"
    assert [r.entity_id for r in rows(store, "parked")] == ["b"]
    assert whole(store.load()) == whole(cycle.model)


@on_one_database
def test_parked_events_are_applied_when_another_writer_makes_their_entity(new_store):
    cycle, other = cycle_on(new_store(), naming()), cycle_on(new_store(), naming())
    commit(cycle, rename(1))
    commit(other, make(2))
    cycle.catch_up()
    assert cycle.model.get("meter", "a").owner == "renamed"
    assert rows(cycle.store, "parked") == []
    other.catch_up()
    assert whole(other.model) == whole(cycle.model) == whole(cycle.store.load())


def made_by_the_api(store):
    """The entity "a", whose parked events no engine has seen yet."""
    transaction = Transaction(store.load())
    transaction.apply(told(2), [meter("a", owner="made")])
    store.commit(Commit(generation=0, staged=transaction.staged()))


@on_one_database
def test_parked_events_are_applied_by_the_process_that_is_started_next(new_store):
    commit(cycle_on(new_store(), naming()), rename(1))
    made_by_the_api(new_store())
    cycle = cycle_on(new_store(), naming())
    cycle.catch_up()
    assert cycle.model.get("meter", "a").owner == "renamed"
    assert rows(cycle.store, "parked") == []


def recorded(event):
    return msgspec.structs.replace(event, envelope=CLOUD_EVENTS)


@on_one_database
def test_a_replay_does_not_count_the_parked_events_of_others(new_store):
    commit(cycle_on(new_store(), naming()), rename(1))
    made_by_the_api(new_store())
    store = new_store()
    counts = replay(store, naming(), [recorded(make(3, "b"))], batch_size=500)
    assert (counts["read"], counts["applied"], counts["parked"]) == (1, 1, 0)
    assert rows(store, "parked") == []
    assert store.load().get("meter", "a").owner == "renamed"


@on_one_database
def test_a_replay_counts_an_event_that_it_parks_and_applies_as_read_once(new_store):
    events = [recorded(rename(1)), recorded(rename(2, "b")), recorded(make(3))]
    counts = replay(new_store(), naming(), events, batch_size=1)
    assert (counts["read"], counts["applied"], counts["parked"]) == (3, 2, 2)


@pytest.mark.parametrize("any_migrated_url", ["sqlite"], indirect=True)
def test_an_event_that_is_parked_again_is_still_waited_for(new_store):
    """Its entity existed when it was unparked, and another writer deleted the entity before the commit."""
    store, other = new_store(), cycle_on(new_store(), naming())
    cycle = cycle_on(store, naming())
    commit(cycle, rename(1, version="8"))
    commit(other, make(2, "b"))
    slot = {"n": 0}
    plain = store.commit

    def overtaken(work):
        if work.unparked and not slot["n"]:
            slot["n"] += 1
            commit(other, event(3, "drop", data="a"))
            raise HeadMoved("overtaken")
        plain(work)

    store.commit = overtaken
    commit(cycle, make(4))
    assert slot["n"] == 1
    assert [r.event_id for r in rows(store, "parked")] == ["event-1"]
    assert cycle._awaited.count(("meter", "a")) == 1


def test_parked_events_whose_time_is_over_expire_once_with_one_warning(store, caplog):
    conf = cfg.ConfigOpts()
    conf.register_opts(retention_conf.OPTS, group=retention_conf.GROUP)
    conf([], default_config_files=[], default_config_dirs=[])
    stats = CommitStats()
    cycle = cycle_on(store, naming(), limits=CommitLimits(parked_ttl=-1.0))
    commit(cycle, rename(1), rename(2, "b"))
    commit(cycle_on(store, naming(), limits=CommitLimits(parked_ttl=3600.0)), rename(3, "c"))
    worker = RetentionWorker(conf, store, stats)
    with caplog.at_level(logging.WARNING):
        worker.purge_now()
        worker.purge_now()
    warnings = [r.getMessage() for r in caplog.records if "expired" in r.getMessage()]
    assert warnings == ["2 parked events expired because their entity never came, such as rename for meter a"]
    assert stats.expired == 2
    assert [r.entity_id for r in rows(store, "parked")] == ["c"]
    assert ParkedEvents(store).awaited() == {("meter", "c"): 1}


def bad(number, text="bad"):
    return Event(id=f"event-{number}", type="told", source="test", data=text.encode(), undecodable="no JSON")


def test_a_bad_event_that_is_delivered_again_is_in_quarantine_once_and_counted(store):
    cycle = cycle_on(store)
    commit(cycle, bad(1), bad(1), bad(2))
    commit(cycle, bad(1))
    assert [(r["event_id"], r["deliveries"], r["reason"]) for r in Quarantine(store).page()] == [
        ("event-1", 3, "no JSON"),
        ("event-2", 1, "no JSON"),
    ]


def test_the_quarantine_is_paged_shown_and_dropped_by_id(store):
    commit(cycle_on(store), *(bad(i, f"text {i}") for i in range(5)))
    quarantine = Quarantine(store)
    ids = [row["id"] for row in quarantine.page()]
    assert [r["id"] for r in quarantine.page(after=ids[1], limit=2)] == ids[2:4]
    assert quarantine.show(ids[3])["text"] == "text 3"
    with pytest.raises(NoSuchEvent, match="id 999999"):
        quarantine.drop([ids[0], 999999])
    assert quarantine.count() == 5
    quarantine.drop(ids[:2])
    assert [row["id"] for row in quarantine.page()] == ids[2:]


@on_one_database
def test_quarantined_events_that_are_replayed_are_applied_or_stay_refused(store):
    class Broken:
        events = {"rename": "rename"}  # noqa: RUF012

        def rename(self, event, view):
            raise ZeroDivisionError("a bug")

    commit(cycle_on(store, Dispatcher([("broken", Broken())])), rename(1), bad(2))
    first = Quarantine(store).page()[0]["id"]
    assert Quarantine(store).show(first)["detail"].rstrip().endswith("ZeroDivisionError: a bug")
    commit(cycle_on(store, naming()), make(3))
    stored = [(i, msgspec.structs.replace(e, source="replay")) for i, e in Quarantine(store).events()]
    before = Quarantine(store).page()[1]
    result = replay_quarantined(store, naming(), stored, batch_size=10)
    assert (result["applied"], result["quarantined"], result["read"]) == (1, 1, 2)
    (left,) = Quarantine(store).page()
    assert {**left, "reason": ""} == {**before, "reason": ""}
    assert store.load().get("meter", "a").owner == "renamed"


@on_one_database
def test_cursors_move_with_the_commit_that_names_them(store):
    cycle = cycle_on(store)
    commit(cycle, told(1, meter("a")), cursors={"one": "1", "two": "x" * 5000})
    commit(cycle, cursors={"one": "2"})
    assert store.cursors() == {"one": "2", "two": "x" * 5000}


def test_a_stored_event_has_its_time_to_the_microsecond(store):
    time = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=datetime.UTC)
    commit(cycle_on(store), Event(id="e", type="told", source="test", time=time, data=b"x", undecodable="no"))
    ((_, kept),) = Quarantine(store).events()
    assert (kept.time, kept.data, kept.undecodable is not None) == (time, b"x", True)


STREAM = (1_785_000_000_123_456, 2**60)
"""An epoch in microseconds and a sequence, both beyond 32 bits."""


@on_one_database
def test_a_quarantined_event_keeps_its_channel_and_its_place_in_the_stream(store):
    event = Event(id="e", type="told", source="test", data=b"x", undecodable="no", channel="dcm.vm", sequence=STREAM)
    commit(cycle_on(store), event, bad(2))
    (_, kept), (_, without) = Quarantine(store).events()
    assert (kept.channel, kept.sequence) == ("dcm.vm", STREAM)
    assert (without.channel, without.sequence) == ("", None)
    first = Quarantine(store).page()[0]
    assert (first["channel"], first["stream_epoch"], first["stream_sequence"]) == ("dcm.vm", *STREAM)


@on_one_database
def test_a_parked_event_keeps_its_channel_and_its_place_in_the_stream(store):
    cycle = cycle_on(store, naming())
    commit(cycle, msgspec.structs.replace(rename(1), channel="dcm.vm", sequence=STREAM), rename(2, "b"))
    events = ParkedEvents(store).portion({("meter", "a"): 0, ("meter", "b"): 0}).events
    assert [(e.id, e.channel, e.sequence) for e in events] == [
        ("event-1", "dcm.vm", STREAM),
        ("event-2", "", None),
    ]


def test_an_undecodable_event_that_is_decoded_again_keeps_its_channel_and_its_sequence():
    event = Event(
        id="e",
        type="undecodable",
        source="test",
        data=b'{"specversion":"1.0","id":"i","source":"s","type":"t"}',
        undecodable="delivered too often",
        channel="dcm.vm",
        sequence=STREAM,
    )
    again = decoded_again(1, event)
    assert (again.id, again.undecodable, again.channel, again.sequence) == ("i", None, "dcm.vm", STREAM)
