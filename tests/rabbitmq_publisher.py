# SPDX-License-Identifier: Apache-2.0
"""Publishes notifications to a real RabbitMQ as Nova's oslo.messaging driver does, at the speed of AMQP.

Exchange type, durability, routing key, envelope, content type and delivery mode are those of the driver. So a
listener cannot distinguish the two, except by the rate.

Guarantee: when :meth:`Publisher.publish` returns, the queues have the messages. The publisher waits for the broker's
confirms after each lot of a few thousand. A quorum queue may lose what waits in a channel that is closed. A topic
exchange drops messages without a bound queue, unless ``declare_queues`` made the default queues first.

For one thread. Needs py-amqp, a dependency of oslo.messaging.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

import amqp

from watcher_sync.testing.nova.notifications import Document
from watcher_sync.testing.nova.recording import oslo_body

PRIORITIES = ("info", "error")
_LOT = 5_000


class Publisher:
    """A connection to the broker that publishes.

    :param host: ``name:port`` of the broker.
    :param exchange: the publisher's control exchange.
    :param topic: topic of the notifications; the routing key is ``<topic>.<priority>``.
    :param durable: durability of the exchange and queues, as ``amqp_durable_queues`` of oslo.messaging.
    :param queue_arguments: arguments of the queues that :meth:`declare_queues` makes.
    :raises OSError: when the broker cannot be reached.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1:5672",
        user: str = "guest",
        password: str = "guest",  # noqa: S107 - RabbitMQ's own default, for tests
        vhost: str = "/",
        exchange: str = "nova",
        topic: str = "versioned_notifications",
        durable: bool = False,
        queue_arguments: dict[str, Any] | None = None,
    ) -> None:
        self.exchange = exchange
        self.topic = topic
        self._durable = durable
        self._queue_arguments = queue_arguments
        self._connection = amqp.Connection(host, userid=user, password=password, virtual_host=vhost)
        self._connection.connect()
        self._channel = self._connection.channel()
        self._channel.exchange_declare(exchange, "topic", durable=durable, auto_delete=False)
        self._channel.confirm_select()
        self._channel.events["basic_ack"].add(self._confirmed)
        self._channel.events["basic_nack"].add(self._refused)
        self._published = 0
        """Messages of this channel; the broker numbers them in the same way."""
        self._unconfirmed: set[int] = set()

    def __enter__(self) -> Publisher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; what was published stays."""
        self._connection.close()

    def declare_queues(self) -> tuple[str, ...]:
        """Make the queues that Nova's driver makes, one a priority, and return their names."""
        names = tuple(f"{self.topic}.{priority}" for priority in PRIORITIES)
        for name in names:
            self._channel.queue_declare(name, durable=self._durable, auto_delete=False, arguments=self._queue_arguments)
            self._channel.queue_bind(name, self.exchange, routing_key=name)
        return names

    def publish(
        self,
        messages: Iterable[Document | bytes],
        *,
        rate: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> int:
        """Publish all messages in order and return their number.

        :param messages: notifications, wrapped here by messagingv2; or raw bodies, sent as they are with
            priority info.
        :param rate: no more than so many messages a second; None: as fast as it goes.
        :param clock: monotonic seconds.
        :raises amqp.AMQPError: when the broker refuses something.
        """
        begin = clock()
        sent = 0
        for message in messages:
            if rate is not None and (ahead := sent / rate - (clock() - begin)) > 0.001:
                sleep(ahead)
            if isinstance(message, bytes):
                body, priority = message, "info"
            else:
                body, priority = oslo_body(message), message["priority"].lower()
            self._channel.basic_publish(self._framed(body), self.exchange, f"{self.topic}.{priority}")
            sent += 1
            self._published += 1
            self._unconfirmed.add(self._published)
            if sent % _LOT == 0:
                self._settle()
        self._settle()
        return sent

    def _framed(self, body: bytes) -> Any:
        return amqp.Message(
            body, content_type="application/json", content_encoding="utf-8", delivery_mode=2, priority=0
        )

    def _settle(self) -> None:
        """Wait until the broker has confirmed all that this channel sent."""
        while self._unconfirmed:
            self._connection.drain_events()

    def _confirmed(self, number: int, multiple: bool) -> None:
        self._unconfirmed -= {each for each in self._unconfirmed if each <= number} if multiple else {number}

    def _refused(self, number: int, multiple: bool) -> None:
        raise OSError(f"the broker refused the message {number}")
