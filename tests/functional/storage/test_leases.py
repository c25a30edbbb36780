# SPDX-License-Identifier: Apache-2.0
"""One engine of a group leads: by the database's word, and by no clock that two machines share."""

from __future__ import annotations

import contextlib
import datetime
import subprocess
import sys
import threading

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from tests.functional.storage.conftest import on_one_database, opened
from tests.functional.storage.writing import cycle_on, kinds, meter, rows
from tests.simulated import told
from tests.waiting import deadline, wait_until
from watcher_sync.assembly.engine import make_lease
from watcher_sync.commit.batch import Batch
from watcher_sync.conf import engine as engine_options
from watcher_sync.conf import opts
from watcher_sync.engine.leadership import Heartbeat
from watcher_sync.exceptions import DatabaseUnavailable, LeaseLost
from watcher_sync.storage.database import database
from watcher_sync.storage.database.time_limits import CommitWatch
from watcher_sync.storage.database.types import UtcDateTime
from watcher_sync.storage.groups import leases
from watcher_sync.storage.groups.leases import EngineLease, is_dead_here, process_name
from watcher_sync.storage.writing.store import Store


class Clock:
    """A monotonic clock that is set by hand."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def lease(store, holder, clock=None):
    return EngineLease(store.database, store.tables, "engine:g", seconds=6.0, holder=holder, monotonic=clock or Clock())


def lasting(store, seconds):
    """The lease of another holder, by the real clock."""
    return EngineLease(store.database, store.tables, "engine:g", seconds=seconds, holder="b/1")


def test_the_first_takes_it_beats_and_gives_it_back_to_the_next(store):
    a, b = lease(store, "a/1"), lease(store, "b/1")
    assert a.read() is None
    assert a.try_take()
    assert not b.try_take()
    a.beat()
    assert (b.read().holder, b.read().token, b.read().beat) == ("a/1", 1, 1)
    a.give_back()
    assert a.fence is None
    assert b.try_take()
    assert (b.read().holder, b.read().token, b.fence.token) == ("b/1", 2, 2)


@on_one_database
def test_a_lease_that_was_taken_with_a_lost_answer_is_found_at_the_next_attempt(store, monkeypatch):
    a, b = lease(store, "a/1"), lease(store, "b/1")
    for token, holder in ((1, a), (2, b)):
        execute = holder._execute

        def lose_the_answer(statement, execute=execute):
            execute(statement)
            raise DatabaseUnavailable("the answer is lost")

        monkeypatch.setattr(holder, "_execute", lose_the_answer)
        with pytest.raises(DatabaseUnavailable):
            holder.try_take()
        assert holder.fence is None
        monkeypatch.setattr(holder, "_execute", execute)
        assert holder.try_take()
        assert holder.try_take()  # as a standby does that could not follow the journal after it took the lease
        assert (holder.fence.token, holder.read().token) == (token, token)
        holder.give_back()


@on_one_database
def test_the_lease_of_another_holder_is_not_taken_for_a_lost_answer(store):
    a, b = lease(store, "a/1"), lease(store, "b/1")
    assert a.try_take()
    assert not b.try_take()
    a.give_back()
    assert b.try_take()
    assert not a.try_take()
    b.beat()
    a.forget()
    assert not a.try_take()


def test_the_times_of_a_lease_are_those_of_the_database(store, monkeypatch):
    noon = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
    query = sa.select(store.tables.leases.c.since, store.tables.leases.c.heartbeat_at)
    a = lease(store, "a/1")
    for take in (a.try_take, a.beat):
        monkeypatch.setattr(leases, "database_now", lambda dialect: sa.literal(noon, UtcDateTime()))
        take()
        with store.database.connect() as connection:
            assert connection.execute(query).one() == (noon, noon)


@on_one_database
def test_a_holder_is_dead_when_its_beat_is_unchanged_for_the_lease_time_by_the_standbys_clock(store):
    clock = Clock()
    a, b = lease(store, "a/1"), lease(store, "b/1", clock)
    a.try_take()
    assert not b.try_take()
    clock.now += 5.9
    assert not b.try_take()
    a.beat()
    clock.now += 5.9
    assert not b.try_take()
    clock.now += 5.9
    assert not b.try_take()
    clock.now += 0.2
    assert b.try_take()
    with pytest.raises(LeaseLost, match="taken over by another engine"):
        a.beat()
    assert a.fence.token == 1  # what it still commits has to be refused
    a.forget()
    assert a.fence is None
    with pytest.raises(LeaseLost, match="does not have the lease"):
        a.require_fence()


def test_a_deposed_leader_commits_nothing_more(store):
    clock = Clock()
    a, b = lease(store, "a/1"), lease(store, "b/1", clock)
    a.try_take()
    cycle = cycle_on(store, fence=a.require_fence)
    cycle.run(Batch(events=[told(1, meter("a"))]))
    b.try_take()
    clock.now += 7
    assert b.try_take()
    for batch in (
        Batch(events=[told(2, meter("b"))]),
        Batch(events=[], cursors={"test": "1"}),
        Batch(events=[told(3, lambda view: ValueError("a bug"))]),
    ):
        with pytest.raises(LeaseLost):
            cycle.run(batch)
        with pytest.raises(LeaseLost):
            a.beat()
    a.forget()
    with pytest.raises(LeaseLost):
        cycle.run(Batch(events=[told(4, meter("c"))]))
    assert [r.id for r in rows(store, "meters")] == ["a"]
    assert store.cursors() == {}
    assert rows(store, "quarantine") == []


@on_one_database
def test_the_same_token_of_another_holder_is_not_ones_own(store):
    """A database that went back in time gives a token a second time."""
    a, b = lease(store, "a/1"), lease(store, "b/1")
    assert a.try_take()
    t = store.tables.leases
    with store.database.begin() as connection:
        connection.execute(sa.update(t).values(holder="b/1", beat=7))
    with pytest.raises(LeaseLost):
        a.beat()
    a.give_back()
    assert (b.read().holder, b.read().token, b.read().beat) == ("b/1", 1, 7)


@on_one_database
def test_what_a_deposed_leader_gives_back_is_not_the_new_ones(store):
    clock = Clock()
    a, b = lease(store, "a/1"), lease(store, "b/1", clock)
    a.try_take()
    b.try_take()
    clock.now += 7
    b.try_take()
    a.give_back()
    assert b.read().holder == "b/1"
    b.beat()


@pytest.mark.parametrize("held", [False, True])
def test_of_twenty_that_take_it_at_once_exactly_one_wins(new_store, held):
    stores = [new_store() for _ in range(4)]
    clock = Clock()
    leases = [lease(stores[i % 4], f"{i}/1", clock) for i in range(20)]
    if held:
        lease(stores[0], "dead/1").try_take()
        assert not any(one.try_take() for one in leases)
        clock.now += 7
    won, failed, barrier = [], [], threading.Barrier(20)

    def take(one):
        try:
            barrier.wait(deadline(60))
            if one.try_take():
                won.append(one)
        except Exception as exc:  # noqa: BLE001 - reported by the test
            failed.append(exc)

    threads = [threading.Thread(target=take, args=[one], daemon=True) for one in leases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(deadline(60))
    assert not failed
    assert len(won) == 1
    assert won[0].read().holder == won[0].holder
    won[0].beat()


@pytest.mark.parametrize("any_migrated_url", ["sqlite"], indirect=True)
def test_a_dead_process_of_this_machine_loses_the_lease_at_once_and_a_living_one_keeps_it(store):
    code = (
        "import sys; from watcher_sync.storage.groups import leases; "
        "print(leases.process_name(), flush=1); sys.stdin.read()"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        name = child.stdout.readline().strip()
        assert lease(store, name).try_take()
        assert not is_dead_here(name)
        assert not lease(store, "b/1").try_take()
    finally:
        child.communicate(timeout=deadline(60))
    assert is_dead_here(name)
    assert lease(store, "b/1").try_take()


def test_only_processes_of_this_machine_boot_and_namespace_can_be_found_dead():
    host, boot, space, pid, started = process_name().rsplit("/", 4)
    assert not is_dead_here(process_name())
    assert is_dead_here("/".join((host, boot, space, pid, started + "1")))
    for other in [("x" + host, boot, space), (host, "x" + boot, space), (host, boot, space + "1")]:
        assert not is_dead_here("/".join((*other, "999999999", "1")))
    assert not is_dead_here("somebody")


@on_one_database
def test_a_live_holder_is_distinguished_from_a_silent_one(store):
    a, b = lease(store, "a/1"), lasting(store, 2.0)
    assert b.find_live_holder() is None
    a.try_take()
    assert b.find_live_holder() is None
    stop = threading.Event()

    def beat():
        while not stop.wait(0.05):
            a.beat()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        assert lasting(store, 60.0).find_live_holder().holder == "a/1"
    finally:
        stop.set()
        thread.join(deadline(60))


@on_one_database
def test_a_lease_is_taken_unless_a_live_engine_holds_it(store):
    a, b = lease(store, "a/1"), lasting(store, 60.0)
    assert a.try_take()
    stop = threading.Event()

    def beat():
        while not stop.wait(0.05):
            a.beat()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        assert b.take_unless_led().holder == "a/1"
        assert b.fence is None
    finally:
        stop.set()
        thread.join(deadline(60))
    b = lasting(store, 2.0)
    assert b.take_unless_led() is None
    assert b.read().holder == "b/1"
    b.give_back()
    assert b.take_unless_led() is None


@pytest.mark.parametrize("any_migrated_url", ["postgresql", "mariadb"], indirect=True)
def test_the_heartbeat_and_its_look_at_the_schema_wait_for_no_other_connection(any_migrated_url, request):
    conf = cfg.ConfigOpts()
    opts.register_database(conf)
    conf.register_opts(engine_options.OPTS, group=engine_options.GROUP)
    conf([], default_config_files=[], default_config_dirs=[])
    pool = {"max_pool_size": 1, "max_overflow": 0}
    options = {"connection": any_migrated_url, "idle_transaction_timeout": 60, "lease_time": 2.0, **pool}
    for name, value in options.items():
        conf.set_override(name, value, group="database")
    store = Store(database.open_database(conf), kinds())
    request.addfinalizer(store.database.dispose)
    own = make_lease(conf, store)
    request.addfinalizer(own.close)
    wait_until(lambda: is_taken(own))
    lost = threading.Event()
    heartbeat = Heartbeat(own, lost.set, CommitWatch())
    with store.database.connect():  # the only one of the pool
        heartbeat.start()
        try:
            wait_until(lambda: own_beat(any_migrated_url) >= 3)
            assert not lost.is_set()
        finally:
            heartbeat.stop()


def is_taken(own):
    """Try to take the lease; a pause of the machine may exceed the short time limit of its statements."""
    with contextlib.suppress(DatabaseUnavailable):
        return own.try_take()
    return False


def own_beat(url):
    """The beat of the lease, read over a connection of its own."""
    other = opened(url)
    try:
        return EngineLease(other.database, other.tables, "engine:default", seconds=2.0).read().beat
    finally:
        other.database.dispose()
