# SPDX-License-Identifier: Apache-2.0
"""One engine of a group leads: by the database's word, and by no clock that two machines share."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from tests.functional.storage.writing import cycle_on, meter, rows
from tests.simulated import told
from watcher_sync.commit.batch import Batch
from watcher_sync.exceptions import LeaseLost
from watcher_sync.storage.leases import EngineLease, is_dead_here, process_name


class Clock:
    """A monotonic clock that is set by hand."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def lease(store, holder, clock=None):
    return EngineLease(store.database, store.tables, "engine:g", seconds=6.0, holder=holder, monotonic=clock or Clock())


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


def test_a_holder_is_dead_when_its_beat_stood_still_for_the_lease_time_by_the_standbys_clock(store):
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
    assert a.fence is None


def test_a_deposed_leader_commits_nothing_more(store):
    clock = Clock()
    a, b = lease(store, "a/1"), lease(store, "b/1", clock)
    a.try_take()
    fence = a.fence
    cycle = cycle_on(store, fence=lambda: fence)
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
    assert [r.id for r in rows(store, "meters")] == ["a"]
    assert store.cursors() == {}
    assert rows(store, "quarantine") == []


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
            barrier.wait(20)
            if one.try_take():
                won.append(one)
        except Exception as exc:  # noqa: BLE001 - reported by the test
            failed.append(exc)

    threads = [threading.Thread(target=take, args=[one], daemon=True) for one in leases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not failed
    assert len(won) == 1
    assert won[0].read().holder == won[0].holder
    won[0].beat()


@pytest.mark.parametrize("any_migrated_url", ["sqlite"], indirect=True)
def test_a_dead_process_of_this_machine_loses_the_lease_at_once_and_a_living_one_keeps_it(store):
    code = (
        "import sys; from watcher_sync.storage.leases import process_name as n; print(n(), flush=1); sys.stdin.read()"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        name = child.stdout.readline().strip()
        assert lease(store, name).try_take()
        assert not is_dead_here(name)
        assert not lease(store, "b/1").try_take()
    finally:
        child.communicate(timeout=20)
    assert is_dead_here(name)
    assert lease(store, "b/1").try_take()


def test_only_processes_of_this_machine_boot_and_namespace_can_be_told_dead():
    host, boot, space, pid, started = process_name().rsplit("/", 4)
    assert not is_dead_here(process_name())
    assert is_dead_here("/".join((host, boot, space, pid, started + "1")))
    for other in [("x" + host, boot, space), (host, "x" + boot, space), (host, boot, space + "1")]:
        assert not is_dead_here("/".join((*other, "999999999", "1")))
    assert not is_dead_here("somebody")


def test_a_find_live_holder_is_told_from_a_silent_one(store):
    a, b = lease(store, "a/1"), EngineLease(store.database, store.tables, "engine:g", seconds=2.0, holder="b/1")
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
        assert b.find_live_holder().holder == "a/1"
    finally:
        stop.set()
        thread.join(10)


def test_a_lease_is_taken_unless_a_live_engine_holds_it(store):
    a, b = lease(store, "a/1"), EngineLease(store.database, store.tables, "engine:g", seconds=2.0, holder="b/1")
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
        thread.join(10)
    assert b.take_unless_led() is None
    assert b.read().holder == "b/1"
    b.give_back()
    assert b.take_unless_led() is None
