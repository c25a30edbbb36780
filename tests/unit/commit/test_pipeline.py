# SPDX-License-Identifier: Apache-2.0
"""A batch under way is invisible, ends in its order, and fails only the batches that depend on it."""

from __future__ import annotations

import gc
import threading
import weakref
from concurrent.futures import Future

import msgspec
import pytest
import sqlalchemy as sa

from tests.simulated import telling, told
from tests.unit.engine.conftest import Spoken, until
from tests.waiting import deadline
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.commit.pipeline import Pipeline
from watcher_sync.commit.replay import replay
from watcher_sync.engine.intake import JOINED_BATCHES, max_in_hand
from watcher_sync.events import OSLO
from watcher_sync.exceptions import DatabaseUnavailable, LeaseHeld
from watcher_sync.model.changes import Upsert
from watcher_sync.sources.replay import ReadingStopped


def instance(entity_id, version="1"):
    return Upsert("instance", entity_id, version, {"state": {}, "details": {"name": entity_id}})


class Slow:
    """A store's ``begin`` that commits when the test releases it. It logs the order of events."""

    def __init__(self, store, log):
        self._plain, self._log = store.begin, log
        self.begun = []
        store.begin = self.begin

    def begin(self, prepared):
        self._log.append(("begun", prepared.commit.generation))
        future = Future()
        self.begun.append((prepared, future))
        return future

    def land(self):
        """The oldest commit that is under way is made."""
        prepared, future = self.begun.pop(0)
        self._plain(prepared).result(deadline(10))
        future.set_result(0.25)


@pytest.fixture
def log():
    return []


@pytest.fixture
def cycle(store):
    return CommitCycle(store, store.load(), telling())


def piping(cycle, log):
    def again(batch):
        log.append(("again", None if batch is None else [e.id for e in batch.events]))
        cycle.catch_up()
        if batch is not None:
            cycle.run(batch)
        return True

    return Pipeline(cycle, again=again, settle=lambda owner, committed: log.append((owner, committed)))


def test_the_next_batch_is_dispatched_before_the_last_one_has_landed_and_handed_over_after_it(cycle, store, log):
    slow = Slow(store, log)
    pipeline = piping(cycle, log)
    pipeline.add("one", Batch(events=[told(1, instance("a"))]))
    dispatched = threading.Event()
    seen = []

    def look(view):
        seen.append((view.get("instance", "a").name, cycle.model.generation, cycle.model.get("instance", "a")))
        dispatched.set()
        return instance("b")

    thread = threading.Thread(target=lambda: pipeline.add("two", Batch(events=[told(2, look)])), daemon=True)
    thread.start()
    assert dispatched.wait(deadline(60))
    assert seen == [("a", 0, None)]
    assert cycle.model.snapshot().ids("instance") == []
    assert log == [("begun", 0)]
    slow.land()
    thread.join(deadline(60))
    assert log == [("begun", 0), ("begun", 1), ("one", True)]
    assert cycle.model.snapshot().ids("instance") == ["a"]
    slow.land()
    pipeline.end()
    assert log[3:] == [("two", True)]
    assert cycle.model.snapshot().ids("instance") == ["a", "b"]
    assert store.load().snapshot().ids("instance") == ["a", "b"]
    assert (cycle.stats.commits, cycle.stats.changes, cycle.stats.batch_events.sum) == (2, 2, 2)
    assert cycle.stats.commit_seconds.sum == 0.5


@pytest.mark.parametrize("reached", [False, True])
def test_a_commit_of_which_nothing_is_known_is_made_once_and_what_lay_on_it_after_it(cycle, store, log, reached):
    plain, futures = store.begin, []

    def begin(prepared):
        if futures:
            return plain(prepared)
        if reached:
            plain(prepared).result(deadline(10))
        futures.append(Future())
        futures[0].set_exception(DatabaseUnavailable("the answer was lost"))
        return futures[0]

    store.begin = begin
    pipeline = piping(cycle, log)
    for number, name in enumerate("abc"):
        pipeline.add(name, Batch(events=[told(number, instance(name))]))
    pipeline.end()
    assert log == [("again", ["event-0"]), ("a", True), ("again", ["event-1"]), ("b", True), ("c", True)]
    with store.database.connect() as connection:
        kept = connection.execute(sa.select(store.tables.journal.c.seq, store.tables.journal.c.entity_id)).all()
    assert [tuple(row) for row in kept] == [(1, "a"), (2, "b"), (3, "c")]


def test_a_batch_that_changes_nothing_writes_nothing_and_what_lies_on_it_holds(cycle, store, log):
    slow = Slow(store, log)
    pipeline = piping(cycle, log)
    pipeline.add("one", Batch(events=[told(1)]))
    pipeline.add("two", Batch(events=[told(2, instance("a"))]))
    assert log == [("begun", 0), ("one", True)]
    slow.land()
    pipeline.end()
    assert store.load().snapshot().ids("instance") == ["a"]


@pytest.mark.slow
def test_what_has_landed_is_not_retained_by_what_was_dispatched_on_it(cycle, log):
    """Else a long flow would keep everything that it ever wrote."""
    pipeline = piping(cycle, log)
    views = []

    def look(view):
        views.append(weakref.ref(view))
        return instance(f"i{len(views)}")

    pipeline.add("one", Batch(events=[told(1, look)]))
    pipeline.add("two", Batch(events=[told(2, look)]))
    gc.collect()
    assert [view() is None for view in views] == [True, False]
    pipeline.end()
    assert log == [("one", True), ("two", True)]


# The engine


def many(count, name="i"):
    return [told(number, instance(f"{name}{number % 7}", f"{number:05}")) for number in range(count)]


