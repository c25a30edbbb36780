# SPDX-License-Identifier: Apache-2.0
"""The event that a commit cycle dispatches now, and since when: for a watchdog in another thread.

The cycle's thread stores two attributes per event, and notices when an event has taken longer than the limit. A
handler that does not release the interpreter also keeps the watchdog from running; the event is found afterwards.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Callable
from typing import Final

from watcher_sync.events import Event

_MAX_LATE: Final = 100
"""Events that wait for the watchdog; the oldest are dropped."""


class EventInHand:
    """One thread writes, any thread reads."""

    def __init__(self) -> None:
        self.event: Event | None = None
        """The event that is dispatched now."""
        self.since = math.inf
        """When its dispatch began, by the cycle's monotonic clock. Stored before ``event``."""
        self.limit = math.inf
        """Seconds after which an event is late; the watchdog sets them."""
        self.late: collections.deque[tuple[Event, float]] = collections.deque(maxlen=_MAX_LATE)
        """Events whose dispatch has ended late, and its seconds."""

    def end(self, now: float) -> None:
        """The dispatch of the event in hand is over."""
        event = self.event
        if event is not None and now - self.since > self.limit:
            self.late.append((event, now - self.since))
        self.event = None

    def current(self, clock: Callable[[], float]) -> tuple[Event, float] | None:
        """The event in hand and the seconds since its dispatch began, for another thread."""
        event, since = self.event, self.since
        if event is None or self.event is not event:
            return None
        return event, clock() - since
