# SPDX-License-Identifier: Apache-2.0
"""Batches dispatched on top of what is under way to a real database end as batches one after the other."""

from __future__ import annotations

import datetime
import random

import pytest
import sqlalchemy as sa

from tests.functional.storage.conftest import on_one_database
from tests.functional.storage.writing import (
    Naming,
    commit,
    cycle_on,
    followed,
    head,
    journal,
    make,
    meter,
    naming,
    rename,
    rows,
    seqs,
    without_heard,
)
from tests.simulated import batches, cloud, event, nova, shown, told, whole
from tests.waiting import deadline
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.pipeline import Pipeline
from watcher_sync.dispatch import Dispatcher
from watcher_sync.exceptions import DatabaseUnavailable, HeadMoved, LeaseLost, RowRefused
from watcher_sync.model.changes import Outcome
from watcher_sync.model.transaction import Transaction
from watcher_sync.storage.writing.commits import Commit, Fence

TOO_LARGE = 2**63


def piped(cycle, found, before_each=lambda: None):
    """Run batches through a pipeline; the settlements, in order."""
    settled = []

    def again(batch):
        cycle.catch_up()
        if batch is not None:
            cycle.run(batch)
        return True

    pipeline = Pipeline(cycle, again=again, settle=lambda owner, committed: settled.append((owner, committed)))
    for number, batch in enumerate(found):
        before_each()
        pipeline.add(number, batch)
    pipeline.end()
    return settled


def staged(store, *changes):
    """What a writer that is at the head stages."""
    model = store.load()
    transaction = Transaction(model)
    transaction.apply(told(1), changes)
    return model, transaction.staged()


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.rare)])
def test_another_writer_in_between_costs_nothing_and_both_end_equal(new_store, seed):
    rng = random.Random(seed)
    events, truth = cloud(seed, 600)
    delivered = rng.sample(events, len(events))
    cycle, other = cycle_on(new_store(), nova()), cycle_on(new_store())
    numbers = iter(range(10_000))

    def forestall():
        if rng.random() < 0.3:
            number = next(numbers)
            commit(other, told(number, meter(f"m{number % 3}", f"{number:04}", reading=number)))

    found = [Batch(events=batch) for batch in batches(delivered, rng, most=40)]
    assert piped(cycle, found, forestall) == [(number, True) for number in range(len(found))]
    cycle.catch_up()
    other.catch_up()
    assert cycle.stats.conflicts > 3
    assert without_heard(whole(cycle.model)) == without_heard(whole(other.model))
    assert without_heard(whole(cycle.store.load())) == without_heard(whole(cycle.model))
    assert without_heard(whole(followed(other.store))) == without_heard(whole(cycle.model))
    assert seqs(cycle.store) == list(range(1, head(cycle.store) + 1))
    assert {kind: shown(cycle.model.snapshot())[kind] for kind in ("instance", "aggregate")} == {
        kind: truth[kind] for kind in ("instance", "aggregate")
    }
    assert cycle.stats.as_dict()["read"] == len(delivered)


def test_what_the_database_refuses_costs_its_own_event_wherever_it_is(store):
    rng = random.Random(5)
    bad = set(rng.sample(range(200), 9))
    cycle = cycle_on(store)
    events = [told(i, meter(f"m{i % 50}", f"{i:04}", reading=TOO_LARGE if i in bad else i)) for i in range(200)]
    found = [Batch(events=batch, cursors={"test": batch[-1].id}) for batch in batches(events, rng, most=20)]
    assert all(committed for _, committed in piped(cycle, found))
    assert sorted(int(row.event_id.removeprefix("event-")) for row in rows(store, "quarantine")) == sorted(bad)
    last = {i % 50: i for i in range(200) if i not in bad}
    assert {row.id: row.reading for row in rows(store, "meters")} == {f"m{n}": i for n, i in last.items()}
    assert whole(store.load()) == whole(cycle.model)
    assert seqs(store) == list(range(1, head(store) + 1))
    assert store.cursors() == {"test": "event-199"}
    assert cycle.stats.total(Outcome.QUARANTINED) == len(bad)


@on_one_database
def test_a_batch_before_one_that_cannot_be_dispatched_is_settled_once_and_first(store, monkeypatch):
    cycle = cycle_on(store)
    prepare, failures = cycle.store.prepare, iter([False, True, False, False, True])

    def fail(commit):
        if next(failures, False):
            raise DatabaseUnavailable("cut off")
        return prepare(commit)

    monkeypatch.setattr(cycle.store, "prepare", fail)
    found = [Batch(events=[told(number, meter(f"m{number}"))]) for number in range(5)]
    assert piped(cycle, found) == [(number, True) for number in range(5)]
    assert sorted(row.id for row in rows(store, "meters")) == [f"m{number}" for number in range(5)]


