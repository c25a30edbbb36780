# SPDX-License-Identifier: Apache-2.0
"""A row that the database refuses costs its own event; everything else of the batch is applied."""

from __future__ import annotations

import msgspec
import pytest
import sqlalchemy as sa

from tests.functional.storage.writing import cycle_on, head, meter, rows, seqs
from tests.simulated import telling, told, whole
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.direct import DirectWriter
from watcher_sync.exceptions import DatabaseUnavailable
from watcher_sync.model.changes import Outcome, Upsert
from watcher_sync.storage.stored.quarantine import Quarantine

TOO_LARGE = 2**63


@pytest.mark.parametrize(
    "bad",
    [(0, 3, 4, 12), tuple(range(13)), *(pytest.param((only,), marks=pytest.mark.rare) for only in (0, 7, 12))],
)
def test_the_culprits_are_quarantined_alone_and_in_order_and_the_rest_is_applied(store, bad):
    cycle = cycle_on(store)
    events = [told(i, meter(f"m{i}", reading=TOO_LARGE if i in bad else i)) for i in range(13)]
    cycle.run(Batch(events=events, cursors={"test": "13"}))
    assert [row.event_id for row in rows(store, "quarantine")] == [f"event-{i}" for i in bad]
    assert all(row.reason.startswith("the database refuses it: ") for row in rows(store, "quarantine"))
    assert {row.id for row in rows(store, "meters")} == {f"m{i}" for i in range(13) if i not in bad}
    assert whole(store.load()) == whole(cycle.model)
    assert seqs(store) == list(range(1, head(store) + 1))
    assert store.cursors() == {"test": "13"}
    assert cycle.stats.total(Outcome.QUARANTINED) == len(bad)
    assert cycle.stats.total(Outcome.APPLIED) == 13 - len(bad)


def test_two_events_of_one_entity_are_applied_in_order_around_the_culprit(store):
    cycle = cycle_on(store)
    events = [
        told(1, meter("a", "1", owner="first", reading=1)),
        told(2, meter("b", "1", reading=TOO_LARGE)),
        told(3, meter("a", "2", owner="second")),
    ]
    cycle.run(Batch(events=events))
    assert [(r.id, r.owner, r.reading) for r in rows(store, "meters")] == [("a", "second", 1)]


def test_a_nul_in_a_name_costs_its_own_event_on_every_database(store):
    cycle = cycle_on(store)
    events = [told(1, Upsert("instance", "good", "1", {"state": {}, "details": {"name": "x"}}))]
    events.append(told(2, Upsert("instance", "nul", "1", {"state": {}, "details": {"name": "a\0b"}})))
    cycle.run(Batch(events=events))
    (kept,) = rows(store, "quarantine")
    assert (kept.event_id, kept.reason) == (
        "event-2",
        "the database refuses it: instance nul: name has a NUL character",
    )
    assert whole(store.load()) == whole(cycle.model)
    assert cycle.model.get("instance", "good").name == "x"


@pytest.mark.parametrize("odd", ["a\0b", "\ud800"])
def test_an_odd_id_of_an_event_costs_nothing(store, odd):
    cycle = cycle_on(store)
    cycle.run(Batch(events=[msgspec.structs.replace(told(4, meter("m", reading=4)), id=odd)]))
    assert rows(store, "quarantine") == []
    assert [row.event_id for row in rows(store, "journal")] == [odd.replace("\0", "\ufffd").replace("\ud800", "\ufffd")]
    assert whole(store.load()) == whole(cycle.model)


def test_whatever_an_events_data_is_it_can_be_quarantined_and_read_again(store):
    """No handler knows the type of these, and none is asked: the source could not decode them."""
    cycle = cycle_on(store)
    from watcher_sync.events import Event

    every = ["\ud800", {("a", "b"): 1}, object, 2**70, float("nan"), b"\xff\0", "x\0y", None]
    for number, data in enumerate(every):
        bad = Event(id=f"{number}\0\ud800", type="t" * 300, source="test", data=data, undecodable="no\nJSON")
        cycle.run(Batch(events=[bad]))
    quarantine = Quarantine(store)
    found = quarantine.page()
    assert sorted(row["event_id"] for row in found) == [f"{number}\ufffd\ufffd" for number in range(len(every))]
    assert {quarantine.show(row["id"])["reason"] for row in found} == {"no\nJSON"}
    assert sorted(i for i, _ in quarantine.events()) == sorted(row["id"] for row in found)


def test_a_row_beyond_the_heads_is_no_reason_to_quarantine_an_event(store):
    """A dump that is loaded has the journal before its head."""
    cycle = cycle_on(store)
    cycle.run(Batch(events=[told(1, meter("a", reading=1))]))
    t = store.tables.journal
    with store.database.begin() as connection:
        row = dict(connection.execute(sa.select(t)).one()._mapping)
        connection.execute(sa.insert(t).values(row | {"seq": 2}))
    batch = Batch(events=[told(2, meter("b", reading=2))])
    with pytest.raises(DatabaseUnavailable, match="rows beyond its head"):
        cycle.run(batch)
    with (
        pytest.raises(DatabaseUnavailable, match="rows beyond its head"),
        DirectWriter(store, telling()).begin() as direct,
    ):
        direct.run(batch)
    assert rows(store, "quarantine") == []
    with store.database.begin() as connection:
        connection.execute(sa.delete(t).where(t.c.seq == 2))
    cycle.run(batch)
    assert {row.id for row in rows(store, "meters")} == {"a", "b"}
