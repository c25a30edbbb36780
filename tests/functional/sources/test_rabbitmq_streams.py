# SPDX-License-Identifier: Apache-2.0
"""A source reads a stream of a real RabbitMQ from a position that its engine stores."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import re
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self

import amqp
import pytest

from tests.faulty_proxy import FaultyProxy
from tests.functional.conftest import Broker
from tests.functional.sources.listening import envelope, wrap
from tests.functional.sources.rabbitmq_source import STREAMS, make_source
from tests.waiting import deadline, wait_until
from watcher_sync.events import Event
from watcher_sync.extensions.openstack.source.rabbitmq.in_flight import QueuedMessage
from watcher_sync.extensions.openstack.source.rabbitmq_stream.source import RabbitMQStreamSource
from watcher_sync.sources.base import IntakeClosed, Source, SourceState, SourceStatus
from watcher_sync.transports.rabbitmq.connection import connect

SMALL = {"stream_max_bytes": 20_000, "stream_segment_bytes": 5_000}
"""A retention of a few dozen messages."""

UNDELIVERED = 4 / 3
"""One offset of each of these segments, which have four to six messages, is none of a message."""

_REMOVED = re.compile(r"offsets (\d+) to (\d+)")


class Stream:
    """One exchange and the stream that the source declares for it."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self.url = url
        self.host = url.rpartition("@")[2].partition("/")[0]
        user, _, password = url.partition("://")[2].rpartition("@")[0].partition(":")
        self._connection = amqp.Connection(self.host, userid=user, password=password, confirm_publish=True)
        self._connection.connect()
        self._channel = self._connection.channel()
        self._channel.exchange_declare(name, "topic", durable=False, auto_delete=False)
        self._number = 0

    def publish(self, count: int, *, size: int = 0) -> list[str]:
        """Publish so many events and return their ids."""
        ids = []
        for _ in range(count):
            self._number += 1
            body = wrap(envelope(self._number, payload={"number": self._number, "padding": "x" * size}))
            message = amqp.Message(body, content_type="application/json", delivery_mode=2)
            self._channel.basic_publish(message, self.name, "versioned_notifications.info")
            ids.append(f"m-{self._number}")
        return ids

    def publish_compressed(self, count: int) -> list[str]:
        """Publish so many events as a publisher with ``kombu_compression`` does, and return their ids."""
        ids = []
        for _ in range(count):
            self._number += 1
            message = amqp.Message(
                zlib.compress(wrap(envelope(self._number))),
                content_type="application/json",
                content_encoding="utf-8",
                application_headers={"compression": "application/x-gzip"},
            )
            self._channel.basic_publish(message, self.name, "versioned_notifications.info")
            ids.append(f"m-{self._number}")
        return ids

    def delete(self) -> None:
        self._channel.queue_delete(self.name)

    def declare_classic(self) -> None:
        self._channel.queue_declare(self.name, durable=True, auto_delete=False)

    def close(self) -> None:
        with contextlib.suppress(amqp.AMQPError, OSError):
            self.delete()
        with contextlib.suppress(amqp.AMQPError, OSError):
            self._channel.exchange_delete(self.name)
        self._connection.close()


class Reader:
    """A source, with an engine that stores the position of what it acks."""

    def __init__(self, stream: Stream, cursor: str | None = None, *, acks: bool = True, **options: Any) -> None:
        self.cursor = cursor
        self.acks = acks
        self.closed = False
        self.batches: list[list[Event]] = []
        self.source: Source = make_source(stream.url, stream.name, driver=STREAMS, cursor=cursor, **options)

    def __enter__(self) -> Self:
        self.source.start(self._emit)
        wait_until(lambda: self.status.state is SourceState.CONNECTED)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closed = True
        self.source.stop(time.monotonic() + deadline(1))

    def _emit(self, events: Sequence[Event]) -> None:
        if self.closed:
            raise IntakeClosed
        self.batches.append(list(events))
        if self.acks:
            self.commit(events)

    def commit(self, events: Sequence[Event]) -> None:
        self.cursor = self.source.cursor(events) or self.cursor
        self.source.ack(events)

    @property
    def status(self) -> SourceStatus:
        return self.source.status()

    @property
    def ids(self) -> list[str]:
        return [event.id for batch in list(self.batches) for event in batch]

    def wait_for(self, ids: list[str]) -> None:
        """Wait for the last of these events, and check that exactly these arrived, in order."""
        wait_until(lambda: ids[-1] in self.ids)
        assert self.ids == ids


