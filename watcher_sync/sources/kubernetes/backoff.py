# SPDX-License-Identifier: Apache-2.0
"""The pauses between the attempts of one reflector: a jittered exponential back-off.

Belongs to the thread of one reflector.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_FIRST_PAUSE_SECONDS: Final = 0.2
_MAX_DOUBLINGS: Final = 16


class Backoff:
    """Counts consecutive failures, and gives the pause after each."""

    def __init__(self, limit: float, jitter: Callable[[float, float], float]) -> None:
        """:param limit: seconds of the longest pause, unless the server asks for a longer one.

        :param jitter: returns a number between its two arguments.
        """
        self.failures = 0
        """Consecutive failures; the caller resets it after a success."""
        self._limit = limit
        self._jitter = jitter

    def pause(self, retry_after: float | None) -> float:
        """Return the seconds to wait after the last failure.

        :param retry_after: seconds that the server asks for.
        """
        ceiling = min(self._limit, _FIRST_PAUSE_SECONDS * 2 ** min(self.failures - 1, _MAX_DOUBLINGS))
        pause = self._jitter(ceiling / 2, ceiling)
        if retry_after is None:
            return pause
        # The jitter spreads clients that all got the same Retry-After.
        return retry_after + min(pause, 0.1 * retry_after)
