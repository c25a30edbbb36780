# SPDX-License-Identifier: Apache-2.0
"""A publisher on a broker, a stand-in for the engine, and the source between them."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from typing import Any

import amqp
import kombu
import oslo_messaging
from oslo_config import cfg

from tests.services.ensure import DEFAULT_URLS, VARIABLES
from tests.waiting import PATIENCE_SECONDS, deadline, wait_until
from watcher_sync.events import Event
from watcher_sync.extensions.openstack.source.oslo_messaging import OsloMessagingSource
from watcher_sync.sources.base import IntakeClosed, Source, SourceState

BROKER = os.environ.get(VARIABLES["rabbitmq"], DEFAULT_URLS["rabbitmq"])

COMPRESSIONS = ["gzip", "bzip2", "lzma", "zstd", "brotli"]
"""Values of ``[oslo_messaging_rabbit] kombu_compression``."""


def envelope(number: int, **more: Any) -> dict[str, Any]:
    return {
        "message_id": f"m-{number}",
        "publisher_id": "nova-compute:host1",
        "event_type": "instance.update",
        "priority": "INFO",
        "payload": {"number": number},
        "timestamp": "2026-01-02 03:04:05.000006",
        "_unique_id": f"{number:032x}",
        "_context_user": "u",
    } | more


def wrap(document: Any) -> bytes:
    return json.dumps({"oslo.version": "2.0", "oslo.message": json.dumps(document)}).encode()


class Publisher:
    """Publishes messages to the exchange of this name, and reads the queue's depth."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self.connection = kombu.Connection(url)
        self.channel = self.connection.channel()
        self.exchange = kombu.Exchange(name, type="topic", durable=False, channel=self.channel)

    def publish(self, body: bytes, priority: str = "info", content_type: str = "application/json", **more: Any) -> None:
        producer = kombu.Producer(self.channel, exchange=self.exchange, auto_declare=False)
        producer.publish(
            body,
            routing_key=f"versioned_notifications.{priority}",
            content_type=content_type,
            content_encoding=more.pop("content_encoding", "utf-8"),
            **more,
        )

    def waiting(self) -> int:
        """The number of messages in the queue that no consumer holds."""
        return int(self.channel.queue_declare(queue=self.name, passive=True).message_count)

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.channel.queue_delete(self.name)
            self.channel.exchange_delete(self.name)
        self.connection.release()


class Engine:
    """Stores the events that the source emits, and acks them at once if ``acks`` is set."""

    def __init__(self, *, acks: bool) -> None:
        self.acks = acks
        self.closed = False
        self.batches: list[list[Event]] = []
        self.arrived: list[float] = []
        self.source: Source | None = None

    def emit(self, events: Sequence[Event]) -> None:
        if self.closed:
            raise IntakeClosed
        self.arrived.append(time.monotonic())
        self.batches.append(list(events))
        if self.acks:
            assert self.source is not None
            self.source.ack(events)

    @property
    def events(self) -> list[Event]:
        return [event for batch in list(self.batches) for event in batch]


def make_source(name: str, url: str = BROKER, *, driver: type[Source] = OsloMessagingSource, **options: Any) -> Source:
    """A source that is not started; its exchange and its queue have this name."""
    conf = cfg.ConfigOpts()
    conf.register_opts([cfg.IntOpt("batch_size", default=500)], group="engine")
    conf.register_opts(driver.options, group="source_nova")
    conf([], default_config_files=[])
    for option, value in {"transport_url": url, "exchange": name, "pool": name, **options}.items():
        conf.set_override(option, value, group="source_nova")
    return driver("nova", conf)


def declare_exchange(name: str) -> None:
    """As its publisher does, if it does not exist."""
    with kombu.Connection(BROKER.replace("rabbit", "amqp")) as connection:
        exchange = kombu.Exchange(name, type="topic", durable=False)
        try:
            exchange(connection.channel()).declare(passive=True)
        except amqp.NotFound:
            exchange(connection.channel()).declare()


@contextlib.contextmanager
def listening(
    name: str,
    engine: Engine,
    url: str = BROKER,
    *,
    driver: type[Source] = OsloMessagingSource,
    may_be_left: bool = False,
    **options: Any,
) -> Iterator[Any]:
    """A source that is connected. The library of the one driver declares the exchange, for the other it exists.

    :param driver: ``OsloMessagingSource`` or ``RabbitMQSource``.
    :param may_be_left: whether the source's thread may outlive the stop, because it waits for a broker.
    """
    if driver is not OsloMessagingSource:
        declare_exchange(name)
    source = make_source(name, url, driver=driver, **options)
    engine.source = source
    source.start(engine.emit)
    try:
        wait_until(lambda: source.status().state is SourceState.CONNECTED)
        yield source
    finally:
        # Where everything is acked there is nothing to wait for, so a pause of the machine must not end the stop.
        patience = deadline(60) if engine.acks and not may_be_left else 1.0
        source.stop(time.monotonic() + patience)  # wait: at the deadline, what is not acked is given back
        if not may_be_left:
            source._thread.join(PATIENCE_SECONDS)
            assert not source._thread.is_alive()


@contextlib.contextmanager
def publishing(url: str = BROKER.replace("rabbit", "amqp")) -> Iterator[Publisher]:
    publisher = Publisher(f"ws-test-{secrets.token_hex(6)}", url)
    try:
        yield publisher
    finally:
        publisher.close()


@contextlib.contextmanager
def notifying(publisher: Publisher, topic: str, compression: str) -> Iterator[oslo_messaging.Notifier]:
    """oslo.messaging's own notifier, which compresses what it sends to the exchange of this name.

    :param topic: of its notifications; the library declares a queue of this name, too.
    """
    conf = cfg.ConfigOpts()
    conf([], default_config_files=[])
    url = f"{BROKER}?kombu_compression={compression}"
    oslo_messaging.get_notification_transport(conf, url)  # it registers the options
    conf.set_override("control_exchange", publisher.name)
    transport = oslo_messaging.get_notification_transport(conf, url)
    try:
        yield oslo_messaging.Notifier(
            transport, publisher_id="nova-compute:host1", driver="messagingv2", topics=[topic]
        )
    finally:
        transport.cleanup()
        publisher.channel.queue_delete(f"{topic}.info")
