# SPDX-License-Identifier: Apache-2.0
"""The deliveries of a RabbitMQ source, from their arrival until the broker learns of their settlement.

The I/O thread adds the messages that arrived and collects the settlements. The emitting thread takes the messages. The
engine's thread settles. Only the queue of arrived messages needs a lock, because the emitting thread waits for it.
Settlements pass through a deque, and :class:`AckLedger` says which acknowledgement may be sent.
"""

from __future__ import annotations

import collections
import heapq
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from watcher_sync.events import MAX_PORTION_BYTES, Event
from watcher_sync.wire import encodings


class AckPosition(msgspec.Struct, frozen=True, gc=False):
    """Where an event comes from; see :attr:`watcher_sync.events.Event.position`."""

    generation: int
    """Of the channel that delivered it."""
    tag: int
    """The delivery tag."""
    offset: int | None = None
    """Its offset in a stream queue; None for the other queues."""
    stream: int = 0
    """How often the stream was found to be created again before it arrived."""


class _Delivery(NamedTuple):
    tag: int
    at: float


class AckLedger:
    """The deliveries of one channel: which tags are settled, and which acknowledgement may be sent.

    A delivery tag belongs to its channel. Each opening of a channel is a *generation*, and a settlement of another
    generation is dropped: the broker delivers that message again.

    Guaranteed:

    * A tag is acknowledged only after it was committed.
    * An acknowledgement is cumulative. It names the highest committed tag below which nothing is unsettled.
    * It always names a tag that the broker still waits for. RabbitMQ would otherwise close the channel.
    * Everything committed is acknowledged in the end, if its channel remains open.

    For one thread; no I/O.
    """

    def __init__(self) -> None:
        self.generation = 0
        """Of the channel that is open now."""
        self.bytes = 0
        """Of the bodies that are not settled."""
        # In the order of their tags: the first one is unsettled, or pop_ackable() has to be called.
        self._waiting: collections.deque[_Delivery] = collections.deque()
        # Tag -> bytes of what is neither committed nor given back.
        self._unsettled: dict[int, int] = {}
        self._committed: set[int] = set()
        self._returned: set[int] = set()
        # (due time, tag) of what is to be given back.
        self._due: list[tuple[float, int]] = []

    def __len__(self) -> int:
        """How many deliveries the engine has not settled."""
        return len(self._unsettled)

    @property
    def oldest_at(self) -> float | None:
        """When the oldest delivery arrived that the broker still waits for; None if there is none."""
        return self._waiting[0].at if self._waiting else None

    @property
    def next_due(self) -> float | None:
        """When the next delivery is to be given back; None if there is none."""
        return self._due[0][0] if self._due else None

    def open(self) -> int:
        """A channel was opened: its generation. All deliveries of the one before count as given back."""
        self.generation += 1
        self._waiting.clear()
        self._unsettled.clear()
        self._committed.clear()
        self._returned.clear()
        self._due.clear()
        self.bytes = 0
        return self.generation

    def add(self, tag: int, size: int, now: float) -> None:
        """A message was delivered on the open channel.

        :param tag: greater than each one before.
        :param size: bytes that it holds here until it is settled.
        """
        self._waiting.append(_Delivery(tag, now))
        self._unsettled[tag] = size
        self.bytes += size

    def commit(self, position: AckPosition) -> None:
        """Its event is committed. Dropped if it is of another generation, or settled already."""
        if position.generation == self.generation:
            size = self._unsettled.pop(position.tag, None)
            if size is not None:
                self.bytes -= size
                self._committed.add(position.tag)

    def give_back(self, position: AckPosition, due: float) -> None:
        """Its event was not committed: the broker shall deliver it again, not before ``due``.

        Dropped if it is of another generation, or settled already.
        """
        if position.generation == self.generation:
            size = self._unsettled.pop(position.tag, None)
            if size is not None:
                self.bytes -= size
                heapq.heappush(self._due, (due, position.tag))

    def pop_due(self, now: float) -> list[int]:
        """The tags that are to be given back now, in ascending order."""
        tags = []
        while self._due and self._due[0][0] <= now:
            tags.append(heapq.heappop(self._due)[1])
        self._returned.update(tags)
        return sorted(tags)

    def pop_ackable(self) -> int | None:
        """The tag to acknowledge now, together with all before it; None: nothing new is to be acknowledged."""
        waiting, committed, returned = self._waiting, self._committed, self._returned
        highest = None
        while waiting:
            tag = waiting[0].tag
            if tag in committed:
                committed.discard(tag)
                highest = tag
            elif tag in returned:
                returned.discard(tag)
            else:
                break
            waiting.popleft()
        return highest


