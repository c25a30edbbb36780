# SPDX-License-Identifier: Apache-2.0
"""The session of a RabbitMQ source: its queue and consumer, settling, the pause, and the stop.

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

from oslo_log import log as logging

from watcher_sync.events import Event
from watcher_sync.extensions.openstack.source.rabbitmq.consumer import (
    HELD_BYTES,
    Consumer,
    QueuePoll,
    apply_settlements,
)
from watcher_sync.extensions.openstack.source.rabbitmq.in_flight import AckLedger, RabbitInFlight
from watcher_sync.extensions.openstack.source.rabbitmq.queues import Queue, UnfitQueue
from watcher_sync.extensions.openstack.source.rabbitmq.settings import RabbitMQSettings
from watcher_sync.sources.base import SourceState
from watcher_sync.sources.session import NotConnected, Session
from watcher_sync.tasks import end_tasks
from watcher_sync.transports.exceptions import NotAnswered, NotReady
from watcher_sync.transports.rabbitmq.connection import BrokerConnection, Failure, NoAnswer, connect, describe

LOG = logging.getLogger(__name__)

_POLL_INTERVAL_SECONDS: Final = 1.0


class RabbitMQSession(Session[BrokerConnection, Consumer]):
    """What the session's thread does.

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
    ) -> None:
        super().__init__(name, stopping=stopping)
        self._settings = settings
        self._hosts = settings.broker.shuffled()
        self._queue = queue
        self._in_flight = in_flight
        self._oversized = oversized
        self._ledger = AckLedger()
        self._prefetch = settings.prefetch
        self._paused = ""
        """Why nothing is consumed; empty while it is."""
        self._is_finished = False

    # Connections

    async def _connect(self) -> BrokerConnection:
        """To the first host that accepts us. The next connection tries the host after it first."""
        errors: list[str] = []
        for host in list(self._hosts):
            self._hosts.append(self._hosts.pop(0))
            try:
                return await connect(self._settings.broker, host, f"watcher-sync {self.name}")
            except Failure as exc:
                errors.append(f"{host}: {describe(exc, self._settings.broker)}")
        self._queue.report_away()
        raise NotConnected("; ".join(sorted(errors)))

    async def _disconnect(self, connection: BrokerConnection) -> str:
        why = connection.why_closed
        await connection.close()
        reason = "" if why is None else f": {describe(why, self._settings.broker)}"
        return f"the connection to {connection.host} is lost{reason}"

    async def _attach(self, connection: BrokerConnection) -> Consumer:
        if self._paused:
            await self._wait_paused(connection)
            if connection.is_closed:
                raise NotReady("the connection was lost while the source paused")
        try:
            return await self._begin(connection)
        except (UnfitQueue, *Failure) as exc:
            kind = NotAnswered if isinstance(exc, NoAnswer) else NotReady
            why = describe(exc, self._settings.broker)
            raise kind(f"queue {self._queue.name} cannot be consumed: {why}") from None

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

    # One consumer

    async def _pump(self, connection: BrokerConnection, consumer: Consumer) -> None:
        """Settle and watch, until the consumer or the connection is lost, the source pauses, or it stops.

        :raises NotReady: the consumer is lost.
        """
        try:
            await self._settle(connection, consumer)
            lost = self._why_lost(consumer)
            if not connection.is_closed and not self._paused:
                self._set_state(SourceState.DISCONNECTED, lost)  # before an answer is awaited
            await consumer.end()
        except Failure as exc:
            connection.ending.set(exc)
        else:
            if not self._paused:
                raise NotReady(lost)

    async def _settle(self, connection: BrokerConnection, consumer: Consumer) -> None:
        """:raises Failure: the connection is lost."""
        polling = self._start_poll(connection, consumer)
        try:
            while not self._stopping.is_set() and not connection.is_closed:
                self._show_connected(connection)
                consumer.settle()
                if consumer.lost or consumer.why_closed is not None or self._must_pause(consumer):
                    return
                await self._loop.wait(self._patience())
            if self._stopping.is_set():
                await self._finish(consumer)
        finally:
            await end_tasks([polling])

    def _why_lost(self, consumer: Consumer) -> str:
        if consumer.lost is None and consumer.why_closed is not None:
            return f"the channel was closed: {describe(consumer.why_closed, self._settings.broker)}"
        return consumer.lost or "the consumer is gone"

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
        consumer.flush()
        self._in_flight.drop_unemitted()
        LOG.warning("source %s: paused: %s; unacknowledged messages are returned to the queue", self.name, self._paused)
        return True

    async def _wait_paused(self, connection: BrokerConnection) -> None:
        """Consume nothing until the engine settles an event, the connection is lost, or the source stops."""
        self._ledger.open()  # what is settled now was given back before
        polling = self._start_poll(connection, None)
        try:
            while not self._stopping.is_set() and not connection.is_closed:
                self._show_connected(connection)
                if apply_settlements(self._in_flight, self._ledger, time.monotonic()):
                    self._paused = ""
                    LOG.info("source %s: resumed", self.name)
                    return
                await self._loop.wait(_POLL_INTERVAL_SECONDS)
        finally:
            await end_tasks([polling])

    def _start_poll(self, connection: BrokerConnection, consumer: Consumer | None) -> asyncio.Task[None]:
        poll = QueuePoll(connection, self._queue, consumer, set_lag=self._set_lag)
        return asyncio.create_task(poll.run(self._settings.broker))

    def _set_lag(self, lag: int | None) -> None:
        self.status.lag = lag

    def _show_connected(self, connection: BrokerConnection) -> None:
        if self._queue.unbound:
            self._set_state(SourceState.DISCONNECTED, self._queue.unbound)
            return
        paused = f"paused: {self._paused}" if self._paused else ""
        blocked = f"the broker blocks publishers: {connection.blocked}" if connection.blocked else ""
        remarks = "; ".join(remark for remark in (paused, self._queue.note, blocked) if remark)
        if self._set_state(SourceState.CONNECTED, remarks) and remarks and not self._paused:
            LOG.warning("source %s: %s", self.name, remarks)

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
