# SPDX-License-Identifier: Apache-2.0
"""Purges the delivery log in portions, beside the deliveries: one worker at a time."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from oslo_log import log as logging

from watcher_sync.exceptions import StorageError
from watcher_sync.webhooks.resources import WorkerResources

LOG = logging.getLogger(__name__)

_PURGE_SECONDS = 600.0
"""Between two purges of the delivery log that found nothing more."""
_PORTION_SECONDS = 0.5
"""From a portion of a purge to the next one."""
_PURGING_SHARD = 0
"""The worker that owns this shard purges the delivery log."""


class Purger:
    """The purges of one session."""

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
