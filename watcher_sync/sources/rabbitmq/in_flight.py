# SPDX-License-Identifier: Apache-2.0
"""What passes between the threads of a RabbitMQ source: messages to the emitting thread, settlements from the engine.

The I/O thread adds the messages that arrived and collects the settlements. The emitting thread takes the messages. The
engine's thread settles. Only the queue of arrived messages needs a lock, because the emitting thread waits for it.
Settlements pass through a deque.
"""

from __future__ import annotations

import collections
import threading
from collections.abc import Iterator, Sequence

import msgspec

from watcher_sync.events import MAX_PORTION_BYTES, Event
from watcher_sync.sources.rabbitmq.acks import AckPosition


class QueuedMessage(msgspec.Struct, frozen=True, gc=False):
    """A message as the broker delivered it."""

    position: AckPosition
    body: bytes
    deliveries: int
    """How often the broker delivered it. A broker that does not count gives 2 for "more than once"."""
    event: Event | None = None
    """Its event, if the body is too large: then ``body`` is empty, and the event has an excerpt."""


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
