# SPDX-License-Identifier: Apache-2.0
"""The ledger of deliveries: which delivery tags are settled, and which acknowledgement may be sent.

A delivery tag belongs to its channel. Each opening of a channel is a *generation*, and a settlement of another
generation is dropped: the broker delivers that message again.

Guaranteed:

* A tag is acknowledged only after it was committed.
* An acknowledgement is cumulative. It names the highest committed tag below which nothing is unsettled.
* It always names a tag that the broker still waits for. RabbitMQ would otherwise close the channel.
* Everything committed is acknowledged in the end, if its channel remains open.

For one thread; no I/O.
"""

from __future__ import annotations

import collections
import heapq
from typing import NamedTuple

import msgspec


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
    """The deliveries of one channel, from their arrival until the broker learns of their settlement."""

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
