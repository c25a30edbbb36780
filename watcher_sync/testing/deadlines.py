# SPDX-License-Identifier: Apache-2.0
"""Deadlines of tests and of the demonstration. A slow or busy machine has more time.

A deadline counts the processor time that the machine could give. Two things make its clock slow: a processor slower
than the reference, and more runnable threads than processors. The first is measured once a process. The second is read
whenever the deadline is asked, if the system tells it.

So a deadline of 60 seconds is a bound on work, and never a measurement. For any thread.
"""

from __future__ import annotations

import functools
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

_REFERENCE_SECONDS = 0.0032
"""Processor time of :func:`_work` on the machine of the budgets."""

_LONGEST_PAUSE_SECONDS = 5.0
"""A longer time between two questions counts as this: the waiting process itself did not run."""

_LOAD = Path("/proc/loadavg")


class Deadline:
    """The end of a wait. The waiting loop asks it after each reading of its condition."""

    def __init__(
        self,
        seconds: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        slowness: Callable[[], float] | None = None,
    ) -> None:
        """:param seconds: the time on an idle reference machine.
        :param clock: seconds that never go back.
        :param slowness: how many times slower the machine is now; default: measured.
        """
        self._left = seconds
        self._clock = clock
        self._slowness = slowness if slowness is not None else current_slowness
        self._asked = clock()

    @property
    def is_over(self) -> bool:
        """Whether the machine could have given the time. The loop reads its condition once more after this."""
        now = self._clock()
        self._left -= min(now - self._asked, _LONGEST_PAUSE_SECONDS) / self._slowness()
        self._asked = now
        return self._left <= 0


def deadline(seconds: float) -> float:
    """The timeout of a blocking call, in seconds of this machine.

    :param seconds: the timeout on an idle reference machine.
    """
    return seconds * max(current_slowness(), processor_slowness() * _recent_load())


def current_slowness() -> float:
    """How many times longer than on an idle reference machine work takes now; at least 1."""
    return processor_slowness() * max(1.0, _runnable() / _processors())


@functools.cache
def processor_slowness() -> float:
    """How many times more processor time than the reference this machine needs; at least 1. Measured once a process."""
    return max(1.0, statistics.median(_work_seconds() for _ in range(5)) / _REFERENCE_SECONDS)


def _work_seconds() -> float:
    began = time.thread_time()
    _work()
    return time.thread_time() - began


def _work() -> None:
    """Make and find small objects, which is most of what the tests do."""
    found: dict[str, tuple[int, str]] = {}
    for number in range(20_000):
        found[f"i-{number % 997}"] = (number, "active")


def _runnable() -> int:
    """Threads of the machine that run or wait for a processor; 0: unknown."""
    try:
        return int(_LOAD.read_text().split()[3].partition("/")[0])
    except OSError:
        return 0


def _recent_load() -> float:
    """Runnable threads for each processor in the last minute; at least 1."""
    try:
        return max(1.0, os.getloadavg()[0] / _processors())
    except OSError:
        return 1.0


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
