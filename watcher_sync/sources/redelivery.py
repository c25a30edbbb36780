# SPDX-License-Identifier: Apache-2.0
"""Emits events again that the engine did not commit, each batch after its delay.

It is for transports that deliver nothing again, such as a cluster or a stream of RabbitMQ. The events are unchanged,
so the ordering guard recognises those that are stale by then.

One thread of its own emits; it starts with the first batch. The methods are for any thread.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Sequence
from typing import Final

from oslo_log import log as logging

from watcher_sync.events import Event
from watcher_sync.sources.base import Emit, IntakeClosed

LOG = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 1.0
"""After an unexpected error."""


class Redelivery:
    """The batches that wait to be emitted again."""

    def __init__(self, name: str, emit: Emit) -> None:
        """:param name: of the thread."""
        self._name = name
        self._emit = emit
        self._numbers = itertools.count()
        # Guards the attributes below; notified when a batch arrives, and at the stop.
        self._condition = threading.Condition()
        self._batches: list[tuple[float, int, Sequence[Event]]] = []
        """A heap of (``time.monotonic()`` when due, number of arrival, events)."""
        self._stopping = False
        self._thread: threading.Thread | None = None

    def add(self, events: Sequence[Event], delay: float) -> None:
        """Emit these events again after the delay in seconds, unless the redelivery stops before."""
        with self._condition:
            if self._stopping:
                return
            heapq.heappush(self._batches, (time.monotonic() + delay, next(self._numbers), events))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._condition.notify_all()

    def begin_stop(self) -> None:
        """Emit no further batch."""
        with self._condition:
            self._stopping = True
            self._condition.notify_all()

    def join(self, timeout: float) -> None:
        """Wait so many seconds for the thread to end."""
        if self._thread is not None:
            self._thread.join(max(0.0, timeout))

    def _run(self) -> None:
        while (events := self._next()) is not None:
            try:
                self._emit(events)
            except IntakeClosed:
                return
            except Exception:  # the edge of the thread
                LOG.exception("%s: a batch could not be emitted, retrying", self._name)
                self.add(events, _RETRY_SECONDS)

    def _next(self) -> Sequence[Event] | None:
        """Wait for a batch that is due; None at the stop."""
        with self._condition:
            while not self._stopping:
                left = self._batches[0][0] - time.monotonic() if self._batches else None
                if left is not None and left <= 0:
                    return heapq.heappop(self._batches)[2]
                self._condition.wait(left)
            return None
