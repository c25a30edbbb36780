# SPDX-License-Identifier: Apache-2.0
"""The engine acks what is committed and nothing else, through outages, lost leases and its own end."""

from __future__ import annotations

from concurrent.futures import Future

import pytest
import sqlalchemy as sa

from tests.simulated import NOON, telling, told
from tests.unit.engine.conftest import Spoken, until
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.exceptions import DatabaseUnavailable, LeaseHeld
from watcher_sync.model.changes import Seen, Upsert


def instance(entity_id, version="1"):
    return Upsert("instance", entity_id, version, {"state": {}, "details": {"name": entity_id}})


def test_what_is_acked_is_in_the_database_with_its_cursor_and_a_stop_gives_the_lease_back(run, store, caplog):
    caplog.set_level("INFO", "watcher_sync")
    source = Spoken()
    running = run(source)
    source.say(told(1, instance("a")), told(2, instance("b")))
    assert until(lambda: source.acked == ["event-1", "event-2"])
    assert store.load().snapshot().ids("instance") == ["a", "b"]
    assert store.cursors() == {"spoken": "event-2"}
    assert running.engine.is_ready() == (True, "")
    assert running.stop()
    assert (source.stopped, running.lease.read().holder, running.error) == (1, "", None)
    ended = f"Ended the lead of the engine group {running.lease.name} at seq {store.head()}"
    assert ended in caplog.messages


def test_a_bug_of_a_handler_and_an_event_too_early_are_acked_because_they_are_stored(run, store):
    source = Spoken()
    run(source)
    early = Upsert("instance", "a", "1", {"lock": {"locked": True}})
    source.say(told(1, lambda view: ZeroDivisionError("a bug")), told(2, early), told(3, instance("b")))
    assert until(lambda: len(source.acked) == 3)
    with store.database.connect() as connection:
        (kept,) = connection.execute(sa.select(store.tables.quarantine)).all()
        (parked,) = connection.execute(sa.select(store.tables.parked)).all()
    # prose: "told" is the name of the test's handler
    assert kept.reason == "the handler told.told failed: ZeroDivisionError: a bug"
    assert "Traceback" in kept.detail
    assert (parked.event_id, parked.entity_id) == ("event-2", "a")
    assert store.load().snapshot().ids("instance") == ["b"]


@pytest.mark.parametrize(
    "raised", [SystemExit(1), KeyboardInterrupt(), GeneratorExit()], ids=lambda e: type(e).__name__
)
def test_a_handler_that_raises_what_ends_a_thread_loses_its_event_only(run, store, raised):
    source = Spoken()
    running = run(source)
    source.say(told(1, instance("a"), lambda view: raised), told(2, instance("b")))
    assert until(lambda: source.acked == ["event-1", "event-2"])
    with store.database.connect() as connection:
        (kept,) = connection.execute(sa.select(store.tables.quarantine)).all()
    assert kept.event_id == "event-1"
    # prose: "told" is the name of the test's handler
    assert kept.reason.startswith(f"the handler told.told failed: {type(raised).__name__}")
    assert store.load().snapshot().ids("instance") == ["b"]
    assert running.stop()
    assert running.error is None


class Broken(Spoken):
    """Raises from one method."""

    def __init__(self, method, raised):
        super().__init__()
        self.raised = raised
        setattr(self, method, self._fail)

    def _fail(self, *_arguments):
        raise self.raised


RAISED = [RuntimeError("a bug"), SystemExit(1), KeyboardInterrupt()]


@pytest.mark.parametrize("method", ["ack", "cursor"])
@pytest.mark.parametrize("raised", RAISED, ids=lambda e: type(e).__name__)
def test_a_source_that_raises_is_replaced_and_the_others_go_on(run, store, method, raised):
    broken, again, other = Broken(method, raised), Spoken(), Spoken("other")
    lives = iter([broken, again])
    running = run({"spoken": lambda: next(lives), "other": lambda: other})
    broken.say(told(1, instance("a")))
    assert until(lambda: again.started == 1)
    again.say(told(1, instance("a")), told(2, instance("b")))
    other.say(told(3, instance("c")))
    assert until(lambda: (again.acked, other.acked) == (["event-1", "event-2"], ["event-3"]))
    assert store.load().snapshot().ids("instance") == ["a", "b", "c"]
    assert running.stop()
    assert (broken.stopped, running.error) == (1, None)


@pytest.mark.parametrize("raised", RAISED, ids=lambda e: type(e).__name__)
def test_a_source_that_raises_at_the_end_leaves_the_others_their_events(run, store, raised):
    broken, other = Broken("nack", raised), Spoken("other")
    running = run({"spoken": lambda: broken, "other": lambda: other})
    assert until(lambda: running.engine.is_ready()[0])

    def away(commit):
        raise DatabaseUnavailable("gone fishing")

    store.commit = away
    broken.say(told(1, instance("a")))
    other.say(told(2, instance("b")))
    assert until(lambda: not running.engine.is_ready()[0])
    assert running.stop(0.5)
    assert until(lambda: other.released == ["event-2"])
    assert running.error is None


def test_an_interrupt_of_the_main_thread_ends_the_work_and_quarantines_nothing(store):
    cycle = CommitCycle(store, store.load(), telling())
    with pytest.raises(KeyboardInterrupt):
        cycle.run(Batch(events=[told(1, instance("a"), lambda view: KeyboardInterrupt())]))
    with store.database.connect() as connection:
        assert connection.execute(sa.select(store.tables.quarantine)).all() == []
    assert store.load().snapshot().ids("instance") == []