class QueuedMessage(msgspec.Struct, frozen=True, gc=False):
    """A message as the broker delivered it."""

    position: AckPosition
    body: bytes
    """Of :func:`body_of`."""
    deliveries: int
    """How often the broker delivered it. A broker that does not count gives 2 for "more than once"."""
    event: Event | None = None
    """Its event, if the body is too large: then ``body`` is empty, and the event has an excerpt."""
    refused: str = ""
    """Why the body could not be decompressed; empty: it is as its publisher wrote it."""


def body_of(properties: Any, body: bytes, max_size: int) -> tuple[bytes, str]:
    """The body of a message as its publisher wrote it, and why it could not be decompressed; empty: it could.

    :param properties: of the message, as the library has them.
    :param max_size: bytes that it may have.
    """
    compression = properties.headers.get("compression") if properties.headers else None
    return encodings.decoded(body, compression, properties.content_encoding, max_size=max_size)


class RabbitInFlight:
    """The messages that arrived and are not emitted, and the settlements that the broker does not know yet.

    :param stopping: set once nothing is to be emitted any more.
    """

    def __init__(self, stopping: threading.Event) -> None:
        self._stopping = stopping
        # Guards the queue; notified when messages arrive and at the stop.
        self._changed = threading.Condition()
        self._queue: collections.deque[QueuedMessage] = collections.deque()
        self.last_taken: QueuedMessage | None = None
        """The last message that the emitting thread took. What arrived after it is in the queue, or was dropped."""
        # Appending and taking are atomic. None: committed, else the delay of the nack in seconds.
        self._settled: collections.deque[tuple[Sequence[Event], float | None]] = collections.deque()
        self._has_settled = threading.Event()

    @property
    def is_stopping(self) -> bool:
        """Whether nothing is to be emitted any more. Any thread."""
        return self._stopping.is_set()

    def settle(self, events: Sequence[Event], delay: float | None) -> None:
        """These are done: committed, or with a delay nacked. Any thread."""
        self._settled.append((events, delay))
        self._has_settled.set()

    def wait_settled(self, seconds: float) -> bool:
        """Wait for a settlement; whether there is one. The I/O thread."""
        return self._has_settled.wait(seconds)

    def settlements(self) -> Iterator[tuple[Sequence[Event], float | None]]:
        """What was settled since the last call. The I/O thread."""
        self._has_settled.clear()
        while self._settled:
            yield self._settled.popleft()

    def add(self, messages: Sequence[QueuedMessage]) -> None:
        """These arrived. The I/O thread."""
        with self._changed:
            self._queue.extend(messages)
            self._changed.notify_all()

    def unemitted_bytes(self) -> int:
        """The bytes of what is in the queue. The I/O thread."""
        with self._changed:
            return sum(len(message.body) for message in self._queue)

    def drop_unemitted(self) -> list[QueuedMessage]:
        """Empty the queue; what was in it. The I/O thread."""
        with self._changed:
            dropped = list(self._queue)
            self._queue.clear()
        return dropped

    def wake(self) -> None:
        """Have :meth:`take` notice a stop."""
        with self._changed:
            self._changed.notify_all()

    def take(self, most: int, most_bytes: int = MAX_PORTION_BYTES) -> list[QueuedMessage] | None:
        """What has arrived, in order, at least one message; None at the stop. The emitting thread.

        :param most_bytes: bytes after which no further message is taken.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._stopping.is_set())
            if self._stopping.is_set():
                return None
            taken: list[QueuedMessage] = []
            size = 0
            while self._queue and len(taken) < most and size < most_bytes:
                message = self._queue.popleft()
                size += len(message.body)
                taken.append(message)
            self.last_taken = taken[-1]
            return taken
