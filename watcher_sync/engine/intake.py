# SPDX-License-Identifier: Apache-2.0
"""The bounded queue between the sources' threads and the engine's thread.

The queue preserves the order within a source. Each source has a limit of its own, so a fast source cannot delay a
slow one. An event counts towards the limit from its emission until the engine has acked or nacked it.

The engine takes a batch as soon as one event waits. It lingers for a fuller batch only while events are flowing, and
only for sources that emit without waiting for acks. A lone event is never delayed.
"""

from __future__ import annotations

import collections
import threading
import time
from collections.abc import Callable, Sequence

from oslo_config import cfg

from watcher_sync.events import Event
from watcher_sync.sources.base import Emit, IntakeClosed, Source

JOINED_BATCHES = 4
"""Batches that share a transaction under a backlog. Fewer commits, and fewer rows: each entity is written once."""


def max_in_hand(conf: cfg.ConfigOpts) -> int:
    """The number of events of one source that may be in hand before its emitter blocks.

    There is room for one transaction that is being committed, one that is being dispatched, and two batches that wait.
    """
    return (2 * JOINED_BATCHES + 2) * int(conf.engine.batch_size)


class Intake:
    """A bounded queue of events with their sources."""

    def __init__(self, *, limit: Callable[[], int], monotonic: Callable[[], float] = time.monotonic) -> None:
        """:param limit: the number of events of one source that may be in hand; called at every emission."""
        self._limit = limit
        self._monotonic = monotonic
        # Guards all attributes below. Notified when events arrive, when some are done, and when the intake closes.
        self._changed = threading.Condition()
        self._queue: collections.deque[tuple[Source, Sequence[Event]]] = collections.deque()
        self._in_hand: collections.Counter[Source] = collections.Counter()
        self._closed = False
        self._last_taken = -1e9

    def emitter(self, source: Source) -> Emit:
        """The function with which this source emits. It blocks at the limit and raises IntakeClosed."""

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
        """The next events with their sources; empty when none arrived within ``timeout`` seconds.

        :param most: the maximum number of events.
        :param linger: seconds to wait for more events while they are flowing and there is room.
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
        """Count ``count`` events of the source as acked or nacked."""
        with self._changed:
            self._last_taken = self._monotonic()
            self._in_hand[source] -= count
            if self._in_hand[source] <= 0:
                del self._in_hand[source]
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
            left = list(self._queue)
            self._queue.clear()
            self._changed.notify_all()
        return left

    def waiting(self) -> int:
        """The number of events that the engine has not taken yet."""
        with self._changed:
            return sum(len(events) for _, events in self._queue)
