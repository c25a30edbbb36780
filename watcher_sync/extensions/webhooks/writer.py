# SPDX-License-Identifier: Apache-2.0
"""Writes what a planner has, and admits what was planned; and purges the delivery log beside that.

One transaction has the rows of many subscriptions. If the database refuses a value, the writes are divided into halves
by subscription, until each refused part has one subscription only. That one is suspended, and all others are written.

A subscription that was suspended, or ended, is recorded in the journal. The row is a remark: it belongs to the
instance, and changes nothing of it, not even the seq that is its ETag. So replicas and outlets skip it.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

from oslo_log import log as logging

from watcher_sync.exceptions import DatabaseUnavailable, RowRefused, StorageError
from watcher_sync.extensions.webhooks.deliveries import Outgoing
from watcher_sync.extensions.webhooks.planner import Planner
from watcher_sync.extensions.webhooks.resources import WorkerResources
from watcher_sync.extensions.webhooks.rows import StateChange, WorkerWrites
from watcher_sync.storage.database.database import retried
from watcher_sync.storage.writing import journal
from watcher_sync.storage.writing.locked import lock_head
from watcher_sync.storage.writing.store import Store

LOG = logging.getLogger(__name__)

RETRY_SECONDS: Final = 1.0
_RECORDED_AT_ONCE: Final = 20
"""Rows of the journal in one transaction, which keeps the engines waiting."""


class DeliveryWriter:
    """The writes of one session."""

    def __init__(
        self, resources: WorkerResources, planner: Planner, owned: Mapping[int, int], admit: Callable[[Outgoing], None]
    ) -> None:
        """:param owned: the shards of this worker now.

        :param admit: is called with each planned delivery that was written.
        """
        self._resources = resources
        self._planner = planner
        self._owned = owned
        self._admit = admit
        self.written_sequence = -1
        """The seq up to which the last written checkpoint says that all is planned or held."""

    async def write(self, *, checkpoint: bool) -> bool:
        """Write what the planner has, and start what was planned. Return whether the database took it.

        :raises LeaseLost: another worker took over a shard.
        """
        writes, planned = self._planner.take_writes(checkpoint=checkpoint)
        if writes.is_empty():
            return True
        return await self._write_some(writes, planned)

    async def _write_some(self, writes: WorkerWrites, planned: list[Outgoing]) -> bool:
        """Write these; what the database refuses suspends its own subscription only.

        :raises LeaseLost: another worker took over a shard.
        """
        try:
            ended = await self._resources.call(
                self._resources.rows.write, writes, dict(self._owned), self._resources.leases.name
            )
        except RowRefused as exc:
            return await self._write_around(writes, planned, str(exc))
        except DatabaseUnavailable as exc:
            self._planner.restore(writes, planned)
            self._resources.outage.failed(exc)
            await asyncio.sleep(RETRY_SECONDS)
            return False
        self._resources.outage.succeeded()
        if writes.sequence is not None:
            self.written_sequence = writes.sequence
        for start in range(0, len(ended), _RECORDED_AT_ONCE):
            await self._record(ended[start : start + _RECORDED_AT_ONCE])
        self._resources.stats.planned += len(planned)
        for outgoing in planned:
            self._admit(outgoing)
        return True

    async def _write_around(self, writes: WorkerWrites, planned: list[Outgoing], reason: str) -> bool:
        """Write what the database does not refuse. Return whether it took that."""
        ids = writes.subscriptions()
        if len(ids) < 2:
            if ids:
                self._planner.refused(writes, planned, reason)
            return True
        taken = True
        for part in writes.halves():
            mine = set(part.subscriptions())
            some = [each for each in planned if each.subscription.id in mine]
            if taken:
                taken = await self._write_some(part, some)
            else:
                self._planner.restore(part, some)
        return taken

    async def _record(self, states: Sequence[StateChange]) -> None:
        """Record in the journal which subscriptions were suspended or ended."""
        try:
            await self._resources.call(record, self._resources.store, states, self._resources.clock.now())
        except StorageError as exc:
            LOG.warning("webhooks: the journal has no row of %d subscriptions that ended: %s", len(states), exc)


@retried
def record(store: Store, ended: Sequence[StateChange], now: datetime.datetime) -> None:
    """Write a row to the journal for each subscription whose instance still exists, under its locked head.

    :raises DatabaseUnavailable: the database is unavailable; nothing is written.
    """
    with lock_head(store) as (locked, model), locked.connect() as connection:
        for each in ended:
            entity = model.get(each.instance_kind, each.instance_id)
            if entity is None:
                continue
            journal.add_remark(
                connection,
                locked.tables,
                entity,
                each.instance_kind,
                event_type=f"outlet.subscription.{each.state}",
                event_id=each.subscription_id,
                source="outlet",
                now=now,
            )


_PURGE_SECONDS = 600.0
"""Between two purges of the delivery log that found nothing more."""
_PORTION_SECONDS = 0.5
"""From a portion of a purge to the next one."""
_PURGING_SHARD = 0
"""The worker that owns this shard purges the delivery log."""


class Purger:
    """The purges of one session, in portions: one worker at a time purges the delivery log."""

    def __init__(
        self,
        resources: WorkerResources,
        owned: Mapping[int, int],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        """:param owned: the shards of this worker now.

        :param spawn: begins a task of the session.
        """
        self._resources = resources
        self._owned = owned
        self._spawn = spawn
        self._purge_at = 0.0

    def begin_if_due(self) -> None:
        """Begin to purge the delivery log, if it is time and this worker is the one that does it."""
        now = self._resources.clock.monotonic()
        if now >= self._purge_at and _PURGING_SHARD in self._owned:
            self._purge_at = now + _PURGE_SECONDS
            self._spawn(self._purge_portion())

    async def _purge_portion(self) -> None:
        """Purge a bounded number of rows in a thread of its own: no write of deliveries waits for it."""
        age = datetime.timedelta(days=self._resources.settings.delivery_log_days)
        try:
            purged = await asyncio.to_thread(self._purge, age)
        except StorageError as exc:
            LOG.info("webhooks: old deliveries were not purged: %s", exc)
            return
        if purged:
            self._purge_at = self._resources.clock.monotonic() + _PORTION_SECONDS
            self._resources.notify()

    def _purge(self, age: datetime.timedelta) -> int:
        """Delete what is older by the database's clock; nothing while that is doubtful."""
        now = self._resources.store.time.read()
        return self._resources.rows.purge(now - age) if now is not None else 0
