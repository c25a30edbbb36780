# SPDX-License-Identifier: Apache-2.0
"""The messages in flight: each one from its delivery until the engine settles it.

Three threads meet here. The event loop's thread delivers and settles. The emitting thread takes what has arrived. The
engine's thread acks and nacks. Only the queue of arrived messages needs a lock, because the emitting thread waits for
it. Acks and nacks pass through a deque.

Guaranteed: a message is in the queue once, however often it is delivered while in flight. Its settlement goes to the
latest delivery. In a stream that was created again or restored, the same sequence may be another message. So the
reply subjects of the stream before it are forgotten.
"""

from __future__ import annotations

import collections
import threading
from collections.abc import Iterable, Iterator, Sequence

from watcher_sync.events import MAX_PORTION_BYTES, Event
from watcher_sync.extensions.dcm.source.isolation import Key
from watcher_sync.transports.nats.messages import ACK, JetStreamMessage, nak


class JetStreamInFlight:
    """The messages that are delivered and not settled.

    :param stopping: set once nothing is to be emitted any more.
    """

    def __init__(self, stopping: threading.Event) -> None:
        self._stopping = stopping
        # Guards the queue; notified when a message arrives and at the stop.
        self._changed = threading.Condition()
        self._queue: collections.deque[tuple[int, JetStreamMessage]] = collections.deque()
        self._queue_bytes = 0
        # Appending and taking are atomic. None: acked, else the delay of the nack in seconds.
        self._settled: collections.deque[tuple[Sequence[Event], float | None]] = collections.deque()
        # The event loop's thread only: where the settlement goes.
        self._replies: dict[Key, str] = {}

    # Any thread

    def settle(self, events: Sequence[Event], delay: float | None) -> None:
        """These are done: acked, or with a delay nacked."""
        self._settled.append((events, delay))

    def unemitted_count(self) -> int:
        """How many messages wait for the emitting thread."""
        return len(self._queue)

    def unemitted_bytes(self) -> int:
        """The bytes of these messages."""
        return self._queue_bytes

    def wake(self) -> None:
        """Have :meth:`take` notice a stop."""
        with self._changed:
            self._changed.notify_all()

    # The emitting thread

    def take(
        self, most: int, linger: float, most_bytes: int = MAX_PORTION_BYTES
    ) -> list[tuple[int, JetStreamMessage]] | None:
        """(epoch, message) of what has arrived, in order, at least one; None at the stop.

        :param linger: seconds to wait for ``most`` of them once there is one.
        :param most_bytes: bytes after which no further message is taken.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._stopping.is_set())
            if linger > 0 and len(self._queue) < most:
                self._changed.wait_for(lambda: len(self._queue) >= most or self._stopping.is_set(), linger)
            if self._stopping.is_set():
                return None
            taken: list[tuple[int, JetStreamMessage]] = []
            size = 0
            while self._queue and len(taken) < most and size < most_bytes:
                item = self._queue.popleft()
                size += len(item[1].message.data)
                taken.append(item)
            self._queue_bytes -= size
            return taken

    # The event loop's thread

    def __len__(self) -> int:
        """How many messages are delivered and not settled."""
        return len(self._replies)

    @property
    def empty(self) -> bool:
        """Whether everything is settled."""
        return not self._replies

    def track(self, epoch: int, message: JetStreamMessage) -> bool:
        """A message was delivered; False when it was in flight already: then only its reply subject is new.

        :param epoch: of the message.
        """
        key = (epoch, message.sequence)
        known = key in self._replies
        self._replies[key] = message.message.reply
        return not known

    def emit(self, epoch: int, message: JetStreamMessage) -> None:
        """Queue a tracked message for the emitting thread."""
        with self._changed:
            self._queue.append((epoch, message))
            self._queue_bytes += len(message.message.data)
            if len(self._queue) == 1:
                self._changed.notify_all()

    def forget_replies(self) -> None:
        """The stream is another one: what is in flight can not be settled, unless it is delivered again."""
        self._replies = dict.fromkeys(self._replies, "")

    def settlements(self) -> Iterator[tuple[str, bytes]]:
        """(subject, payload) of each publish that settles what the engine is done with; then it is not in flight."""
        while self._settled:
            events, delay = self._settled.popleft()
            for event in events:
                key = event.sequence
                reply = self._replies.pop(key, "") if key is not None else ""
                if reply:
                    yield reply, (ACK if delay is None else nak(delay, event.deliveries))

    def pop_unemitted(self, isolated: Iterable[Key]) -> list[str]:
        """Reply subjects of what is not emitted; it is not in flight any more.

        :param isolated: tracked messages that wait elsewhere.
        """
        with self._changed:
            keys = [(came, message.sequence) for came, message in self._queue]
            self._queue.clear()
            self._queue_bytes = 0
        keys += isolated
        replies = [self._replies.pop(key, "") for key in keys]
        return [reply for reply in replies if reply]

    def pop_all(self) -> list[str]:
        """Reply subjects of all messages in flight; none is any more."""
        replies = self.replies()
        self._replies.clear()
        return replies

    def replies(self) -> list[str]:
        """Reply subjects of all messages in flight."""
        return [reply for reply in self._replies.values() if reply]
