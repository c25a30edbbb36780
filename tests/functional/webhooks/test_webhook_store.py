# SPDX-License-Identifier: Apache-2.0
"""What a worker reads of the subscriptions and writes of their deliveries, on each kind of database."""

from __future__ import annotations

import datetime
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa

from tests.functional.storage.writing import commit, cycle_on, rows
from tests.functional.webhooks.subscribing import NOW, subscribe, subscription
from tests.simulated import told
from watcher_sync.exceptions import LeaseLost, RowRefused
from watcher_sync.extensions.webhooks.rows import (
    ACTIVE,
    DELIVERED,
    PENDING,
    SHARDS,
    SUSPENDED,
    DeliveryResult,
    NewDelivery,
    Progress,
    StateChange,
    SubscriptionRow,
    WorkerWrites,
)
from watcher_sync.extensions.webhooks.shards import ShardLeases
from watcher_sync.extensions.webhooks.subscriptions import Subscriptions
from watcher_sync.extensions.webhooks.worker_rows import WebhookStore
from watcher_sync.model.changes import Delete, Upsert
from watcher_sync.storage.writing.store import Store

URL = "https://receiver.example/hook"
ATTEMPT = {"time": NOW.isoformat(), "code": 500, "detail": "HTTP 500", "seconds": 0.1}


class Worker:
    """The store of a worker that owns all shards."""

    def __init__(self, store: Store, name: str = "a") -> None:
        self.webhooks = WebhookStore(store.database, store.tables)
        self.leases = ShardLeases(store.database, store.tables, seconds=600, name=name)
        self.leases.beat()

    def write(self, **writes: Any) -> None:
        self.webhooks.write(WorkerWrites(**writes), self.leases.owned, self.leases.name)


@pytest.fixture
def worker(store: Store) -> Worker:
    return Worker(store)


@pytest.fixture
def subscriptions(store: Store) -> Subscriptions:
    return Subscriptions(store.database, store.tables)


def delivery(of: SubscriptionRow, number: int, **fields: Any) -> NewDelivery:
    given: dict[str, Any] = {
        "webhook_id": f"msg_{number}", "subscription_id": of.id, "purpose": "changes", "previous_sequence": 0,
        "sequence": number, "content_type": "application/json", "body": b'{"n": %d}' % number, "created_at": NOW,
        "next_attempt_at": NOW,
    }  # fmt: skip
    return NewDelivery(**{**given, **fields})


def result(number: int, state: str, **fields: Any) -> DeliveryResult:
    ended = None if state == PENDING else NOW
    given = {"webhook_id": f"msg_{number}", "state": state, "attempts": [ATTEMPT], "next_attempt_at": None}
    return DeliveryResult(subscription_id="s", **{**given, "ended_at": ended, **fields})


def test_a_load_has_the_subscriptions_of_the_shards_and_their_pending_deliveries(store: Store, worker: Worker) -> None:
    made = [subscribe(store, number, URL) for number in range(6)]
    worker.write(planned=[delivery(made[0], 2), delivery(made[0], 1), delivery(made[1], 3)])
    worker.write(results=[result(3, DELIVERED), result(1, PENDING, next_attempt_at=NOW)])

    loaded = worker.webhooks.load(range(SHARDS))
    assert {(row[0].id, row[1].subscription_id) for row in loaded.rows} == {(each.id, each.id) for each in made}
    assert [(d.webhook_id, d.body, d.attempts) for d in loaded.pending] == [
        ("msg_2", b'{"n": 2}', []),
        ("msg_1", b'{"n": 1}', [ATTEMPT]),
    ]
    of_one = worker.webhooks.load([made[1].shard])
    assert {row[0].shard for row in of_one.rows} == {made[1].shard}


def test_a_write_whose_outcome_was_unknown_is_repeated_with_what_came_since(store: Store, worker: Worker) -> None:
    """The commit reached the database, and its answer was lost."""
    made = subscribe(store, 0, URL)
    worker.write(planned=[delivery(made, 1)], progress={made.id: Progress(subscription_id=made.id, sequence=1)})
    worker.write(
        planned=[delivery(made, 1), delivery(made, 2, purpose="test")],
        progress={made.id: Progress(subscription_id=made.id, sequence=2)},
    )
    loaded = worker.webhooks.load(range(SHARDS))
    assert [d.webhook_id for d in loaded.pending] == ["msg_1", "msg_2"]
    assert loaded.rows[0][1].sequence == 2