class Looking(Naming):
    """It notes what the events see of the meter."""

    events = {**Naming.events, "look": "look"}  # noqa: RUF012

    def __init__(self):
        self.seen = []

    def look(self, event, view):
        self.seen.append(view.get("meter", "a").owner)
        yield meter(event.read())


@on_one_database
def test_a_batch_after_one_that_unparks_events_is_dispatched_again_after_those_events(store):
    looking = Looking()
    cycle = cycle_on(store, Dispatcher([("looking", looking)]))
    found = [rename(1), make(2), event(3, "look", data="m"), event(4, "look", data="n")]
    piped(cycle, [Batch(events=[each]) for each in found])
    assert looking.seen == ["made", "renamed", "renamed"]
    assert rows(store, "parked") == []
    assert whole(store.load()) == whole(cycle.model)
    assert [row.entity_id for row in journal(store)] == ["a", "a", "m", "n"]


@on_one_database
def test_parked_events_that_the_last_batch_sets_free_are_applied_at_its_end(store):
    cycle = cycle_on(store, naming())
    piped(cycle, [Batch(events=[rename(1)]), Batch(events=[make(2)])])
    assert cycle.model.get("meter", "a").owner == "renamed"
    assert rows(store, "parked") == []


def test_a_commit_that_was_begun_lands_whole_and_the_next_one_after_it(store):
    for version in ("1", "2"):
        model, changes = staged(store, meter("a", version, reading=int(version)))
        prepared = store.prepare(Commit(generation=model.generation, staged=changes, cursors={"test": version}))
        assert store.begin(prepared).result(deadline(60)) > 0
    assert [(row.id, row.reading, row.seq) for row in rows(store, "meters")] == [("a", 2, 2)]
    assert store.cursors() == {"test": "2"}
    assert seqs(store) == [1, 2]


@pytest.mark.parametrize("why", ["head", "fence", "row"])
def test_a_commit_that_was_begun_and_cannot_be_made_says_why_and_writes_nothing(new_store, why):
    store, other = new_store(), cycle_on(new_store())
    model, changes = staged(store, meter("a", reading=TOO_LARGE if why == "row" else 1))
    fence = Fence("nobody's", 1) if why == "fence" else None
    prepared = store.prepare(Commit(generation=model.generation, staged=changes, cursors={"s": "1"}, fence=fence))
    if why == "head":
        commit(other, told(2, meter("b")))
    expected = {"head": HeadMoved, "fence": LeaseLost, "row": RowRefused}[why]
    assert isinstance(store.begin(prepared).exception(60), expected)
    assert [row.id for row in rows(store, "meters")] == (["b"] if why == "head" else [])
    assert store.cursors() == {}
    commit(other, told(3, meter("c")))  # nothing is locked


@on_one_database
def test_what_can_never_be_written_is_found_when_the_statements_are_made_or_when_they_run(store):
    model, changes = staged(store, meter("a", owner="\ud800"))
    with pytest.raises(RowRefused):
        store.begin(store.prepare(Commit(generation=model.generation, staged=changes))).result(deadline(60))
    assert rows(store, "meters") == []


def test_a_commit_of_which_the_connection_is_gone_fails_and_the_next_one_opens_another(store):
    model, changes = staged(store, meter("a"))
    store._writer_connection().connection.driver_connection.close()
    failed = store.begin(store.prepare(Commit(generation=model.generation, staged=changes)))
    assert isinstance(failed.exception(60), DatabaseUnavailable)
    assert store.begin(store.prepare(Commit(generation=model.generation, staged=changes))).exception(60) is None
    assert [row.id for row in rows(store, "meters")] == ["a"]


@on_one_database
def test_a_commit_is_dated_by_its_preparation_and_never_before_the_one_that_it_follows(store):
    times = [datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC) + datetime.timedelta(seconds=i) for i in range(9)]
    clock = iter(times)
    store._now = lambda: next(clock)
    piped(cycle_on(store), [Batch(events=[told(i, meter(f"m{i}"))]) for i in range(4)])
    t = store.tables.journal
    with store.database.connect() as connection:
        found = list(connection.execute(sa.select(t.c.time).order_by(t.c.seq)).scalars())
    assert found == times[:4]
