# SPDX-License-Identifier: Apache-2.0
"""A worker in a thread of the test's process, with connections to the loopback interface."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import random
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any

from tests.functional.webhooks.receivers import sender
from tests.waiting import eventually
from watcher_sync.extensions.webhooks.deliveries import Clock, DeliverySettings
from watcher_sync.extensions.webhooks.secrets import SecretBox
from watcher_sync.extensions.webhooks.shards import ShardLeases
from watcher_sync.extensions.webhooks.worker import WebhookWorker
from watcher_sync.read.journal_reader import JournalReader
from watcher_sync.storage.writing.store import Store

CLOCK = Clock(
    now=lambda: datetime.datetime.now(datetime.UTC),
    monotonic=time.monotonic,
    random=random.random,
    new_id=lambda: f"msg_{uuid.uuid4().hex}",
)


@contextlib.asynccontextmanager
async def working(
    store: Store, subscriptions: int, *, clock: Clock = CLOCK, lease: float = 30.0, **options: Any
) -> AsyncIterator[WebhookWorker]:
    """A worker that has loaded so many subscriptions.

    :param lease: seconds.
    :param options: of the sender.
    """
    leases = ShardLeases(store.database, store.tables, seconds=lease, name=f"test-{uuid.uuid4().hex}")
    reader = JournalReader(store.database, store.tables, interval=0.02)
    worker = WebhookWorker(store, leases, reader, lambda: sender(**options), SecretBox([]), DeliverySettings(), clock)
    reader.start()
    worker.start()
    try:
        # A restored database has the row of a worker that has left: its lease has to end first.
        await eventually(lambda: worker.stats.subscriptions == subscriptions, 150)
        yield worker
    finally:
        await asyncio.to_thread(worker.stop, 60)
        reader.stop()
        assert not worker.is_alive()