def test_what_was_written_after_a_revision_is_found_with_the_deleted(
    store: Store, worker: Worker, subscriptions: Subscriptions
) -> None:
    a, b, c = (subscribe(store, number, URL) for number in range(3))
    revision = worker.webhooks.load(range(SHARDS)).revision
    assert revision == worker.webhooks.revision()

    subscriptions.delete(a.id)
    subscriptions.replace(msgspec.structs.replace(b, callback_url=f"{URL}/new"))
    assert worker.webhooks.revision() > revision
    changed = worker.webhooks.changed_since(revision, range(SHARDS))
    assert {(row[0].id, row[0].state, row[0].callback_url) for row in changed.rows} == {
        (a.id, "deleted", URL),
        (b.id, ACTIVE, f"{URL}/new"),
    }
    assert worker.webhooks.changed_since(changed.revision, range(SHARDS)).rows == []
    assert {row[0].id for row in worker.webhooks.load(range(SHARDS)).rows} == {b.id, c.id}


def test_a_test_message_is_found_as_a_change_of_its_subscription(
    store: Store, worker: Worker, subscriptions: Subscriptions
) -> None:
    made = subscribe(store, 0, URL)
    revision = worker.webhooks.revision()
    assert subscriptions.add_test(made.id, "msg_test", "application/json", b"{}")

    changed = worker.webhooks.changed_since(revision, [made.shard])
    assert [(d.webhook_id, d.purpose) for d in changed.pending] == [("msg_test", "test")]


def test_one_write_stores_plans_results_progress_states_replays_and_the_position(
    store: Store, worker: Worker, subscriptions: Subscriptions
) -> None:
    a, b = subscribe(store, 0, URL), subscribe(store, 1, URL)
    subscriptions.replay(b.id, 0)
    worker.write(planned=[delivery(a, 1)])
    progress = Progress(
        subscription_id=a.id, sequence=9, held_since=10, behind_since=NOW, last_notify_time=NOW,
        last_notify_status=500, failures=3, failing_since=NOW, next_attempt_at=NOW,
    )  # fmt: skip

    worker.write(
        planned=[delivery(b, 2)],
        results=[result(1, DELIVERED)],
        progress={a.id: progress},
        states=[
            StateChange(
                subscription_id=a.id,
                instance_kind=a.instance_kind,
                instance_id=a.instance_id,
                revision=a.revision,
                state=SUSPENDED,
                reason="it fails",
            )
        ],
        replayed=[(b.id, 0)],
        sequence=17,
    )
    found = {row[0].id: row for row in worker.webhooks.load(range(SHARDS)).rows}
    assert found[a.id][1] == progress
    assert (found[a.id][0].state, found[a.id][0].reason) == (SUSPENDED, "it fails")
    assert found[b.id][0].replay_since is None
    assert worker.webhooks.shard_sequences([3]) == {3: 17}
    log = {row.webhook_id: row for row in rows(store, "webhook_deliveries")}
    assert (log["msg_1"].state, log["msg_1"].body, log["msg_1"].attempts) == (DELIVERED, None, [ATTEMPT])
    assert (log["msg_1"].next_attempt_at, log["msg_1"].ended_at) == (None, NOW)
    assert (log["msg_2"].state, log["msg_2"].body) == (PENDING, b'{"n": 2}')


def test_a_position_never_goes_back(worker: Worker) -> None:
    worker.write(sequence=17)
    worker.write(sequence=16)
    assert set(worker.webhooks.shard_sequences(range(SHARDS)).values()) == {17}


def test_a_later_write_of_the_subscriber_wins_over_a_suspension(
    store: Store, worker: Worker, subscriptions: Subscriptions
) -> None:
    made = subscribe(store, 0, URL)
    subscriptions.replace(made)
    worker.write(
        states=[
            StateChange(
                subscription_id=made.id,
                instance_kind=made.instance_kind,
                instance_id=made.instance_id,
                revision=made.revision,
                state=SUSPENDED,
                reason="old",
            )
        ]
    )

    row = subscriptions.find("i0", "s")
    assert row is not None
    assert row[0].state == ACTIVE


