# SPDX-License-Identifier: Apache-2.0
"""The queue of one stream."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from watcher_sync.extensions.watch.endings import not_found
from watcher_sync.extensions.watch.stream import WatchStream


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 60))


def test_messages_leave_in_the_order_of_their_arrival() -> None:
    async def test() -> None:
        stream = WatchStream(10)
        taking = asyncio.create_task(stream.take())
        await asyncio.sleep(0)
        assert stream.push(b"1")
        assert stream.push(b"2")
        assert [await taking, await stream.take()] == [b"1", b"2"]

    run(test())


def test_a_full_queue_ends_the_stream_with_resource_exhausted() -> None:
    async def test() -> None:
        stream = WatchStream(2)
        assert stream.push(b"1")
        assert stream.push(b"2")
        assert not stream.push(b"3")
        assert (await stream.ended).status == "RESOURCE_EXHAUSTED"

    run(test())


def test_only_the_first_reason_of_an_end_counts() -> None:
    async def test() -> None:
        stream = WatchStream(2)
        stream.end(not_found("/x"))
        for _ in range(5):
            assert not stream.push(b"1")
        assert (await stream.ended).status == "NOT_FOUND"

    run(test())


def test_who_catches_up_waits_until_half_of_the_queue_is_free() -> None:
    async def test() -> None:
        stream = WatchStream(4)
        for _ in range(4):
            stream.push(b"1")
        waiting = asyncio.create_task(stream.wait_for_room())
        await stream.take()
        await asyncio.sleep(0)
        assert not waiting.done()
        await stream.take()
        await waiting

    run(test())


def test_a_queue_is_full_in_bytes_before_it_is_full_in_events() -> None:
    async def test() -> None:
        stream = WatchStream(100, max_bytes=10)
        for message in (b"12345", b"67890"):
            assert stream.push(message)
        waiting = asyncio.create_task(stream.wait_for_room())
        await asyncio.sleep(0)
        assert not waiting.done()
        await stream.take()
        await waiting
        assert stream.push(b"x" * 50)
        assert not stream.push(b"1")
        assert (await stream.ended).status == "RESOURCE_EXHAUSTED"

    run(test())


def test_an_event_beyond_all_bytes_leaves_room_when_it_was_taken() -> None:
    async def test() -> None:
        stream = WatchStream(100, max_bytes=10)
        for _ in range(3):
            assert stream.push(b"x" * 50)
            assert not stream.has_room
            await stream.take()
            assert stream.has_room

    run(test())
