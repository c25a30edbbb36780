# SPDX-License-Identifier: Apache-2.0
"""Records in the journal that a subscription was suspended, or ended.

The row is a remark: it belongs to the instance, and changes nothing of it, not even the seq that is its ETag. So
replicas and outlets skip it, and the history of the instance shows it with the subscription's id.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Final

from watcher_sync.storage.database.conflicts import retried
from watcher_sync.storage.writing import journal
from watcher_sync.storage.writing.locked import lock_head
from watcher_sync.storage.writing.store import Store
from watcher_sync.webhooks.rows import StateChange

SOURCE: Final = "outlet"


class AuditTrail:
    """Writes to the journal under its locked head. For one thread at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @retried
    def record(self, ended: Sequence[StateChange], now: datetime.datetime) -> None:
        """Write a row for each subscription whose instance still exists.

        :raises DatabaseUnavailable: the database is unavailable; nothing is written.
        """
        with lock_head(self._store) as (store, model), store.connect() as connection:
            for each in ended:
                entity = model.get(each.instance_kind, each.instance_id)
                if entity is None:
                    continue
                journal.add_remark(
                    connection,
                    store.tables,
                    entity,
                    each.instance_kind,
                    event_type=f"outlet.subscription.{each.state}",
                    event_id=each.subscription_id,
                    source=SOURCE,
                    now=now,
                )
