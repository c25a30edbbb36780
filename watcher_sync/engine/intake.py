# SPDX-License-Identifier: Apache-2.0
"""The bounded queue between the sources' threads and the engine's thread.

The queue preserves the order within a source. An event counts towards the limit of its source from its emission until
the engine has acked or nacked it.

A fast source cannot delay a slow one. Each source has a limit of its own, and a batch has an equal share for each
source that has events. What one source leaves of its share, the others use.

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
        self._queues: dict[Source, collections.deque[Sequence[Event]]] = {}
        """The events that wait, by source. The next batch begins with the first source; none is empty."""
        self._waiting = 0
        """Their number."""
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
                self._queues.setdefault(source, collections.deque()).append(events)
                self._waiting += len(events)
                self._changed.notify_all()

        return emit

    def take(self, most: int, *, linger: float, timeout: float) -> list[tuple[Source, Sequence[Event]]]:
        """The next events with their sources; empty when none arrived within ``timeout`` seconds.

        :param most: the maximum number of events.
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
                while self._waiting < most and not self._closed:
                    left = deadline - self._monotonic()
                    if left <= 0:
                        break
                    self._changed.wait(left)
            taken: list[tuple[Source, Sequence[Event]]] = []
            room = most
            while self._queues and room > 0:
                room -= self._take_shares(room, taken)
            self._waiting -= most - room
            return taken

    def _take_shares(self, room: int, taken: list[tuple[Source, Sequence[Event]]]) -> int:
        """Take an equal share of the room from each source; returns the number of events.

        A source that has more events moves behind the others. So over several batches each one is first in turn.
        """
        share = max(1, room // len(self._queues))
        left = room
        for source in list(self._queues):
            queue = self._queues.pop(source)
            wanted = min(share, left)
            left -= wanted
            while queue and wanted:
                events = queue.popleft()
                if len(events) > wanted:
                    queue.appendleft(events[wanted:])
                    events = events[:wanted]
                taken.append((source, events))
                wanted -= len(events)
            left += wanted
            if queue:
                self._queues[source] = queue
            if not left:
                break
        return room - left

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
            left = [(source, events) for source, queue in self._queues.items() for events in queue]
            self._queues.clear()
            self._waiting = 0
            self._changed.notify_all()
        return left

    def waiting(self) -> int:
        """The number of events that the engine has not taken yet."""
        with self._changed:
            return self._waiting
