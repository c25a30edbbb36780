# SPDX-License-Identifier: Apache-2.0
"""The event loop of a source that is to stop: attempts end, waits end, and no task survives."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from tests.waiting import deadline
from watcher_sync.sources.session_loop import SessionLoop, Stopped, end_task

pytestmark = pytest.mark.timeout(120)


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
        await end_task(task)
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
        await end_task(task)
        return time.monotonic() - began

    assert asyncio.run(run()) < 30


def test_an_error_of_a_task_that_is_ended_is_not_raised() -> None:
    async def fail() -> None:
        raise OSError("gone")

    async def run() -> None:
        task = asyncio.create_task(fail())
        await asyncio.sleep(0)
        await end_task(task)

    asyncio.run(run())


def test_a_stop_ends_the_attempt_of_another_thread() -> None:
    stopping = threading.Event()
    loop = SessionLoop(stopping)

    async def run() -> str:
        loop.start()
        try:
            await loop.unless_stopped(asyncio.sleep(60))
        except Stopped:
            return "stopped"
        return "slept"

    def stop() -> None:
        while not loop.attempting:
            time.sleep(0.001)
        stopping.set()
        loop.cancel_attempt()

    threading.Thread(target=stop, daemon=True).start()
    assert asyncio.run(run()) == "stopped"


def test_nothing_is_attempted_after_the_stop() -> None:
    stopping = threading.Event()
    loop = SessionLoop(stopping)
    began: list[int] = []

    async def attempt() -> None:
        began.append(1)

    async def run() -> None:
        loop.start()
        stopping.set()
        with pytest.raises(Stopped):
            await loop.unless_stopped(attempt())

    asyncio.run(run())
    assert began == []


def test_a_stop_ends_the_wait_before_the_next_attempt() -> None:
    stopping = threading.Event()
    loop = SessionLoop(stopping)

    async def run() -> float:
        loop.start()
        stopping.set()
        began = time.monotonic()
        await loop.pause(30.0)
        return time.monotonic() - began

    assert asyncio.run(run()) < 20


def test_a_wake_from_another_thread_ends_a_wait_and_one_after_the_loop_does_nothing() -> None:
    loop = SessionLoop(threading.Event())

    async def run() -> float:
        loop.start()
        threading.Timer(0.05, loop.wake).start()
        began = time.monotonic()
        await loop.wait(deadline(60))
        return time.monotonic() - began

    loop.wake()
    assert asyncio.run(run()) < 30
    loop.wake()
