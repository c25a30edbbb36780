# SPDX-License-Identifier: Apache-2.0
"""The bounded queue between the sources' threads and the engine's thread.

The queue preserves the order within a source. An event counts towards the limits of its source, in events and in
bytes, from its emission until the engine has acked or nacked it. A list above the bytes passes alone.

A fast source cannot delay a slow one. Each source has its own limits, and an equal share of a batch. What one source
leaves of it, the others use.

The engine takes a batch as soon as one event waits. It lingers for a fuller batch only while events are flowing, and
only for sources that emit without waiting for acks. A lone event is not delayed.
"""

from __future__ import annotations

import collections
import threading
import time
from collections.abc import Callable, Sequence

import msgspec

from watcher_sync.events import Event
from watcher_sync.sources.base import Emit, IntakeClosed, Source
from watcher_sync.wire.envelopes import UNDECODABLE_TYPE
from watcher_sync.wire.limits import MAX_TEXT_CHARS

JOINED_BATCHES = 4
"""Batches that share a transaction under a backlog. Fewer commits, and fewer rows: each entity is written once."""

_BATCHES_IN_HAND = 2 * JOINED_BATCHES + 2


def _named(event: Event) -> Event:
    """The event, or an undecodable one if its type is no name. Types are keys of caches and marks, so all are short."""
    if len(event.type) <= MAX_TEXT_CHARS and event.type.isprintable():
        return event
    why = f"type: {len(event.type)} characters; {MAX_TEXT_CHARS} printable ones are allowed"
    return msgspec.structs.replace(event, type=UNDECODABLE_TYPE, undecodable=event.undecodable or why)


class IntakeLimits(msgspec.Struct, frozen=True):
    """The limits of the intake. ``[engine]`` itself serves, too: a reload of its values then counts."""

    batch_size: int = 500
    """Events; read at every emission."""
    max_bytes_in_hand: int = 2**24
    """Of one source; read at every emission."""


def max_in_hand(limits: IntakeLimits) -> int:
    """The number of events of one source that may be in hand before its emitter blocks.

    There is room for one transaction that is being committed, one that is being dispatched, and two batches that wait.
    """
    return _BATCHES_IN_HAND * limits.batch_size


