# SPDX-License-Identifier: Apache-2.0
"""What the sessions of a worker share."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from watcher_sync.read.journal_reader import JournalReader
from watcher_sync.storage.writing.store import Store
from watcher_sync.webhooks.attempts import Attempt
from watcher_sync.webhooks.availability import DatabaseAvailability
from watcher_sync.webhooks.rows import WebhookStore
from watcher_sync.webhooks.secrets import SecretBox
from watcher_sync.webhooks.sender import Sender
from watcher_sync.webhooks.settings import Clock, DeliverySettings
from watcher_sync.webhooks.shards import ShardLeases, WorkerHeartbeat

T = TypeVar("T")


class DeliveryStats:
    """What a worker did, for metrics. Any thread may read it."""

    def __init__(self) -> None:
        self.subscriptions = 0
        self.attempts: dict[str, int] = {}
        """delivered, failed and not_sent -> attempts."""
        self.planned = 0
        self.shards = 0
        self.running = 0
        self.queued = 0
        self.lag_seconds = 0.0
        """How long the oldest change waits for its delivery, as of the last checkpoint."""

    def count(self, attempt: Attempt) -> None:
        """Count an attempt."""
        result = "not_sent" if attempt.not_sent else "delivered" if attempt.ok else "failed"
        self.attempts[result] = self.attempts.get(result, 0) + 1


class SessionParts(msgspec.Struct, frozen=True, kw_only=True):
    """What the sessions of a worker share."""

    store: Store
    webhooks: WebhookStore
    leases: ShardLeases
    beats: WorkerHeartbeat
    reader: JournalReader
    sender: Sender
    secrets: SecretBox
    settings: DeliverySettings
    clock: Clock
    connections: int
    connections_per_host: int
    log_days: Callable[[], int]
    stats: DeliveryStats
    database: concurrent.futures.Executor
    """The thread that calls the database."""
    availability: DatabaseAvailability
    wake: asyncio.Event
    """Set when there may be work."""
    is_stopping: Callable[[], bool]
    notify: Callable[[], None]
    """Sets ``wake``, from any thread."""

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call the database in its thread."""
        return await asyncio.get_running_loop().run_in_executor(self.database, function, *arguments)
