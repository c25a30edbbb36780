# SPDX-License-Identifier: Apache-2.0
"""A delivery that the database refuses suspends its subscription, and delays no other one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping

import pytest
import sqlalchemy as sa

from tests.functional.storage.conftest import opened
from tests.functional.storage.writing import commit, cycle_on
from tests.functional.webhooks.receivers import answering, receiving, status
from tests.functional.webhooks.subscribing import Instances, subscribe
from tests.functional.webhooks.working import working
from tests.services.servers import Server, private_mariadb
from tests.simulated import told
from tests.waiting import eventually
from watcher_sync.exceptions import RowRefused
from watcher_sync.extensions.webhooks.rows import SUSPENDED, StateChange, WorkerWrites
from watcher_sync.extensions.webhooks.subscriptions import Subscriptions
from watcher_sync.extensions.webhooks.worker_rows import WebhookStore
from watcher_sync.model.changes import Upsert
from watcher_sync.storage.schema import schema
from watcher_sync.testing.kinds import builtin_kinds

PACKET_BYTES = 524_288
LARGE = chr(34) * 180_000
"""As JSON it has 360,000 bytes, and 720,000 in a statement."""


def test_a_refused_delivery_suspends_its_subscription_and_the_others_are_delivered(
    migrated_sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(migrated_sqlite_url, builtin_kinds())
    instances, refused = Instances(store), ["i3"]
    instances.write(range(8))
    write = WebhookStore.write

    def refusing(self: WebhookStore, writes: WorkerWrites, owned: Mapping[int, int], owner: str) -> list[StateChange]:
        if any(f'"{name}"'.encode() in each.body for each in writes.planned for name in refused):
            raise RowRefused("a value that it never takes")
        return write(self, writes, owned, owner)

    monkeypatch.setattr(WebhookStore, "write", refusing)
    subscriptions = Subscriptions(store.database, store.tables)

    async def run() -> None:
        async with receiving(answering(status(200))) as receiver:
            made = [subscribe(store, number, receiver.url) for number in range(8)]
            async with working(store, 8) as worker:
                await asyncio.to_thread(instances.write, range(8))
                await eventually(lambda: worker.stats.attempts.get("delivered", 0) == 7)
                await eventually(lambda: subscriptions.find("i3", "s")[0].state == SUSPENDED)
                assert "a value that it never takes" in subscriptions.find("i3", "s")[0].reason
                refused.clear()
                await asyncio.to_thread(subscriptions.replace, subscriptions.find("i3", "s")[0])
                await eventually(lambda: worker.stats.attempts.get("delivered", 0) == 8)
            bodies = [body for _, _, body in receiver.requests]
            assert all(any(f'"{value}"'.encode() in body for body in bodies) for value in instances.committed.values())
            assert len(made) == len(receiver.requests)
            assert f'"previous-sequence":{made[3].start_after}'.encode() in bodies[-1]

    asyncio.run(run())
    store.close()
    store.database.dispose()


@pytest.fixture
def small_mariadb() -> Iterator[Server]:
    with private_mariadb() as server:
        yield server


def test_with_a_small_max_allowed_packet_a_delivery_is_made_to_fit_and_arrives(small_mariadb: Server) -> None:
    plain = sa.create_engine(small_mariadb.url, isolation_level="AUTOCOMMIT")
    with plain.connect() as connection:
        connection.exec_driver_sql("CREATE DATABASE small CHARACTER SET utf8mb4")
    url = sa.make_url(small_mariadb.url).set(database="small").render_as_string(hide_password=False)
    before = opened(url, builtin_kinds())
    schema.upgrade(before.database, before.tables)
    Instances(before).write([0])
    facets = {"state": {"state": "active"}, "details": {"metadata": {"x": LARGE}, "project_id": "p"}}

    async def run() -> None:
        async with receiving(answering(status(200))) as receiver:
            subscribe(before, 0, receiver.url, payload="full", sees_admin_only=True)
            commit(cycle_on(before), told(9, Upsert("instance", "i0", f"{9:012d}", facets)))
            before.close()
            before.database.dispose()
            with plain.connect() as connection:
                connection.exec_driver_sql(f"SET GLOBAL max_allowed_packet = {PACKET_BYTES}")
            store = opened(url, builtin_kinds())
            async with working(store, 1):
                await eventually(lambda: receiver.requests)
            assert b'"truncated":true' in receiver.requests[0][2]
            store.database.dispose()

    asyncio.run(run())
    plain.dispose()
