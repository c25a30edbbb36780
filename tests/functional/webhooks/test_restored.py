# SPDX-License-Identifier: Apache-2.0
"""Subscribers of a database that goes back in time get all their resources, with the reason."""

from __future__ import annotations

import asyncio

import pytest

from tests.functional.storage.conftest import opened
from tests.functional.webhooks.receivers import Receiver, answering, receiving, status
from tests.functional.webhooks.subscribing import Instances, subscribe
from tests.functional.webhooks.working import working
from tests.setting_back import Backup
from tests.waiting import eventually
from watcher_sync.exceptions import HistoryChanged
from watcher_sync.extensions.webhooks.subscriptions import Subscriptions
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds

GOOD = answering(status(200))


@pytest.fixture
def store(migrated_sqlite_url: str) -> Store:
    return opened(migrated_sqlite_url, builtin_kinds())


def bodies_with(receiver: Receiver, text: str) -> list[bytes]:
    """The bodies with this text, each once: a delivery may be repeated."""
    return list(dict.fromkeys(body for _, _, body in receiver.requests if text.encode() in body))


@pytest.mark.parametrize("is_running", [True, False])
def test_a_subscriber_gets_all_resources_with_the_new_epoch(store: Store, is_running: bool) -> None:
    instances = Instances(store)
    instances.write([0], "kept")
    epoch = instances.model.epoch

    async def run() -> None:
        async with receiving(GOOD) as receiver:
            subscribe(store, 0, receiver.url)
            async with working(store, 1):
                instances.write([0], "known")
                await eventually(lambda: bodies_with(receiver, "known"))
                backup = Backup(store)
                await eventually(lambda: shard_epochs(store) == {epoch})
                backup = Backup(store)
                instances.write([0], "lost")
                await eventually(lambda: bodies_with(receiver, "lost"))
                if is_running:
                    restore(store, backup, instances)
                    await eventually(lambda: bodies_with(receiver, "went back in time"))
            if not is_running:
                restore(store, backup, instances)
                # The restored row of the worker that has left counts as alive for this long.
                async with working(store, 1, lease=5.0):
                    await eventually(lambda: bodies_with(receiver, "went back in time"))
            told = bodies_with(receiver, "went back in time")
            assert b'"known"' in told[0]
            assert str(instances.model.epoch).encode() in told[0]
            async with working(store, 1):
                instances.write([0], "further")
                await eventually(lambda: bodies_with(receiver, "further"))
                await eventually(lambda: shard_epochs(store) == {instances.model.epoch})
            assert len(bodies_with(receiver, "went back in time")) == 1

    asyncio.run(run())


def test_a_subscription_that_is_not_active_gets_all_resources_when_it_is_resumed(store: Store) -> None:
    instances = Instances(store)
    instances.write([0], "known")
    subscriptions = Subscriptions(store.database, store.tables)

    async def run() -> None:
        async with receiving(GOOD) as receiver:
            made = subscribe(store, 0, receiver.url, state="gone")

            def put() -> None:
                row = subscriptions.find(made.instance_id, made.name)
                assert row is not None
                assert subscriptions.replace(row[0])

            async with working(store, 1):
                await eventually(lambda: shard_epochs(store) == {instances.model.epoch})
                backup = Backup(store)
                put()
                instances.write([0], "lost")
                await eventually(lambda: bodies_with(receiver, "lost"))
                restore(store, backup, instances)
                await eventually(lambda: shard_epochs(store) == {instances.model.epoch})
            async with working(store, 1):
                put()
                await eventually(lambda: bodies_with(receiver, "went back in time"))
            assert b'"known"' in bodies_with(receiver, "went back in time")[0]

    asyncio.run(run())


def restore(store: Store, backup: Backup, instances: Instances) -> None:
    backup.restore()
    with pytest.raises(HistoryChanged):
        instances.follow()


def shard_epochs(store: Store) -> set[str | None]:
    table = store.tables.outlet_shards
    with store.database.connect() as connection:
        return set(connection.execute(table.select().with_only_columns(table.c.epoch)).scalars())
