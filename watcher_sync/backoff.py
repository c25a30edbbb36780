# SPDX-License-Identifier: Apache-2.0
"""Pauses between attempts that grow, with jitter. It does no I/O and reads no clock."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

_MAX_DOUBLINGS: Final = 30
"""Beyond it, every maximum is reached; a larger power of 2 would overflow a float at some time."""


def doubled(first: float, most: float, times: int) -> float:
    """A number that was doubled so many times, or its maximum."""
    return min(most, first * 2.0 ** min(max(times, 0), _MAX_DOUBLINGS))


class Backoff:
    """The pauses after failures in a row: each is twice as long as the one before, up to a limit, with jitter.

    Jitter spreads the clients of a server that restarts. For one thread.
    """

    def __init__(
        self,
        first: float,
        most: float,
        *,
        jitter: float = 0.5,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        """:param first: seconds of the longest first pause.

        :param most: seconds of the longest pause.
        :param jitter: the share of a pause that chance may take away, from 0 to 1.
        :param uniform: returns a number between its two arguments.
        """
        self.failures = 0
        """In a row."""
        self._failed_at: float = 0
        self._first = first
        self._most = most
        self._jitter = jitter
        self._uniform = uniform

    def failed(self, at: float = 0) -> float:
        """Count a failure. Return the seconds to wait after it.

        :param at: where the work failed, as a number that grows with it; see :meth:`moved`.
        """
        self._failed_at = at
        longest = doubled(self._first, self._most, self.failures)
        self.failures += 1
        return self._uniform(longest * (1.0 - self._jitter), longest)

    def moved(self, to: float) -> bool:
        """Count a success if the work is behind the place of the last failure; return whether that ended failures.

        A reader that begins again comes to the same place, and may fail there again.
        """
        if not self.failures or to <= self._failed_at:
            return False
        self.succeeded()
        return True

    def succeeded(self) -> None:
        """The next failure is the first one again."""
        self.failures = 0