@pytest.fixture
def small(conf):
    """Batches of two."""
    conf.set_override("batch_size", 2, group="engine")
    return conf


def test_a_pressed_engine_joins_batches_and_acks_everything_in_order(small, run, store):
    source = Spoken()
    running = run(source)
    for start in range(0, 200, 10):
        source.say(*many(200)[start : start + 10])
        assert until(lambda start=start: len(source.acked) > start - max_in_hand(small.engine))
    assert until(lambda: len(source.acked) == 200)
    assert sorted(source.acked) == sorted(f"event-{n}" for n in range(200))
    assert store.cursors()["spoken"] in source.acked
    assert running.engine.stats.commits < 100
    assert running.engine.stats.batch_events.sum == 200


def test_no_more_than_four_batches_are_joined(small, run, store):
    source = Spoken()
    sizes = []
    plain = store.prepare
    store.prepare = lambda commit: sizes.append(len(commit.staged)) or plain(commit)
    run(source)
    source.say(*[told(number, instance(f"i{number}")) for number in range(100)])
    assert until(lambda: len(source.acked) == 100)
    assert max(sizes) == 2 * JOINED_BATCHES == 8


@pytest.mark.slow
def test_a_pressed_engine_acks_nothing_while_the_database_is_away_and_everything_afterwards(small, run, store):
    source = Spoken()
    running = run(source)
    assert until(lambda: running.engine.is_ready()[0])
    plain, whole, attempts = store.begin, store.commit, []

    def away(_commit):
        attempts.append(1)
        raise DatabaseUnavailable("gone fishing")

    def begun(_prepared):
        future = Future()
        future.set_exception(DatabaseUnavailable("gone fishing"))
        attempts.append(1)
        return future

    store.begin, store.commit = begun, away
    source.say(*many(50))
    assert until(lambda: len(attempts) >= 3)
    assert source.acked == []
    assert not running.engine.is_ready()[0]
    store.begin, store.commit = plain, whole
    assert until(lambda: len(source.acked) == 50)
    assert source.released == []
    assert running.engine.is_ready() == (True, "")


def test_a_pressed_engine_that_says_it_is_ready_again_needs_no_idle_moment_for_it(small, run, store):
    source = Spoken()
    running = run(source)
    assert until(lambda: running.engine.is_ready()[0])
    plain, ready = store.prepare, []

    def prepare(commit):
        ready.append(running.engine.is_ready()[0])
        return plain(commit)

    store.prepare = prepare
    running.engine._database_health.mark_unavailable(DatabaseUnavailable("a moment"))
    source.say(*many(60))
    assert until(lambda: len(source.acked) == 60)
    assert ready[-1] is True


def test_a_pressed_engine_that_lost_its_lease_gives_everything_back(small, run, store):
    source = Spoken()
    running = run(source)
    assert until(lambda: running.engine.is_ready()[0])
    with store.database.begin() as connection:
        connection.execute(sa.update(store.tables.leases).values(token=99, holder="other/1"))
    source.say(*many(50))
    assert until(lambda: running.error is not None)
    assert isinstance(running.error, LeaseHeld)
    assert source.acked == []
    # An event that comes after the loss is released in the thread of the source.
    expected = {f"event-{n}" for n in range(50)}
    assert until(lambda: {e if isinstance(e, str) else e.id for e in list(source.released)} == expected)
    assert store.load().generation == 0


def test_an_engine_that_breaks_gives_back_what_was_in_hand(small, run, store):
    source = Spoken()
    running = run(source)
    assert until(lambda: running.engine.is_ready()[0])
    plain = store.prepare

    def prepare(commit):
        if any("17" in s.event.id for s in commit.staged):
            raise ZeroDivisionError("a bug of ours")
        return plain(commit)

    store.prepare = prepare
    source.say(*[told(number, instance(f"i{number}")) for number in range(30)])
    assert until(lambda: isinstance(running.error, ZeroDivisionError))
    given_back = {e if isinstance(e, str) else e.id for e in source.released}
    assert "event-17" in given_back
    assert given_back.isdisjoint(source.acked)
    assert len(given_back) + len(source.acked) == 30
    assert store.load().snapshot().ids("instance") == sorted(f"i{e.removeprefix('event-')}" for e in source.acked)


def test_a_replay_dispatches_a_batch_while_the_database_writes_the_one_before_it(store, log):
    plain = store.begin

    class Awaited(Future):
        def result(self, timeout=None):
            log.append("awaited")
            return super().result(timeout)

    def begin(prepared):
        log.append("begun")
        future = Awaited()
        future.set_result(plain(prepared).result(deadline(10)))
        return future

    def dispatched(view):
        log.append("dispatched")
        return instance("b")

    store.begin = begin
    two = [told(1, instance("a")), told(2, dispatched)]
    events = [msgspec.structs.replace(event, envelope=OSLO) for event in two]
    assert replay(store, telling(), events, batch_size=1)["applied"] == 2
    assert log == ["begun", "dispatched", "awaited", "begun", "awaited"]


def test_a_replay_whose_events_end_with_an_error_commits_the_whole_batches_before_it(store):
    plain, last = store.begin, []

    class Unwritten(Future):
        """Writes when it is waited for."""

        def result(self, timeout=None):
            return plain(last.pop()).result(deadline(10))

    def begin(prepared):
        last.append(prepared)
        return Unwritten()

    def events():
        for number, name in enumerate("abc"):
            yield msgspec.structs.replace(told(number, instance(name)), envelope=OSLO)
        raise ReadingStopped("the child ended")

    store.begin = begin
    with pytest.raises(ReadingStopped, match="the child ended"):
        replay(store, telling(), events(), batch_size=1)
    assert last == []
    assert store.load().snapshot().ids("instance") == ["a", "b", "c"]
