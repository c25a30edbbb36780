# SPDX-License-Identifier: Apache-2.0
"""Tells subscribers that the database went back in time.

A shard has the epoch that its subscriptions know. If the journal is of another one, each active subscription gets all
its resources, with the reason. Any other one gets them when it is resumed: its progress says so. Once this is stored,
the shard gets the new epoch. So the subscribers are informed even if no worker ran when the database went back.

For the thread of the event loop.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from watcher_sync.exceptions import LeaseLost
from watcher_sync.model.model import Model
from watcher_sync.webhooks.parts import SessionParts
from watcher_sync.webhooks.planner import Planner


class EpochWatch:
    """The epoch in which a session works."""

    def __init__(self, parts: SessionParts, planner: Planner, model: Model, owned: Mapping[int, int]) -> None:
        """:param model: the replica of the planner.

        :param owned: shard -> token, of this worker's shards now.
        """
        self._model = model
        self._parts = parts
        self._planner = planner
        self._owned = owned
        self._epoch: str | None = None
        self._untold: set[int] = set()
        """Shards that have another epoch in the database."""

    async def begin(self) -> None:
        """Learn the epoch, before anything is loaded.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        if self._epoch is None:
            self._epoch = (await self._parts.call(self._parts.reader.position)).epoch

    async def add_shards(self, shards: Collection[int]) -> None:
        """Have the subscriptions of new shards get all resources if they know another epoch.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        assert self._epoch is not None
        known = await self._parts.call(self._parts.webhooks.shard_epochs, shards)
        other = {shard for shard, epoch in known.items() if epoch != self._epoch}
        self._planner.restored(self._planner.of_shards(s for s in other if known[s] is not None), self._epoch)
        self._untold |= other

    def check(self) -> None:
        """:raises LeaseLost: the journal is of another epoch now."""
        if not self._parts.reader.is_of(self._epoch):
            raise LeaseLost("the database went back in time")

    async def store(self) -> None:
        """Store the epoch for the shards whose subscriptions know it.

        :raises LeaseLost: another worker took over a shard.
        :raises DatabaseUnavailable: the database is unavailable.
        """
        self._untold &= self._owned.keys()
        told = {
            shard
            for shard in self._untold
            if not any(live.is_active and live.resync for live in self._planner.of_shards([shard]))
        }
        if told and self._epoch is not None and not self._planner.has_writes:
            write = self._parts.webhooks.write_epoch
            sequence, owner = self._model.generation, self._parts.leases.name
            await self._parts.call(write, self._epoch, sequence, told, dict(self._owned), owner)
            self._untold -= told
