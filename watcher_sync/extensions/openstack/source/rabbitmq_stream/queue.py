# SPDX-License-Identifier: Apache-2.0
"""A stream queue: an append-only log whose position is ours.

The broker delivers nothing again. Each consumer begins after the last message that the emitting thread took.
Acknowledgements only return credit.

Gaps: each segment begins with a record that is not delivered, and clients of the stream protocol add more. A gap of one
offset is no loss. A greater gap is a loss if the first stored message is after it.

Another stream: a position beyond the end, or another event at the offset of the last committed one, means that the
stream was created again. The source then reads it from its beginning.

For the event loop's thread. Needs RabbitMQ 3.9 or later.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final, NamedTuple

from oslo_log import log as logging

from watcher_sync.extensions.openstack.source.rabbitmq.in_flight import (
    AckPosition,
    QueuedMessage,
    RabbitInFlight,
    body_of,
)
from watcher_sync.extensions.openstack.source.rabbitmq.queues import Queue
from watcher_sync.extensions.openstack.source.rabbitmq_stream.cursor import (
    NEXT,
    Place,
    RabbitMQCursor,
    Start,
    StreamProgress,
    digest_of,
    read_start,
)
from watcher_sync.extensions.openstack.source.rabbitmq_stream.settings import RabbitMQStreamSettings
from watcher_sync.sources.cursors import FIRST
from watcher_sync.transports.rabbitmq.connection import BrokerConnection, Channel, NoAnswer

LOG = logging.getLogger(__name__)

OFFSET_HEADER: Final = "x-stream-offset"

_PROBE_SECONDS: Final = 2.0
_SILENCE_SECONDS: Final = 0.3
"""After this time without a message, the last chunk of a stream has been read."""
_MAX_CHUNK_MESSAGES: Final = 10_000
_SEGMENT_RECORDS: Final = 1
"""Records at the beginning of a segment that are not delivered. A removed segment has more records than that."""


class _Found(NamedTuple):
    offset: int
    properties: Any
    body: bytes

    def message(self, max_size: int) -> QueuedMessage:
        """As if it had been delivered to be emitted."""
        body, refused = body_of(self.properties, self.body, max_size)
        return QueuedMessage(AckPosition(0, 0, self.offset), body, 1, refused=refused)


class StreamQueue(Queue):
    """A stream, consumed from our own position.

    :param source: its name, for the log.
    :param cursor: the stored position; None at the first start.
    :param identify: returns the id of the event of a message.
    """

    queue_type: ClassVar[str] = "stream"

    def __init__(
        self,
        settings: RabbitMQStreamSettings,
        *,
        source: str,
        cursor: RabbitMQCursor | None,
        in_flight: RabbitInFlight,
        progress: StreamProgress,
        identify: Callable[[QueuedMessage], str],
    ) -> None:
        super().__init__(settings.pool, settings.exchange, settings.topics, settings.broker)
        self._deleted = ""  # one that was created again is found by its content
        self._source = source
        self._retention = settings.retention
        self._max_event_size = settings.max_event_size
        self._in_flight = in_flight
        self._progress = progress
        self._identify = identify
        self._offset: Start = read_start(cursor.start) if cursor is not None and cursor.start else settings.start
        """Where the next consumer begins."""
        self._following: int | None = cursor.next if cursor is not None else None
        """The offset after the last message that was taken; None if none was, and no position is stored."""
        self._after = cursor.after if cursor is not None else ""
        """The digest of the event before it; empty if it is unknown."""
        self._next: int | None = None
        """The next offset that is expected to arrive; None where any may come."""
        self._explained = 0
        """What is missing before this offset was reported."""
        self._stream = 0
        """How often the stream was found to be created again."""
        self._arrived: Place | None = None
        """The last one that arrived and was not dropped."""
        self._jumps: list[tuple[int, int]] = []
        """(expected, arrived) offset of each gap that is not explained yet."""
        self._next_at_last_check: int | None = None
        self._was_behind = False

    @property
    def auto_delete(self) -> bool:
        """As the broker demands of a stream."""
        return False

    @property
    def loses_restart(self) -> bool:
        """RabbitMQ 3.10 and 4.0 accept publishers before they route to a stream, whatever the exchange is."""
        return True

    def arguments(self) -> dict[str, Any]:
        """The type, and the limits of what the broker stores."""
        return {"x-queue-type": "stream"} | self._retention

    def consume_arguments(self) -> dict[str, Any]:
        """Where to begin."""
        return {OFFSET_HEADER: self._offset}

    def position(self, generation: int, tag: int, headers: Mapping[str, Any] | None) -> AckPosition:
        """With the offset; notices gaps."""
        offset = int((headers or {})[OFFSET_HEADER])
        if self._following is None:
            self._following = offset
        if self._next is not None and offset > self._next + _SEGMENT_RECORDS:
            self._jumps.append((self._next, offset))
        self._next = offset + 1
        self._arrived = self._stream, offset
        return AckPosition(generation, tag, offset, self._stream)

    def _is_unfit(self, differences: Sequence[str]) -> bool:
        """Only the limits of a stream may differ."""
        return any("arg 'x-" not in text or "'x-queue-type'" in text for text in differences)

    # Where a consumer begins

    async def declare(self, connection: BrokerConnection) -> None:
        """Declare what is missing, and find the offset at which the next consumer begins."""
        await super().declare(connection)
        self._in_flight.drop_unemitted()
        taken = self._in_flight.last_taken
        if taken is not None and taken.position.offset is not None and taken.position.stream == self._stream:
            self._following, self._after = taken.position.offset + 1, digest_of(self._identify(taken))
            self._arrived = self._stream, taken.position.offset
        else:
            self._arrived = self._progress.acked
        if self._following is not None:
            self._offset = self._next = self._following
            await self._verify(connection, self._following)
        else:
            self._next = self._offset if isinstance(self._offset, int) else None
        self._was_behind = False

    async def _verify(self, connection: BrokerConnection, following: int) -> None:
        """Check that the stream is the one that was read before, and still has the message ``following``."""
        last_read = following - 1
        if last_read < 0:
            return
        found = await self._probe(connection, last_read)
        if not found:
            end = await self._end(connection)
            if end is not None and end >= last_read:
                raise NoAnswer(f"the broker does not deliver offset {last_read} of the stream in time")
            self._restart(f"it ends at offset {end}" if end is not None else "it is empty", last_read)
        elif found[0].offset == last_read:
            message = found[0].message(self._max_event_size)
            if self._after and digest_of(self._identify(message)) != self._after:
                self._restart("another event has the offset of the last one that was read", last_read)
        elif found[0].offset > following:
            self._report_removed(following, found[0].offset)
            self._next = found[0].offset

    def _restart(self, why: str, last_read: int) -> None:
        """The stream is another one than before: read all of it."""
        self._report(
            f"queue {self.name} is another stream than before, read up to offset {last_read}: {why};"
            " what the old one had after that is lost",
            0,
        )
        self._stream += 1
        self._offset, self._following, self._after = FIRST, None, ""
        self._next, self._arrived, self._explained = None, self._progress.acked, 0
        self._jumps.clear()

    # Reading the state of the stream

    async def inspect(self, connection: BrokerConnection, waiting: int, consumers: int) -> tuple[int, int]:
        """The messages after those that arrived, within one chunk of the stream, and 0 consumers if ours is deaf.

        The broker reports neither for a stream.
        """
        found = await self._probe(connection, "last")
        if not found:
            return 0, 1
        await self._explain_jumps(connection)
        newest = found[0].offset
        behind = newest >= self._next if self._next is not None else self._offset != NEXT
        is_idle = self._arrived == self._progress.acked and self._next == self._next_at_last_check
        is_deaf = behind and self._was_behind and is_idle and not isinstance(self._offset, datetime.datetime)
        self._was_behind, self._next_at_last_check = behind, self._next
        return max(0, newest + 1 - self._next) if self._next is not None else 0, 0 if is_deaf else 1

    async def _explain_jumps(self, connection: BrokerConnection) -> None:
        """Report the gaps in what arrived that are before the first message of the stream."""
        if not self._jumps:
            return
        first = await self._probe(connection, FIRST)
        if first:
            jumps, self._jumps = self._jumps, []
            for expected, arrived in jumps:
                if first[0].offset > expected:
                    self._report_removed(expected, min(first[0].offset, arrived))

    async def _probe(self, connection: BrokerConnection, offset: Start, most: int = 1) -> list[_Found]:
        """Messages from an offset on, read by a short-lived consumer; empty if none arrives in time.

        :raises Failure: the queue is missing, the connection is lost, or the broker does not answer.
        """
        found: list[_Found] = []
        arrived = asyncio.Event()
        channel = await connection.open_channel()
        library = channel.library

        def on_message(_channel: Any, _method: Any, properties: Any, body: bytes) -> None:
            found.append(_Found(int(properties.headers[OFFSET_HEADER]), properties, body))
            arrived.set()

        def consume(*, callback: Callable[[Any], None]) -> None:
            library.basic_consume(self.name, on_message, arguments={OFFSET_HEADER: offset}, callback=callback)

        seconds = _PROBE_SECONDS
        try:
            await channel.call(library.basic_qos, prefetch_count=most)
            await channel.call(consume)
            with suppress(TimeoutError):
                while len(found) < most:
                    async with asyncio.timeout(seconds):
                        await arrived.wait()
                    arrived.clear()
                    seconds = _SILENCE_SECONDS
        except asyncio.CancelledError:
            if library.is_open:
                library.close()
            raise
        await _close(channel)
        return found

    async def _end(self, connection: BrokerConnection) -> int | None:
        """The last offset of the stream; None if it is empty, which is asked twice in case the broker is slow."""
        for _ in range(2):
            if found := await self._probe(connection, "last", _MAX_CHUNK_MESSAGES):
                return found[-1].offset
        return None

    # Reporting

    def _report_removed(self, expected: int, first: int) -> None:
        """Report it, unless it was reported before."""
        expected = max(expected, self._explained)
        count = first - expected
        if count <= 0:
            return
        self._explained = first
        self._report(
            f"the retention of queue {self.name} removed {count} messages before they were read,"
            f" offsets {expected} to {first - 1}",
            count,
        )

    def _report(self, note: str, lost: int) -> None:
        LOG.warning("source %s: events are lost: %s", self._source, note)
        self.gaps.add(note, lost)


async def _close(channel: Channel) -> None:
    """Close it.

    :raises Failure: the broker had closed it before, or the connection ended.
    """
    if channel.why_closed is not None:
        raise channel.why_closed
    await channel.close()
