# SPDX-License-Identifier: Apache-2.0
"""The events that a watch has delivered and that the follower has not handled yet.

The watch's thread puts, and the follower's thread takes all at once. A queue would wake the follower for each event,
and the two threads would hand the interpreter's lock to each other.
"""

from __future__ import annotations

import queue
import threading
from typing import Generic, TypeVar

T = TypeVar("T")


class Received(Generic[T]):
    """A bounded queue whose items are taken together. It fits a watch as the consumer of its events."""

    def __init__(self, limit: int) -> None:
        """:param limit: the items that may wait."""
        self._limit = limit
        self._changed = threading.Condition()  # guards the items
        self._items: list[T] = []

    def put(self, item: T, block: bool = True, timeout: float | None = None) -> None:
        """Add an item.

        :raises queue.Full: there is no room, also after the timeout.
        """
        with self._changed:
            if len(self._items) >= self._limit:
                has_room = block and self._changed.wait_for(lambda: len(self._items) < self._limit, timeout)
                if not has_room:
                    raise queue.Full
            self._items.append(item)
            if len(self._items) == 1:
                self._changed.notify_all()

    def take(self, timeout: float) -> list[T]:
        """Wait for the first item, and return all that there are, in order; none after the timeout."""
        with self._changed:
            self._changed.wait_for(lambda: self._items, timeout)
            items, self._items = self._items, []
            self._changed.notify_all()
        return items
