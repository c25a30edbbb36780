# SPDX-License-Identifier: Apache-2.0
"""Tasks end, whatever they do with a cancellation."""

from __future__ import annotations

import asyncio
import time

from watcher_sync.tasks import end_tasks


async def _swallow(answers: asyncio.Queue[int], cancelled: list[int]) -> None:
    """Poll without end, with an answer that arrives together with the cancellation, as ``wait_for`` may do it."""
    while True:
        try:
            await answers.get()
        except asyncio.CancelledError:
            cancelled.append(1)
            if len(cancelled) > 1:
                raise
        await asyncio.sleep(0)


def test_a_task_that_swallows_a_cancellation_is_cancelled_again() -> None:
    cancelled: list[int] = []

    async def run() -> None:
        task = asyncio.create_task(_swallow(asyncio.Queue(), cancelled))
        await asyncio.sleep(0)
        await end_tasks([task])
        assert task.cancelled()

    asyncio.run(run())
    assert len(cancelled) == 2


def test_a_task_that_answers_while_it_is_cancelled_ends() -> None:
    """The library's requests use ``asyncio.wait_for``, which drops the cancellation then (before Python 3.12)."""

    async def poll(answer: asyncio.Future[int]) -> None:
        await asyncio.wait_for(answer, 60)
        while True:
            await asyncio.sleep(60)

    async def run() -> float:
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(poll(answer))
        await asyncio.sleep(0.01)
        answer.set_result(1)
        began = time.monotonic()
        await end_tasks([task])
        return time.monotonic() - began

    assert asyncio.run(run()) < 30


def test_an_error_of_a_task_that_is_ended_is_not_raised() -> None:
    async def fail() -> None:
        raise OSError("gone")

    async def run() -> None:
        task = asyncio.create_task(fail())
        await asyncio.sleep(0)
        await end_tasks([task])

    asyncio.run(run())
