# SPDX-License-Identifier: Apache-2.0
"""Merges the live stream of one topic with events that a catch-up brings. Pure: no I/O, no clock, no lock.

Guarantees:

* ``take`` and ``accept`` give each sequence at most once, in ascending order.
* The watermark is contiguous: no event up to it is missing, as far as the service shows.
* At most ``limit`` entries wait. What arrives beyond is dropped, and a catch-up brings it again.

``take`` asks for a catch-up when a connection begins, at a gap, and after an overflow. It asks again at the first event
without a previous sequence. A stock service does not confirm the first Request, so its stream may begin after the
first catch-up.
Without a watermark (0) there is no catch-up.
"""

from __future__ import annotations

import collections
import heapq
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

MAX_LAGGING = 3
"""After so many catch-ups without an event that the stream showed, the buffer goes on without it."""


class Missing(NamedTuple):
    """Events after ``after`` may be missing, so a catch-up is necessary.

    :ivar before: the last missing event, if the stream shows a gap; else None.
    """

    after: int
    before: int | None


class Ready(NamedTuple, Generic[T]):
    """The next event in order."""

    sequence: int
    item: T


class _HeapEntry(NamedTuple):
    sequence: int
    order: int
    """Decides between equal sequences: the order of arrival."""
    previous: int | None
    is_bookmark: bool


class MergeBuffer(Generic[T]):
    """The live events of one topic that wait, and the watermark.

    :ivar watermark: the sequence up to which nothing is missing; 0 if there is no begin yet.
    :ivar dropped: events that were not newer than the watermark.
    :ivar overflows: live events that found the buffer full.
    """

    def __init__(self, watermark: int, limit: int) -> None:
        """:param watermark: the sequence to resume after; 0: the first event is the begin.

        :param limit: the maximum number of entries that wait.
        """
        self.watermark = watermark
        self.dropped = 0
        self.overflows = 0
        self._limit = limit
        self._entries: list[_HeapEntry] = []  # a heap
        self._items: dict[int, T] = {}
        """Order of arrival -> the event. It is apart because a heap compares tuples."""
        self._unordered: collections.deque[T] = collections.deque()
        self._arrivals = 0
        self._must_catch_up = False
        self._is_overflowed = False
        self._is_verified = False
        """Whether the stream of this connection is known to begin at or before the watermark."""
        self._newest = 0
        """The newest live event of this connection, dropped or not."""
        self._expected = 0
        """The newest live event when the catch-up began: the catch-up must reach it."""
        self._had_entries = False
        """Whether an entry of this connection waited when the catch-up began."""
        self._lagging = 0
        """Catch-ups in succession that did not reach ``_expected``."""
        self._trusted = 0
        """Events up to here are delivered in spite of a gap, because no catch-up brings what is missing."""

    def __len__(self) -> int:
        return len(self._entries) + len(self._unordered)

    def connect(self) -> None:
        """A new stream begins. What waits is dropped, because the catch-up brings it again."""
        self._entries.clear()
        self._items.clear()
        self._newest = self._trusted = self._expected = self._lagging = 0
        self._is_overflowed = False
        self._is_verified = self.watermark == 0
        self._must_catch_up = self.watermark > 0

    def add(self, sequence: int, previous: int | None, item: T) -> None:
        """Adds a live event. One without a sequence (0) has no place in the order, and is ready at once."""
        if sequence <= 0:
            if self._has_room():
                self._unordered.append(item)
            return
        if sequence <= self.watermark:
            self.dropped += 1
            return
        self._newest = max(self._newest, sequence)  # a catch-up must reach a dropped event, too
        if self._has_room():
            self._items[self._push(sequence, previous, is_bookmark=False)] = item

    def bookmark(self, sequence: int) -> None:
        """The service says that it has sent all events up to this sequence."""
        # After an overflow, the events before the bookmark are not here; the next bookmark is soon enough.
        if sequence > self.watermark and not self._is_overflowed and len(self) < self._limit:
            self._push(sequence, None, is_bookmark=True)

    def take(self) -> Ready[T] | Missing | None:
        """The next event in order, or the reason for a catch-up; None if nothing waits."""
        if self._unordered:
            return Ready(0, self._unordered.popleft())
        while self._entries:
            head = self._entries[0]
            if head.sequence <= self.watermark:
                self.dropped += not self._pop().is_bookmark
                continue
            missing = self._missing_before(head)
            if missing is not None:
                return missing
            if head.previous is not None:
                self._must_catch_up, self._is_verified = False, True
            self.watermark = head.sequence
            item = self._items.get(head.order)
            if not self._pop().is_bookmark and item is not None:
                return Ready(head.sequence, item)
        return Missing(self.watermark, None) if self._must_catch_up or self._is_overflowed else None

    def is_contiguous(self) -> bool:
        """Whether the stream itself shows that the next event follows the watermark, so no catch-up is necessary."""
        if not self._entries:
            return False
        head = self._entries[0]
        return head.previous is not None and head.previous <= self.watermark

    def begin_catch_up(self) -> None:
        """A catch-up after the watermark begins. Live events wait until :meth:`end_catch_up`."""
        self._is_overflowed = False
        self._expected = self._newest
        self._had_entries = bool(self._entries)

    def accept(self, sequence: int) -> bool:
        """Whether an event of the catch-up is newer than the watermark, which it then moves."""
        if sequence <= self.watermark:
            self.dropped += 1
            return False
        self.watermark = sequence
        return True

    def end_catch_up(self) -> bool:
        """The catch-up reached the newest event that the service shows.

        :returns: False if it lacks an event that the stream had sent before: the service answers from a copy that
            lags, and another catch-up is necessary. After :data:`MAX_LAGGING` of them the buffer goes on without.
        """
        if self.watermark < self._expected:
            self._lagging += 1
            if self._lagging < MAX_LAGGING:
                return False
            self._trusted = self._expected
        self._lagging = 0
        self._must_catch_up = False
        if self._had_entries:  # the stream had begun before the catch-up did
            self._is_verified = True
        return True

    def trust_stream(self) -> None:
        """What waits is complete, because the service resumed the stream after the watermark. Replaces a catch-up."""
        self._trusted = max((each.sequence for each in self._entries), default=0)
        self._must_catch_up = self._is_overflowed = False
        self._is_verified = True

    def _missing_before(self, head: _HeapEntry) -> Missing | None:
        if self.watermark == 0 or head.sequence <= self._trusted:
            return None
        if head.previous is not None and head.previous <= self.watermark:
            return None
        if self._must_catch_up:
            return Missing(self.watermark, None)
        if head.previous is not None:
            return Missing(self.watermark, head.previous)
        return None if self._is_verified else Missing(self.watermark, None)

    def _has_room(self) -> bool:
        # After the first drop nothing is added, or an event without a previous sequence would hide the gap.
        if not self._is_overflowed and len(self) < self._limit:
            return True
        self._is_overflowed = True
        self.overflows += 1
        return False

    def _push(self, sequence: int, previous: int | None, *, is_bookmark: bool) -> int:
        self._arrivals += 1
        heapq.heappush(self._entries, _HeapEntry(sequence, self._arrivals, previous, is_bookmark))
        return self._arrivals

    def _pop(self) -> _HeapEntry:
        entry = heapq.heappop(self._entries)
        self._items.pop(entry.order, None)
        return entry
