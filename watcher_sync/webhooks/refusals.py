# SPDX-License-Identifier: Apache-2.0
"""Finds the subscriptions whose rows the database refuses.

One transaction has the rows of many subscriptions. If the database refuses a value, the writes are divided into halves
by subscription, until each refused part has one subscription only. All others are written. It does no I/O.
"""

from __future__ import annotations

from collections.abc import Collection

from watcher_sync.webhooks.rows import WorkerWrites


def subscriptions_of(writes: WorkerWrites) -> list[str]:
    """The ids of the subscriptions that have rows in these writes, in the order of their rows."""
    ids = [
        *(each.subscription_id for each in writes.planned),
        *(each.subscription_id for each in writes.results),
        *writes.progress,
        *(each.subscription_id for each in writes.states),
        *(subscription_id for subscription_id, _ in writes.replayed),
    ]
    return list(dict.fromkeys(ids))


def halves(writes: WorkerWrites) -> tuple[WorkerWrites, WorkerWrites]:
    """The writes of the first half of the subscriptions, and those of the others. Neither has the shards' sequence.

    The sequence says that all changes are in stored rows. So it waits for the next writes.
    """
    ids = subscriptions_of(writes)
    first = set(ids[: len(ids) // 2])
    return _part(writes, first), _part(writes, set(ids) - first)


def _part(writes: WorkerWrites, ids: Collection[str]) -> WorkerWrites:
    return WorkerWrites(
        planned=[each for each in writes.planned if each.subscription_id in ids],
        results=[each for each in writes.results if each.subscription_id in ids],
        progress={name: each for name, each in writes.progress.items() if name in ids},
        states=[each for each in writes.states if each.subscription_id in ids],
        replayed=[each for each in writes.replayed if each[0] in ids],
    )
