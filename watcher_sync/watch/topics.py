# SPDX-License-Identifier: Apache-2.0
"""Ends the streams of topics that were deleted. A new topic needs nothing: a subscription reads it from the tables."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from oslo_log import log as logging

from watcher_sync.periodic import Outage
from watcher_sync.watch.rendering import RunInThread
from watcher_sync.watch.service import WatchService

LOG = logging.getLogger(__name__)

ExistingIds = Callable[[Iterable[str]], frozenset[str]]
"""Which of these topics exist. Called in a thread."""


async def watch_deletions(service: WatchService, existing: ExistingIds, run: RunInThread, interval: float) -> None:
    """Compare the topics of the streams with the stored ones until the task is cancelled.

    :param interval: seconds between two comparisons.
    """
    outage = Outage(LOG, "watch: database unavailable", "watch: database recovered")
    while True:
        await asyncio.sleep(interval)
        used = service.topic_ids()
        if not used:
            continue
        try:
            deleted = used - await run(existing, used)
            outage.succeeded()
        except Exception as exc:  # noqa: BLE001 - the edge of the task
            outage.failed(exc)
            continue
        if deleted:
            service.end_topics(deleted)
