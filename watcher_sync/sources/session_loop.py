# SPDX-License-Identifier: Apache-2.0
"""The event loop of a source's session: waits that other threads wake, attempts that a stop cancels, back-off.

The drivers ``nats_jetstream`` and ``rabbitmq`` run one such loop each, in a thread of their own.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

T = TypeVar("T")

BACKOFF_SECONDS: Final = (0.1, 1.0)
"""Between two attempts, at first and at most."""

_CANCEL_AGAIN_SECONDS: Final = 0.05
_MOST_REASONS: Final = 10


class Stopped(Exception):
    """The source stops; the answer is not awaited any more."""


class OutageReasons:
    """The reasons of one outage that are in the log: attempts may fail by turns for the same few reasons."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def is_new(self, reason: str) -> bool:
        """Whether the reason is to be logged. At most :data:`_MOST_REASONS` of one outage are."""
        if reason in self._known or len(self._known) >= _MOST_REASONS:
            return False
        self._known.add(reason)
        return True

    def clear(self) -> None:
        """The outage is over."""
        self._known.clear()


class SessionLoop:
    """What a session waits for. One at a time may wait.

    :param stopping: set before :meth:`cancel_attempt` is called.
    """

    def __init__(self, stopping: threading.Event) -> None:
        self._stopping = stopping
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken: asyncio.Event | None = None
        self._attempt: asyncio.Task[Any] | None = None

    # Any thread

    def wake(self) -> None:
        """Have the event loop's thread check what there is to do."""
        self._call_soon(self.set_woken)

    def cancel_attempt(self) -> None:
        """The source stops: end :meth:`unless_stopped` and every wait."""
        self._call_soon(self._cancel_attempt)

    @property
    def attempting(self) -> bool:
        """Whether an attempt is awaited."""
        return self._attempt is not None

    def _call_soon(self, call: Callable[[], None]) -> None:
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(call)

    # The loop's thread

    def start(self) -> None:
        """Use the loop that runs. Called before anything else in its thread."""
        self._woken = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def set_woken(self) -> None:
        """End the wait."""
        if self._woken is not None:
            self._woken.set()

    async def wait(self, seconds: float) -> None:
        """Until there may be work, at most so long."""
        assert self._woken is not None
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        self._woken.clear()

    async def unless_stopped(self, attempt: Coroutine[Any, Any, T]) -> T:
        """Its result, or what it raises.

        :raises Stopped: when the source stops meanwhile; the attempt is cancelled then.
        """
        task: asyncio.Task[T] = asyncio.ensure_future(attempt)
        self._attempt = task
        if self._stopping.is_set():
            task.cancel()
        try:
            result: T = await task
            return result
        except asyncio.CancelledError:
            raise Stopped from None
        finally:
            self._attempt = None

    async def pause(self, seconds: float) -> None:
        """Wait so many seconds before the next attempt; a stop ends the wait."""
        until = time.monotonic() + seconds
        while not self._stopping.is_set() and (left := until - time.monotonic()) > 0:
            await self.wait(left)

    def _cancel_attempt(self) -> None:
        if self._attempt is not None:
            self._attempt.cancel()
        self.set_woken()


async def end_task(task: asyncio.Task[None]) -> None:
    """Cancel a task until it has ended; what it raises is dropped.

    One cancellation is not enough: before Python 3.12, ``asyncio.wait_for`` returns a result that arrives together
    with the cancellation, and the task goes on.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=_CANCEL_AGAIN_SECONDS)
    if not task.cancelled():
        task.exception()
