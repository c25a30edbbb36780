# SPDX-License-Identifier: Apache-2.0
"""Exactly one of several takers may change an instance, on every database, even when a holder crashes."""

from __future__ import annotations

import threading

import pytest

from tests.functional.storage.conftest import on_one_database, opened
from tests.simulated import told
from tests.waiting import deadline, wait_until
from watcher_sync.exceptions import EntitiesLeased, OperationRunning, StaleToken
from watcher_sync.model.changes import Upsert
from watcher_sync.model.transaction import Transaction
from watcher_sync.operations import OperationLimits, Operations
from watcher_sync.storage.groups.operation_leases import OperationLeases
from watcher_sync.storage.writing.commits import Commit


def operations(store, seconds=300.0):
    return Operations(
        OperationLeases(store.database, store.tables), "vnf_instance", OperationLimits(lease_time=seconds)
    )


@pytest.fixture
def takers(store, any_migrated_url):
    """Four processes' worth of takers, with no more connections than a small server lets in."""
    stores = [opened(any_migrated_url, max_pool_size=10, max_overflow=0) for _ in range(4)]
    yield [operations(one) for one in stores]
    for one in stores:
        one.database.dispose()


def outcomes_of(count, act):
    """What each of so many threads that begin at once comes to."""
    outcomes, barrier = [None] * count, threading.Barrier(count)

    def run(number):
        barrier.wait(deadline(60))
        try:
            outcomes[number] = act(number)
        except Exception as exc:  # noqa: BLE001 - reported by the test
            outcomes[number] = exc

    threads = [threading.Thread(target=run, args=[i], daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(deadline(120))
    return outcomes


def expired(leases, entity_id):
    """Wait until the lease has expired by the database's clock."""
    wait_until(lambda: leases.running(entity_id) is None, what="the end of the lease")


@pytest.mark.parametrize("before", ["never taken", "given back", "expired"])
@pytest.mark.parametrize("count", [40, pytest.param(200, marks=pytest.mark.rare)])
def test_of_many_takers_at_once_exactly_one_wins(store, takers, before, count):
    token = 0
    if before == "given back":
        lease = takers[0].begin("a", "SCALE", "first")
        takers[0].end("a", lease.id, lease.proof, lease.token)
        token = lease.token
    elif before == "expired":
        token = operations(store, seconds=0.05).begin("a", "SCALE", "dead").token
        expired(takers[0], "a")
    outcomes = outcomes_of(count, lambda number: takers[number % 4].begin("a", "SCALE", f"taker {number}"))
    won = [o for o in outcomes if not isinstance(o, BaseException)]
    refused = [o for o in outcomes if isinstance(o, OperationRunning)]
    assert (len(won), len(refused)) == (1, count - 1), {type(o): str(o) for o in outcomes}
    assert won[0].token == token + 1
    assert {o.lease.holder for o in refused} == {won[0].holder}
    assert takers[1].heartbeat("a", won[0].id, won[0].proof, won[0].token).holder == won[0].holder


@pytest.mark.parametrize("exists", [True, False])
def test_hands_change_often_and_no_two_ever_hold_it_at_once(store, takers, exists):
    inside, tokens = [], []
    if exists:
        store.commit(unleased_commit(store, "a"))

    def work(number):
        mine = takers[number % 4]
        for _ in range(15):
            try:
                with mine.held("a", "SYNC", f"worker {number}") as lease:
                    inside.append(number)
                    assert inside == [number]
                    tokens.append(lease.token)
                    inside.remove(number)
            except OperationRunning:
                continue

    failures = [o for o in outcomes_of(8, work) if o is not None]
    assert not failures
    # Each lease of an entity that does not exist is a first one: its holder deletes the row.
    assert tokens == sorted(set(tokens)) if exists else set(tokens) == {1}
    assert tokens


def test_different_instances_are_taken_at_once(takers):
    outcomes = outcomes_of(40, lambda number: takers[number % 4].begin(f"vnf-{number}", "SCALE", "one"))
    assert [o.token for o in outcomes] == [1] * 40
    assert set(takers[0].running_on([f"vnf-{i}" for i in range(50)])) == {f"vnf-{i}" for i in range(40)}


@on_one_database
def test_a_refused_begin_names_the_holder_of_the_lease(store):
    leases = operations(store)
    lease = leases.begin("a", "SCALE", "lcm-1")
    with pytest.raises(OperationRunning, match="lcm-1 holds it for SCALE since") as refused:
        leases.begin("a", "HEAL", "lcm-2")
    there = refused.value.lease
    assert (there.holder, there.operation, there.since) == ("lcm-1", "SCALE", lease.since)
    assert there.expires_at == lease.expires_at
    assert 200 < there.remaining <= 300


def test_a_crashed_holders_lease_is_taken_over_after_its_time_and_its_token_is_refused(store):
    leases = operations(store)
    crashed = leases.begin("a", "SCALE", "crashed")
    with pytest.raises(OperationRunning):
        leases.begin("a", "HEAL", "next")
    operations(store, seconds=0.1).heartbeat("a", crashed.id, crashed.proof, crashed.token)  # its last one
    expired(leases, "a")
    taken = operations(store).begin("a", "HEAL", "next")
    assert taken.token == crashed.token + 1
    for stale in (leases.heartbeat, leases.end):
        with pytest.raises(StaleToken) as refused:
            stale("a", crashed.id, crashed.proof, crashed.token)
        assert refused.value.lease.holder == "next"
    with store.database.begin() as connection:
        with pytest.raises(StaleToken):
            leases.verify_token(connection, "a", crashed.token, crashed.proof)
        leases.verify_token(connection, "a", taken.token, taken.proof)
    assert [(o.operation, o.state) for o in leases.history("a", after=0, limit=10)] == [
        ("SCALE", "EXPIRED"),
        ("HEAL", "RUNNING"),
    ]


@on_one_database
def test_a_heartbeat_keeps_the_lease_beyond_its_time(store):
    lease = operations(store, seconds=2.0).begin("a", "SCALE", "alive")
    leases = operations(store)

    def is_beyond():
        beat = leases.heartbeat("a", lease.id, lease.proof, lease.token)
        with pytest.raises(OperationRunning):
            leases.begin("a", "HEAL", "next")
        return beat.heartbeat_at > lease.expires_at

    wait_until(is_beyond)
    leases.end("a", lease.id, lease.proof, lease.token)
    assert leases.begin("a", "HEAL", "next").token == lease.token + 1


def test_what_expired_stays_expired_and_its_end_is_when_it_expired(store):
    leases = operations(store, seconds=0.1)
    lease = leases.begin("a", "SCALE", "slow")
    expired(leases, "a")
    for stale in (leases.heartbeat, leases.end):
        with pytest.raises(StaleToken) as refused:
            stale("a", lease.id, lease.proof, lease.token)
        assert refused.value.lease is None
    with store.database.begin() as connection, pytest.raises(StaleToken):
        leases.verify_token(connection, "a", lease.token, lease.proof)
    shown = leases.show("a", lease.id)
    assert (shown.state, shown.ended_at, shown.expires_at) == ("EXPIRED", lease.expires_at, None)
    taken = leases.begin("a", "HEAL", "next")
    first, second = leases.history("a", after=0, limit=10)
    assert (first.state, first.ended_at) == ("EXPIRED", lease.expires_at)
    assert first.ended_at <= second.since == taken.since


@on_one_database
def test_a_token_that_was_ended_is_refused_and_tokens_only_grow(store):
    leases = operations(store)
    tokens = []
    for failed in (False, True, False):
        lease = leases.begin("a", "SCALE", "lcm")
        tokens.append(lease.token)
        leases.end("a", lease.id, lease.proof, lease.token, state="FAILED" if failed else "COMPLETED")
        with pytest.raises(StaleToken) as refused:
            leases.end("a", lease.id, lease.proof, lease.token)
        assert refused.value.lease is None
    assert tokens == [1, 2, 3]
    states = [o.state for o in leases.history("a", after=0, limit=10)]
    assert states == ["COMPLETED", "FAILED", "COMPLETED"]
    assert [o.token for o in leases.history("a", after=1, limit=1)] == [2]


@on_one_database
def test_a_short_write_leaves_no_trace_in_the_history(store):
    leases = operations(store)
    with leases.held("a", "SYNC", "engine"), pytest.raises(OperationRunning):
        leases.begin("a", "SCALE", "lcm")
    assert leases.history("a", after=0, limit=10) == []
    assert leases.running("a") is None


@pytest.mark.parametrize("any_migrated_url", ["postgresql", "mariadb"], indirect=True)
def test_a_lease_that_a_writer_holds_in_its_transaction_cannot_be_taken_over(store, new_store):
    leases = operations(store, seconds=5)
    lease = leases.begin("a", "SCALE", "writer")
    result = []
    with store.database.begin() as connection:
        leases.verify_token(connection, "a", lease.token, lease.proof)
        expired(leases, "a")
        thread = threading.Thread(
            target=lambda: result.append(operations(new_store()).begin("a", "HEAL", "next")), daemon=True
        )
        thread.start()
        thread.join(0.5)
        assert not result
    thread.join(deadline(60))
    assert [r.token for r in result] == [lease.token + 1]


def unleased_commit(store, *ids):
    """A commit that writes one instance, and needs these to be free."""
    model = store.load()
    transaction = Transaction(model)
    upsert = Upsert("vnf_instance", "a", f"{model.generation + 1:04}", {"registration": {"name": "x"}})
    transaction.apply(told(1), [upsert])
    return Commit(generation=model.generation, staged=transaction.staged(), unleased={"vnf_instance": ids})


def test_a_commit_that_needs_free_instances_writes_nothing_while_an_operation_holds_one(store):
    leases = operations(store)
    given_back = leases.begin("b", "SCALE", "earlier")
    leases.end("b", given_back.id, given_back.proof)
    lease = leases.begin("a", "SCALE", "tacker")
    with pytest.raises(EntitiesLeased) as held:
        store.commit(unleased_commit(store, "a", "b", "c"))
    assert {i: row.holder for i, row in held.value.leases.items()} == {"a": "tacker"}
    assert store.load().generation == 0
    leases.end("a", lease.id, lease.proof)
    store.commit(unleased_commit(store, "a", "b", "c"))
    assert store.load().generation == 1


@on_one_database
def test_a_lease_that_has_expired_holds_no_commit_up(store):
    operations(store, seconds=0.05).begin("a", "SCALE", "dead")
    expired(operations(store), "a")
    store.commit(unleased_commit(store, "a"))
    assert store.load().generation == 1


def test_a_free_lease_cannot_be_taken_between_the_check_and_the_end_of_the_commit(store, takers):
    lease = takers[0].begin("a", "SCALE", "first")
    takers[0].end("a", lease.id, lease.proof)
    transaction = store._run(store.prepare(unleased_commit(store, "a")))
    taken = []
    thread = threading.Thread(target=lambda: taken.append(takers[1].begin("a", "SCALE", "tacker")), daemon=True)
    thread.start()
    thread.join(0.3)
    assert taken == []
    store._end(transaction)
    thread.join(deadline(60))
    assert [one.holder for one in taken] == ["tacker"]
