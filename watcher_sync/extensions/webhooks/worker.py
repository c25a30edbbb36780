# SPDX-License-Identifier: Apache-2.0
"""Delivers the webhooks of the shards that this process owns: one thread with an event loop.

A session (:mod:`watcher_sync.extensions.webhooks.session`) does the work. A heartbeat thread renews the lease of the
shards, also while a session loads.

* Database unavailable: nothing new is planned. What could not be written is written later.
* A shard was taken over, or an unexpected error: the worker begins a new session with what it still owns.
* Stop: no further attempt begins. Those under way get a few seconds.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable

import msgspec
from oslo_log import log as logging

from watcher_sync.exceptions import LeaseLost, StorageError
from watcher_sync.extensions.webhooks.deliveries import Clock, DeliverySettings
from watcher_sync.extensions.webhooks.metrics import DeliveryStats
from watcher_sync.extensions.webhooks.resources import WorkerResources
from watcher_sync.extensions.webhooks.secrets import SecretBox
from watcher_sync.extensions.webhooks.sender import Sender
from watcher_sync.extensions.webhooks.session import DeliverySession
from watcher_sync.extensions.webhooks.shards import ShardLeases, WorkerHeartbeat
from watcher_sync.extensions.webhooks.worker_rows import WebhookStore
from watcher_sync.periodic import Outage
from watcher_sync.read.journal_reader import JournalReader
from watcher_sync.storage.writing.store import Store

LOG = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0
_BEAT_SECONDS = 5.0
"""How long a beat under way may delay the end."""


class WebhookWorker:
    """The webhooks of one process."""

    def __init__(
        self,
        store: Store,
        leases: ShardLeases,
        reader: JournalReader,
        make_sender: Callable[[], Sender],
        secrets: SecretBox,
        settings: DeliverySettings,
        clock: Clock,
    ) -> None:
        """:param make_sender: called in the thread of the event loop."""
        self._store = store
        self._leases = leases
        self._reader = reader
        self._make_sender = make_sender
        self._secrets = secrets
        self._settings = settings
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run_thread, name="webhooks", daemon=True)
        self._stopping = threading.Event()
        self._wake = asyncio.Event()
        self._outage = Outage(LOG, "webhooks: database unavailable", "webhooks: database recovered")
        self._beats: WorkerHeartbeat | None = None
        self.stats = DeliveryStats()

    def start(self) -> None:
        """Start the threads; returns at once."""
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Stop; returns when all has ended, or after so many seconds."""
        self._stopping.set()
        self._notify()
        self._thread.join(timeout)

    def is_alive(self) -> bool:
        """Whether the worker runs: its own thread, and those that renew its lease and read the journal."""
        beats = self._beats
        return self._thread.is_alive() and (beats is None or beats.thread.is_alive()) and self._reader.is_alive()

    def _notify(self) -> None:
        """Have the loop look for work. Any thread may call it."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            try:
                loop.call_soon_threadsafe(self._wake.set)
            except RuntimeError:  # it was closed meanwhile
                return

    def _run_thread(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        unsubscribe = self._reader.subscribe(self._notify)
        beats = WorkerHeartbeat(self._leases, self._notify)
        beats.thread.start()
        self._beats = beats
        with concurrent.futures.ThreadPoolExecutor(1, "webhook-database") as database:
            try:
                async with self._make_sender() as sender:
                    resources = self._resources(sender, beats, database)
                    while not self._stopping.is_set():
                        await self._run_session(resources)
            finally:
                unsubscribe()
                await asyncio.to_thread(beats.thread.stop, _BEAT_SECONDS)
            await self._leave(resources)

    async def _leave(self, resources: WorkerResources) -> None:
        """Give the shards to the other workers."""
        try:
            await resources.call(self._leases.leave)
        except StorageError as exc:
            LOG.info("webhooks: the shards were not given back: %s", exc)

    async def _run_session(self, resources: WorkerResources) -> None:
        """Work until a shard or the database is lost, or the worker stops."""
        session: DeliverySession | None = None
        try:
            await resources.call(self._store.time.refresh)  # before the loop asks for the time
            fitting = await resources.call(resources.rows.max_value_bytes)
            body_bytes = min(self._settings.max_body_bytes, fitting)
            session = DeliverySession(msgspec.structs.replace(resources, max_body_bytes=body_bytes))
            resources.outage.succeeded()
            await session.run()
        except LeaseLost as exc:
            LOG.warning("webhooks: %s; loading the subscriptions again", exc)
        except StorageError as exc:
            resources.outage.failed(exc)
            await asyncio.sleep(_RETRY_SECONDS)
        except Exception:
            # The other subscriptions must not stay without deliveries.
            LOG.exception("webhooks: an unexpected error; loading the subscriptions again")
            await asyncio.sleep(_RETRY_SECONDS)
        finally:
            if session is not None:
                await session.end()

    def _resources(
        self, sender: Sender, beats: WorkerHeartbeat, database: concurrent.futures.Executor
    ) -> WorkerResources:
        return WorkerResources(
            store=self._store,
            rows=WebhookStore(self._store.database, self._store.tables),
            leases=self._leases,
            beats=beats,
            reader=self._reader,
            sender=sender,
            secrets=self._secrets,
            settings=self._settings,
            clock=self._clock,
            max_body_bytes=self._settings.max_body_bytes,
            stats=self.stats,
            database=database,
            outage=self._outage,
            wake=self._wake,
            is_stopping=self._stopping.is_set,
            notify=self._notify,
        )
