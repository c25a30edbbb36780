# SPDX-License-Identifier: Apache-2.0
"""The bounded queue of one stream, and its end. For the thread of the event loop.

A stream that has caught up gets each event at once. If its queue is full then, the stream ends: other streams never
wait for a slow client. A stream that catches up waits for room instead.
"""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Hashable

from watcher_sync.model.watch.topics import WatchTopic
from watcher_sync.outlets.watch.authentication import Caller
from watcher_sync.outlets.watch.endings import StreamEnd, slow_consumer


class Stream:
    """One call of ``subscribe``."""

    __slots__ = (
        "_items", "_limit", "_more", "_room", "caller", "capabilities", "ended", "is_checking_token", "reached",
        "topic", "unanswered_pings",
    )  # fmt: skip

    def __init__(self, limit: int) -> None:
        """:param limit: the events that may wait for the client."""
        self._limit = limit
        self._items: collections.deque[bytes] = collections.deque()
        self._more: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self.ended: asyncio.Future[StreamEnd] = asyncio.get_running_loop().create_future()
        """Has the reason when the stream has ended."""
        self.topic: WatchTopic | None = None
        """None: the client has not subscribed yet."""
        self.caller: Caller | None = None
        self.capabilities: frozenset[str] = frozenset()
        self.reached: int | None = None
        """Every event up to this sequence is in the queue; None: the hub's position counts."""
        self.is_checking_token = False
        """Whether a new token waits for the identity service."""
        self.unanswered_pings = 0

    @property
    def group(self) -> tuple[str, Hashable]:
        """The streams with an equal group get equal events. Only for a stream that has subscribed."""
        assert self.topic is not None
        assert self.caller is not None
        return (self.topic.id, self.caller.rights)

    def push(self, message: bytes) -> bool:
        """Add a message. A full queue ends the stream.

        :returns: whether the message was added.
        """
        if self.ended.done():
            return False
        if len(self._items) >= self._limit:
            self.end(slow_consumer(self._limit))
            return False
        self._items.append(message)
        if self._more is not None and not self._more.done():
            self._more.set_result(None)
        return True

    async def take(self) -> bytes:
        """Wait for the next message and return it. For one task."""
        while not self._items:
            self._more = asyncio.get_running_loop().create_future()
            await self._more
        message = self._items.popleft()
        if self._room is not None and not self._room.done() and self.has_room:
            self._room.set_result(None)
        return message

    @property
    def has_room(self) -> bool:
        """Whether at most half of the queue is in use."""
        return len(self._items) <= self._limit // 2

    async def wait_for_room(self) -> None:
        """Return when at most half of the queue is in use. For one task."""
        while not self.has_room:
            self._room = asyncio.get_running_loop().create_future()
            await self._room

    def end(self, reason: StreamEnd) -> None:
        """End the stream; only the first reason counts. What waits for the client is dropped."""
        if not self.ended.done():
            self.ended.set_result(reason)
            self._items.clear()
