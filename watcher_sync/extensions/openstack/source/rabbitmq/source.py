# SPDX-License-Identifier: Apache-2.0
"""The driver ``rabbitmq``: notifications of OpenStack services from a queue of RabbitMQ.

The broker delivers a message again that is not acked. Acks and nacks of a closed channel are dropped, because the
broker has taken its messages back. The ordering guard makes redelivery harmless.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import ClassVar

import msgspec
from oslo_config import cfg

from watcher_sync.events import OSLO, Event
from watcher_sync.exceptions import SourceError
from watcher_sync.extensions.openstack.source.rabbitmq import settings
from watcher_sync.extensions.openstack.source.rabbitmq.in_flight import QueuedMessage, RabbitInFlight
from watcher_sync.extensions.openstack.source.rabbitmq.queues import QUEUES, Queue
from watcher_sync.extensions.openstack.source.rabbitmq.session import RabbitMQSession
from watcher_sync.extensions.openstack.source.rabbitmq.settings import RabbitMQSettings
from watcher_sync.sources.session_source import SessionSource
from watcher_sync.transports.rabbitmq.broker import insecure_broker
from watcher_sync.transports.rabbitmq.connection import Failure, connect, describe
from watcher_sync.wire import envelopes


class RabbitMQSource(SessionSource):
    """The driver ``rabbitmq``."""

    envelopes: ClassVar[Collection[str]] = (OSLO,)
    options: ClassVar[list[cfg.Opt]] = settings.OPTIONS
    insecure_transports = staticmethod(insecure_broker)

    def __init__(self, name: str, conf: cfg.ConfigOpts, *, cursor: str | None = None) -> None:
        """:raises ConfigError: naming the option that is wrong."""
        super().__init__(name, conf, cursor=cursor)
        self.settings = RabbitMQSettings(name, conf)
        self.in_flight: RabbitInFlight = RabbitInFlight(self._stopping)
        self.queue = self._make_queue(conf, cursor)
        self.gaps = self.queue.gaps
        self._session = RabbitMQSession(
            name,
            self.settings,
            self.queue,
            self.in_flight,
            oversized=self._oversized,
            stopping=self._stopping,
        )

    def probe(self) -> None:
        """Log in to the first host of the URL that answers. Nothing is declared and no message is touched."""
        asyncio.run(self._probe())

    async def _probe(self) -> None:
        errors: list[str] = []
        broker = self.settings.broker
        for host in broker.hosts:
            try:
                connection = await connect(broker, host, f"watcher-sync {self.name} check")
            except Failure as exc:
                errors.append(f"{host}: {describe(exc, broker)}")
            else:
                await connection.close()
                return
        raise SourceError("; ".join(errors))

    def _make_queue(self, conf: cfg.ConfigOpts, _cursor: str | None) -> Queue:
        """The classic or quorum queue that the options describe."""
        settings = self.settings
        by_default = "quorum" if settings.broker.options["rabbit_quorum_queue"] else "classic"
        made = QUEUES[conf[f"source_{self.name}"].queue_type or by_default]
        return made(settings.pool, settings.exchange, settings.topics, settings.broker)

    # The emitting thread

    def _take(self) -> list[Event] | None:
        batch = self.in_flight.take(self.settings.batch)
        return None if batch is None else [self._event_of(message) for message in batch]

    def _event_of(self, message: QueuedMessage) -> Event:
        if message.event is not None:
            return msgspec.structs.replace(message.event, position=message.position)
        if message.refused:
            return envelopes.undecodable(
                message.body,
                message.refused,
                source=self.name,
                position=message.position,
                deliveries=message.deliveries,
            )
        return envelopes.read_body(
            message.body,
            source=self.name,
            position=message.position,
            deliveries=message.deliveries,
            max_size=self.settings.max_event_size,
        )

    def _oversized(self, body: bytes, deliveries: int) -> Event:
        return envelopes.read_body(body, source=self.name, deliveries=deliveries, max_size=self.settings.max_event_size)
