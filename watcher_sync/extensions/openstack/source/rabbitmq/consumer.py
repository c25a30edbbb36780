# SPDX-License-Identifier: Apache-2.0
"""One channel's consumption of the queue: one *generation* of deliveries, from :meth:`Consumer.begin` to its end.

The prefetch is set on each channel before it consumes. The library's callbacks append what arrived. It is passed to the
emitting thread at once if it came alone, else in batches.

While more than a limit of bytes is unsettled, the callback waits for settlements, so the socket is not read. It waits
for a few seconds at most, because the heartbeats need the thread. A consumer that is then still above the limit is
*overfull*.

:class:`QueuePoll` asks the broker now and then what waits in the queue, and whether it still knows the consumer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from watcher_sync.backoff import Backoff
from watcher_sync.events import Event
from watcher_sync.extensions.openstack.source.rabbitmq.in_flight import (
    AckLedger,
    QueuedMessage,
    RabbitInFlight,
    body_of,
)
from watcher_sync.extensions.openstack.source.rabbitmq.queues import Queue
from watcher_sync.extensions.openstack.source.rabbitmq.settings import RabbitMQSettings
from watcher_sync.transports.rabbitmq.broker import Broker
from watcher_sync.transports.rabbitmq.connection import BrokerConnection, Channel, Failure, NoAnswer, describe

HELD_BYTES: Final = 67_108_864
"""Bytes of bodies that are delivered and not settled; above them nothing more is read."""

_MAX_HOLD_SECONDS: Final = 4.0
_HOLD_POLL_SECONDS: Final = 0.05
_FLOWING_SECONDS: Final = 0.01
"""A message that comes so long after the last ones came alone."""


class Consumer:
    """One consumer on one channel of its own.

    :param prefetch: that of the settings, or less.
    :param oversized: makes the event of a body that is too large, with the number of its deliveries.
    :param wake: called when the session has something to do.
    """

    def __init__(
        self,
        connection: BrokerConnection,
        queue: Queue,
        ledger: AckLedger,
        in_flight: RabbitInFlight,
        settings: RabbitMQSettings,
        *,
        prefetch: int,
        oversized: Callable[[bytes, int], Event],
        wake: Callable[[], None],
    ) -> None:
        self.lost: str | None = None
        """Why the broker delivers nothing more; None while it does, or while the channel says it."""
        self.overfull = False
        self._connection = connection
        self._queue = queue
        self._ledger = ledger
        self._in_flight = in_flight
        self._prefetch = prefetch
        self._batch = settings.batch
        self._linger = settings.linger
        self._max_event_size = settings.max_event_size
        self._oversized = oversized
        self._wake = wake
        self._channel: Channel | None = None
        self._tag = ""
        self._generation = 0
        self._arrived: list[QueuedMessage] = []
        self._held_seconds = 0.0
        self._flushing: asyncio.Handle | None = None
        self._flushed_at = 0.0
        self._loop = asyncio.get_running_loop()

    @property
    def why_closed(self) -> Exception | None:
        """Why the channel was closed; None while it is open."""
        return self._channel.why_closed if self._channel is not None else None

    async def begin(self) -> None:
        """Open the channel, set the prefetch, and consume.

        :raises Failure: the broker refuses it, or the connection is lost.
        """
        self._channel = channel = await self._connection.open_channel()
        library = channel.library
        library.add_on_cancel_callback(self._on_cancel)
        await channel.call(library.basic_qos, prefetch_count=self._prefetch)
        self._generation = self._ledger.open()
        self._tag = f"watcher-sync-{self._generation}"
        await channel.call(
            self._consume, on_message_callback=self._on_message, arguments=self._queue.consume_arguments() or None
        )

    def _consume(self, *, callback: Callable[[Any], None], **options: Any) -> None:
        assert self._channel is not None
        self._channel.library.basic_consume(self._queue.name, consumer_tag=self._tag, callback=callback, **options)

    async def cancel(self) -> None:
        """Have the broker deliver nothing more; what arrived remains to be settled.

        :raises Failure: the connection is lost.
        """
        if self._channel is not None and self._channel.why_closed is None and self.lost is None:
            await self._channel.call(self._channel.library.basic_cancel, self._tag)
            self.flush()

    async def end(self) -> None:
        """Close the channel: the broker takes back what is not acknowledged.

        What arrived is emitted all the same, in case its queue is gone.

        :raises Failure: the connection is lost.
        """
        self.flush()
        if self._channel is not None:
            await self._channel.close()

    def lose(self, why: str) -> None:
        """The broker delivers nothing more on this channel."""
        if self.lost is None:
            self.lost = why
            self._wake()

    def settle(self, *, at_once: bool = False) -> None:
        """Send what the engine settled since the last call.

        :param at_once: whether nacks are sent without their delay.
        """
        now = time.monotonic()
        apply_settlements(self._in_flight, self._ledger, now)
        self._send(float("inf") if at_once else now)

    def _send(self, now: float) -> None:
        channel, ledger = self._channel, self._ledger
        if channel is None or channel.why_closed is not None or not channel.library.is_open:
            return
        for tag in ledger.pop_due(now):
            channel.library.basic_nack(tag, requeue=True)
        highest = ledger.pop_ackable()
        if highest is not None:
            channel.library.basic_ack(highest, multiple=True)

    def flush(self) -> None:
        """Pass what arrived to the emitting thread."""
        self._held_seconds = 0.0
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        if self._arrived:
            arrived, self._arrived = self._arrived, []
            self._in_flight.add(arrived)
            self._flushed_at = time.monotonic()

    def _flush_soon(self, now: float) -> None:
        """Pass on what arrived: at once if it came alone, else when more of it is there or ``linger`` is over."""
        if now - self._flushed_at > _FLOWING_SECONDS:
            self._flushing = self._loop.call_soon(self.flush)
        else:
            self._flushing = self._loop.call_later(self._linger, self.flush)

    # The library's callbacks

    def _on_message(self, _channel: Any, method: Any, properties: Any, body: bytes) -> None:
        if self._generation != self._ledger.generation:
            return  # of a connection that was given up: the broker takes the message back
        queue = self._queue
        headers = properties.headers
        deliveries = queue.deliveries(method.redelivered, headers)
        event: Event | None = None
        refused = ""
        if len(body) > self._max_event_size:
            event, body = self._oversized(body, deliveries), b""
        else:  # here, so that the limits of the memory count what was decompressed
            body, refused = body_of(properties, body, self._max_event_size)
        tag = method.delivery_tag
        now = time.monotonic()
        position = queue.position(self._generation, tag, headers)
        self._arrived.append(QueuedMessage(position, body, deliveries, event, refused))
        self._ledger.add(tag, len(body), now)
        if len(self._arrived) >= self._batch:
            self.flush()
        elif self._flushing is None:
            self._flush_soon(now)
        if self._ledger.bytes >= HELD_BYTES and not self.overfull:
            self._hold()

    def _on_cancel(self, _frame: Any) -> None:
        self.lose(
            f"the broker cancelled the consumer of queue {self._queue.name}: it was deleted, its node is down,"
            " or consumer_timeout is over"
        )

    def _hold(self) -> None:
        """Wait until less is unsettled; see the top of this module."""
        held, began = self._held_seconds, time.monotonic()
        self.flush()
        while self._ledger.bytes >= HELD_BYTES and not self._in_flight.is_stopping:
            self._held_seconds = held + time.monotonic() - began
            if self._held_seconds >= _MAX_HOLD_SECONDS:
                self.overfull = True
                self._wake()
                return
            if not self._in_flight.wait_settled(_HOLD_POLL_SECONDS):
                continue
            self.settle()


def apply_settlements(in_flight: RabbitInFlight, ledger: AckLedger, now: float) -> int:
    """Enter into the ledger what the engine settled since the last call; how many events these were."""
    count = 0
    for events, delay in in_flight.settlements():
        count += len(events)
        if delay is None:
            for event in events:
                ledger.commit(event.position)
        else:
            for event in events:
                ledger.give_back(event.position, now + delay)
    return count


_INTERVAL_SECONDS: Final = 5.0
_UNBOUND_SECONDS: Final = (1.0, 30.0)
"""The first and the longest pause while the exchange is missing: the broker logs an error for each attempt."""


class Figures(NamedTuple):
    """What the broker says of the queue."""

    ready: int
    """Messages that it has not delivered to any consumer."""
    consumers: int


class QueuePoll:
    """Asks about one queue, on a channel of its own of the consumer's connection.

    A broker can lose a consumer, a binding or an exchange without a word to the client. So each time the queue is also
    bound again, which changes nothing where the binding exists.

    :param consumer: notified when the broker does not know it any more; None while the source is paused.
    :param set_lag: called with the messages that wait; None: unknown.
    """

    def __init__(
        self,
        connection: BrokerConnection,
        queue: Queue,
        consumer: Consumer | None,
        *,
        set_lag: Callable[[int | None], None],
    ) -> None:
        self._connection = connection
        self._queue = queue
        self._consumer = consumer
        self._set_lag = set_lag
        self._channel: Channel | None = None
        self._waited = 0
        """The messages that waited when nothing consumed them."""

    async def run(self, broker: Broker) -> None:
        """Ask every few seconds, until the consumer is lost.

        A connection on which the broker does not answer is given up.
        """
        unbound = Backoff(*_UNBOUND_SECONDS)
        while True:
            why: str | None = None
            try:
                figures = await self.ask()
            except Failure as exc:
                self._set_lag(None)
                why = describe(exc, broker)
                if isinstance(exc, NoAnswer):
                    self._connection.ending.set(exc)
            else:
                self._set_lag(figures.ready)
                if self._consumer is None:
                    self._notice_removed(figures)
                if figures.consumers == 0:
                    why = f"the broker knows no consumer of queue {self._queue.name}"
            if why is not None and self._consumer is not None:
                self._consumer.lose(why)
                return
            if self._queue.unbound:
                await asyncio.sleep(unbound.failed())
            else:
                unbound.succeeded()
                await asyncio.sleep(_INTERVAL_SECONDS)

    def _notice_removed(self, figures: Figures) -> None:
        """Report what the queue has lost while nothing consumes it, such as messages that a policy lets expire."""
        if figures.consumers == 0:
            if (removed := self._waited - figures.ready) > 0:
                self._queue.gaps.add(f"the broker removed {removed} messages of queue {self._queue.name}", removed)
            self._waited = figures.ready

    async def ask(self) -> Figures:
        """The figures of this moment.

        :raises Failure: the queue is missing, permission is refused, the connection is lost, or the
            broker does not answer.
        """
        if self._channel is None or self._channel.why_closed is not None:
            self._channel = await self._connection.open_channel()
        channel, library = self._channel, self._channel.library
        answer = await channel.call(library.queue_declare, self._queue.name, passive=True)
        await self._queue.bind(channel)
        counts = int(answer.method.message_count), int(answer.method.consumer_count)
        return Figures(*await self._queue.inspect(self._connection, *counts))
