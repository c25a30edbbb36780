# SPDX-License-Identifier: Apache-2.0
"""The work of a webhook worker from a load of its subscriptions to the loss of a shard or of the database.

The main loop applies what changed (shards, subscriptions, journal rows), plans, writes, and starts attempts. Passes
over older rows and attempts run as tasks beside it. All of them run in the thread of the event loop; only calls of the
database wait in another thread.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any, Final

from oslo_log import log as logging

from watcher_sync.exceptions import DatabaseUnavailable, LeaseLost, StorageError
from watcher_sync.extensions.webhooks.planner import Planner
from watcher_sync.extensions.webhooks.replica import JournalFollower, Replica
from watcher_sync.extensions.webhooks.requests import DeliveryRequests
from watcher_sync.extensions.webhooks.resources import WorkerResources
from watcher_sync.extensions.webhooks.rows import NewDelivery
from watcher_sync.extensions.webhooks.subscription import reached_by
from watcher_sync.extensions.webhooks.worker_rows import Loaded
from watcher_sync.extensions.webhooks.writer import DeliveryWriter, Purger
from watcher_sync.model.model import Model

LOG = logging.getLogger(__name__)

_REGISTRY_SECONDS: Final = 0.25
"""Between two queries for written subscriptions."""
_CHECKPOINT_SECONDS: Final = 1.0
_RESULT_SECONDS: Final = 0.2
"""Between two writes of results alone. The outlet repeats a delivery whose result is lost with the process."""
_FINISH_SECONDS: Final = 5.0
"""How long attempts under way may delay the end."""
_IDLE_SECONDS: Final = 1.0
"""The longest time between two rounds of the main loop."""


class DeliverySession:
    """The work of a worker from a load of its subscriptions to the loss of a shard."""

    def __init__(self, resources: WorkerResources) -> None:
        self._resources = resources
        self._leases = resources.leases
        self._rows = resources.rows
        self._clock = resources.clock
        replica = Replica(resources.store.kinds)
        self._model = replica.model
        self._planner = Planner(
            self._model, resources.secrets, resources.settings, resources.clock, resources.max_body_bytes
        )
        self._owned: dict[int, int] = {}
        """Shard -> token, of those whose subscriptions are loaded. The parts below see each change."""
        self._tasks = SessionTasks(resources.wake.set)
        self._follower = JournalFollower(resources, self._planner, replica, self._tasks.spawn)
        self._requests = DeliveryRequests(resources, self._planner, self._owned, self._tasks.spawn)
        self._writer = DeliveryWriter(resources, self._planner, self._owned, self._requests.admit)
        self._purger = Purger(resources, self._owned, self._tasks.spawn)
        self._epochs = EpochWatch(resources, self._planner, self._model, self._owned)
        self._sequences: dict[int, int] = {}
        """Shard -> the seq up to which the worker before has planned."""
        self._revision = -1
        self._checkpoint_at = 0.0
        self._results_at = 0.0
        self._registry_at = 0.0
        self._measured_at = 0.0
        self._oldest: datetime.datetime | None = None

    async def run(self) -> None:
        """Work until the worker is stopped.

        :raises LeaseLost: a shard was taken over.
        :raises DatabaseUnavailable: the database was not available while subscriptions were loaded.
        :raises Exception: whatever ended a task unexpectedly.
        """
        resources = self._resources
        while not resources.is_stopping():
            self._tasks.check()
            self._epochs.check()
            await self._apply_ownership()
            await self._read_registry()
            await self._follower.follow()
            await self._plan_and_write()
            await self._epochs.store()
            self._purger.begin_if_due()
            stats = resources.stats
            stats.subscriptions = len(self._planner)
            stats.running, stats.queued = self._requests.gate.running, self._requests.gate.queued
            since = self._behind_since()
            stats.lag_seconds = (self._clock.now() - since).total_seconds() if since is not None else 0.0
            await sleep(resources.wake, self._seconds_to_wait())
        await self._finish()

    def _behind_since(self) -> datetime.datetime | None:
        """When the oldest change was committed that is not delivered, as of the last second."""
        now = self._clock.monotonic()
        if now >= self._measured_at + 1.0:
            self._measured_at = now
            self._oldest = self._planner.behind_since()
        return self._oldest

    async def end(self) -> None:
        """Cancel what runs, and forget what waits."""
        self._requests.gate.drop(lambda _: True)  # otherwise the end of an attempt starts the next one
        await self._tasks.cancel()

    # Shards

    async def _apply_ownership(self) -> None:
        """Load the subscriptions of new shards, and give back what other workers should have."""
        ownership = self._resources.beats.take()
        owned = self._leases.owned
        lost = [shard for shard, token in self._owned.items() if owned.get(shard) != token]
        if lost:
            raise LeaseLost(f"another worker took over {len(lost)} of {len(self._owned)} shards")
        new = [shard for shard in owned if shard not in self._owned]
        if new:
            await self._epochs.begin()
            sequences = await self._resources.call(self._rows.shard_sequences, new)
            loaded = await self._resources.call(self._rows.load, new)
            self._sequences |= sequences
            await self._put(loaded)
            self._owned.clear()
            self._owned.update(owned)
            self._resources.stats.shards = len(owned)
            if self._revision < 0:
                self._revision = loaded.revision
            await self._epochs.add_shards(new)
            LOG.info("webhooks: took %d shards with %d subscriptions", len(new), len(loaded.rows))
        elif ownership is not None and ownership.excess:
            await self._give_back(ownership.excess)

    async def _give_back(self, excess: int) -> None:
        """Give shards back that have no delivery under way."""
        idle = [s for s in self._owned if not self._is_busy(s)][:excess]
        if not idle:
            return
        if not await self._writer.write(checkpoint=True):
            return
        # An attempt may have begun, or ended, meanwhile.
        idle = [s for s in idle if not self._is_busy(s)]
        if not idle or self._planner.has_writes:
            return
        for subscription in self._planner.of_shards(idle):
            self._planner.remove(subscription.id)
        for shard in idle:
            self._owned.pop(shard)
            self._sequences.pop(shard, None)
        await self._resources.call(self._leases.give_back, idle)
        self._resources.stats.shards = len(self._owned)
        LOG.info("webhooks: gave %d shards to other workers", len(idle))

    def _is_busy(self, shard: int) -> bool:
        return any(each.is_busy for each in self._planner.of_shards([shard]))

    # Subscriptions

    async def _read_registry(self) -> None:
        now = self._clock.monotonic()
        if now < self._registry_at:
            return
        self._registry_at = now + _REGISTRY_SECONDS
        if not self._owned:
            return
        try:
            await self._resources.call(self._resources.store.time.refresh)  # it reads once an hour
            if await self._resources.call(self._rows.revision) != self._revision:
                loaded = await self._resources.call(self._rows.changed_since, self._revision, list(self._owned))
                await self._put(loaded)
                self._revision = loaded.revision
                self._requests.readmit_moved()
        except DatabaseUnavailable as exc:
            LOG.debug("webhooks: the subscriptions were not read: %s", exc)

    async def _put(self, loaded: Loaded) -> None:
        """Take subscriptions as they were loaded, and start to read the older rows that they need.

        Between the two nothing waits: until its pass has ended, nothing may be planned for a subscription, and no
        position may pass these rows.
        """
        pending: dict[str, list[NewDelivery]] = {}
        for delivery in loaded.pending:
            pending.setdefault(delivery.subscription_id, []).append(delivery)
        rows = [(row, self._sequences.get(row[0].shard, 0)) for row in loaded.rows]
        reached = max((reached_by(row, sequence) for row, sequence in rows), default=0)
        await self._follower.complete(loaded.rows, reached)
        found = [self._planner.put(row, sequence, pending.get(row[0].id, ())) for row, sequence in rows]
        self._follower.read_older([each for each in found if each is not None])

    # Plans and writes

    async def _plan_and_write(self) -> None:
        self._requests.admit_waiting()
        if not self._owned:
            return
        while True:
            self._planner.plan()
            now = self._clock.monotonic()
            due = now >= self._checkpoint_at and self._model_moved()
            if due or self._planner.has_urgent_writes or now >= self._results_at:
                self._results_at = now + _RESULT_SECONDS
                if not await self._writer.write(checkpoint=due):
                    return
            if due:
                self._checkpoint_at = now + _CHECKPOINT_SECONDS
            for outgoing in self._planner.take_due():
                self._requests.admit(outgoing)
            if not self._planner.has_ready or self._clock.monotonic() >= self._registry_at:
                return
            await self._follower.follow()

    def _model_moved(self) -> bool:
        return self._model.generation != self._writer.written_sequence

    def _seconds_to_wait(self) -> float:
        if not self._owned:
            return _IDLE_SECONDS
        now = self._clock.monotonic()
        times = [
            self._registry_at,
            *(t for t in (self._planner.next_due(), self._requests.gate.next_due()) if t is not None),
        ]
        if self._model_moved():
            times.append(self._checkpoint_at)
        if self._planner.has_writes:
            times.append(self._results_at)
        return min(max(0.0, min(times) - now), _IDLE_SECONDS) if not self._planner.has_ready else 0.0

    async def _finish(self) -> None:
        """Wait for the attempts under way, and write their results."""
        await self._tasks.wait(_FINISH_SECONDS)
        if not self._owned:
            return
        try:
            await self._writer.write(checkpoint=True)
        except StorageError as exc:
            LOG.info("webhooks: the last results were not written: %s", exc)


class SessionTasks:
    """Tasks in the running event loop. For its thread."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """:param wake: called when a task failed."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._wake = wake
        self._error: BaseException | None = None

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin a task."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def check(self) -> None:
        """:raises Exception: whatever ended a task unexpectedly."""
        if self._error is not None:
            raise self._error

    async def wait(self, seconds: float) -> None:
        """Wait for the tasks under way, at most so long."""
        tasks = [task for task in self._tasks if not task.done()]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)

    async def cancel(self) -> None:
        """End all tasks."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._error = error
            self._wake()


class EpochWatch:
    """The epoch in which a session works.

    A shard has the epoch that its subscriptions know. If the journal is of another one, each active subscription gets
    all its resources, with the reason. Any other one gets them when it is resumed: its progress says so. Once this is
    stored, the shard gets the new epoch. So the subscribers are informed even if no worker ran when the database went
    back.
    """

    def __init__(self, resources: WorkerResources, planner: Planner, model: Model, owned: Mapping[int, int]) -> None:
        """:param model: the replica of the planner.

        :param owned: shard -> token, of this worker's shards now.
        """
        self._model = model
        self._resources = resources
        self._planner = planner
        self._owned = owned
        self._epoch: str | None = None
        self._outdated: set[int] = set()
        """Shards that have another epoch in the database."""

    async def begin(self) -> None:
        """Learn the epoch, before anything is loaded.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        if self._epoch is None:
            self._epoch = (await self._resources.call(self._resources.reader.position)).epoch

    async def add_shards(self, shards: Collection[int]) -> None:
        """Have the subscriptions of new shards get all resources if they know another epoch.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        assert self._epoch is not None
        known = await self._resources.call(self._resources.rows.shard_epochs, shards)
        other = {shard for shard, epoch in known.items() if epoch != self._epoch}
        self._planner.restored([shard for shard in other if known[shard] is not None], self._epoch)
        self._outdated |= other

    def check(self) -> None:
        """:raises LeaseLost: the journal is of another epoch now."""
        if not self._resources.reader.is_of(self._epoch):
            raise LeaseLost("the database went back in time")

    async def store(self) -> None:
        """Store the epoch for the shards whose subscriptions know it.

        :raises LeaseLost: another worker took over a shard.
        :raises DatabaseUnavailable: the database is unavailable.
        """
        self._outdated &= self._owned.keys()
        informed = {
            shard
            for shard in self._outdated
            if not any(each.is_active and each.news.resync for each in self._planner.of_shards([shard]))
        }
        if informed and self._epoch is not None and not self._planner.has_writes:
            write = self._resources.rows.write_epoch
            sequence, owner = self._model.generation, self._resources.leases.name
            await self._resources.call(write, self._epoch, sequence, informed, dict(self._owned), owner)
            self._outdated -= informed


async def sleep(wake: asyncio.Event, seconds: float) -> None:
    """Wait until something may have happened, at most so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            await wake.wait()
    except TimeoutError:
        pass
    wake.clear()
