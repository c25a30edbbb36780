# SPDX-License-Identifier: Apache-2.0
"""What the sessions of a worker share: the database and its thread, the sender, options, and signals."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from watcher_sync.extensions.webhooks.deliveries import Clock, DeliverySettings
from watcher_sync.extensions.webhooks.metrics import DeliveryStats
from watcher_sync.extensions.webhooks.secrets import SecretBox
from watcher_sync.extensions.webhooks.sender import Sender
from watcher_sync.extensions.webhooks.shards import ShardLeases, WorkerHeartbeat
from watcher_sync.extensions.webhooks.worker_rows import WebhookStore
from watcher_sync.periodic import Outage
from watcher_sync.read.journal_reader import JournalReader
from watcher_sync.storage.writing.store import Store

T = TypeVar("T")


class WorkerResources(msgspec.Struct, frozen=True, kw_only=True):
    """What the sessions of a worker share."""

    store: Store
    rows: WebhookStore
    leases: ShardLeases
    beats: WorkerHeartbeat
    reader: JournalReader
    sender: Sender
    secrets: SecretBox
    settings: DeliverySettings
    clock: Clock
    max_body_bytes: int
    """That of the settings, or what fits into the database if that is less."""
    stats: DeliveryStats
    database: concurrent.futures.Executor
    """The thread that calls the database."""
    outage: Outage
    """Of the database."""
    wake: asyncio.Event
    """Set when there may be work."""
    is_stopping: Callable[[], bool]
    notify: Callable[[], None]
    """Sets ``wake``, from any thread."""

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call the database in its thread."""
        return await asyncio.get_running_loop().run_in_executor(self.database, function, *arguments)
