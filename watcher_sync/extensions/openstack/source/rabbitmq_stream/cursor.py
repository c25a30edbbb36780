# SPDX-License-Identifier: Apache-2.0
"""The durable position in a stream: what the engine stores with the rows, and where a first start begins.

The stored position names the queue and the next offset. It also has a digest of the id of the event before. Nothing in
AMQP identifies a stream: one that was created again has the same name and begins at offset 0.
"""

from __future__ import annotations

import datetime
import hashlib
import threading
from collections.abc import Sequence
from typing import Final

import msgspec

from watcher_sync.events import Event
from watcher_sync.sources.cursors import decode_cursor, read_place

NEXT: Final = "next"

Start = str | int | datetime.datetime
"""Where consuming begins: ``first``, ``next``, an offset, or an aware time."""


Place = tuple[int, int]
"""(number of the stream, offset in it)."""


class RabbitMQCursor(msgspec.Struct, frozen=True, omit_defaults=True):
    """A position in one stream."""

    queue: str
    """Of :func:`queue_id`. A position in another queue is not used."""
    next: int | None = None
    """The next offset to read; None before the first commit after a rewind."""
    after: str = ""
    """Digest of the event before ``next``; empty where it is unknown."""
    start: str = ""
    """Where to begin after a rewind, as :func:`read_start` reads it; empty if ``next`` is set."""

    def text(self) -> str:
        """The form in which it is stored."""
        return msgspec.json.encode(self).decode()


def read_cursor(text: str | None, queue: str) -> RabbitMQCursor | None:
    """A stored position, if it is one in this queue; else None."""
    found = decode_cursor(text, RabbitMQCursor, read_start)
    return found if found is not None and found.queue == queue else None


def read_start(text: str) -> Start:
    """Where to begin: ``first``, ``next``, an offset, or an ISO 8601 time, which is UTC unless it says otherwise.

    :raises ValueError: it is none of these.
    """
    return NEXT if text == NEXT else read_place(text, "an offset")


def queue_id(virtual_host: str, queue: str) -> str:
    """The name of a queue together with its virtual host."""
    return f"{virtual_host} {queue}"


def digest_of(event_id: str) -> str:
    """A short digest of the id of an event."""
    return hashlib.blake2b(event_id.encode(errors="surrogatepass"), digest_size=8).hexdigest()


class StreamProgress:
    """How far the engine has committed the events of a stream.

    Guaranteed: the position never passes an event that was nacked and not committed since. The engine commits the
    events of a source in the order of their emission, so the lowest nacked offset is the lowest uncommitted one.

    A stream that was created again has a higher number, and the position is always in the newest one.

    :param queue: of :func:`queue_id`.
    """

    def __init__(self, queue: str) -> None:
        self._queue = queue
        # Guards the attributes below: the engine's thread and the emitting threads use them.
        self._lock = threading.Lock()
        self._last: Place | None = None
        self._last_id = ""
        self._nacked: set[Place] = set()
        self._acked: Place | None = None

    @property
    def acked(self) -> Place | None:
        """The highest one that was acked."""
        return self._acked

    def ack(self, events: Sequence[Event]) -> None:
        """These are committed."""
        with self._lock:
            for event in events[-1:]:
                self._acked = _place(event) if self._acked is None else max(self._acked, _place(event))

    def cursor(self, events: Sequence[Event]) -> str | None:
        """The position once these events are committed, and all those before."""
        if not events:
            return None
        with self._lock:
            latest = events[-1]
            if self._nacked:
                self._nacked.difference_update([_place(event) for event in events])
                latest = max(events, key=_place)
            if self._last is None or _place(latest) > self._last:
                self._last, self._last_id = _place(latest), latest.id
            stream, last = self._last
            lowest = min((offset for number, offset in self._nacked if number == stream), default=None)
            if lowest is not None:
                return RabbitMQCursor(self._queue, lowest).text()
            return RabbitMQCursor(self._queue, last + 1, digest_of(self._last_id)).text()

    def nack(self, events: Sequence[Event]) -> None:
        """These were not committed."""
        with self._lock:
            self._nacked.update([_place(event) for event in events])


def _place(event: Event) -> Place:
    position = event.position
    return position.stream, position.offset
