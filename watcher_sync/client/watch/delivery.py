# SPDX-License-Identifier: Apache-2.0
"""Hands events and errors to their consumer: a queue or a function.

A full queue and a slow function delay the delivery, and nothing else. The stream is read meanwhile, and its events wait
in a bounded buffer.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from watcher_sync.client.watch.errors import ConsumerFailed

T_contra = TypeVar("T_contra", contravariant=True)
T = TypeVar("T")

_PUT_SECONDS = 0.2
"""How often a delivery to a full queue checks whether the watch is closed."""


class QueueLike(Protocol[T_contra]):
    """A queue, such as :class:`queue.Queue` or :class:`queue.SimpleQueue`."""

    def put(self, item: T_contra, block: bool = ..., timeout: float | None = ...) -> Any:
        """Adds an item; raises :class:`queue.Full` after the timeout."""
        ...


Consumer = QueueLike[T] | Callable[[T], Any]
"""A queue, or a function that gets each item. A watch calls the function in the watch's own thread."""


class Handover(Generic[T]):
    """A consumer that another thread or an event loop takes items from, one at a time.

    An item counts as delivered when the taker is finished with it. So a crash loses none that was taken.
    """

    def __init__(self, wake: Callable[[], object]) -> None:
        """:param wake: is called when an item waits. It must not wait."""
        self._wake = wake
        self._item: T | None = None
        self._finished: T | None = None
        self._changed = threading.Condition()
        """Guards the items."""

    def put(self, item: T, block: bool = True, timeout: float | None = None) -> None:
        """Offers an item, and returns when the taker is finished with it. A repetition waits on.

        :raises queue.Full: after so many seconds; the item is still offered.
        """
        with self._changed:
            if self._item is not item and self._finished is not item:
                self._item = item
                self._wake()
            if not self._changed.wait_for(lambda: self._finished is item, timeout):
                raise queue.Full
            self._finished = None

    def take(self) -> T | None:
        """The item that waits; None: none does."""
        with self._changed:
            return self._item

    def finish(self) -> None:
        """The taker is finished with the item."""
        with self._changed:
            self._finished, self._item = self._item, None
            self._changed.notify_all()


class WatchDelivery(Generic[T]):
    """Hands items to one consumer until the watch is closed."""

    def __init__(self, consumer: Consumer[T], closing: threading.Event) -> None:
        self._consumer = consumer
        self._closing = closing

    def deliver(self, item: T) -> bool:
        """Delivers an item. Waits while the queue is full.

        :returns: False if the watch was closed before the consumer got the item.
        :raises ConsumerFailed: when the function raises.
        """
        consumer = self._consumer
        if callable(consumer):
            if self._closing.is_set():
                return False
            try:
                consumer(item)
            except Exception as exc:
                raise ConsumerFailed(f"the consumer of the events failed: {type(exc).__name__}") from exc
            return True
        while not self._closing.is_set():
            try:
                consumer.put(item, True, _PUT_SECONDS)
            except queue.Full:
                continue
            return True
        return False
