# SPDX-License-Identifier: Apache-2.0
"""What a watch has delivered: the sequence of its newest event, and the error that ended it.

The watch's thread notes the events, and the follower's thread waits. The events themselves are not retained: they have
the fields that changed, and the follower reads whole states. The first event after each wait wakes it.
"""

from __future__ import annotations

import threading

from watcher_sync.client.watch import WatchError, WatchEvent


class Arrivals:
    """Both consumers of a watch: :meth:`note` for its events, and :meth:`end` for its error."""

    def __init__(self) -> None:
        self._changed = threading.Event()
        self.newest = 0
        """The sequence of the newest event; 0: none has come."""
        self.error: WatchError | None = None
        """Why the watch ended; None: it has not."""

    def note(self, event: WatchEvent) -> None:
        """An event has come."""
        self.newest = max(self.newest, event.sequence)
        if not self._changed.is_set():
            self._changed.set()

    def end(self, error: WatchError) -> None:
        """The watch has ended."""
        self.error = error
        self._changed.set()

    def wait(self, seconds: float) -> None:
        """Wait for an event or the end, but not for longer."""
        self._changed.wait(seconds)
        self._changed.clear()
