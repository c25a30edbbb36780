# SPDX-License-Identifier: Apache-2.0
"""The work of a webhook worker from a load of its subscriptions to the loss of a shard or of the database.

The main loop applies what changed (shards, subscriptions, journal rows), plans, writes, and starts attempts. Passes
over older rows and attempts run as tasks beside it. All of them run in the thread of the event loop; only calls of the
database wait in another thread.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Sequence

from oslo_log import log as logging

from watcher_sync.exceptions import DatabaseUnavailable, JournalPurged, LeaseLost, StorageError
from watcher_sync.webhooks.epochs import EpochWatch
from watcher_sync.webhooks.live import Live
from watcher_sync.webhooks.parts import SessionParts
from watcher_sync.webhooks.planner import Planner
from watcher_sync.webhooks.purging import Purger
from watcher_sync.webhooks.replica import Replica
from watcher_sync.webhooks.requests import DeliveryRequests
from watcher_sync.webhooks.rows import Loaded, NewDelivery
from watcher_sync.webhooks.subscription_rows import Row
from watcher_sync.webhooks.tasks import Tasks
from watcher_sync.webhooks.writing import RETRY_SECONDS, DeliveryWriter

LOG = logging.getLogger(__name__)

_REGISTRY_SECONDS = 0.25
"""Between two queries for written subscriptions."""
_CHECKPOINT_SECONDS = 1.0
_RESULT_SECONDS = 0.2
"""Between two writes of results alone. The outlet repeats a delivery whose result is lost with the process."""
_FINISH_SECONDS = 5.0
"""How long attempts under way may delay the end."""
_IDLE_SECONDS = 1.0
"""The longest time between two rounds of the main loop."""
_READ_ROWS = 2000
_CHUNKS_AT_ONCE = 10
"""So many rows of the journal are read before the other work has its turn."""
_FAR_BEHIND_ROWS = 50_000
"""Subscriptions that are further behind are read in a pass of their own, so that the others do not wait for it."""
_DELETED_ROWS = 200_000
"""Rows before the head in which a new session searches deleted workloads."""


class DeliverySession:
    """The work of a worker from a load of its subscriptions to the loss of a shard."""

    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts
        self._leases = parts.leases
        self._webhooks = parts.webhooks
        self._clock = parts.clock
        self._replica = Replica(parts.store.kinds)
        self._model = self._replica.model
        self._planner = Planner(self._model, parts.secrets, parts.settings, parts.clock)
        self._owned: dict[int, int] = {}
        """Shard -> token, of those whose subscriptions are loaded. The parts below see each change."""
        self._tasks = Tasks(parts.wake.set)
        self._requests = DeliveryRequests(parts, self._planner, self._owned, self._tasks)
        self._writer = DeliveryWriter(parts, self._planner, self._owned, self._requests.admit)
        self._purger = Purger(parts, self._owned, self._tasks)
        self._epochs = EpochWatch(parts, self._planner, self._model, self._owned)
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
        parts = self._parts
        while not parts.is_stopping():
            self._tasks.check()
            self._epochs.check()
            await self._apply_ownership()
            await self._read_registry()
            await self._follow()
            await self._plan_and_write()
            await self._epochs.store()
            self._purger.begin_if_due()
            stats = parts.stats
            stats.subscriptions = len(self._planner)
            stats.running, stats.queued = self._requests.gate.running, self._requests.gate.queued
            since = self._behind_since()
            stats.lag_seconds = (self._clock.now() - since).total_seconds() if since is not None else 0.0
            await sleep(parts.wake, self._seconds_to_wait())
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
        ownership = self._parts.beats.take()
        owned = self._leases.owned
        lost = [shard for shard, token in self._owned.items() if owned.get(shard) != token]
        if lost:
            raise LeaseLost(f"another worker took over {len(lost)} of {len(self._owned)} shards")
        new = [shard for shard in owned if shard not in self._owned]
        if new:
            await self._epochs.begin()
            sequences = await self._parts.call(self._webhooks.shard_sequences, new)
            loaded = await self._parts.call(self._webhooks.load, new)
            await self._complete_replica(loaded.rows)
            self._sequences |= sequences
            self._owned.clear()
            self._owned.update(owned)
            self._parts.stats.shards = len(owned)
            if self._revision < 0:
                self._revision = loaded.revision
            self._put(loaded)
            await self._epochs.add_shards(new)
            LOG.info("webhooks: took %d shards with %d subscriptions", len(new), len(loaded.rows))
        elif ownership is not None and ownership.excess:
            await self._give_back(ownership.excess)

    async def _give_back(self, excess: int) -> None:
        """Give shards back that have no delivery under way."""
        idle = [s for s in self._owned if not any(_is_busy(live) for live in self._planner.of_shards([s]))][:excess]
        if not idle:
            return
        if not await self._writer.write(checkpoint=True):
            return
        # An attempt may have begun, or ended, meanwhile.
        idle = [s for s in idle if not any(_is_busy(live) for live in self._planner.of_shards([s]))]
        if not idle or self._planner.has_writes:
            return
        for live in self._planner.of_shards(idle):
            self._planner.remove(live.id)
        for shard in idle:
            self._owned.pop(shard)
            self._sequences.pop(shard, None)
        await self._parts.call(self._leases.give_back, idle)
        self._parts.stats.shards = len(self._owned)
        LOG.info("webhooks: gave %d shards to other workers", len(idle))

    # Subscriptions and journal

    async def _read_registry(self) -> None:
        now = self._clock.monotonic()
        if now < self._registry_at:
            return
        self._registry_at = now + _REGISTRY_SECONDS
        if not self._owned:
            return
        try:
            if await self._parts.call(self._webhooks.revision) != self._revision:
                loaded = await self._parts.call(self._webhooks.changed_since, self._revision, list(self._owned))
                await self._complete_replica(loaded.rows)
                self._revision = loaded.revision
                self._put(loaded)
                self._requests.readmit_moved()
        except DatabaseUnavailable as exc:
            LOG.debug("webhooks: the subscriptions were not read: %s", exc)

    async def _complete_replica(self, rows: Sequence[Row]) -> None:
        """Load the entities that these subscriptions need, and move the replica to their seq."""
        replica = self._replica
        if replica.is_sparse(len(self._planner)):
            replica.retain(self._planner.instances())
        missing = replica.missing(rows)
        if not missing and replica.has_begun:
            return
        part = await self._parts.call(self._parts.store.load, missing)
        if replica.has_begun:
            await self._follow_to(part.generation)
        had_workloads = replica.has_workloads
        replica.add(part, missing)
        if replica.has_workloads and not had_workloads:
            deleted_after = max(0, part.generation - _DELETED_ROWS)
            self._planner.remember_deleted(
                await self._parts.call(self._webhooks.deleted_between, "workload", deleted_after, part.generation)
            )

    def _put(self, loaded: Loaded) -> None:
        pending: dict[str, list[NewDelivery]] = {}
        for delivery in loaded.pending:
            pending.setdefault(delivery.subscription_id, []).append(delivery)
        behind = []
        for row in loaded.rows:
            sequence = self._sequences.get(row[0].shard, 0)
            live = self._planner.put(row, sequence, pending.get(row[0].id, ()))
            if live is not None:
                behind.append(live)
        self._read_older(behind)

    def _read_older(self, behind: Sequence[Live]) -> None:
        """Start the passes that read what the model already contains."""
        limit = self._model.generation - _FAR_BEHIND_ROWS
        for lives in ([x for x in behind if x.after >= limit], [x for x in behind if x.after < limit]):
            if lives:
                # At once: until the pass has ended, nothing may be planned, and no position may pass these rows.
                reading = self._planner.begin_reading(lives)
                self._tasks.spawn(self._read_pass(lives, self._model.generation, reading))

    async def _read_pass(self, lives: Sequence[Live], upto: int, reading: object) -> None:
        position = min(live.after for live in lives)
        knows_deleted = not self._replica.has_workloads
        try:
            while position < upto and any(live.reading is reading for live in lives):
                try:
                    if not knows_deleted:
                        deleted = await self._parts.call(self._webhooks.deleted_between, "workload", position, upto)
                        self._planner.remember_deleted(deleted)
                        knows_deleted = True
                    limit = min(_READ_ROWS, upto - position)
                    rows = await self._parts.call(self._parts.reader.read_stored, position, limit)
                except DatabaseUnavailable:
                    await asyncio.sleep(RETRY_SECONDS)
                    continue
                self._planner.add_older_rows(self._replica.select(rows), reading)
                position = rows[-1].seq
                await asyncio.sleep(0)
        except JournalPurged:
            self._planner.purged(lives, reading)
        else:
            self._planner.end_reading(lives, reading)
        self._parts.notify()

    async def _follow(self) -> None:
        """Move the replica to the head of the journal, and merge the rows."""
        if not self._replica.has_begun:
            return
        for _ in range(_CHUNKS_AT_ONCE):
            if self._parts.reader.seen() <= self._model.generation:
                return
            try:
                await self._follow_some(_READ_ROWS)
            except DatabaseUnavailable as exc:
                LOG.debug("webhooks: the journal was not read: %s", exc)
                return
        self._parts.wake.set()

    async def _follow_to(self, seq: int) -> None:
        """Move the replica to a seq that was the head of the journal since the replica moved."""
        if seq < self._model.generation:
            raise LeaseLost(f"the journal ends at seq {seq}, before {self._model.generation}")
        while self._model.generation < seq:
            await self._follow_some(min(_READ_ROWS, seq - self._model.generation))

    async def _follow_some(self, limit: int) -> None:
        """Move the replica by at most so many rows, and merge them."""
        reader, known = self._parts.reader, self._model.generation
        try:
            rows = reader.cached_stored(known, limit)
            if not rows:
                # It is behind what the reader keeps in memory.
                rows = await self._parts.call(reader.read_stored, known, limit)
            if not rows:
                raise LeaseLost(f"the journal ends before seq {known + 1}")
            selected, before = self._replica.follow(rows)
        except JournalPurged as exc:
            # This replica was stopped for longer than the retention.
            raise LeaseLost(str(exc)) from None
        self._planner.add_rows(selected, before)
        await asyncio.sleep(0)

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
            await self._follow()

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


def _is_busy(live: Live) -> bool:
    return live.reading is not None or live.sending > 0


async def sleep(wake: asyncio.Event, seconds: float) -> None:
    """Wait until something may have happened, at most so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            await wake.wait()
    except TimeoutError:
        pass
    wake.clear()
