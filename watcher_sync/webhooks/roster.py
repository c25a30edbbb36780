# SPDX-License-Identifier: Apache-2.0
"""The subscriptions of one worker, and the indexes by which they are found. For one thread."""

from __future__ import annotations

from collections.abc import Iterable

from watcher_sync.model.model import Model
from watcher_sync.webhooks.live import Live
from watcher_sync.webhooks.matcher import Matcher


class Roster:
    """What the parts of a planner share."""

    def __init__(self, model: Model) -> None:
        self.matcher: Matcher[Live] = Matcher(model)
        self.live: dict[str, Live] = {}
        self.ready: dict[str, Live] = {}
        """Subscriptions that may have something to plan now, in the order of their changes."""
        self.unchecked: dict[str, Live] = {}
        """Subscriptions whose instance is checked when the replica reaches the worker before."""

    def is_active(self, live: Live) -> bool:
        """Whether a subscription is still there, and active."""
        return live.is_active and self.live.get(live.id) is live

    def of_shards(self, shards: Iterable[int]) -> list[Live]:
        """The subscriptions of these shards."""
        wanted = set(shards)
        return [live for live in self.live.values() if live.subscription.shard in wanted]

    def unmatch(self, live: Live) -> None:
        """Match no further rows for a subscription, and plan nothing for it."""
        subscription = live.subscription
        self.matcher.remove(subscription.instance_kind, subscription.instance_id, live.id)
        self.ready.pop(live.id, None)
