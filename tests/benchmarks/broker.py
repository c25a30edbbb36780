# SPDX-License-Identifier: Apache-2.0
"""From RabbitMQ to a committed model: the rate against a listener that does nothing, and a lone event's way.

Both listeners have a queue of their own on one exchange, so that each message comes to both. The clock runs
from the end of the first batch to the end of the last, so neither side's connecting is counted. The engine
runs in a thread of this process, and so does the plain listener's worker.
"""

from __future__ import annotations

import contextlib
import secrets
import sqlite3
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import kombu
import oslo_messaging
from oslo_config import cfg

from tests.benchmarks.figures import Budget, Figure, against
from tests.benchmarks.places import Bench, Place
from watcher_sync.engine import assembly
from watcher_sync.engine.engine import Engine
from watcher_sync.sources.base import SourceState
from watcher_sync.testing import nova
from watcher_sync.testing.publish import Publisher
from watcher_sync.testing.recording import oslo_body

_PATIENCE = 60.0
_TOPIC = "versioned_notifications"


class Broken(Exception):
    """The measurement did not come to its end."""


class Names:
    """One measurement's exchange and queues."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.exchange = f"watcher-sync-bench-{secrets.token_hex(6)}"
        self.ours = f"{self.exchange}.ours"
        self.plain = f"{self.exchange}.plain"

    @contextlib.contextmanager
    def publisher(self) -> Iterator[Publisher]:
        """A publisher; afterwards the exchange and the queues are gone."""
        at = kombu.Connection("amqp://" + self.url.partition("://")[2])
        user, password = at.userid or "guest", at.password or "guest"
        host, vhost = f"{at.hostname}:{at.port or 5672}", at.virtual_host or "/"
        try:
            with Publisher(host=host, user=user, password=password, vhost=vhost, exchange=self.exchange) as publisher:
                yield publisher
        finally:
            with at, at.channel() as channel:
                for queue in (self.ours, self.plain):
                    channel.queue_delete(queue)
                channel.exchange_delete(self.exchange)

    def place(self, bench: Bench) -> Place:
        """A configuration whose one source listens here."""
        source = {"driver": "oslo_messaging", "transport_url": self.url, "exchange": self.exchange, "pool": self.ours}
        return bench.place(engine={"enabled_sources": "nova"}, source_nova=source)


def rabbitmq(bench: Bench) -> list[Figure]:
    """The rate of a full queue."""
    documents = bench.part_events(bench.scale.messages)
    names = Names(bench.broker)
    pairs: list[tuple[float, float]] = []
    with names.publisher() as publisher:
        _bind(publisher, names)
        for _ in range(bench.scale.pairs):
            publisher.publish(documents)
            with _engine(names.place(bench)) as engine:
                subject = _rate(lambda: sum(list(engine.tally.outcomes.values())), len(documents))  # noqa: B023
            with _plain(names) as count:
                reference = _rate(count, len(documents))
            pairs.append((subject, reference))
    return [
        against(
            pairs,
            benchmark="rabbitmq",
            what="RabbitMQ through oslo.messaging to a committed model",
            unit="events/s",
            reference_unit="messages/s",
            budget=Budget(">=", 0.85),
            note=f"against a no-op batch listener of oslo.messaging; {len(documents):,} messages",
        )
    ]


def latency(bench: Bench) -> list[Figure]:
    """From the publication of an event that comes alone to its row in SQLite."""
    names = Names(bench.broker)
    taken: list[float] = []
    with names.publisher() as publisher:
        _bind(publisher, names)
        place = names.place(bench)
        with _engine(place), sqlite3.connect(place.database) as reader:
            for turn in range(bench.scale.lone + 5):
                key = f"00000000-0000-4000-a000-{turn:012d}"
                document = nova.event("instance.update", uuid=key, envelope={"message_id": f"lone-{turn}"})
                body = oslo_body(document)
                time.sleep(0.03)  # so that it comes alone
                began = time.perf_counter()
                publisher.publish([body])
                _until(lambda: _is_there(reader, key), pause=0.0003)  # noqa: B023
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
            budget=Budget("<=", 50, "ms"),
        ),
    ]


def _is_there(reader: sqlite3.Connection, key: str) -> bool:
    return reader.execute("SELECT 1 FROM instances WHERE id = ?", (key,)).fetchone() is not None


def _bind(publisher: Publisher, names: Names) -> None:
    """Make both queues as the listeners will, so that messages wait there before they listen."""
    channel: Any = publisher._channel
    for queue in (names.ours, names.plain):
        channel.queue_declare(queue, durable=False, auto_delete=False)
        for priority in ("info", "warn", "error", "critical"):
            channel.queue_bind(queue, names.exchange, routing_key=f"{_TOPIC}.{priority}")


@contextlib.contextmanager
def _engine(place: Place) -> Iterator[Engine]:
    """The real engine, leading, in a thread."""
    engine = assembly.assemble(place.conf)
    thread = threading.Thread(target=engine.run, name="engine", daemon=True)
    thread.start()
    try:
        _until(lambda: any(s.state is SourceState.CONNECTED for s in list(engine.source_status().values())))
        yield engine
    finally:
        engine.stop()
        thread.join(_PATIENCE)
        place.store.engine.dispose()


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
        pool=names.plain,
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


def _rate(count: Callable[[], int], wanted: int) -> float:
    """Events a second between the end of the first batch and the end of the last."""
    _until(lambda: count() > 0)
    first, began = count(), time.perf_counter()
    _until(lambda: count() >= wanted)
    return (wanted - first) / (time.perf_counter() - began)


def _until(condition: Callable[[], bool], *, pause: float = 0.002) -> None:
    """:raises Broken: when the condition does not come true."""
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise Broken("not done in time")
        time.sleep(pause)
