# SPDX-License-Identifier: Apache-2.0
"""The work of a webhook worker from a load of its subscriptions to the loss of a shard or of the database.

The main loop applies what changed (shards, subscriptions, journal rows), plans, writes, and starts attempts. Passes
over older rows and attempts run as tasks beside it. All of them run in the thread of the event loop; only calls of the
database wait in another thread.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import datetime
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import msgspec
from oslo_log import log as logging

from watcher_sync.exceptions import DatabaseUnavailable, JournalPurged, LeaseLost, RowRefused, StorageError
from watcher_sync.model.kinds import Entity
from watcher_sync.model.model import Model
from watcher_sync.model.staged import Key
from watcher_sync.outlets.journal import JournalReader
from watcher_sync.outlets.shards import Heartbeat, ShardLeases
from watcher_sync.outlets.webhooks.attempts import Attempt
from watcher_sync.outlets.webhooks.audit import AuditTrail
from watcher_sync.outlets.webhooks.availability import DatabaseAvailability
from watcher_sync.outlets.webhooks.handshake import validate
from watcher_sync.outlets.webhooks.hosts import HostGate
from watcher_sync.outlets.webhooks.live import Asking, Live, Outgoing, Work
from watcher_sync.outlets.webhooks.planner import Clock, Planner, Settings
from watcher_sync.outlets.webhooks.refusals import halves, subscriptions_of
from watcher_sync.outlets.webhooks.sender import Sender
from watcher_sync.storage import journal
from watcher_sync.storage.store import Store
from watcher_sync.storage.subscription_secrets import SecretBox
from watcher_sync.storage.webhooks import Loaded, NewDelivery, StateChange, WebhookStore, WorkerWrites
from watcher_sync.wire.callback_urls import host_of
from watcher_sync.wire.standard_webhooks import headers

LOG = logging.getLogger(__name__)

T = TypeVar("T")

_REGISTRY_SECONDS = 0.25
"""Between two queries for written subscriptions."""
_CHECKPOINT_SECONDS = 1.0
_RETRY_SECONDS = 1.0
_PURGE_SECONDS = 600.0
"""Between two purges of the delivery log that found nothing more."""
_PORTION_SECONDS = 0.5
"""From a portion of a purge to the next one."""
_PURGING_SHARD = 0
"""The worker that owns this shard purges the delivery log."""
_RECORDED_AT_ONCE = 20
"""Rows of the journal in one transaction, which keeps the engines waiting."""
_IDLE_SECONDS = 1.0
"""The longest time between two rounds of the main loop."""
_READ_ROWS = 2000
_CHUNKS_AT_ONCE = 10
"""So many rows of the journal are read before the other work has its turn."""
_FAR_BEHIND_ROWS = 50_000
"""Subscriptions that are further behind are read in a pass of their own, so that the others do not wait for it."""
_DELETED_ROWS = 200_000
"""Rows before the head in which a new session searches deleted workloads."""


class Stats:
    """What a worker did, for metrics. Any thread may read it."""

    def __init__(self) -> None:
        self.subscriptions = 0
        self.attempts: dict[str, int] = {}
        """delivered, failed and not_sent -> attempts."""
        self.planned = 0
        self.shards = 0
        self.running = 0
        self.queued = 0
        self.lag_seconds = 0.0
        """How long the oldest change waits for its delivery, as of the last checkpoint."""

    def count(self, attempt: Attempt) -> None:
        """Count an attempt."""
        result = "not_sent" if attempt.not_sent else "delivered" if attempt.ok else "failed"
        self.attempts[result] = self.attempts.get(result, 0) + 1


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """What the sessions of a worker share."""

    store: Store
    webhooks: WebhookStore
    leases: ShardLeases
    beats: Heartbeat
    reader: JournalReader
    sender: Sender
    secrets: SecretBox
    settings: Settings
    clock: Clock
    connections: int
    connections_per_host: int
    log_days: Callable[[], int]
    stats: Stats
    database: concurrent.futures.Executor
    """The thread that calls the database."""
    availability: DatabaseAvailability
    wake: asyncio.Event
    """Set when there may be work."""
    is_stopping: Callable[[], bool]
    notify: Callable[[], None]
    """Sets ``wake``, from any thread."""


class Session:
    """The work of a worker from a load of its subscriptions to the loss of a shard."""

    def __init__(self, parts: Parts, model: Model) -> None:
        """:param model: the replica, as loaded now."""
        self._parts = parts
        self._leases = parts.leases
        self._webhooks = parts.webhooks
        self._audit = AuditTrail(parts.store)
        self._clock = parts.clock
        self._model = model
        self._planner = Planner(model, parts.secrets, parts.settings, parts.clock)
        self._gate: HostGate[Work] = HostGate(
            self._start,
            per_host=parts.connections_per_host,
            total=parts.connections,
            monotonic=parts.clock.monotonic,
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._owned: dict[int, int] = {}
        self._sequences: dict[int, int] = {}
        """Shard -> the seq up to which the worker before has planned."""
        self._revision = -1
        self._checkpoint_at = 0.0
        self._written_sequence = -1
        self._registry_at = 0.0
        self._purge_at = 0.0
        self._measured_at = 0.0
        self._oldest: datetime.datetime | None = None
        self._waiting: list[Work] = []
        """What is due, and waits until the lease is renewed."""
        self._error: BaseException | None = None
        """What ended a task unexpectedly."""

    async def run(self) -> None:
        """Work until the worker is stopped.

        :raises LeaseLost: a shard was taken over.
        :raises DatabaseUnavailable: the database was not available while subscriptions were loaded.
        :raises Exception: whatever ended a task unexpectedly.
        """
        parts, generation = self._parts, self._model.generation
        deleted_after = max(0, generation - _DELETED_ROWS)
        self._planner.remember_deleted(
            await self._call(self._webhooks.deleted_between, "workload", deleted_after, generation)
        )
        while not parts.is_stopping():
            if self._error is not None:
                raise self._error
            await self._apply_ownership()
            await self._read_registry()
            await self._follow()
            await self._plan_and_write()
            self._purge()
            stats = parts.stats
            stats.subscriptions, stats.running, stats.queued = len(self._planner), self._gate.running, self._gate.queued
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
        self._gate.drop(lambda _: True)  # otherwise the end of an attempt starts the next one
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call the database in its thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._parts.database, function, *arguments)

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
            sequences = await self._call(self._webhooks.shard_sequences, new)
            loaded = await self._call(self._webhooks.load, new)
            self._sequences |= sequences
            self._owned = owned
            self._parts.stats.shards = len(owned)
            if self._revision < 0:
                self._revision = loaded.revision
            self._put(loaded)
            LOG.info("webhooks: took %d shards with %d subscriptions", len(new), len(loaded.rows))
        elif ownership is not None and ownership.excess:
            await self._give_back(ownership.excess)

    async def _give_back(self, excess: int) -> None:
        """Give shards back that have no delivery under way."""
        idle = [s for s in self._owned if not any(_is_busy(live) for live in self._planner.of_shards([s]))][:excess]
        if not idle:
            return
        if not await self._write(checkpoint=True):
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
        await self._call(self._leases.give_back, idle)
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
            if await self._call(self._webhooks.revision) != self._revision:
                loaded = await self._call(self._webhooks.changed_since, self._revision, list(self._owned))
                self._revision = loaded.revision
                self._put(loaded)
                self._readmit_moved()
        except DatabaseUnavailable as exc:
            LOG.debug("webhooks: the subscriptions were not read: %s", exc)

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
                self._spawn(self._read_pass(lives, self._model.generation, reading))

    async def _read_pass(self, lives: Sequence[Live], upto: int, reading: object) -> None:
        position = min(live.after for live in lives)
        knows_deleted = False
        try:
            while position < upto and any(live.reading is reading for live in lives):
                try:
                    if not knows_deleted:
                        deleted = await self._call(self._webhooks.deleted_between, "workload", position, upto)
                        self._planner.remember_deleted(deleted)
                        knows_deleted = True
                    rows = await self._call(self._parts.reader.read, position, min(_READ_ROWS, upto - position))
                except DatabaseUnavailable:
                    await asyncio.sleep(_RETRY_SECONDS)
                    continue
                self._planner.add_older_rows(rows, reading)
                position = rows[-1].seq
                await asyncio.sleep(0)
        except JournalPurged:
            self._planner.purged(lives, reading)
        else:
            self._planner.end_reading(lives, reading)
        self._parts.notify()

    async def _follow(self) -> None:
        """Move the replica to the head of the journal, and merge the rows."""
        reader = self._parts.reader
        for _ in range(_CHUNKS_AT_ONCE):
            known = self._model.generation
            if reader.seen() <= known:
                return
            try:
                rows = reader.cached(known, _READ_ROWS)
                if not rows:
                    # It is behind what the reader keeps in memory.
                    rows = await self._call(reader.read, known, _READ_ROWS)
            except JournalPurged as exc:
                # This replica was stopped for longer than the retention.
                raise LeaseLost(str(exc)) from None
            except DatabaseUnavailable as exc:
                LOG.debug("webhooks: the journal was not read: %s", exc)
                return
            before: dict[Key, Entity | None] = {}
            journal.follow(self._model, rows, before)
            self._planner.add_rows(rows, before)
            await asyncio.sleep(0)
        self._parts.wake.set()

    # Plans and writes

    async def _plan_and_write(self) -> None:
        self._gate.tick()
        if not self._owned:
            return
        waiting, self._waiting = self._waiting, []
        for work in waiting:
            self._admit(work)
        while True:
            self._planner.plan()
            now = self._clock.monotonic()
            due = now >= self._checkpoint_at and self._model_moved()
            if not await self._write(checkpoint=due):
                return
            if due:
                self._checkpoint_at = now + _CHECKPOINT_SECONDS
            for outgoing in self._planner.take_due():
                self._admit(outgoing)
            for live in self._planner.take_asking():
                self._admit(Asking(live))
            if not self._planner.has_ready or self._clock.monotonic() >= self._registry_at:
                return
            await self._follow()

    def _model_moved(self) -> bool:
        return self._model.generation != self._written_sequence

    async def _write(self, *, checkpoint: bool) -> bool:
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
            ended = await self._call(self._webhooks.write, writes, dict(self._owned), self._leases.name)
        except RowRefused as exc:
            return await self._write_around(writes, planned, str(exc))
        except DatabaseUnavailable as exc:
            self._planner.restore(writes, planned)
            self._parts.availability.failed(exc)
            await asyncio.sleep(_RETRY_SECONDS)
            return False
        self._parts.availability.succeeded()
        if writes.sequence is not None:
            self._written_sequence = writes.sequence
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
            await self._call(self._audit.record, states, self._clock.now())
        except StorageError as exc:
            LOG.warning("webhooks: the journal has no row of %d subscriptions that ended: %s", len(states), exc)

    def _purge(self) -> None:
        """Begin to purge the delivery log, if it is time and this worker is the one that does it."""
        now = self._clock.monotonic()
        if now >= self._purge_at and _PURGING_SHARD in self._owned:
            self._purge_at = now + _PURGE_SECONDS
            self._spawn(self._purge_portion())

    async def _purge_portion(self) -> None:
        """Purge a bounded number of rows in a thread of its own: no write of deliveries waits for it."""
        before = self._clock.now() - datetime.timedelta(days=self._parts.log_days())
        try:
            purged = await asyncio.to_thread(self._webhooks.purge, before)
        except StorageError as exc:
            LOG.info("webhooks: old deliveries were not purged: %s", exc)
            return
        if purged:
            self._purge_at = self._clock.monotonic() + _PORTION_SECONDS
            self._parts.notify()

    def _seconds_to_wait(self) -> float:
        if not self._owned:
            return _IDLE_SECONDS
        now = self._clock.monotonic()
        times = [self._registry_at, *(t for t in (self._planner.next_due(), self._gate.next_due()) if t is not None)]
        if self._model_moved():
            times.append(self._checkpoint_at)
        return min(max(0.0, min(times) - now), _IDLE_SECONDS) if not self._planner.has_ready else 0.0

    # Attempts

    def _admit(self, work: Work) -> None:
        if not self._holds(work.live):
            self._waiting.append(work)
            return
        self._gate.add(host_of(work.live.subscription.callback_url), work)

    def _readmit_moved(self) -> None:
        """Have what waits for a host wait for the one of the present callback; forget what is not to be sent."""
        for work in self._gate.take(
            lambda host, work: not self._wants(work) or host_of(work.live.subscription.callback_url) != host
        ):
            if self._wants(work):
                self._admit(work)
            else:
                self._forget(work)

    def _wants(self, work: Work) -> bool:
        """Whether it is still to be sent: its subscription may have been deleted, suspended or rewritten."""
        return self._planner.asks(work.live) if isinstance(work, Asking) else self._planner.wants(work)

    def _forget(self, work: Work) -> None:
        if isinstance(work, Asking):
            work.live.is_asking = False
        else:
            work.is_sending = False

    def _holds(self, live: Live) -> bool:
        """Whether a subscription's deliveries may be sent now, as they were loaded or planned here."""
        token = self._owned.get(live.subscription.shard)
        return token is not None and self._leases.holds(live.subscription.shard, token)

    def _start(self, host: str, work: Work) -> None:
        self._spawn(self._work(host, work))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._error = error
            self._parts.wake.set()

    async def _work(self, host: str, work: Work) -> None:
        """Make one request to a host, unless its subscription changed while it waited."""
        if not self._wants(work):
            self._forget(work)
            self._gate.done(host, answered=None)
        elif host_of(work.live.subscription.callback_url) != host:
            self._gate.done(host, answered=None)
            self._admit(work)
        elif isinstance(work, Asking):
            await self._ask(host, work.live)
        else:
            await self._attempt(host, work)

    async def _attempt(self, host: str, outgoing: Outgoing) -> None:
        """Send a delivery once, and record the result."""
        live = outgoing.live
        answered: bool | None = False
        live.sending += 1
        try:
            attempt = await self._parts.sender.post(
                live.subscription.callback_url,
                self._headers(outgoing),
                outgoing.delivery.body,
                may_send=lambda: self._holds(live) and not self._parts.is_stopping(),
            )
            answered = None if attempt.not_sent else 0 < attempt.code < 500
        finally:
            live.sending -= 1
            self._gate.done(host, answered=answered)
        self._parts.stats.count(attempt)
        self._planner.attempted(outgoing, attempt)
        self._parts.wake.set()

    async def _ask(self, host: str, live: Live) -> None:
        """Ask a receiver for its consent, and record the answer."""
        url = live.subscription.callback_url
        answered = False
        try:
            grant = await validate(self._parts.sender, url, origin=self._parts.settings.origin, rate=None)
            answered = 0 < grant.attempt.code < 500
        finally:
            self._gate.done(host, answered=answered)
        self._planner.answered(live, url, grant)
        self._parts.wake.set()

    def _headers(self, outgoing: Outgoing) -> dict[str, str]:
        now = self._clock.now()
        secrets = [secret for secret, until in outgoing.live.secrets if until is None or until > now]
        delivery = outgoing.delivery
        signed = headers(secrets, delivery.webhook_id, int(now.timestamp()), delivery.body)
        return {"Content-Type": delivery.content_type, **signed}

    async def _finish(self) -> None:
        """Wait for the attempts under way, and write their results."""
        tasks = [task for task in self._tasks if not task.done()]
        if tasks:
            await asyncio.wait(tasks, timeout=5)
        try:
            await self._write(checkpoint=True)
        except StorageError as exc:
            LOG.info("webhooks: the last results were not written: %s", exc)


def _is_busy(live: Live) -> bool:
    return live.reading is not None or live.is_asking or live.sending > 0


async def sleep(wake: asyncio.Event, seconds: float) -> None:
    """Wait until something may have happened, at most so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            await wake.wait()
    except TimeoutError:
        pass
    wake.clear()
