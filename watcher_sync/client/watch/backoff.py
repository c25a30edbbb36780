# SPDX-License-Identifier: Apache-2.0
"""Full-jitter exponential back-off: the n-th pause is uniform between 0 and ``min(max, min * 2**n)`` seconds.

Full jitter spreads the clients of a server that restarts. It does no I/O and reads no clock.
"""

from __future__ import annotations

import random

MIN_SECONDS = 1.0
MAX_SECONDS = 60.0

_MAX_EXPONENT = 30
"""Beyond it, every maximum is reached; a larger power of 2 would overflow a float at some time."""


class Backoff:
    """The pauses between attempts. Used by one thread.

    :ivar failures: attempts that failed since the last :meth:`reset`.
    """

    def __init__(
        self, min_seconds: float = MIN_SECONDS, max_seconds: float = MAX_SECONDS, rng: random.Random | None = None
    ) -> None:
        """:param min_seconds: the upper bound of the first pause.

        :param max_seconds: the upper bound of every pause.
        """
        self.failures = 0
        self._min = min_seconds
        self._max = max_seconds
        self._rng = rng or random.Random()

    def next(self) -> float:
        """The seconds to wait after another failure."""
        bound = min(self._max, self._min * 2.0 ** min(self.failures, _MAX_EXPONENT))
        self.failures += 1
        return self._rng.uniform(0.0, bound)

    def reset(self) -> None:
        """Starts again with the shortest pause, after an attempt that succeeded."""
        self.failures = 0
