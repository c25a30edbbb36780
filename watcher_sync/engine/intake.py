# SPDX-License-Identifier: Apache-2.0
"""Where the sources' threads hand events to the engine's thread.

The order within a source is kept. A source is held back when enough of its events are in hand, and only
that source: one that is fast cannot push out one that is slow. An event is in hand from its emission
until the engine has acked or released it.

A batch is taken as soon as there is something to take. Only while events are flowing, and only for
sources that go on emitting without waiting for acks, is it worth to linger for a fuller batch; an event
that comes alone is never delayed.
"""

from __future__ import annotations

import collections
import threading
import time
from collections.abc import Callable, Sequence

from oslo_config import cfg

from watcher_sync.events import Event
from watcher_sync.sources.base import Emit, IntakeClosed, Source

JOINED = 4
"""Batches that are committed together while so many wait: the fewer commits, and the fewer rows, because what they do
to one entity is written once."""


def most_in_hand(conf: cfg.ConfigOpts) -> int:
    """How many events of one source may be in hand before it has to wait.

    There is room for what is under way to the database, for as much that is dispatched meanwhile, and for two batches
    that wait.
    """
    return (2 * JOINED + 2) * int(conf.engine.batch_size)


class Intake:
    """A bounded queue of events with their sources."""

    def __init__(self, *, limit: Callable[[], int], monotonic: Callable[[], float] = time.monotonic) -> None:
        """:param limit: how many events of one source may be in hand, asked at every emission."""
        self._limit = limit
        self._monotonic = monotonic
        # Guards all that follows; notified when events come, when some are done, and at closing.
        self._changed = threading.Condition()
        self._queue: collections.deque[tuple[Source, Sequence[Event]]] = collections.deque()
        self._in_hand: collections.Counter[Source] = collections.Counter()
        self._closed = False
        self._last_taken = -1e9

    def emitter(self, source: Source) -> Emit:
        """The function that this source emits with."""

        def emit(events: Sequence[Event]) -> None:
            if not events:
                return
            with self._changed:
                while not self._closed and self._in_hand[source] >= self._limit():
                    self._changed.wait(1.0)
                if self._closed:
                    raise IntakeClosed
                self._in_hand[source] += len(events)
                self._queue.append((source, events))
                self._changed.notify_all()

        return emit

    def take(self, most: int, *, linger: float, timeout: float) -> list[tuple[Source, Sequence[Event]]]:
        """The next events, at most ``most`` of them, with their sources; empty after ``timeout`` seconds.

        :param linger: seconds to wait for more when events are flowing and there is room.
        """
        with self._changed:
            if not self._queue and not self._closed:
                self._changed.wait(timeout)
            if not self._queue:
                return []
            flowing = self._monotonic() - self._last_taken <= linger
            if flowing and linger > 0 and any(not source.waits_for_ack for source, _ in self._queue):
                deadline = self._monotonic() + linger
                while sum(len(e) for _, e in self._queue) < most and not self._closed:
                    left = deadline - self._monotonic()
                    if left <= 0:
                        break
                    self._changed.wait(left)
            taken: list[tuple[Source, Sequence[Event]]] = []
            room = most
            while self._queue and room > 0:
                source, events = self._queue.popleft()
                if len(events) > room:
                    self._queue.appendleft((source, events[room:]))
                    events = events[:room]
                taken.append((source, events))
                room -= len(events)
            return taken

    def done(self, source: Source, count: int) -> None:
        """So many events of the source are acked or released."""
        with self._changed:
            self._last_taken = self._monotonic()
            self._in_hand[source] -= count
            if self._in_hand[source] <= 0:
                del self._in_hand[source]
            self._changed.notify_all()

    def wake(self) -> None:
        """Have :meth:`take` return now."""
        with self._changed:
            self._changed.notify_all()

    def open(self) -> None:
        """Take events (again)."""
        with self._changed:
            self._closed = False

    def close(self) -> list[tuple[Source, Sequence[Event]]]:
        """Take nothing more; what was not taken by the engine, to be released."""
        with self._changed:
            self._closed = True
            left = list(self._queue)
            self._queue.clear()
            self._changed.notify_all()
        return left

    def waiting(self) -> int:
        """How many events wait to be taken."""
        with self._changed:
            return sum(len(events) for _, events in self._queue)