def test_a_suspension_is_a_change_that_the_other_readers_find(store: Store, worker: Worker) -> None:
    made = subscribe(store, 0, URL)
    revision = worker.webhooks.revision()
    worker.write(
        states=[
            StateChange(
                subscription_id=made.id,
                instance_kind=made.instance_kind,
                instance_id=made.instance_id,
                revision=made.revision,
                state=SUSPENDED,
                reason="x",
            )
        ]
    )
    assert [row[0].state for row in worker.webhooks.changed_since(revision, range(SHARDS)).rows] == [SUSPENDED]


@pytest.mark.parametrize("lost", ["one shard", "all shards"])
def test_a_write_without_the_lease_stores_nothing(store: Store, worker: Worker, lost: str) -> None:
    made = subscribe(store, 0, URL)
    t = store.tables.outlet_shards
    # Another worker takes a shard, not the one of the subscription.
    other = (made.shard + 1) % SHARDS
    with store.database.begin() as connection:
        update = sa.update(t).values(owner="b", token=t.c.token + 1)
        connection.execute(update if lost == "all shards" else update.where(t.c.shard == other))

    with pytest.raises(LeaseLost, match="took over"):
        worker.write(planned=[delivery(made, 1)], progress={made.id: Progress(subscription_id=made.id, sequence=5)})
    assert rows(store, "webhook_deliveries") == []
    assert worker.webhooks.load([made.shard]).rows[0][1].sequence == 0


def test_a_write_that_the_database_refuses_stores_nothing(store: Store, worker: Worker) -> None:
    made = subscribe(store, 0, URL)
    worker.write(planned=[delivery(made, 1)])
    with pytest.raises(RowRefused):
        worker.write(planned=[delivery(made, 2), delivery(made, 3, purpose=None)], sequence=5)
    assert [row.webhook_id for row in rows(store, "webhook_deliveries")] == ["msg_1"]
    assert worker.webhooks.shard_sequences([0]) == {0: 0}


def test_two_workers_write_their_shards_at_the_same_time(store: Store, worker: Worker) -> None:
    other = ShardLeases(store.database, store.tables, seconds=600, name="b")
    other.beat()
    worker.leases.give_back(list(range(16)))
    other.beat()
    worker.write(sequence=5)
    worker.webhooks.write(WorkerWrites(sequence=7), other.owned, "b")
    found = worker.webhooks.shard_sequences(range(SHARDS))
    assert {found[shard] for shard in range(16)} == {7}
    assert {found[shard] for shard in range(16, SHARDS)} == {5}


def test_a_purge_deletes_old_ended_deliveries_and_deleted_subscriptions_only(store: Store, worker: Worker) -> None:
    old, recent = NOW - datetime.timedelta(days=8), NOW - datetime.timedelta(days=1)
    kept = subscribe(store, 0, URL)
    worker.write(planned=[delivery(kept, n, created_at=old) for n in range(1, 1204)])
    worker.write(results=[result(n, DELIVERED, ended_at=old) for n in range(1, 1202)])
    worker.write(results=[result(1202, DELIVERED, ended_at=recent)])
    gone = Subscriptions(store.database, store.tables, now=lambda: old)
    made = gone.create(subscription(1, URL))
    gone.delete(made.id)
    late = subscribe(store, 2, URL)
    Subscriptions(store.database, store.tables).delete(late.id)

    portions = list(iter(lambda: worker.webhooks.purge(NOW - datetime.timedelta(days=7)), 0))
    assert sum(portions) == 1201 + 1
    assert max(portions) <= 200
    assert {row.webhook_id for row in rows(store, "webhook_deliveries")} == {"msg_1202", "msg_1203"}
    assert {row.id for row in rows(store, "subscriptions")} == {kept.id, late.id}
    assert {row.subscription_id for row in rows(store, "subscription_progress")} == {kept.id, late.id}


def test_deletions_of_a_part_of_the_journal_are_found(store: Store, worker: Worker) -> None:
    cycle = cycle_on(store)
    instances = [Upsert("instance", f"i{n}", "1", {"state": {"state": "active"}}) for n in range(3)]
    commit(cycle, told(1, *instances))
    commit(cycle, told(2, *(Delete("instance", f"i{n}", "2") for n in range(3))))

    assert [row.entity_id for row in worker.webhooks.deleted_between("instance", 0, 6)] == ["i0", "i1", "i2"]
    assert [row.entity_id for row in worker.webhooks.deleted_between("instance", 4, 5)] == ["i1"]
    assert worker.webhooks.deleted_between("workload", 0, 6) == []
