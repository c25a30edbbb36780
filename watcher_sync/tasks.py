# SPDX-License-Identifier: Apache-2.0
"""Ends tasks of an event loop. For its thread."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any


async def end_tasks(tasks: Collection[asyncio.Task[Any]], *, again: float = 0.05) -> None:
    """Cancel tasks until they have ended; what they raise is dropped.

    One cancellation is not enough: before Python 3.12, ``asyncio.wait_for`` returns a result that arrives together
    with the cancellation, and the task goes on. Libraries use it, so a task that calls one may do the same.

    :param again: seconds after which they are cancelled again: longer than they need to clean up.
    """
    while left := [task for task in tasks if not task.done()]:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=again)
    for task in tasks:
        if not task.cancelled():
            task.exception()
