# SPDX-License-Identifier: Apache-2.0
"""A worker has the entities that its subscriptions need, and decodes no rows of others."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from tests.functional.storage.conftest import opened
from tests.functional.storage.writing import commit, cycle_on
from tests.functional.webhooks.receivers import answering, receiving, status
from tests.functional.webhooks.subscribing import Instances, subscribe, subscription
from tests.functional.webhooks.working import working
from tests.simulated import told
from tests.waiting import eventually
from watcher_sync.exceptions import JournalPurged
from watcher_sync.extensions.webhooks.replica import Replica
from watcher_sync.extensions.webhooks.rows import Progress, Row
from watcher_sync.model.changes import Delete, Upsert
from watcher_sync.storage.writing.journal import StoredRow, read_stored
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds

URL = "http://127.0.0.1:1/hook"


@pytest.fixture
def store(migrated_sqlite_url: str) -> Store:
    """One kind of database is enough."""
    return opened(migrated_sqlite_url, builtin_kinds())


def to_instances(*numbers: int) -> list[Row]:
    """Subscriptions to these instances."""
    return [(subscription(number, URL), Progress(subscription_id=f"s{number}")) for number in numbers]


def replica_of(store: Store, rows: list[Row]) -> Replica:
    """A replica with what these subscriptions need."""
    replica = Replica(store.kinds)
    missing = replica.missing(rows)
    replica.add(store.load(missing), missing)
    return replica


def rows_after(store: Store, seq: int) -> list[StoredRow]:
    with store.database.connect() as connection:
        return read_stored(connection, store.tables, seq, 1_000)


def test_rows_of_other_instances_move_the_generation_and_are_not_decoded(store: Store) -> None:
    instances = Instances(store)
    head = instances.write(range(10))
    replica = replica_of(store, to_instances(3, 12))
    assert replica.model.generation == head
    assert replica.model.snapshot().ids("instance") == ["i3"]
    head = instances.write(range(15))
    rows = rows_after(store, replica.model.generation)
    selected, before = replica.follow(rows)
    assert [row.entity_id for row in selected] == ["i3", "i12"]
    assert {row.entity_id for row in rows if not isinstance(row.content, tuple)} == {"i3", "i12"}
    assert replica.model.generation == head
    whole = store.load()
    assert all(replica.model.get("instance", name) == whole.get("instance", name) for name in ("i3", "i12"))
    assert before[("instance", "i12")] is None
    with pytest.raises(JournalPurged):
        replica.follow(rows)


def test_what_a_later_subscription_needs_is_added_at_the_same_seq(store: Store) -> None:
    cycle = cycle_on(store)
    commit(cycle, *(told(n, Upsert("instance", f"i{n}", f"{n:03d}", {"state": {"state": "a"}})) for n in (1, 2, 3)))
    commit(cycle, told(4, Delete("instance", "i2", "004")))
    replica = replica_of(store, to_instances(1))
    missing = replica.missing(to_instances(1, 2, 3))
    assert missing == {"instance": ["i2", "i3"]}
    replica.add(store.load(missing), missing)
    assert replica.model.snapshot().ids("instance") == ["i1", "i3"]
    tombstone = replica.model.tombstone("instance", "i2")
    assert tombstone is not None
    assert tombstone.seq == 4
    assert replica.missing(to_instances(1, 2, 3)) == {}
    replica.retain({("instance", "i3")})
    assert replica.model.snapshot().ids("instance") == ["i3"]
    assert replica.missing(to_instances(1)) == {"instance": ["i1"]}


def test_a_kind_that_is_not_installed_does_not_stop_the_others(store: Store) -> None:
    Instances(store).write(range(3))
    ((of_plugin, progress),) = to_instances(2)
    of_plugin = msgspec.structs.replace(of_plugin, instance_kind="of_no_plugin")
    replica = replica_of(store, [(of_plugin, progress), *to_instances(1)])
    assert replica.model.snapshot().ids("instance") == ["i1"]


def test_a_subscription_to_a_vnf_instance_needs_all_pods_and_workloads(store: Store) -> None:
    Instances(store).write(range(3))
    commit(
        cycle_on(store), told(9, Upsert("pod", "p1", "1", {"state": {"name": "p", "namespace": "n", "cluster": "c"}}))
    )
    of_vnf = [(subscription(0, URL, instance_kind="vnf_instance", instance_id="v"), Progress(subscription_id="s"))]
    assert Replica(store.kinds).missing(of_vnf) == dict.fromkeys(("vnf_instance", "workload", "pod"))
    replica = replica_of(store, of_vnf)
    assert replica.model.snapshot().ids("pod") == ["p1"]
    assert not replica.model.snapshot().count("instance")


def test_a_subscription_that_begins_while_the_worker_runs_gets_the_later_changes(store: Store) -> None:
    instances = Instances(store)
    instances.write(range(5))

    async def run() -> None:
        async with receiving(answering(status(200))) as receiver:
            subscribe(store, 0, receiver.url)
            async with working(store, 1) as worker:
                for number in range(1, 5):
                    before = instances.committed[f"i{number}"]
                    await asyncio.to_thread(instances.write, range(5))
                    await asyncio.to_thread(subscribe, store, number, receiver.url)
                    await asyncio.to_thread(instances.write, range(5))
                    await eventually(lambda number=number: worker.stats.subscriptions == number + 1)
                    value = instances.committed[f"i{number}"]
                    bodies = [body for _, _, body in receiver.requests]
                    assert not any(f'"{before}"'.encode() in body for body in bodies)
                    await eventually(
                        lambda value=value: any(f'"{value}"'.encode() in body for _, _, body in receiver.requests)
                    )

    asyncio.run(run())
