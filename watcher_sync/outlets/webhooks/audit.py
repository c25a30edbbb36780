# SPDX-License-Identifier: Apache-2.0
"""Records in the journal that a subscription was suspended, or ended.

The row belongs to the instance, and changes nothing of it: its delta is empty, and its versions are those before. So
replicas follow, outlets skip it, and the history of the instance shows it with the subscription's id.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Final

from watcher_sync.commit.direct import DirectWriter
from watcher_sync.dispatch import Dispatcher
from watcher_sync.events import Event
from watcher_sync.storage.store import Store
from watcher_sync.storage.webhooks import StateChange

SOURCE: Final = "outlet"


class AuditTrail:
    """Writes to the journal under its locked head. For one thread at a time."""

    def __init__(self, store: Store) -> None:
        self._writer = DirectWriter(store, Dispatcher([]), lambda: 0.0)

    def record(self, ended: Sequence[StateChange], now: datetime.datetime) -> None:
        """Write a row for each subscription whose instance still exists.

        :raises DatabaseUnavailable: the database is unavailable; nothing is written.
        """
        with self._writer.begin() as cycle:
            for each in ended:
                entity = cycle.view.get(each.instance_kind, each.instance_id)
                if entity is None:
                    continue
                event = Event(
                    id=each.subscription_id,
                    type=f"outlet.subscription.{each.state}",
                    source=SOURCE,
                    subject=each.instance_id,
                    time=now,
                    data={"reason": each.reason},
                )
                cycle.repair(event, each.instance_kind, each.instance_id, {}, entity.versions)
