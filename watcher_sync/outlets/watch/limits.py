# SPDX-License-Identifier: Apache-2.0
"""How many streams there may be in the process, and of one identity. For the thread of the event loop."""

from __future__ import annotations

import collections
from collections.abc import Hashable

from watcher_sync.outlets.watch.endings import limit_reached


class Limits:
    """Counts streams. An identity is the address of a client before it has subscribed, then a user in a project."""

    def __init__(self, max_streams: int, per_identity: int) -> None:
        self._max = max_streams
        self._per_identity = per_identity
        self._count = 0
        self._of: collections.Counter[Hashable] = collections.Counter()

    @property
    def count(self) -> int:
        """The streams of the process."""
        return self._count

    def enter(self, identity: Hashable) -> None:
        """Count a stream.

        :raises StreamEnd: RESOURCE_EXHAUSTED: there are too many; nothing is counted.
        """
        if self._count >= self._max:
            raise limit_reached(f"all {self._max} streams of this process are in use")
        self._take(identity)
        self._count += 1

    def move(self, identity: Hashable, to: Hashable) -> None:
        """Count a stream for another identity.

        :raises StreamEnd: RESOURCE_EXHAUSTED: that identity has too many; nothing changes.
        """
        if identity != to:
            self._take(to)
            self._release(identity)

    def leave(self, identity: Hashable) -> None:
        """Count a stream no more."""
        self._release(identity)
        self._count -= 1

    def _take(self, identity: Hashable) -> None:
        if self._of[identity] >= self._per_identity:
            raise limit_reached(f"all {self._per_identity} streams of one caller are in use")
        self._of[identity] += 1

    def _release(self, identity: Hashable) -> None:
        self._of[identity] -= 1
        if self._of[identity] <= 0:
            del self._of[identity]
