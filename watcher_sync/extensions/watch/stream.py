# SPDX-License-Identifier: Apache-2.0
"""The bounded queue of one stream, and its end. For the thread of the event loop.

A stream that has caught up gets each event at once. If its queue is full then, the stream ends: other streams never
wait for a slow client. A stream that catches up waits for room instead.
"""

from __future__ import annotations

import asyncio
import collections
from typing import Final

from watcher_sync.extensions.watch.authentication import Caller
from watcher_sync.extensions.watch.endings import StreamEnding, slow_consumer
from watcher_sync.extensions.watch.model.topics import WatchTopic

MAX_QUEUED_BYTES: Final = 16_777_216
"""Of the events that wait for one client. Streams with equal rights on one topic share these bytes."""


class WatchStream:
    """One call of ``subscribe``."""

    __slots__ = (
        "_bytes", "_items", "_limit", "_max_bytes", "_more", "_room", "caller", "capabilities", "ended",
        "is_checking_token", "reached", "topic",
    )  # fmt: skip

    def __init__(self, limit: int, max_bytes: int = MAX_QUEUED_BYTES) -> None:
        """:param limit: the events that may wait for the client.

        :param max_bytes: the bytes of events above which no further one may wait.
        """
        self._limit = limit
        self._max_bytes = max_bytes
        self._bytes = 0
        self._items: collections.deque[bytes] = collections.deque()
        self._more: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self.ended: asyncio.Future[StreamEnding] = asyncio.get_running_loop().create_future()
        """Has the reason when the stream has ended."""
        self.topic: WatchTopic | None = None
        """None: the client has not subscribed yet."""
        self.caller: Caller | None = None
        self.capabilities: frozenset[str] = frozenset()
        self.reached: int | None = None
        """Every event up to this sequence is in the queue; None: the hub's position counts."""
        self.is_checking_token = False
        """Whether a new token waits for the identity service."""

    def push(self, message: bytes) -> bool:
        """Add a message. A full queue ends the stream.

        :returns: whether the message was added.
        """
        if self.ended.done():
            return False
        if len(self._items) >= self._limit or self._bytes >= self._max_bytes:
            self.end(slow_consumer(len(self._items)))
            return False
        self._items.append(message)
        self._bytes += len(message)
        if self._more is not None and not self._more.done():
            self._more.set_result(None)
        return True

    async def take(self) -> bytes:
        """Wait for the next message and return it. For one task."""
        while not self._items:
            self._more = asyncio.get_running_loop().create_future()
            await self._more
        message = self._items.popleft()
        self._bytes -= len(message)
        if self._room is not None and not self._room.done() and self.has_room:
            self._room.set_result(None)
        return message

    @property
    def has_room(self) -> bool:
        """Whether at most half of the queue is in use, in events and in bytes."""
        return len(self._items) <= self._limit // 2 and self._bytes <= self._max_bytes // 2

    async def wait_for_room(self) -> None:
        """Return when at most half of the queue is in use. For one task."""
        while not self.has_room:
            self._room = asyncio.get_running_loop().create_future()
            await self._room

    def end(self, reason: StreamEnding) -> None:
        """End the stream; only the first reason counts. What waits for the client is dropped."""
        if not self.ended.done():
            self.ended.set_result(reason)
            self._items.clear()
            self._bytes = 0
