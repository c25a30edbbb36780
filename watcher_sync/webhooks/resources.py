# SPDX-License-Identifier: Apache-2.0
"""What the sessions of a worker share: the database and its thread, the sender, options, and signals."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from oslo_log import log as logging

from watcher_sync.exceptions import StorageError
from watcher_sync.read.journal_reader import JournalReader
from watcher_sync.storage.writing.store import Store
from watcher_sync.webhooks.deliveries import Clock, DeliverySettings
from watcher_sync.webhooks.metrics import DeliveryStats
from watcher_sync.webhooks.secrets import SecretBox
from watcher_sync.webhooks.sender import Sender
from watcher_sync.webhooks.shards import ShardLeases, WorkerHeartbeat
from watcher_sync.webhooks.worker_rows import WebhookStore

LOG = logging.getLogger(__name__)

T = TypeVar("T")


class DatabaseAvailability:
    """Logs when the database becomes unavailable to a worker, and when it recovers. For one thread."""

    def __init__(self) -> None:
        self.is_available = True

    def failed(self, error: StorageError) -> None:
        """A call failed, and is retried."""
        if self.is_available:
            LOG.warning("webhooks: database unavailable, retrying: %s", error)
        self.is_available = False

    def succeeded(self) -> None:
        """A call succeeded."""
        if not self.is_available:
            LOG.info("webhooks: database recovered")
        self.is_available = True


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
