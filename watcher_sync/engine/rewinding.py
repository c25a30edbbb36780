# SPDX-License-Identifier: Apache-2.0
"""Which sources have to repeat events, because the database lost what they brought.

Most positions are in the database, and went back with it. Where the transport itself remembers the position, the driver
makes it go back to the one in the database (:meth:`~watcher_sync.sources.base.Source.rewind_to_cursor`). The ordering
guard recognises what is delivered again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable


class PendingRewinds:
    """The sources that have not gone back yet. For any thread."""

    def __init__(self, names: Iterable[str]) -> None:
        """:param names: of all sources."""
        self._names = tuple(names)
        self._lock = threading.Lock()  # guards the set
        self._pending: set[str] = set()

    def begin(self) -> None:
        """Have all sources go back to their positions in the database."""
        with self._lock:
            self._pending.update(self._names)

    def is_pending(self, name: str) -> bool:
        """Whether a source has to go back."""
        with self._lock:
            return name in self._pending

    def done(self, name: str) -> None:
        """A source has gone back."""
        with self._lock:
            self._pending.discard(name)
