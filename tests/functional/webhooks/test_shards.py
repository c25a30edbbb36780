# SPDX-License-Identifier: Apache-2.0
"""Workers divide the shards, and no two of them may send the deliveries of one shard."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

import pytest
import sqlalchemy as sa

from tests.functional.storage.conftest import on_one_database, opened
from tests.functional.webhooks.conftest import SetClock
from tests.waiting import deadline
from watcher_sync.exceptions import DatabaseUnavailable, LeaseLost
from watcher_sync.extensions.webhooks.rows import SHARDS, WorkerWrites
from watcher_sync.extensions.webhooks.shards import ShardLeases
from watcher_sync.extensions.webhooks.worker_rows import WebhookStore
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds

SECONDS = 10.0


def worker(store: Store, name: str, clock: SetClock) -> ShardLeases:
    return ShardLeases(store.database, store.tables, seconds=SECONDS, name=name, clock=clock)


def share(workers: list[ShardLeases]) -> list[int]:
    """Have workers beat, and give back what is above their shares, until nothing changes."""
    sizes: list[int] = []
    for _ in range(10):
        for each in workers:
            found = each.beat()
            each.give_back(sorted(found.shards)[: found.excess])
        before, sizes = sizes, [len(each.owned) for each in workers]
        if sizes == before:
            return sizes
    raise AssertionError(f"the shares do not settle: {sizes}")


def owners(store: Store) -> dict[int, str]:
    t = store.tables.outlet_shards
    with store.database.connect() as connection:
        return {row.shard: row.owner for row in connection.execute(sa.select(t.c.shard, t.c.owner))}


def assert_apart(workers: list[ShardLeases]) -> None:
    """No shard is held by two."""
    for shard in range(SHARDS):
        holders = [each.name for each in workers if each.holds(shard)]
        assert len(holders) <= 1, f"{holders} hold shard {shard}"


def test_the_first_takes_all_and_each_further_worker_gets_its_fair_share(store: Store, clock: SetClock) -> None:
    a, b, c = (worker(store, name, clock) for name in "abc")

    assert share([a]) == [SHARDS]
    assert share([a, b]) == [16, 16]
    sizes = share([a, b, c])
    assert sum(sizes) == SHARDS
    assert max(sizes) <= 11
    assert_apart([a, b, c])
    assert set(owners(store).values()) == {"a", "b", "c"}


def test_a_worker_that_leaves_frees_its_shards_at_once(store: Store, clock: SetClock) -> None:
    a, b = worker(store, "a", clock), worker(store, "b", clock)
    share([a, b])

    a.leave()
    assert len(b.beat().shards) == SHARDS
    assert not a.owned


def test_the_shards_of_a_dead_worker_are_taken_over_after_the_lease_time(store: Store, clock: SetClock) -> None:
    a, b = worker(store, "a", clock), worker(store, "b", clock)
    share([a, b])
    tokens = a.owned

    clock.now += SECONDS - 0.1
    assert len(b.beat().shards) == 16
    clock.now += 0.2
    taken = b.beat().shards
    assert len(taken) == SHARDS
    assert all(taken[shard] > token for shard, token in tokens.items())


@on_one_database
def test_a_frozen_worker_holds_nothing_before_another_takes_over(store: Store, clock: SetClock) -> None:
    a, b = worker(store, "a", clock), worker(store, "b", clock)
    share([a, b])
    began = clock.now

    while len(b.beat().shards) < SHARDS:
        assert_apart([a, b])
        clock.now += 0.5
        assert clock.now < began + 3 * SECONDS
    assert_apart([a, b])
    assert not any(a.holds(shard) for shard in range(SHARDS))


@on_one_database
def test_a_worker_that_returns_owns_nothing_until_it_takes_shards_again(store: Store, clock: SetClock) -> None:
    a, b = worker(store, "a", clock), worker(store, "b", clock)
    share([a, b])
    old = a.owned
    clock.now += SECONDS + 1
    b.beat()

    assert a.beat().shards == {}
    assert_apart([a, b])
    assert share([a, b]) == [16, 16]
    assert all(a.owned[shard] > old[shard] for shard in a.owned.keys() & old.keys())


def test_a_worker_whose_row_was_deleted_takes_its_shards_with_new_tokens(store: Store, clock: SetClock) -> None:
    a = worker(store, "a", clock)
    share([a])
    old = a.owned
    with store.database.begin() as connection:
        connection.execute(sa.delete(store.tables.outlet_workers))

    new = a.beat().shards
    # Another worker counted it as dead, and may be about to take the shards with the tokens that it read.
    assert new == {shard: token + 1 for shard, token in old.items()}
    assert all(a.holds(shard, new[shard]) and not a.holds(shard, old[shard]) for shard in old)


def test_a_worker_that_beats_while_another_buries_it_keeps_its_shards_to_itself(
    store: Store, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = worker(store, "a", clock), worker(store, "b", clock)
    share([a, b])
    clock.now += SECONDS + 1
    take, beats = b._take, itertools.count()

    def take_late(*arguments: object, **options: object) -> bool:
        if next(beats) == 0:
            a.beat()  # it wakes when the other has found it dead, and has taken nothing yet
        return take(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(b, "_take", take_late)
    b.beat()
    assert_apart([a, b])


def test_a_worker_that_joins_meanwhile_is_not_taken_for_dead(
    store: Store, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = worker(store, "a", clock), worker(store, "b", clock)
    look, statements = a._read_workers, itertools.count()

    def beat_of_another(*_: object) -> None:
        # After the first query of a beat, another worker joins and takes shards.
        if next(statements) == 0:
            b.beat()

    def look_late(*arguments: object) -> object:
        sa.event.listen(store.database, "after_cursor_execute", beat_of_another, once=True)
        return look(*arguments)

    monkeypatch.setattr(a, "_read_workers", look_late)
    a.beat()
    assert_apart([a, b])


def test_a_write_of_a_former_owner_fails_and_writes_nothing(store: Store, clock: SetClock) -> None:
    a, b = worker(store, "a", clock), worker(store, "b", clock)
    share([a])
    webhooks = WebhookStore(store.database, store.tables)
    webhooks.write(WorkerWrites(sequence=5), a.owned, "a")
    clock.now += SECONDS + 1
    b.beat()  # it sees the beat for the first time
    clock.now += SECONDS + 1
    b.beat()

    with pytest.raises(LeaseLost, match="took over"):
        webhooks.write(WorkerWrites(sequence=7), a.owned, "a")
    assert set(webhooks.shard_sequences(range(SHARDS)).values()) == {5}
    webhooks.write(WorkerWrites(sequence=7), b.owned, "b")
    assert set(webhooks.shard_sequences(range(SHARDS)).values()) == {7}


@on_one_database
def test_a_beat_and_a_return_of_shards_at_the_same_time_agree_on_what_is_owned(
    store: Store, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = worker(store, "a", clock)
    a.beat()
    worker(store, "b", clock).beat()
    look = a._read_workers
    threads: list[threading.Thread] = []

    def look_and_give_back(*arguments: object) -> object:
        found = look(*arguments)
        threads.append(threading.Thread(target=a.give_back, args=([0, 1],)))
        threads[0].start()
        threads[0].join(0.3)  # it must wait for the beat; without a lock it is done by now
        return found

    monkeypatch.setattr(a, "_read_workers", look_and_give_back)
    a.beat()
    threads[0].join(deadline(60))
    assert {shard for shard, owner in owners(store).items() if owner == "a"} == set(a.owned)


@on_one_database
def test_the_lease_of_a_worker_without_a_database_ends(
    new_store: Callable[[], Store], clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = new_store()
    a = worker(store, "a", clock)
    a.beat()

    def refuse(*_: object, **__: object) -> object:
        raise sa.exc.OperationalError("connect", {}, Exception("away"))

    monkeypatch.setattr(store.database, "connect", refuse)
    monkeypatch.setattr(store.database, "begin", refuse)
    with pytest.raises(DatabaseUnavailable):
        a.beat()
    assert a.holds(0)
    clock.now += SECONDS * 0.81
    assert not a.holds(0)


@pytest.mark.parametrize("database", ["postgresql", "mariadb"])
def test_a_worker_frozen_in_a_write_does_not_keep_its_shards(
    request: pytest.FixtureRequest, database: str, clock: SetClock
) -> None:
    url = request.getfixturevalue(f"migrated_{database}_url")
    # Only the frozen transaction has the short limit: a pause of this process must not end another one.
    frozen, store = (opened(url, builtin_kinds(), idle_transaction_timeout=limit) for limit in (2, 60))
    a, b = worker(store, "a", clock), worker(store, "b", clock)
    a.beat()
    b.beat()
    clock.now += SECONDS + 1
    connection = frozen.database.connect()
    connection.begin()
    connection.execute(sa.update(frozen.tables.outlet_shards).values(owner="a"))

    # An error if the wait for the lock ended first.
    assert len(b.beat().shards) == SHARDS
    connection.invalidate()
    connection.close()
    for each in (frozen, store):
        each.database.dispose()
