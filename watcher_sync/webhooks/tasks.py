# SPDX-License-Identifier: Apache-2.0
"""The tasks of one session: they are cancelled with it, and an unexpected error of one ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class Tasks:
    """Tasks in the running event loop. For its thread."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """:param wake: called when a task failed."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._wake = wake
        self._error: BaseException | None = None

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin a task."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def check(self) -> None:
        """:raises Exception: whatever ended a task unexpectedly."""
        if self._error is not None:
            raise self._error

    async def wait(self, seconds: float) -> None:
        """Wait for the tasks under way, at most so long."""
        tasks = [task for task in self._tasks if not task.done()]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)

    async def cancel(self) -> None:
        """End all tasks."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._error = error
            self._wake()
