# SPDX-License-Identifier: Apache-2.0
"""From RabbitMQ to a committed model: rates of both drivers, the cost of bad input, and latency.

The rates are compared with two listeners that do nothing. One is the batch listener of oslo.messaging. The other is a
bare consumer of the client library, which acknowledges many messages at once. That of a stream is compared with the
same driver, whose messages are acknowledged undecoded.

Each listener has a queue of its own on one exchange, so all receive each message. All messages wait in the queue
before the listener connects. The clock runs from the end of the first batch to the end of the last. The engine and
the plain listeners run in threads of this process.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import random
import secrets
import sqlite3
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import kombu
import oslo_messaging
import pika
from oslo_config import cfg

from tests.benchmarks.figures import Budget, Figure, against
from tests.benchmarks.places import Bench, Place, among
from tests.benchmarks.running import Broken, counted, rate_of, running_engine, until
from tests.rabbitmq_publisher import Publisher
from watcher_sync.events import Event
from watcher_sync.extensions.openstack.source.rabbitmq.in_flight import QueuedMessage
from watcher_sync.extensions.openstack.source.rabbitmq_stream.source import RabbitMQStreamSource
from watcher_sync.testing.nova import notifications
from watcher_sync.testing.nova.notifications import Document
from watcher_sync.testing.nova.recording import oslo_body
from watcher_sync.testing.poison import poison

_TOPIC = "versioned_notifications"
_BARE_ACKS = 500
"""Messages that the bare consumer acknowledges at once."""
_NOVAS_BYTES = 3_900
"""The usual size of a notification of an instance."""
_POISON_PAIRS = 3
"""Times the usual number of pairs: what poison costs is less than what one pair differs from the next."""


class Names:
    """One measurement's exchange and queues."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.exchange = f"watcher-sync-bench-{secrets.token_hex(6)}"
        self.queues = {name: f"{self.exchange}.{name}" for name in ("rabbitmq", "oslo_messaging", "plain", "bare")}

    @contextlib.contextmanager
    def publisher(self, *listeners: str, stream: bool = False) -> Iterator[Publisher]:
        """A publisher to the queues, or streams, of these listeners; afterwards exchange and queues are gone."""
        at = kombu.Connection("amqp://" + self.url.partition("://")[2])
        user, password = at.userid or "guest", at.password or "guest"
        host, vhost = f"{at.hostname}:{at.port or 5672}", at.virtual_host or "/"
        try:
            with Publisher(host=host, user=user, password=password, vhost=vhost, exchange=self.exchange) as publisher:
                _bind(publisher, self.exchange, *(self.queues[name] for name in listeners), stream=stream)
                yield publisher
        finally:
            with at, at.channel() as channel:
                for queue in self.queues.values():
                    channel.queue_delete(queue)
                channel.exchange_delete(self.exchange)

    def place(self, bench: Bench, driver: str = "rabbitmq") -> Place:
        """A configuration whose one source listens here."""
        source = {
            "driver": driver,
            "transport_url": self.url,
            "exchange": self.exchange,
            "pool": self.queues.get(driver, self.queues["rabbitmq"]),
        }
        return bench.place(engine={"enabled_sources": "nova"}, source_nova=source)


def rabbitmq(bench: Bench) -> list[Figure]:
    """The rate of a full queue, of both drivers."""
    documents = [oslo_body(_of_novas_size(event)) for event in bench.part_events(bench.scale.messages * 3)]
    names = Names(bench.broker)
    rates: dict[str, list[float]] = {name: [] for name in names.queues}
    with names.publisher(*names.queues) as publisher:
        for _ in range(bench.scale.pairs):
            publisher.publish(documents)
            for driver in ("rabbitmq", "oslo_messaging"):
                gc.collect()
                with running_engine(names.place(bench, driver)) as engine:
                    rates[driver].append(rate_of(lambda: counted(engine)[0], len(documents)))
            for name, listener in (("plain", _plain), ("bare", _bare)):
                gc.collect()
                with listener(names) as count:
                    rates[name].append(rate_of(count, len(documents)))
    size = f"{len(documents):,} messages of {statistics.mean(map(len, documents)):,.0f} bytes"
    return [
        Figure(
            benchmark="rabbitmq",
            what="RabbitMQ through the driver rabbitmq to a committed model",
            measured=statistics.median(rates["rabbitmq"]),
            unit="events/s",
            budget=Budget(">=", 12_000, "events/s"),
            samples=rates["rabbitmq"],
            note=size,
        ),
        *(
            against(
                list(zip(rates[driver], rates[reference], strict=True)),
                benchmark="rabbitmq",
                what=f"RabbitMQ through the driver {driver} to a committed model",
                unit="events/s",
                reference_unit="messages/s",
                budget=Budget(">=", least),
                note=f"against {what}",
            )
            for driver, reference, least, what in (
                ("rabbitmq", "plain", 2.0, "a no-op batch listener of oslo.messaging"),
                ("rabbitmq", "bare", 0.2, "a bare consumer of pika that acknowledges many at once"),
                ("oslo_messaging", "plain", 0.85, "a no-op batch listener of oslo.messaging"),
            )
        ),
    ]


