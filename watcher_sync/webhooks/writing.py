# SPDX-License-Identifier: Apache-2.0
"""Writes what a planner has, and admits what was planned. What the database refuses suspends its own subscription."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from oslo_log import log as logging

from watcher_sync.exceptions import DatabaseUnavailable, RowRefused, StorageError
from watcher_sync.webhooks.audit import AuditTrail
from watcher_sync.webhooks.live import Outgoing
from watcher_sync.webhooks.parts import SessionParts
from watcher_sync.webhooks.planner import Planner
from watcher_sync.webhooks.refusals import halves, subscriptions_of
from watcher_sync.webhooks.rows import StateChange, WorkerWrites

LOG = logging.getLogger(__name__)

RETRY_SECONDS: Final = 1.0
_RECORDED_AT_ONCE: Final = 20
"""Rows of the journal in one transaction, which keeps the engines waiting."""


class DeliveryWriter:
    """The writes of one session."""

    def __init__(
        self, parts: SessionParts, planner: Planner, owned: Mapping[int, int], admit: Callable[[Outgoing], None]
    ) -> None:
        """:param owned: the shards of this worker now.

        :param admit: is called with each planned delivery that was written.
        """
        self._parts = parts
        self._planner = planner
        self._owned = owned
        self._admit = admit
        self._audit = AuditTrail(parts.store)
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
            ended = await self._parts.call(
                self._parts.webhooks.write, writes, dict(self._owned), self._parts.leases.name
            )
        except RowRefused as exc:
            return await self._write_around(writes, planned, str(exc))
        except DatabaseUnavailable as exc:
            self._planner.restore(writes, planned)
            self._parts.availability.failed(exc)
            await asyncio.sleep(RETRY_SECONDS)
            return False
        self._parts.availability.succeeded()
        if writes.sequence is not None:
            self.written_sequence = writes.sequence
        for start in range(0, len(ended), _RECORDED_AT_ONCE):
            await self._record(ended[start : start + _RECORDED_AT_ONCE])
        self._parts.stats.planned += len(planned)
        for outgoing in planned:
            self._admit(outgoing)
        return True

    async def _write_around(self, writes: WorkerWrites, planned: list[Outgoing], reason: str) -> bool:
        """Write what the database does not refuse. Return whether it took that."""
        ids = subscriptions_of(writes)
        if len(ids) < 2:
            for subscription_id in ids:
                self._planner.refused(subscription_id, planned, reason)
            return True
        taken = True
        for part in halves(writes):
            mine = set(subscriptions_of(part))
            some = [each for each in planned if each.live.id in mine]
            if taken:
                taken = await self._write_some(part, some)
            else:
                self._planner.restore(part, some)
        return taken

    async def _record(self, states: Sequence[StateChange]) -> None:
        """Record in the journal which subscriptions were suspended or ended."""
        try:
            await self._parts.call(self._audit.record, states, self._parts.clock.now())
        except StorageError as exc:
            LOG.warning("webhooks: the journal has no row of %d subscriptions that ended: %s", len(states), exc)
