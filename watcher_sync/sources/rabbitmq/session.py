# SPDX-License-Identifier: Apache-2.0
"""The I/O thread of a RabbitMQ source: connections one after the other, consumers on them, the pause, and the stop.

One thread runs :meth:`RabbitMQSession.run`. A connection or consumer that ends is replaced, with jittered back-off and
without a limit.

Pause: when the engine settles nothing for ``hand_back_after``, the channel is closed and the broker takes back what is
not acknowledged. Nothing is consumed until the engine settles an event. The connection stays.

Stop, step by step:

1. An attempt to connect is cancelled.
2. The consumer is cancelled, so the broker delivers nothing more.
3. The engine settles what it has.
4. Shortly before the deadline the channel and the connection are closed: the broker takes back the rest.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Final

import msgspec
from oslo_log import log as logging

from watcher_sync.backoff import Backoff
from watcher_sync.events import Event
from watcher_sync.sources.base import SourceState
from watcher_sync.sources.rabbitmq.acks import AckLedger
from watcher_sync.sources.rabbitmq.broker import BrokerHost
from watcher_sync.sources.rabbitmq.connection import BrokerConnection, Failure, NoAnswer, connect, describe
from watcher_sync.sources.rabbitmq.consumer import HELD_BYTES, Consumer, apply_settlements
from watcher_sync.sources.rabbitmq.in_flight import RabbitInFlight
from watcher_sync.sources.rabbitmq.queue_poll import QueuePoll
from watcher_sync.sources.rabbitmq.queues import Queue, UnfitQueue
from watcher_sync.sources.rabbitmq.settings import RabbitMQSettings
from watcher_sync.sources.session_loop import BACKOFF_SECONDS, OutageReasons, SessionLoop, Stopped, end_task

LOG = logging.getLogger(__name__)

_STABLE_SECONDS: Final = 5.0
"""A consumer that worked for this time resets the back-off."""
_POLL_INTERVAL_SECONDS: Final = 1.0


class RabbitMQSessionStatus(msgspec.Struct):
    """What the source shows of its session. Written by one thread, read by any."""

    state: SourceState = SourceState.STARTING
    detail: str = ""
    connections: int = 0
    lag: int | None = None
    """Messages that the broker has not delivered to any consumer yet."""


class RabbitMQSession:
    """What the I/O thread does, from the first connection to the stop.

    :param name: of the source.
    :param oversized: makes the event of a body that is too large, with the number of its deliveries.
    :param stopping: set by :meth:`stop`.
    """

    def __init__(
        self,
        name: str,
        settings: RabbitMQSettings,
        queue: Queue,
        in_flight: RabbitInFlight,
        *,
        oversized: Callable[[bytes, int], Event],
        stopping: threading.Event,
        status: RabbitMQSessionStatus,
    ) -> None:
        self.name = name
        self._settings = settings
        self._queue = queue
        self._in_flight = in_flight
        self._oversized = oversized
        self._stopping = stopping
        self._status = status
        self._ledger = AckLedger()
        self._prefetch = settings.prefetch
        self._paused = ""
        """Why nothing is consumed; empty while it is."""
        self._give_back_at = 0.0
        self._is_finished = False
        self._loop = SessionLoop(stopping)
        self._reasons = OutageReasons()

    # Any thread

    def stop(self, deadline: float) -> None:
        """Have :meth:`run` end by then, as described at the top of this module.

        :param deadline: of the monotonic clock.
        """
        self._give_back_at = deadline - min(0.5, max(0.0, deadline - time.monotonic()) / 4)
        self._stopping.set()
        self._loop.cancel_attempt()

    def wake(self) -> None:
        """Have the I/O thread check what there is to do."""
        self._loop.wake()

    # Connections

    async def run(self) -> None:
        """One connection after the other, until the stop."""
        self._loop.start()
        hosts = self._settings.broker.shuffled()
        backoff = Backoff(*BACKOFF_SECONDS)
        while not self._stopping.is_set():
            try:
                connection = await self._loop.unless_stopped(self._connect(hosts))
            except Stopped:
                break
            if connection is not None:
                self._status.connections += 1
                if await self._use(connection):
                    backoff.succeeded()
                hosts.append(hosts.pop(0))
            await self._loop.pause(backoff.failed())
        await self._finish_disconnected()

    async def _connect(self, hosts: list[BrokerHost]) -> BrokerConnection | None:
        """A connection to the first host that accepts us, which becomes the first of the list; None: no host does."""
        errors: list[str] = []
        for _ in range(len(hosts)):
            try:
                return await connect(self._settings.broker, hosts[0], f"watcher-sync {self.name}")
            except Failure as exc:
                errors.append(f"{hosts[0]}: {describe(exc, self._settings.broker)}")
                hosts.append(hosts.pop(0))
        self._set_state(SourceState.DISCONNECTED, f"cannot connect: {'; '.join(sorted(errors))}")
        return None

    async def _use(self, connection: BrokerConnection) -> bool:
        """Work on one connection until it ends or the source stops; whether there was a consumer at all."""
        worked = False
        backoff = Backoff(*BACKOFF_SECONDS)
        try:
            while connection.why_closed is None and not self._stopping.is_set():
                began = time.monotonic()
                if self._paused:
                    await self._wait_paused(connection)
                    continue
                try:
                    consumer = await self._loop.unless_stopped(self._begin(connection))
                except Stopped:
                    break
                except (UnfitQueue, *Failure) as exc:
                    self._report_failure(connection, exc)
                    if isinstance(exc, NoAnswer):
                        break
                else:
                    worked = True
                    await self._pump(connection, consumer)
                    if time.monotonic() - began > _STABLE_SECONDS:
                        backoff.succeeded()
                if connection.why_closed is None and not self._paused:
                    await self._loop.pause(backoff.failed())
        except Failure as exc:
            connection.ending.set(exc)
        finally:
            await connection.close()
        if connection.why_closed is not None and self._status.state is not SourceState.DISCONNECTED:
            detail = f"the connection to {connection.host} is lost"
            self._set_state(
                SourceState.DISCONNECTED, f"{detail}: {describe(connection.why_closed, self._settings.broker)}"
            )
        return worked

    async def _begin(self, connection: BrokerConnection) -> Consumer:
        await self._queue.declare(connection)
        if self._in_flight.unemitted_bytes() > HELD_BYTES // 2:
            # Those of an earlier channel are emitted, in case their queue is gone; but not without a limit.
            self._in_flight.drop_unemitted()
        consumer = Consumer(
            connection,
            self._queue,
            self._ledger,
            self._in_flight,
            self._settings,
            prefetch=self._prefetch,
            oversized=self._oversized,
            wake=self._loop.set_woken,
        )
        await consumer.begin()
        self._prefetch = self._settings.prefetch
        return consumer

    def _report_failure(self, connection: BrokerConnection, error: Exception) -> None:
        if connection.why_closed is None:
            what = f"queue {self._queue.name} cannot be consumed"
            self._set_state(SourceState.DISCONNECTED, f"{what}: {describe(error, self._settings.broker)}")

    # One consumer

    async def _pump(self, connection: BrokerConnection, consumer: Consumer) -> None:
        """Settle and watch, until the consumer or the connection is lost, the source pauses, or it stops.

        :raises Failure: the connection is lost.
        """
        polling = self._start_poll(connection, consumer)
        try:
            while not self._stopping.is_set() and connection.why_closed is None:
                self._set_state(SourceState.CONNECTED, self._remarks(connection))
                consumer.settle()
                if consumer.lost or consumer.why_closed is not None or self._must_pause(consumer):
                    break
                await self._loop.wait(self._patience())
            if self._stopping.is_set():
                await self._finish(consumer)
        finally:
            await end_task(polling)
        await self._end(connection, consumer)

    async def _end(self, connection: BrokerConnection, consumer: Consumer) -> None:
        """The consumer is lost, or the source pauses or stops: its channel ends."""
        if connection.why_closed is None and not self._paused:
            why = consumer.lost or consumer.why_closed
            if isinstance(why, Exception):
                why = f"the channel was closed: {describe(why, self._settings.broker)}"
            self._set_state(SourceState.DISCONNECTED, why or "the consumer is gone")
        await consumer.end()

    def _patience(self) -> float:
        """Seconds after which there may be something to do without a wake-up."""
        due = self._ledger.next_due
        return _POLL_INTERVAL_SECONDS if due is None else min(_POLL_INTERVAL_SECONDS, max(0.0, due - time.monotonic()))

    def _must_pause(self, consumer: Consumer) -> bool:
        """Whether the engine is stuck, so that the broker shall take back what is not acknowledged."""
        oldest = self._ledger.oldest_at
        limit = self._settings.hand_back_after
        if consumer.overfull:
            # Fewer at a time: those that fit into the memory.
            self._prefetch = max(1, len(self._ledger) // 2)
            self._paused = "the engine has too many bytes in hand and settles nothing"
        elif oldest is not None and time.monotonic() - oldest > limit:
            self._paused = f"the engine could not commit the oldest event for {limit:g} s"
        else:
            return False
        self._in_flight.drop_unemitted()
        LOG.warning("source %s: paused: %s; unacknowledged messages are returned to the queue", self.name, self._paused)
        return True

    async def _wait_paused(self, connection: BrokerConnection) -> None:
        """Consume nothing until the engine settles an event, the connection is lost, or the source stops."""
        self._ledger.open()  # what is settled now was given back before
        polling = self._start_poll(connection, None)
        try:
            while not self._stopping.is_set() and connection.why_closed is None:
                self._set_state(SourceState.CONNECTED, self._remarks(connection))
                if apply_settlements(self._in_flight, self._ledger, time.monotonic()):
                    self._paused = ""
                    LOG.info("source %s: resumed", self.name)
                    return
                await self._loop.wait(_POLL_INTERVAL_SECONDS)
        finally:
            await end_task(polling)

    def _start_poll(self, connection: BrokerConnection, consumer: Consumer | None) -> asyncio.Task[None]:
        poll = QueuePoll(connection, self._queue, consumer, set_lag=self._set_lag)
        return asyncio.create_task(poll.run(self._settings.broker))

    def _set_lag(self, lag: int | None) -> None:
        self._status.lag = lag

    def _remarks(self, connection: BrokerConnection) -> str:
        paused = f"paused: {self._paused}" if self._paused else ""
        blocked = f"the broker blocks publishers: {connection.blocked}" if connection.blocked else ""
        return "; ".join(remark for remark in (paused, self._queue.note, blocked) if remark)

    # The stop

    async def _finish(self, consumer: Consumer) -> None:
        """From the cancelled consumer until the engine has settled what it has, or the time is over.

        :raises Failure: the connection is lost.
        """
        self._is_finished = True
        await consumer.cancel()
        unemitted = self._count_unemitted()
        while True:
            consumer.settle(at_once=True)
            left = self._give_back_at - time.monotonic()
            if len(self._ledger) <= unemitted or left <= 0 or consumer.why_closed is not None:
                return
            await self._loop.wait(min(_POLL_INTERVAL_SECONDS, left))

    async def _finish_disconnected(self) -> None:
        """A stop without a connection: wait until the engine has settled, though no broker learns of it."""
        if self._is_finished:
            return
        unemitted = self._count_unemitted()
        while len(self._ledger) > unemitted and (left := self._give_back_at - time.monotonic()) > 0:
            apply_settlements(self._in_flight, self._ledger, 0.0)
            await self._loop.wait(min(0.1, left))

    def _count_unemitted(self) -> int:
        """Discard what the engine has not taken; how many deliveries of the open channel that are."""
        generation = self._ledger.generation
        return sum(message.position.generation == generation for message in self._in_flight.drop_unemitted())

    # State

    def _set_state(self, state: SourceState, detail: str) -> None:
        """Set the state; then one line in the log for each change, and for each reason of an outage."""
        before = self._status.state
        if self._stopping.is_set() or (state, detail) == (before, self._status.detail):
            return
        self._status.state, self._status.detail = state, detail
        if state is not SourceState.CONNECTED:
            self._status.lag = None
            if self._reasons.is_new(detail):
                LOG.warning("source %s: disconnected: %s; retrying", self.name, detail)
        elif before is not state:
            self._reasons.clear()
            LOG.info("source %s: connected", self.name)
        if state is SourceState.CONNECTED and detail and not self._paused:
            LOG.warning("source %s: %s", self.name, detail)