def streamed(bench: Bench) -> list[Figure]:
    """The rate of a full stream, which each reader reads from its beginning."""
    documents = [oslo_body(_of_novas_size(event)) for event in bench.part_events(bench.scale.messages * 3)]
    names = Names(bench.broker)
    pairs: list[tuple[float, float]] = []
    with names.publisher("rabbitmq", stream=True) as publisher:
        publisher.publish(documents)
        for _ in range(bench.scale.pairs):
            gc.collect()
            with running_engine(names.place(bench, "rabbitmq_stream")) as engine:
                rate = rate_of(lambda: counted(engine)[0], len(documents))
            with _undecoded(names.place(bench, "rabbitmq_stream")) as count:
                pairs.append((rate, rate_of(count, len(documents))))
    return [
        against(
            pairs,
            benchmark="rabbitmq-stream",
            what="a stream of RabbitMQ to a committed model",
            unit="events/s",
            reference_unit="messages/s",
            budget=Budget(">=", 0.25),
            note=f"against its driver, nothing decoded; {len(documents):,} messages",
        )
    ]


def poisoned(bench: Bench) -> list[Figure]:
    """Good events a second when one in a hundred of what comes is bad, held against the same without.

    The good events are the same in both, and every kind of bad input is among the bad, those of a mebibyte too.
    """
    good = bench.part_events(bench.scale.messages * 3)  # over a second: pauses of the machine are a small part of it
    bad = [item.raw for item in poison(random.Random(3), form="oslo") if item.quarantine]
    random.Random(4).shuffle(bad)  # so that a short run has some of every sort
    mixed: list[Document | bytes] = list(among(good, bad))
    names = Names(bench.broker)
    pairs: list[tuple[float, float]] = []
    with names.publisher("rabbitmq") as publisher:
        for turn in range(bench.scale.pairs * _POISON_PAIRS):
            # Each comes first in every second pair: what warms up or wears out does not count for one side.
            first, second = (good, mixed) if turn % 2 else (mixed, good)
            rates = [_good_rate(bench, names, publisher, each, good=len(good)) for each in (first, second)]
            pairs.append((rates[1], rates[0]) if turn % 2 else (rates[0], rates[1]))
    spoiled = [message for message in mixed if isinstance(message, bytes)]
    share = sum(map(len, spoiled)) / sum(len(oslo_body(event)) for event in good)
    kinds = f"{min(len(bad), len(spoiled))} of {len(bad)} kinds"
    return [
        against(
            pairs,
            benchmark="rabbitmq-poison",
            what="RabbitMQ to a committed model with 1 % of the messages poisoned",
            unit="good events/s",
            reference_unit="events/s",
            budget=Budget(">=", 0.9),
            note=f"{len(good):,} good messages, {len(spoiled)} bad of {kinds} with {share:.0%} of the good ones' bytes",
        )
    ]


def _good_rate(
    bench: Bench, names: Names, publisher: Publisher, messages: Sequence[Document | bytes], *, good: int
) -> float:
    """Good events a second of one engine on one full queue."""
    gc.collect()
    publisher.publish(messages)
    with running_engine(names.place(bench)) as engine:
        rate = rate_of(lambda: counted(engine)[0], good)
        if counted(engine) != (good, len(messages) - good):
            raise Broken("not everything bad, or something good, is in quarantine")
    return rate


