# SPDX-License-Identifier: Apache-2.0
"""What a stream gets until it joins the hub."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.extensions.watch.test_hub import HIDDEN, Site, row, run, taken, topic
from watcher_sync.extensions.watch.authentication import Caller
from watcher_sync.extensions.watch.catch_up import CatchUp
from watcher_sync.extensions.watch.endings import StreamEnding
from watcher_sync.extensions.watch.hub import WatchStats
from watcher_sync.extensions.watch.model.resources import Reader
from watcher_sync.extensions.watch.stream import WatchStream


def _caller(reader: Reader) -> Caller:
    return Caller("u", reader.project_id, reader, True, lambda _: True)


def _stream(reader: Reader, limit: int) -> WatchStream:
    stream = WatchStream(limit)
    stream.topic, stream.caller = topic(), _caller(reader)
    return stream


async def _until(condition: Callable[[], bool]) -> None:
    deadline = asyncio.get_running_loop().time() + 60
    while not condition():
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0)


def test_a_token_with_fewer_rights_counts_from_the_next_event_of_a_catch_up_on() -> None:
    async def test(site: Site) -> None:
        await site.write(*(row(seq) for seq in range(1, 21)))
        stream = _stream(Reader(), 4)
        catching_up = asyncio.create_task(site.catch_up.start(stream, 0))
        await _until(lambda: stream.reached == 3)
        stream.caller = _caller(Reader("p", HIDDEN))
        events = await taken(stream, 20)
        await catching_up
        assert [each.metadata.sequenceID for each in events] == list(range(1, 21))
        shown = ["host" in each.payload.attributes for each in events]
        assert shown == [True] * 3 + [False] * 17
        assert site.hub.has(stream)

    run(test)


def test_other_rights_have_their_values_read_though_the_changes_are_in_memory_for_the_first() -> None:
    async def test(site: Site) -> None:
        await site.write(*(row(seq) for seq in range(1, 21)))
        first, stream = _stream(Reader(), 100), _stream(Reader(), 4)
        await site.catch_up.start(first, 0)
        catching_up = asyncio.create_task(site.catch_up.start(stream, 0))
        await _until(lambda: stream.reached == 3)
        assert site.prepared == [list(range(1, 21))]
        stream.caller = _caller(Reader("p", HIDDEN))
        assert [each.metadata.sequenceID for each in await taken(stream, 20)] == list(range(1, 21))
        await catching_up
        assert site.prepared[1:] == [list(range(4, 21))]

    run(test)


def test_a_reset_of_the_journal_ends_a_stream_that_catches_up() -> None:
    async def test(site: Site) -> None:
        await site.write(*(row(seq) for seq in range(1, 21)))
        stream = _stream(Reader(), 4)
        catching_up = asyncio.create_task(site.catch_up.start(stream, 0))
        await _until(lambda: stream.reached == 3)
        del site.journal.rows[5:]
        site.hub.wake()
        end = await stream.ended
        assert end.status == "OUT_OF_RANGE"
        assert dict(end.trailers) == {"min-sequence-id": "1", "max-sequence-id": "5", "x-watcher-sync-epoch": "e"}
        catching_up.cancel()

    run(test)


def test_a_stream_gets_no_row_of_another_history_under_the_epoch_that_it_knows() -> None:
    async def test(site: Site) -> None:
        await site.write(*(row(seq) for seq in range(1, 21)))
        # The journal's thread has noticed the new history; the hub notices it with its next wake.
        site.journal.epoch = "e2"
        stream = _stream(Reader(), 100)
        with pytest.raises(StreamEnding) as ended:
            await site.catch_up.start(stream, 0)
        assert ended.value.status == "OUT_OF_RANGE"
        assert stream.reached == 0

    run(test)


def test_the_streams_of_one_identity_read_one_after_another_and_delay_no_other() -> None:
    running: list[str] = []
    most: dict[str, int] = {}
    released = asyncio.Event()

    async def read_slowly(function: Callable[..., Any], *arguments: Any) -> Any:
        task = asyncio.current_task()
        assert task is not None
        name = task.get_name()
        running.append(name)
        most[name] = max(most.get(name, 0), running.count(name))
        if name == "busy":
            await released.wait()
        running.remove(name)
        return function(*arguments)

    async def test(site: Site) -> None:
        await site.write(*(row(seq) for seq in range(1, 11)))
        journal: Any = site.journal
        catch_up = CatchUp(journal, site.hub, site.renderer, read_slowly, WatchStats())
        streams = [_stream(Reader(), 100) for _ in range(3)]
        other = _stream(Reader("p", HIDDEN), 100)
        busy = [asyncio.create_task(catch_up.start(each, 0), name="busy") for each in streams]
        await _until(lambda: "busy" in running)
        await asyncio.create_task(catch_up.start(other, 0), name="other")
        assert len(await taken(other, 10)) == 10
        assert not any(task.done() for task in busy)
        released.set()
        await asyncio.gather(*busy)
        assert most == {"busy": 1, "other": 1}

    run(test)


def test_a_stream_that_left_during_its_catch_up_is_not_remembered() -> None:
    async def test(site: Site) -> None:
        await site.write(*(row(seq) for seq in range(1, 21)))
        stream = _stream(Reader(), 4)
        catching_up = asyncio.create_task(site.catch_up.start(stream, 0))
        await _until(lambda: stream.reached == 3)
        catching_up.cancel()
        site.hub.leave(stream)
        other = site.join(Reader(), topic())
        del site.journal.rows[5:]
        site.hub.wake()
        await other.ended
        assert not stream.ended.done()

    run(test)
