# SPDX-License-Identifier: Apache-2.0
"""Waiting for what other threads and processes do.

The patience measures nothing: it is longer than any pause of a loaded machine, and only a test that fails uses it up. A
test that measures says its seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

PATIENCE_SECONDS = 60.0


def wait_until(condition: Callable[[], Any], seconds: float = PATIENCE_SECONDS, what: str = "it") -> Any:
    """The condition's value once it is true.

    :raises AssertionError: when the time is over.
    """
    deadline = time.monotonic() + seconds
    while True:
        is_last = time.monotonic() >= deadline  # before the condition, which a pause of the machine may delay
        value = condition()
        if value:
            return value
        assert not is_last, f"{what} did not come true within {seconds:g} s"
        time.sleep(0.005)


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
    deadline = time.monotonic() + seconds
    while True:
        is_last = time.monotonic() >= deadline
        if condition():
            return
        assert not is_last, f"it did not come true within {seconds:g} s"
        await asyncio.sleep(0.005)