def latency(bench: Bench) -> list[Figure]:
    """From the publication of an event that comes alone to its row in SQLite."""
    names = Names(bench.broker)
    taken: list[float] = []
    with names.publisher("rabbitmq") as publisher:
        place = names.place(bench)
        with running_engine(place), sqlite3.connect(place.database) as reader:
            for turn in range(bench.scale.lone + 5):
                key = f"00000000-0000-4000-a000-{turn:012d}"
                document = notifications.event("instance.update", uuid=key, envelope={"message_id": f"lone-{turn}"})
                body = oslo_body(document)
                time.sleep(0.03)  # so that it comes alone
                began = time.perf_counter()
                publisher.publish([body])
                until(lambda: _is_there(reader, key), pause=0.0003)  # noqa: B023
                taken.append((time.perf_counter() - began) * 1000)
    taken = sorted(taken[5:])
    return [
        Figure(
            benchmark="latency",
            what="lone event, broker to committed row, p50",
            measured=statistics.median(taken),
            unit="ms",
            note=f"{len(taken)} events, longest {taken[-1]:.1f} ms",
        ),
        Figure(
            benchmark="latency",
            what="lone event, broker to committed row, p99",
            measured=taken[-1] if len(taken) < 100 else taken[len(taken) * 99 // 100 - 1],
            unit="ms",
            budget=Budget("<=", 20, "ms"),
        ),
    ]


def _of_novas_size(event: Document) -> Document:
    """With an unknown field, so that it is as long as Nova's own notifications, which have more fields than ours."""
    payload = event["payload"]
    data = payload[notifications.DATA] | {"filler": "x" * max(0, _NOVAS_BYTES - len(oslo_body(event)))}
    return {**event, "payload": {**payload, notifications.DATA: data}}


def _is_there(reader: sqlite3.Connection, key: str) -> bool:
    return reader.execute("SELECT 1 FROM instances WHERE id = ?", (key,)).fetchone() is not None


def _bind(publisher: Publisher, exchange: str, *queues: str, stream: bool = False) -> None:
    """Make the queues as their listeners will, so that messages wait there before they listen."""
    channel: Any = publisher._channel
    for queue in queues:
        arguments = {"x-queue-type": "stream"} if stream else None
        channel.queue_declare(queue, durable=stream, auto_delete=False, arguments=arguments)
        for priority in ("info", "warn", "error", "critical"):
            channel.queue_bind(queue, exchange, routing_key=f"{_TOPIC}.{priority}")


class _Undecoded(RabbitMQStreamSource):
    """Emits events that have nothing but their position."""

    def _event_of(self, message: QueuedMessage) -> Event:
        return Event(id="", type="", source="", position=message.position)


@contextlib.contextmanager
def _undecoded(place: Place) -> Iterator[Callable[[], int]]:
    """The driver of streams with a consumer that counts, and acknowledges at once."""
    place.conf.register_opts(_Undecoded.options, group="source_nova")
    source = _Undecoded("nova", place.conf)
    done = 0

    def emit(events: Sequence[Event]) -> None:
        nonlocal done
        done += len(events)
        source.ack(events)

    source.start(emit)
    try:
        yield lambda: done
    finally:
        source.stop(time.monotonic() + 10)
        place.store.database.dispose()


@contextlib.contextmanager
def _bare(names: Names) -> Iterator[Callable[[], int]]:
    """A consumer of the client library that counts, and acknowledges every so many messages at once."""
    seen = itertools.count(1)
    done = 0

    def on_message(channel: Any, method: Any, _properties: Any, _body: bytes) -> None:
        nonlocal done
        done = next(seen)
        if done % _BARE_ACKS == 0:
            channel.basic_ack(method.delivery_tag, multiple=True)

    def on_channel(channel: Any) -> None:
        channel.basic_qos(prefetch_count=12 * _BARE_ACKS)
        channel.basic_consume(names.queues["bare"], on_message)

    connection = pika.SelectConnection(
        pika.URLParameters("amqp://" + names.url.partition("://")[2].rstrip("/") + "/%2F"),
        on_open_callback=lambda opened: opened.channel(on_open_callback=on_channel),
        on_close_callback=lambda closed, _reason: closed.ioloop.stop(),
    )
    thread = threading.Thread(target=connection.ioloop.start, daemon=True)
    thread.start()
    try:
        yield lambda: done
    finally:
        connection.ioloop.add_callback_threadsafe(connection.close)
        thread.join(10)


class _Endpoint:
    """Counts and does nothing else."""

    def __init__(self) -> None:
        self.count = 0

    def info(self, messages: Sequence[Any]) -> None:
        self.count += len(messages)

    warn = error = critical = info


@contextlib.contextmanager
def _plain(names: Names) -> Iterator[Callable[[], int]]:
    """oslo.messaging's batch listener as its documentation has it."""
    conf = cfg.ConfigOpts()
    conf([], default_config_files=[], default_config_dirs=[])
    transport = oslo_messaging.get_notification_transport(conf, names.url)
    endpoint = _Endpoint()
    listener = oslo_messaging.get_batch_notification_listener(
        transport,
        [oslo_messaging.Target(exchange=names.exchange, topic=_TOPIC)],
        [endpoint],
        executor="threading",
        pool=names.queues["plain"],
        batch_size=500,
        batch_timeout=0.02,
    )
    listener.start(override_pool_size=1)
    try:
        yield lambda: endpoint.count
    finally:
        listener.stop()
        listener.wait()
        transport.cleanup()
