# SPDX-License-Identifier: Apache-2.0
"""Waiting for what other threads and processes do.

The patience measures nothing: it is longer than any pause of a loaded machine, and only a test that fails uses it up.
Every deadline grows with the load of the machine (:mod:`watcher_sync.testing.deadlines`). A loop waits with
:func:`wait_until`, and a blocking call has the timeout ``deadline(seconds)``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from watcher_sync.testing.deadlines import Deadline, deadline

__all__ = ["PATIENCE_SECONDS", "Deadline", "deadline", "eventually", "seconds_until", "wait_until"]

PATIENCE_SECONDS = 60.0

_SHORTEST_PAUSE_SECONDS = 0.005
_LONGEST_PAUSE_SECONDS = 0.1
_PAUSE_PER_SECOND = 0.05


def _pause_after(began: float) -> float:
    """How long a wait that began then pauses before the next look, in seconds.

    A look costs processor time, of a server or a browser, too, and what takes seconds needs few of them.
    """
    waited = time.monotonic() - began
    return min(max(_SHORTEST_PAUSE_SECONDS, _PAUSE_PER_SECOND * waited), _LONGEST_PAUSE_SECONDS)


def wait_until(condition: Callable[[], Any], seconds: float = PATIENCE_SECONDS, what: str = "it") -> Any:
    """The condition's value once it is true.

    :param seconds: the time on an idle reference machine.
    :raises AssertionError: when the time is over.
    """
    limit, began = Deadline(seconds), time.monotonic()
    while True:
        is_last = limit.is_over  # before the condition, which a pause of the machine may delay
        value = condition()
        if value:
            return value
        assert not is_last, f"{what} did not come true within {seconds:g} s"
        time.sleep(_pause_after(began))


def seconds_until(condition: Callable[[], Any], seconds: float = PATIENCE_SECONDS, what: str = "it") -> float:
    """After how many seconds the condition was true.

    :raises AssertionError: when the time is over.
    """
    began = time.monotonic()
    wait_until(condition, seconds, what)
    return time.monotonic() - began


async def eventually(condition: Callable[[], Any], seconds: float = PATIENCE_SECONDS) -> None:
    """Waits in an event loop until the condition is true.

    :raises AssertionError: when the time is over.
    """
    limit, began = Deadline(seconds), time.monotonic()
    while True:
        is_last = limit.is_over
        if condition():
            return
        assert not is_last, f"it did not come true within {seconds:g} s"
        await asyncio.sleep(_pause_after(began))
