# SPDX-License-Identifier: Apache-2.0
"""The driver ``oslo_messaging``: versioned notifications on the notification bus of the cloud, which is RabbitMQ.

Any notification listener of oslo.messaging gets them. The publisher is not the library's own: that one logs a failure
and loses the notification. This one waits until RabbitMQ has confirmed each message of a batch.

Delivery is at least once. After a failure a change may be published again, with the same message_id. The queues do not
tell what they contain, so the position is that of the framework. A message that no queue takes is a failure: the
change waits in the journal, and no queue without a reader grows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final

import pika
from oslo_config import cfg

from watcher_sync.exceptions import ConfigError
from watcher_sync.extensions.log.base import ChangeTooLarge, LogChange, LogPositions, Outlet, OutletError
from watcher_sync.extensions.log.event_loop import EventLoopThread
from watcher_sync.extensions.log.formats import CLOUDEVENTS
from watcher_sync.extensions.log.oslo_messaging.notifications import PRIORITY, notification
from watcher_sync.extensions.log.positions import positions_after
from watcher_sync.transports.rabbitmq.broker import GROUP, Broker, insecure_broker, read_broker
from watcher_sync.transports.rabbitmq.connection import (
    BrokerConnection,
    Channel,
    Failure,
    NoAnswer,
    connect,
    describe,
    is_mismatch,
)

_CONNECT_SECONDS: Final = 30.0
_PUBLISH_SECONDS: Final = 30.0
_CLOSE_SECONDS: Final = 3.0
_FIRST_LIMIT: Final = 16 * 1024 * 1024
"""The default of RabbitMQ from 4.0 on. The protocol does not tell the limit of a broker, but its refusal does."""
_TOO_LARGE: Final = re.compile(r"larger than configured max size '?(\d+)")

_PROPERTIES: Final = pika.BasicProperties(
    content_type="application/json", content_encoding="utf-8", delivery_mode=pika.DeliveryMode.Persistent
)


class OsloMessagingOutlet(Outlet):
    """The driver ``oslo_messaging``."""

    limit_names: ClassVar[str] = "max_message_size of RabbitMQ"

    options: ClassVar[list[cfg.Opt]] = [
        cfg.StrOpt(
            "transport_url",
            secret=True,
            help=f"""
The notification bus, in oslo.messaging's form: ``rabbit://user:password@host:port,user:password@host2:port/virtual``.

