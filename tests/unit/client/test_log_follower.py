# SPDX-License-Identifier: Apache-2.0
"""The pauses of a follower of a log, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import NoReturn

import pytest

from tests.waiting import deadline
from watcher_sync.client.log.follower import LogFollower
from watcher_sync.client.log.received import LogMessage, ModelBegins
from watcher_sync.client.log.servers import Closed
from watcher_sync.client.log.stored import marker_of


async def refuse(_closed: Closed) -> NoReturn:
    raise OSError("away")


def test_the_begin_of_another_reading_forgets_no_failure_and_a_later_message_does() -> None:
    follower = LogFollower(refuse, "s", [])
    try:
        follower._backoff.failed(at=7)
        follower._cursor = 3
        follower._put(ModelBegins(b"", "purged", 3))
        assert follower._backoff.failures == 1
        assert follower.is_connected
        follower._cursor = 8
        follower._put(LogMessage(8, b"", of_model=False))
        assert follower._backoff.failures == 0
    finally:
        follower.start()
        follower.close()


def test_a_follower_ends_though_an_answer_arrives_together_with_its_cancellation() -> None:
    """The library's requests use ``asyncio.wait_for``, which drops the cancellation then (before Python 3.12)."""
    waits = threading.Event()

    async def connect(_closed: Closed) -> NoReturn:
        if not waits.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                waits.set()
                await asyncio.Event().wait()
        await asyncio.Event().wait()
        raise AssertionError

    follower = LogFollower(connect, "s", [])
    follower.start()
    assert waits.wait(deadline(60))
    follower.close()
    assert not follower._thread.is_alive()


@pytest.mark.parametrize(
    ("subject", "marker"),
    [
        ("w.p._snapshot.begin", "snapshot_begin"),
        ("w.p._snapshot.end", "snapshot_end"),
        ("w.p._snapshot.other", ""),
        ("w.p.instance.begin", ""),
    ],
)
def test_a_subject_names_the_marker_of_a_snapshot(subject: str, marker: str) -> None:
    assert marker_of(subject) == marker
