# SPDX-License-Identifier: Apache-2.0
"""Pauses the runs of a scope that keeps failing, and decides for how long.

After a number of failures in a row the breaker opens for a while. Then it lets one attempt through. A success closes
it. A failure opens it again for twice as long, up to an hour.
"""

from __future__ import annotations

from watcher_sync.backoff import doubled

_MAX_PAUSE_SECONDS = 3600.0


class Breaker:
    """One breaker. The caller guards it, and passes the time."""

    def __init__(self) -> None:
        self.failures = 0
        """In a row."""
        self.until: float | None = None
        """Until when it is open, or was at last; None while it is closed."""

    def is_open(self, now: float) -> bool:
        """Whether nothing is to be attempted now."""
        return self.until is not None and now < self.until

    def failed(self, now: float, *, threshold: int, seconds: float) -> float | None:
        """One more failure.

        :param threshold: failures in a row that it takes to open.
        :param seconds: for how long it opens at first.
        :returns: for how many seconds it is open now; None when it stays closed.
        """
        self.failures += 1
        if self.failures < threshold:
            return None
        pause = doubled(seconds, _MAX_PAUSE_SECONDS, self.failures - threshold)
        self.until = now + pause
        return pause

    def succeeded(self) -> None:
        """It works: closed, and as if it had never failed."""
        self.failures = 0
        self.until = None