@pytest.mark.slow
def test_while_the_database_is_away_nothing_is_acked_and_all_is_when_it_is_back(run, store):
    source = Spoken()
    running = run(source)
    assert until(lambda: running.engine.is_ready()[0])
    plain, attempts = store.commit, []

    def away(commit):
        attempts.append(1)
        raise DatabaseUnavailable("gone fishing")

    store.commit = away
    source.say(told(1, instance("a")))
    assert until(lambda: len(attempts) >= 2)
    assert source.acked == []
    ready, why = running.engine.is_ready()
    assert (ready, "gone fishing" in why) == (False, True)
    store.commit = plain
    assert until(lambda: source.acked == ["event-1"])
    assert until(lambda: running.engine.is_ready()[0])
    assert store.load().snapshot().ids("instance") == ["a"]


@pytest.mark.slow
def test_a_commit_of_which_the_answer_was_lost_is_not_made_twice(run, store):
    source = Spoken()
    running = run(source)
    assert until(lambda: running.engine.is_ready()[0])
    plain, lost = store.commit, []

    def answer_lost(commit):
        plain(commit)
        if commit.staged and not lost:
            lost.append(1)
            raise DatabaseUnavailable("the answer was lost")

    store.commit = answer_lost
    source.say(told(1, instance("a")))
    assert until(lambda: source.acked == ["event-1"])
    assert lost
    model = store.load()
    assert (model.generation, running.engine.model.generation) == (1, 1)


@pytest.mark.slow
def test_no_cursor_passes_a_batch_that_was_given_up_at_the_deadline_of_a_stop(run, store, conf):
    conf.set_override("batch_size", 1, group="engine")
    source = Spoken()
    running = run(source)
    assert until(lambda: running.engine.is_ready()[0])
    plain, attempts = (store.commit, store.begin), []

    def check(commit):
        if any(staged.event.id == "event-1" for staged in commit.staged):
            attempts.append(1)
            raise DatabaseUnavailable("not this one")

    def begin(prepared):
        try:
            check(prepared.commit)
        except DatabaseUnavailable as exc:
            failed = Future()
            failed.set_exception(exc)
            return failed
        return plain[1](prepared)

    def commit(commit):
        check(commit)
        plain[0](commit)

    store.commit, store.begin = commit, begin
    source.say(*(told(n, instance(f"i-{n}")) for n in range(1, 7)))
    assert until(lambda: len(attempts) >= 2)
    assert running.stop(1.0)
    assert "event-1" in source.released
    assert store.cursors() == {}


def test_an_engine_that_lost_its_lease_writes_nothing_gives_its_events_back_and_ends(run, store):
    source = Spoken()
    running = run(source)
    assert until(lambda: running.engine.is_ready()[0])
    with store.database.begin() as connection:
        connection.execute(sa.update(store.tables.leases).values(token=99, holder="other/1"))
    source.say(told(1, instance("a")))
    assert until(lambda: source.released == ["event-1"])
    assert until(lambda: running.error is not None)
    assert isinstance(running.error, LeaseHeld)
    assert source.acked == []
    assert store.load().generation == 0
    assert running.lease.read().holder == "other/1"


def test_a_stop_drains_what_the_source_still_says(run, store):
    class Late(Spoken):
        def stop(self, deadline):
            self.say(told(9, instance("late")))
            assert until(lambda: "event-9" in self.acked)
            super().stop(deadline)

    source = Late()
    running = run(source)
    assert until(lambda: running.engine.is_ready()[0])
    assert running.stop()
    assert (source.acked, source.stopped) == (["event-9"], 1)
    assert store.load().snapshot().ids("instance") == ["late"]


def test_signs_of_life_are_written_at_the_end_and_not_with_every_event(run, store):
    source = Spoken()
    running = run(source)
    node = Upsert("compute_node", "h", "1", {"service": {}})
    source.say(told(1, node, Seen("compute_node", "h", NOON)))
    for number in range(2, 5):
        source.say(told(number, Seen("compute_node", "h", NOON.replace(minute=number))))
    assert until(lambda: len(source.acked) == 4)
    assert store.read_last_seen() == {"compute_node": {}}
    assert running.stop()
    assert store.read_last_seen() == {"compute_node": {"h": NOON.replace(minute=4)}}


class Traced:
    """A tracer that counts what it gets."""

    def __init__(self):
        self.batches, self.closed = 0, 0

    def committed(self, pending, seconds, lasted):
        assert not self.closed
        self.batches += 1

    def close(self):
        self.closed += 1


@pytest.mark.slow
def test_an_engine_that_leads_again_traces_its_batches_again(run, conf, store):
    conf.set_override("standby", True, group="engine")
    source, tracer = Spoken(), Traced()
    running = run(source, make_tracer=lambda: tracer)
    source.say(told(1, Upsert("aggregate", "1", "1", {"state": {"name": "a"}})))
    assert until(lambda: tracer.batches)
    batches, started = tracer.batches, source.started
    with store.database.begin() as connection:
        connection.execute(sa.update(store.tables.leases).values(token=99, holder="other/1"))
    assert until(lambda: source.started > started)  # the other one is silent for the lease time
    assert tracer.closed == 0
    source.say(told(2, Upsert("aggregate", "2", "1", {"state": {"name": "b"}})))
    assert until(lambda: tracer.batches > batches)
    assert running.stop()
    assert (tracer.closed, running.error) == (1, None)
