# SPDX-License-Identifier: Apache-2.0
"""Asks the broker about the queue now and then: what waits there, and whether it still knows the consumer.

A broker can lose a consumer, a binding or an exchange without a word to the client. So each time the queue is also
bound again, which changes nothing where the binding exists.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from watcher_sync.sources.rabbitmq.broker import Broker
from watcher_sync.sources.rabbitmq.connection import BrokerConnection, Channel, Failure, NoAnswer, describe
from watcher_sync.sources.rabbitmq.consumer import Consumer
from watcher_sync.sources.rabbitmq.queues import Queue

_INTERVAL_SECONDS: Final = 5.0


class Figures(NamedTuple):
    """What the broker says of the queue."""

    ready: int
    """Messages that it has not delivered to any consumer."""
    consumers: int


class QueuePoll:
    """Asks about one queue, on a channel of its own of the consumer's connection.

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

    async def run(self, broker: Broker) -> None:
        """Ask every few seconds, until the consumer is lost.

        A connection on which the broker does not answer is given up.
        """
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
                if figures.consumers == 0:
                    why = f"the broker knows no consumer of queue {self._queue.name}"
            if why is not None and self._consumer is not None:
                self._consumer.lose(why)
                return
            await asyncio.sleep(_INTERVAL_SECONDS)

    async def ask(self) -> Figures:
        """The figures of this moment.

        :raises Failure: the queue or the exchange is missing, permission is refused, the connection is lost, or the
            broker does not answer.
        """
        if self._channel is None or self._channel.why_closed is not None:
            self._channel = await self._connection.open_channel()
        channel, library = self._channel, self._channel.library
        answer = await channel.call(library.queue_declare, self._queue.name, passive=True)
        await channel.call(library.exchange_declare, self._queue.exchange, passive=True)
        await self._queue.bind(channel)
        counts = int(answer.method.message_count), int(answer.method.consumer_count)
        return Figures(*await self._queue.inspect(self._connection, *counts))
