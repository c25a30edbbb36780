# SPDX-License-Identifier: Apache-2.0
"""A source on a RabbitMQ that a test breaks: what it says of itself, what it logs, and what is published to it.

``WATCHER_SYNC_TEST_RABBITMQ_DRIVER`` runs the same tests with another driver, such as oslo_messaging.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import itertools
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Final, Self

import amqp
from oslo_config import cfg

from tests.functional.sources.listening import Engine, envelope, wrap
from tests.services.rabbitmq import RabbitMQNode
from tests.waiting import PATIENCE_SECONDS, deadline, wait_until
from watcher_sync.sources.base import Source, SourceState, SourceStatus

DRIVER: Final = os.environ.get("WATCHER_SYNC_TEST_RABBITMQ_DRIVER", "rabbitmq")

_SAMPLE_SECONDS: Final = 0.005
_TOPIC: Final = "versioned_notifications.info"


STREAMS: Final = "rabbitmq_stream"
"""The driver that reads streams."""


def load_driver(name: str = DRIVER) -> type[Source]:
    """The class of a driver."""
    (entry,) = importlib.metadata.entry_points(group="watcher_sync.sources", name=name)
    driver: type[Source] = entry.load()
    return driver


def make_source(
    url: str, name: str, *, source: str = "nova", driver: str = DRIVER, cursor: str | None = None, **options: Any
) -> Source:
    """A source that is not started; its exchange and its pool have this name.

    :param cursor: its stored position.
    """
    made = load_driver(driver)
    conf = cfg.ConfigOpts()
    conf.register_opts([cfg.IntOpt("batch_size", default=500)], group="engine")
    conf.register_opts(made.options, group=f"source_{source}")
    conf([], default_config_files=[])
    for option, value in {"transport_url": url, "exchange": name, "pool": name, **options}.items():
        conf.set_override(option, value, group=f"source_{source}")
    return made(source, conf, cursor=cursor)


class Warnings(logging.Handler):
    """The warnings and errors that one source logs."""

    def __init__(self, source: str) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []
        self._begin = f"source {source}: "

    def emit(self, record: logging.LogRecord) -> None:
        if (line := record.getMessage()).startswith(self._begin):
            self.lines.append(line)


class Observed:
    """A source at work, with a stand-in for the engine that acks at once.

    :ivar states: each change of its state: (monotonic seconds, state, detail).
    """

    def __init__(self, url: str, name: str, **options: Any) -> None:
        self.engine = Engine(acks=True)
        self.source = make_source(url, name, **options)
        self.engine.source = self.source
        self.states: list[tuple[float, SourceState, str]] = []
        self._warnings = Warnings(self.source.name)
        self._stop = threading.Event()
        self._sampler = threading.Thread(target=self._sample, name="sampler", daemon=True)

    def __enter__(self) -> Self:
        logging.getLogger("watcher_sync").addHandler(self._warnings)
        self.source.start(self.engine.emit)
        self._sampler.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._sampler.join()
        self.source.stop(time.monotonic() + deadline(5))
        logging.getLogger("watcher_sync").removeHandler(self._warnings)

    @property
    def status(self) -> SourceStatus:
        return self.source.status()

    @property
    def warnings(self) -> list[str]:
        """What was logged as a warning or an error since the last :meth:`forget`."""
        return list(self._warnings.lines)

    @property
    def ids(self) -> list[str]:
        """The ids of all events that arrived, in order."""
        return [event.id for event in self.engine.events]

    def last(self, batches: int) -> list[str]:
        """The ids of the events of the last batches."""
        return [event.id for batch in self.engine.batches[-batches:] for event in batch]

    def forget(self) -> None:
        """Begin the records of states and warnings from here."""
        self._warnings.lines.clear()
        self.states.clear()

    def wait_for(self, state: SourceState, seconds: float = PATIENCE_SECONDS) -> float:
        """Wait for this state; after how many seconds it came."""
        began = time.monotonic()
        wait_until(lambda: self.status.state is state, seconds)
        return time.monotonic() - began

    def was(self, state: SourceState) -> list[str]:
        """The details of the times that it was in this state."""
        return [detail for _, found, detail in self.states if found is state]

    def _sample(self) -> None:
        last = None
        while not self._stop.wait(_SAMPLE_SECONDS):
            status = self.status
            if (status.state, status.detail) != last or not self.states:
                last = (status.state, status.detail)
                self.states.append((time.monotonic(), *last))


class Sender:
    """Publishes numbered events to an exchange, as Nova does: what the broker confirms is in its queues.

    It declares the exchange whenever it connects, as oslo.messaging does.

    :param first: the number of the first event.
    """

    def __init__(
        self, node: RabbitMQNode, name: str, *, vhost: str = "/", durable: bool = False, first: int = 0
    ) -> None:
        self.name = name
        self._node = node
        self._vhost = vhost
        self._durable = durable
        self._numbers = itertools.count(first)
        self._connection: amqp.Connection | None = None
        self._channel: amqp.Channel | None = None

    @property
    def channel(self) -> amqp.Channel:
        if self._channel is None or not self._channel.is_open:
            self.close()
            self._connection = amqp.Connection(self._node.host, virtual_host=self._vhost, confirm_publish=True)
            self._connection.connect()
            self._channel = self._connection.channel()
            self.declare()
        return self._channel

    def declare(self) -> None:
        """Declare the exchange."""
        assert self._channel is not None
        self._channel.exchange_declare(self.name, "topic", durable=self._durable, auto_delete=False)

    def publish(self, count: int = 1) -> list[str]:
        """Publish so many events and return their ids."""
        numbers = list(itertools.islice(self._numbers, count))
        for number in numbers:
            try:
                self._publish(number)
            except (OSError, amqp.AMQPError):  # the fault closed this connection, too
                self.close()
                self._publish(number)
        return [f"m-{number}" for number in numbers]

    def _publish(self, number: int) -> None:
        message = amqp.Message(wrap(envelope(number)), content_type="application/json", delivery_mode=2)
        self.channel.basic_publish(message, self.name, _TOPIC)

    def waiting(self) -> int:
        """The number of messages in the queue that no consumer holds."""
        return int(self.channel.queue_declare(self.name, passive=True).message_count)

    def consumers(self) -> int:
        """The number of the queue's consumers; 0 also if there is no queue."""
        try:
            return int(self.channel.queue_declare(self.name, passive=True).consumer_count)
        except amqp.NotFound:
            return 0

    def delete_queue(self) -> None:
        self.channel.queue_delete(self.name)

    def delete_exchange(self) -> None:
        self.channel.exchange_delete(self.name)

    def purge(self) -> None:
        self.channel.queue_purge(self.name)

    def close(self) -> None:
        connection, self._connection, self._channel = self._connection, None, None
        if connection is not None:
            with contextlib.suppress(OSError, amqp.AMQPError):
                connection.close()


@contextlib.contextmanager
def sending(node: RabbitMQNode, *, vhost: str = "/", durable: bool = False) -> Iterator[Sender]:
    """A sender with an exchange and a queue of its own, which are deleted in the end."""
    sender = Sender(node, f"ws-test-{secrets.token_hex(6)}", vhost=vhost, durable=durable)
    try:
        assert sender.channel.is_open  # it has declared the exchange
        yield sender
    finally:
        with contextlib.suppress(OSError, amqp.AMQPError):
            sender.delete_queue()
            sender.delete_exchange()
        sender.close()


def arrives(observed: Observed, ids: list[str], seconds: float = PATIENCE_SECONDS) -> float:
    """Wait until these events arrived; after how many seconds they did."""
    began = time.monotonic()
    wait_until(lambda: set(ids) <= set(observed.ids), seconds)
    return time.monotonic() - began


def flows(observed: Observed, publish: Callable[[int], list[str]], seconds: float = PATIENCE_SECONDS) -> None:
    """Assert that what is published now arrives."""
    arrives(observed, publish(5), seconds)