def max_batch_bytes(limits: IntakeLimits) -> int:
    """The bytes of a batch above which the engine adds no further event to it."""
    return max(1, limits.max_bytes_in_hand // _BATCHES_IN_HAND)


def size_of(events: Sequence[Event]) -> int:
    """The bytes of these events, as their transports delivered them."""
    return sum([event.size for event in events])


class Intake:
    """A bounded queue of events with their sources."""

    def __init__(self, limits: IntakeLimits, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._monotonic = monotonic
        # Guards all attributes below. Notified when events arrive, when some are done, and when the intake closes.
        self._changed = threading.Condition()
        self._queues: dict[Source, collections.deque[Sequence[Event]]] = {}
        """The events that wait, by source. The next batch begins with the first source; none is empty."""
        self._waiting = 0
        """Their number."""
        self._bytes_waiting = 0
        self._in_hand: collections.Counter[Source] = collections.Counter()
        self._bytes_in_hand: collections.Counter[Source] = collections.Counter()
        self._closed = False
        self._last_taken = -1e9

    def emitter(self, source: Source) -> Emit:
        """The function with which this source emits. It blocks at the limit and raises IntakeClosed."""

        def emit(events: Sequence[Event]) -> None:
            if not events:
                return
            if [event for event in events if len(event.type) > MAX_TEXT_CHARS or not event.type.isprintable()]:
                events = [_named(event) for event in events]
            size = size_of(events)
            with self._changed:
                while not self._closed and self._is_full(source, size):
                    self._changed.wait(1.0)
                if self._closed:
                    raise IntakeClosed
                self._in_hand[source] += len(events)
                self._bytes_in_hand[source] += size
                self._bytes_waiting += size
                self._queues.setdefault(source, collections.deque()).append(events)
                self._waiting += len(events)
                self._changed.notify_all()

        return emit

    def _is_full(self, source: Source, more: int) -> bool:
        """Whether the source has to wait before it emits so many more bytes."""
        if self._in_hand[source] >= max_in_hand(self._limits):
            return True
        return self._in_hand[source] > 0 and self._bytes_in_hand[source] + more > self._limits.max_bytes_in_hand

    def take(
        self, most: int, *, linger: float, timeout: float, most_bytes: int = 2**62
    ) -> list[tuple[Source, Sequence[Event]]]:
        """The next events with their sources; empty when none arrived within ``timeout`` seconds.

        :param most: the maximum number of events.
        :param most_bytes: their maximum bytes. One event of each source passes in any case.
        :param linger: seconds to wait for more events while they are flowing and there is room.
        """
        with self._changed:
            if not self._queues and not self._closed:
                self._changed.wait(timeout)
            if not self._queues:
                return []
            flowing = self._monotonic() - self._last_taken <= linger
            if flowing and linger > 0 and any(not source.waits_for_ack for source in self._queues):
                deadline = self._monotonic() + linger
                while self._waiting < most and self._bytes_waiting < most_bytes and not self._closed:
                    left = deadline - self._monotonic()
                    if left <= 0:
                        break
                    self._changed.wait(left)
            taken: list[tuple[Source, Sequence[Event]]] = []
            room, room_bytes = most, most_bytes
            while self._queues and room > 0 and room_bytes > 0:
                count, size = self._take_shares(room, room_bytes, taken)
                room -= count
                room_bytes -= size
                self._waiting -= count
                self._bytes_waiting -= size
            return taken

    def _take_shares(self, room: int, room_bytes: int, taken: list[tuple[Source, Sequence[Event]]]) -> tuple[int, int]:
        """Take an equal share of the room from each source; returns the number of events and their bytes.

        A source that has more events moves behind the others. So over several batches each one is first in turn.
        """
        share, share_bytes = max(1, room // len(self._queues)), max(1, room_bytes // len(self._queues))
        left = room
        total = 0
        for source in list(self._queues):
            queue = self._queues.pop(source)
            wanted, wanted_bytes = min(share, left), share_bytes
            left -= wanted
            while queue and wanted and wanted_bytes > 0:
                events = queue.popleft()
                count, size = _fitting(events, wanted, wanted_bytes)
                if count < len(events):
                    queue.appendleft(events[count:])
                    events = events[:count]
                taken.append((source, events))
                wanted -= count
                wanted_bytes -= size
                total += size
            left += wanted
            if queue:
                self._queues[source] = queue
            if not left:
                break
        return room - left, total

    def done(self, source: Source, events: Sequence[Event]) -> None:
        """Count these events of the source as acked or nacked."""
        size = size_of(events)
        with self._changed:
            self._last_taken = self._monotonic()
            self._in_hand[source] -= len(events)
            self._bytes_in_hand[source] -= size
            if self._in_hand[source] <= 0:
                del self._in_hand[source]
                del self._bytes_in_hand[source]
            self._changed.notify_all()

    def wake(self) -> None:
        """Make a waiting :meth:`take` return."""
        with self._changed:
            self._changed.notify_all()

    def open(self) -> None:
        """Accept events."""
        with self._changed:
            self._closed = False

    def close(self) -> list[tuple[Source, Sequence[Event]]]:
        """Accept no more events; returns those that the engine has not taken, which have to be nacked."""
        with self._changed:
            self._closed = True
            left = [(source, events) for source, queue in self._queues.items() for events in queue]
            self._queues.clear()
            self._waiting = self._bytes_waiting = 0
            self._changed.notify_all()
        return left

    def waiting(self) -> int:
        """The number of events that the engine has not taken yet."""
        with self._changed:
            return self._waiting

    def bytes_waiting(self) -> int:
        """The bytes of these events."""
        with self._changed:
            return self._bytes_waiting

    def in_hand(self) -> dict[str, int]:
        """Source -> its events that are neither acked nor nacked."""
        with self._changed:
            return {source.name: count for source, count in self._in_hand.items()}

    def bytes_in_hand(self) -> dict[str, int]:
        """Source -> the bytes of its events that are neither acked nor nacked."""
        with self._changed:
            return {source.name: size for source, size in self._bytes_in_hand.items()}


def _fitting(events: Sequence[Event], room: int, room_bytes: int) -> tuple[int, int]:
    """How many of the first events there is room for, at least one, and their bytes."""
    size = size_of(events)
    if len(events) <= room and size <= room_bytes:
        return len(events), size
    count = size = 0
    for event in events[:room]:
        if count and size + event.size > room_bytes:
            break
        count += 1
        size += event.size
    return count, size