The options of ``[{GROUP}]`` for TLS, heartbeat and the durability of the exchange apply.
""",
        ),
        cfg.StrOpt(
            "exchange",
            default="openstack",
            help="The exchange that listeners use: their [DEFAULT] control_exchange.",
        ),
        cfg.ListOpt(
            "topics",
            default=["watcher_sync_notifications"],
            help="Topics on which each notification is published. A listener must have a queue for each of them.",
        ),
    ]
    insecure_transports = staticmethod(insecure_broker)

    def __init__(self, name: str, conf: cfg.ConfigOpts) -> None:
        """:raises ConfigError: the transport_url is missing or not of RabbitMQ, or another option is wrong."""
        super().__init__(name, conf)
        self.encode, self.limit = notification, _FIRST_LIMIT
        section = f"outlet_{name}"
        if self.group.format != CLOUDEVENTS:
            raise ConfigError(f"[{section}] format: has no meaning here: notifications are versioned objects")
        for option in ("exchange", "topics"):
            if not self.group[option]:
                raise ConfigError(f"[{section}] {option}: is empty")
        self._broker = read_broker(section, self.group.transport_url, conf)
        self._keys = [f"{topic}.{PRIORITY}" for topic in self.group.topics]
        self._loop: EventLoopThread | None = None
        self._publisher: _Publisher | None = None

    def open(self, position: LogPositions) -> LogPositions:
        """Connect to one of the hosts.

        :raises OutletError: no host accepts us.
        """
        self.close()
        self._loop = EventLoopThread(f"outlet-{self.name}")
        try:
            self._publisher = self._loop.run(self._connect(), _CONNECT_SECONDS)
        except Failure as exc:
            self.close()
            raise OutletError(f"cannot connect: {describe(exc, self._broker)}") from exc
        return position

    def publish(self, changes: Sequence[LogChange]) -> LogPositions:
        """Publish the changes, and wait until a queue has each of them.

        :raises OutletError: the broker did not confirm all, or no queue is bound.
        """
        if self._loop is None or self._publisher is None:
            raise OutletError("not connected")
        try:
            self._loop.run(self._publisher.publish([change.body for change in changes]), _PUBLISH_SECONDS)
        except Failure as exc:
            failure = f"the broker did not confirm: {describe(exc, self._broker)}"
            found = _TOO_LARGE.search(str(exc))
            raise (ChangeTooLarge(failure, int(found[1])) if found else OutletError(failure)) from exc
        return positions_after(changes[-1])

    def close(self) -> None:
        """Disconnect."""
        loop, publisher = self._loop, self._publisher
        self._loop = self._publisher = None
        if loop is None:
            return
        if publisher is not None:
            with suppress(*Failure):
                loop.run(publisher.close(), _CLOSE_SECONDS)
        loop.close()

    async def _connect(self) -> _Publisher:
        """:raises Failure: no host accepts us; the failure is that of the last one."""
        failure: Exception = NoAnswer("no host is configured")
        for host in self._broker.shuffled():
            try:
                connection = await connect(self._broker, host, f"watcher-sync outlet {self.name}")
                return await _Publisher.open(connection, self.group.exchange, self._keys, self._broker)
            except Failure as exc:
                failure = exc
        raise failure


class _Publisher:
    """One channel of one connection, in confirm mode. Made by :meth:`open`, in an event loop."""

    def __init__(self, connection: BrokerConnection, channel: Channel, exchange: str, keys: Sequence[str]) -> None:
        self._connection = connection
        self._channel = channel
        self._exchange = exchange
        self._keys = keys
        self._sent = 0
        """Messages on this channel: the delivery tag of the last one."""
        self._unconfirmed: set[int] = set()
        self._refusal = ""
        """Why a message of this batch was refused; empty if none was."""
        self._confirmed: Callable[[Any], None] | None = None

    @classmethod
    async def open(cls, connection: BrokerConnection, exchange: str, keys: Sequence[str], broker: Broker) -> _Publisher:
        """Declare the exchange as publishers of oslo.messaging do. One with other properties is used as it is.

        :raises Failure: the broker refuses it; the connection is closed.
        """
        try:
            await _declare_exchange(connection, exchange, broker)
            made = cls(connection, await connection.open_channel(), exchange, keys)
            made._channel.library.add_on_return_callback(made._on_return)
            await made._channel.call(made._channel.library.confirm_delivery, made._on_confirm)
        except BaseException:
            await connection.close()
            raise
        return made

    async def publish(self, bodies: Sequence[bytes]) -> None:
        """:raises Failure: not all are confirmed; the channel is of no use any more."""
        self._refusal = ""
        for body in bodies:
            for key in self._keys:
                self._sent += 1
                self._unconfirmed.add(self._sent)
                self._channel.library.basic_publish(self._exchange, key, body, _PROPERTIES, mandatory=True)
        await self._channel.call(self._when_confirmed)
        if self._refusal:
            raise NoAnswer(self._refusal)

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close()

    def _when_confirmed(self, *, callback: Callable[[Any], None]) -> None:
        self._confirmed = callback
        self._call_if_confirmed()

    def _call_if_confirmed(self) -> None:
        if self._confirmed is not None and not self._unconfirmed:
            self._confirmed(None)
            self._confirmed = None

    # The library's callbacks

    def _on_return(self, _channel: Any, method: Any, _properties: Any, _body: bytes) -> None:
        self._refusal = f"{method.reply_text}: no queue of exchange {method.exchange} has the key {method.routing_key}"

    def _on_confirm(self, frame: Any) -> None:
        tag, multiple = frame.method.delivery_tag, frame.method.multiple
        self._unconfirmed -= {other for other in self._unconfirmed if other <= tag} if multiple else {tag}
        if isinstance(frame.method, pika.spec.Basic.Nack):
            self._refusal = "a queue refused a message"
        self._call_if_confirmed()


async def _declare_exchange(connection: BrokerConnection, exchange: str, broker: Broker) -> None:
    """:raises Failure: the broker refuses it for another reason than its properties."""
    channel = await connection.open_channel()
    try:
        await channel.call(
            channel.library.exchange_declare,
            exchange,
            exchange_type="topic",
            durable=bool(broker.options["amqp_durable_queues"] or broker.options["rabbit_quorum_queue"]),
            auto_delete=bool(broker.options["amqp_auto_delete"]),
        )
    except pika.exceptions.ChannelClosedByBroker as exc:
        if not is_mismatch(exc):
            raise
    else:
        await channel.close()