@pytest.fixture
def stream(broker: Broker) -> Iterator[Stream]:
    made = Stream(broker.name("stream"), broker.url)
    yield made
    made.close()


@pytest.fixture
def losses(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """The log lines about lost events."""
    caplog.set_level(logging.WARNING)
    return lambda: [r.getMessage() for r in caplog.records if "events are lost" in r.getMessage()]


def assert_each_was_reported_once(status: SourceStatus, lines: Sequence[str]) -> None:
    """The reports have no offset in common, and all of them are counted.

    The broker removes segments while it delivers, so one loss may be found in several parts.
    """
    ranges = [tuple(map(int, found.groups())) for line in lines if (found := _REMOVED.search(line))]
    assert len(ranges) == len(lines) == status.gaps, lines
    assert ranges, "no loss was reported"
    assert all(end < first for (_, end), (first, _) in itertools.pairwise(ranges)), lines
    assert sum(end - first + 1 for first, end in ranges) == status.lost, lines


@pytest.fixture
def quick_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The state of the stream is read often."""
    monkeypatch.setattr("watcher_sync.extensions.openstack.source.rabbitmq.consumer._INTERVAL_SECONDS", 0.2)


def test_compressed_events_of_a_stream_arrive_and_a_stored_position_after_one_is_found_again(stream: Stream) -> None:
    with Reader(stream) as reader:
        reader.wait_for(stream.publish_compressed(3))
    with Reader(stream, reader.cursor) as again:
        again.wait_for(stream.publish_compressed(2))
        assert again.status.gaps == 0


def test_a_source_continues_after_the_last_committed_event(stream: Stream) -> None:
    with Reader(stream) as reader:
        reader.wait_for(stream.publish(30))
    missed = stream.publish(500)
    with Reader(stream, reader.cursor) as again:
        again.wait_for(missed)
        more = stream.publish(5)
        again.wait_for(missed + more)
        wait_until(lambda: again.status.lag == 0)


def test_what_was_not_committed_is_read_again(stream: Stream) -> None:
    with Reader(stream, acks=False, batch_size=10) as reader:
        ids = stream.publish(100)
        wait_until(lambda: len(reader.ids) == 100)
        reader.commit(reader.batches[0])
        committed = len(reader.batches[0])
    with Reader(stream, reader.cursor) as again:
        again.wait_for(ids[committed:])


def test_the_position_stays_before_a_nacked_event_until_it_is_emitted_again_and_committed(stream: Stream) -> None:
    with Reader(stream, acks=False, batch_size=10) as reader:
        ids = stream.publish(100)
        wait_until(lambda: len(reader.ids) == 100)
        first, *others = list(reader.batches)
        reader.source.nack(first, 0.2)
        for batch in others:
            reader.commit(batch)
        held = reader.cursor
        wait_until(lambda: len(reader.ids) == 100 + len(first))
        assert reader.ids[100:] == ids[: len(first)]
        reader.commit(reader.batches[-1])
    with Reader(stream, held) as again:
        again.wait_for(ids)
    with Reader(stream, reader.cursor) as last:
        last.wait_for(stream.publish(3))


def test_a_lost_connection_delivers_nothing_twice(stream: Stream) -> None:
    with FaultyProxy(int(stream.host.partition(":")[2])) as proxy:
        through = stream.url.replace(stream.host, f"127.0.0.1:{proxy.port}")
        with Reader(stream, batch_size=10, acks=False, prefetch=40, transport_url=through) as reader:
            ids = stream.publish(200)
            wait_until(lambda: len(reader.ids) >= 40)
            for reconnects in range(1, 4):
                proxy.reset()
                wait_until(lambda: reader.status.reconnects >= reconnects)  # noqa: B023 - waits here and now
            assert reader.ids == ids[: len(reader.ids)]
            reader.acks = True
            for batch in list(reader.batches):
                reader.commit(batch)
            reader.wait_for(ids)
            assert reader.status.gaps == 0


def test_a_pause_delivers_nothing_twice(stream: Stream) -> None:
    with Reader(stream, batch_size=10, acks=False, prefetch=40, hand_back_after=1.0) as reader:
        ids = stream.publish(200)
        wait_until(lambda: reader.status.detail.startswith("paused"))
        reader.acks = True
        for batch in list(reader.batches):
            reader.commit(batch)
        reader.wait_for(ids)
        assert reader.status.gaps == 0


def test_a_new_reader_begins_at_stream_start(stream: Stream) -> None:
    with Reader(stream) as reader:
        old = stream.publish(20)
        reader.wait_for(old)
    with Reader(stream, stream_start="next") as late:
        new = stream.publish(5)
        late.wait_for(new)
    with Reader(stream, stream_start="12") as middle:
        middle.wait_for((old + new)[12:])


def test_a_rewound_reader_reads_history_again(stream: Stream) -> None:
    with Reader(stream) as reader:
        ids = stream.publish(20)
        reader.wait_for(ids)
        first, past, middle, future = map(reader.source.cursor_at, ("first", "2020-01-01", "7", "2099-01-01"))
    for beginning in (first, past):
        with Reader(stream, beginning) as again:
            again.wait_for(ids)
    with Reader(stream, middle) as again:
        again.wait_for(ids[7:])
    with Reader(stream, future) as again:
        again.wait_for(stream.publish(2))


def test_messages_that_the_retention_removed_unread_are_reported_once(
    stream: Stream, losses: Callable[[], list[str]], quick_watch: None
) -> None:
    with Reader(stream, **SMALL) as reader:
        reader.wait_for(stream.publish(10, size=500))
        assert reader.status.gaps == 0
    missed = stream.publish(200, size=500)
    with Reader(stream, reader.cursor, **SMALL) as again:
        wait_until(lambda: missed[-1] in again.ids)
        lost = 200 - len(again.ids)
        wait_until(lambda: again.status.lost >= lost)
        status = again.status
        assert again.ids == missed[lost:]
        assert status.state is SourceState.CONNECTED
        assert status.lost <= lost * UNDELIVERED
        assert "the retention of queue" in status.detail
        assert_each_was_reported_once(status, losses())
    with Reader(stream, again.cursor, **SMALL) as last:
        last.wait_for(stream.publish(1))
        assert last.status.gaps == 0


def test_a_reader_that_is_overtaken_by_the_retention_notices_it(
    stream: Stream, losses: Callable[[], list[str]], quick_watch: None
) -> None:
    with Reader(stream, acks=False, prefetch=5, batch_size=5, **SMALL) as reader:
        ids = stream.publish(300, size=500)
        wait_until(lambda: len(reader.ids) >= 5)
        reader.acks = True
        for batch in list(reader.batches):
            reader.commit(batch)
        wait_until(lambda: ids[-1] in reader.ids)
        lost = 300 - len(reader.ids)
        assert lost > 0
        wait_until(lambda: reader.status.lost >= lost)
        assert reader.status.lost <= lost * UNDELIVERED
        assert_each_was_reported_once(reader.status, losses())


def test_segments_that_were_read_in_time_are_no_loss(
    stream: Stream, losses: Callable[[], list[str]], quick_watch: None
) -> None:
    with Reader(stream, **SMALL) as reader:
        ids: list[str] = []
        for _ in range(30):
            ids += stream.publish(10, size=500)
            wait_until(lambda: ids[-1] in reader.ids)  # noqa: B023 - waits here and now
        time.sleep(1.0)  # wait: the retention is read some times in it
        assert reader.ids == ids
        assert (reader.status.gaps, losses()) == (0, [])


@pytest.mark.parametrize("more", [3, 50])
def test_a_stream_that_was_created_again_is_noticed_and_read_from_its_beginning(
    stream: Stream, losses: Callable[[], list[str]], more: int
) -> None:
    with Reader(stream) as reader:
        reader.wait_for(stream.publish(20))
    stream.delete()
    with Reader(stream):
        new = stream.publish(more)
    with Reader(stream, reader.cursor) as again:
        again.wait_for(new)
        assert again.status.gaps == 1
        assert "is another stream than before" in again.status.detail
        assert len(losses()) == 1
    with Reader(stream, again.cursor) as last:
        last.wait_for(stream.publish(2))
        assert last.status.gaps == 0


def test_a_stream_that_is_deleted_under_the_source_is_declared_again(stream: Stream) -> None:
    with Reader(stream) as reader:
        ids = stream.publish(20)
        reader.wait_for(ids)
        for round_ in range(1, 3):
            stream.delete()
            wait_until(lambda: reader.status.gaps == round_)  # noqa: B023 - waits here and now
            wait_until(lambda: reader.status.state is SourceState.CONNECTED)
            ids += stream.publish(3)
            reader.wait_for(ids)
    with Reader(stream, reader.cursor) as again:
        again.wait_for(stream.publish(2))
        assert again.status.gaps == 0


def test_a_queue_that_is_no_stream_is_refused(stream: Stream) -> None:
    stream.declare_classic()
    reader = Reader(stream)
    reader.source.start(reader._emit)
    try:
        wait_until(lambda: reader.status.state is SourceState.DISCONNECTED)
        assert "is no stream queue" in reader.status.detail
    finally:
        reader.source.stop(time.monotonic() + deadline(1))


def test_a_consumer_that_gets_nothing_of_what_waits_counts_as_lost(stream: Stream) -> None:
    with Reader(stream) as reader:
        reader.wait_for(stream.publish(3))
    source = make_source(stream.url, stream.name, driver=STREAMS, cursor=reader.cursor)
    assert isinstance(source, RabbitMQStreamSource)
    broker, queue = source.settings.broker, source.queue

    async def inspect() -> list[tuple[int, int]]:
        connection = await connect(broker, broker.hosts[0], "test")
        await queue.declare(connection)
        idle = [await queue.inspect(connection, 0, 0) for _ in range(3)]
        stream.publish(2)
        silent = [await queue.inspect(connection, 0, 0) for _ in range(2)]
        await connection.close()
        return [*idle, *silent]

    assert asyncio.run(inspect()) == [(0, 1), (0, 1), (0, 1), (2, 1), (2, 0)]


@pytest.mark.parametrize("start", ["stored", "first", "next"])
def test_what_arrived_and_was_not_taken_is_read_again_after_a_reconnection(stream: Stream, start: str) -> None:
    with Reader(stream) as reader:
        reader.wait_for(stream.publish(3))
    options = {} if start == "stored" else {"stream_start": start}
    cursor = reader.cursor if start == "stored" else None
    source = make_source(stream.url, stream.name, driver=STREAMS, cursor=cursor, **options)
    assert isinstance(source, RabbitMQStreamSource)
    broker, queue = source.settings.broker, source.queue

    async def reconnect() -> object:
        connection = await connect(broker, broker.hosts[0], "test")
        await queue.declare(connection)
        await connection.close()
        return queue.consume_arguments()["x-stream-offset"]

    assert asyncio.run(reconnect()) == {"stored": 3}.get(start, start)
    stream.publish(4)
    first = 0 if start == "first" else 3
    for tag, offset in enumerate(range(first, 7), 1):
        position = queue.position(1, tag, {"x-stream-offset": offset})
        source.in_flight.add([QueuedMessage(position, wrap(envelope(offset + 1)), 1)])
    assert asyncio.run(reconnect()) == first
    assert queue.gaps.total.count == 0
