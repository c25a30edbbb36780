# SPDX-License-Identifier: Apache-2.0
"""Which streams the hub hands a row to, and as which bytes."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from watcher_sync.extensions.watch.authentication import Caller
from watcher_sync.extensions.watch.catch_up import CatchUp
from watcher_sync.extensions.watch.hub import Hub, WatchStats
from watcher_sync.extensions.watch.model.resources import Describer, Reader
from watcher_sync.extensions.watch.model.topics import WatchTopic, parse
from watcher_sync.extensions.watch.rendering import Renderer
from watcher_sync.extensions.watch.stream import WatchStream
from watcher_sync.extensions.watch.wire import events_pb2
from watcher_sync.storage.epochs import Position
from watcher_sync.storage.writing.journal import JournalRow
from watcher_sync.testing.kinds import builtin_kinds

KINDS = builtin_kinds()
HIDDEN = {name: kind.admin_only for name, kind in KINDS.items() if kind.admin_only}
NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def row(seq: int, *, project_id: str = "p", host: str = "h1") -> JournalRow:
    delta: dict[str, tuple[Any, Any]] = {"state": (None, f"s{seq}"), "host": (None, host), "name": (None, "n")}
    return JournalRow(seq, NOW, "instance", f"i{seq}", "created", delta, {}, "e", "t", "nova", 1, None, project_id)


class Journal:
    """A journal in memory."""

    def __init__(self) -> None:
        self.rows: list[JournalRow] = []
        self.epoch = "e"

    def head(self) -> int:
        return len(self.rows)

    seen = head

    def position(self) -> Position:
        return Position(self.epoch, len(self.rows), 1)

    def is_of(self, epoch: str) -> bool:
        return epoch == self.epoch

    def cached(self, since: int, limit: int) -> list[JournalRow]:
        return self.rows[since : since + limit]

    read = cached


class Site:
    """A hub with its streams."""

    def __init__(self, describer: Any = None) -> None:
        self.journal = Journal()
        self.prepared: list[list[int]] = []
        self.renderer = renderer = Renderer(describer or Describer(KINDS), self._values)
        journal: Any = self.journal
        self.hub = Hub(journal, renderer, _run, lambda: 1, WatchStats(), now=lambda: NOW)
        self.catch_up = CatchUp(journal, self.hub, renderer, _run, WatchStats())

    def _values(self, rows: Sequence[JournalRow]) -> dict[int, dict[str, Any]]:
        self.prepared.append([each.seq for each in rows])
        return {each.seq: {name: new for name, (_, new) in each.delta.items()} for each in rows}

    def join(self, reader: Reader, topic: WatchTopic) -> WatchStream:
        stream = WatchStream(100)
        stream.topic = topic
        stream.caller = Caller("u", reader.project_id, reader, True, lambda _: True)
        self.hub.join(stream)
        return stream

    async def write(self, *rows: JournalRow) -> None:
        self.journal.rows += rows
        self.hub.wake()
        deadline = asyncio.get_running_loop().time() + 60
        while self.hub.position < len(self.journal.rows):
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0)


async def _run(function: Callable[..., Any], *arguments: Any) -> Any:
    await asyncio.sleep(0)
    return function(*arguments)


def topic(topic_name: str = "all", version: str = "v1", **members: Any) -> WatchTopic:
    filters = [{"group": "compute", "kind": "Instance", **members}]
    return parse({"name": topic_name, "spec": {"filters": filters}}, f"id-{topic_name}", version=version)


async def taken(stream: WatchStream, count: int) -> list[events_pb2.Event]:
    return [events_pb2.Event.FromString(await stream.take()) for _ in range(count)]


def run(test: Callable[[Site], Awaitable[None]], describer: Any = None) -> None:
    async def main() -> None:
        site = Site(describer)
        following = asyncio.create_task(site.hub.run())
        try:
            while site.hub.position < 0:
                await asyncio.sleep(0)
            await asyncio.wait_for(test(site), 120)
        finally:
            following.cancel()

    asyncio.run(main())


def test_each_stream_of_a_topic_gets_its_events_in_the_version_that_it_asked_for() -> None:
    async def test(site: Site) -> None:
        streams = [site.join(Reader(), topic(version=version)) for version in ("v1", "v1alpha1", "v1")]
        await site.write(row(1))
        (one,), (other,), (same,) = [await taken(each, 1) for each in streams]
        assert one.metadata.watchTopicSelfLink == "/management/v1/watchtopics/all"
        assert other.metadata.watchTopicSelfLink == "/management/v1alpha1/watchtopics/all"
        assert one == same
        other.metadata.watchTopicSelfLink = one.metadata.watchTopicSelfLink
        assert one == other
        site.hub.leave(streams[0])
        site.hub.leave(streams[2])
        await site.write(row(2))
        (last,) = await taken(streams[1], 1)
        assert (last.metadata.sequenceID, last.metadata.prevSequenceID) == (2, 1)

    run(test)


def test_streams_with_equal_rights_on_one_topic_get_the_same_bytes() -> None:
    async def test(site: Site) -> None:
        one, two = site.join(Reader(), topic()), site.join(Reader(), topic())
        await site.write(row(1), row(2))
        first = [await one.take(), await one.take()]
        assert [await two.take(), await two.take()] == first
        assert first[0] is not first[1]
        events = [events_pb2.Event.FromString(each) for each in first]
        assert [each.metadata.sequenceID for each in events] == [1, 2]
        assert not events[0].metadata.HasField("prevSequenceID")
        assert events[1].metadata.prevSequenceID == 1

    run(test)


def test_a_project_gets_its_own_rows_without_hosts() -> None:
    async def test(site: Site) -> None:
        mine = site.join(Reader("p", HIDDEN), topic())
        await site.write(row(1, project_id="q"), row(2))
        (event,) = await taken(mine, 1)
        assert event.metadata.sequenceID == 2
        assert "host" not in event.payload.attributes
        assert not event.payload.metadata.scope.name
        assert site.prepared == [[2]]

    run(test)


def test_a_filter_for_a_host_reveals_nothing_to_who_does_not_see_hosts() -> None:
    async def test(site: Site) -> None:
        on_host = topic("host", scope={"kind": "ComputeNode", "name": "h1"})
        mine, admin = site.join(Reader("p", HIDDEN), on_host), site.join(Reader(), on_host)
        everything = site.join(Reader("p", HIDDEN), topic())
        await site.write(row(1), row(2, host="h2"), row(3))
        assert [each.metadata.sequenceID for each in await taken(admin, 2)] == [1, 3]
        assert len(await taken(everything, 3)) == 3
        assert mine.push(b"last")
        assert await mine.take() == b"last"

    run(test)


def test_many_topics_and_those_that_were_left_find_their_streams() -> None:
    async def test(site: Site) -> None:
        others = [site.join(Reader(), topic(f"t{number}", name=f"x{number}")) for number in range(150)]
        for stream in others[::2]:
            site.hub.leave(stream)
        mine = site.join(Reader(), topic("n", name="n"))
        await site.write(row(1))
        late = site.join(Reader(), topic("late", name="n"))
        await site.write(row(2))
        assert len(await taken(mine, 2)) == 2
        assert [each.metadata.sequenceID for each in await taken(late, 1)] == [2]
        assert len(site.hub.streams()) == 77

    run(test)


def test_a_topic_that_is_left_and_joined_again_gets_each_row_once() -> None:
    async def test(site: Site) -> None:
        others = [site.join(Reader(), topic(f"t{number}", name="n")) for number in range(100)]
        await site.write(row(1))
        site.hub.leave(others[0])
        again = site.join(Reader(), topic("t0", name="n"))
        site.join(Reader(), topic("new", name="n"))
        await site.write(row(2), row(3))
        assert [each.metadata.sequenceID for each in await taken(again, 2)] == [2, 3]
        assert again.push(b"last")
        assert await again.take() == b"last"

    run(test)


def test_many_messages_are_handed_on_in_parts_and_a_stream_joins_between_them() -> None:
    async def test(site: Site) -> None:
        others = [site.join(Reader("p", HIDDEN), topic(f"t{number}")) for number in range(500)]
        site.journal.rows += [row(seq) if seq % 2 else row(seq, project_id="q") for seq in range(1, 51)]
        site.hub.wake()
        positions = set[int]()
        late = None
        while site.hub.position < 50:
            positions.add(site.hub.position)
            if site.hub.position > 0 and late is None:
                first, late = site.hub.position + 1, site.join(Reader("q", HIDDEN), topic("late"))
            await asyncio.sleep(0)
        assert len(positions) > 3
        assert late is not None
        wanted = [seq for seq in range(first, 51) if seq % 2 == 0]
        assert [each.metadata.sequenceID for each in await taken(late, len(wanted))] == wanted
        assert [each.metadata.sequenceID for each in await taken(others[0], 25)] == list(range(1, 51, 2))

    run(test)


class _Broken(Describer):
    """Cannot describe the second row."""

    def change(self, row: Any, values: Any, reader: Any = None) -> Any:
        if row.seq == 2:
            raise ZeroDivisionError
        return super().change(row, values, reader)


def test_a_row_that_cannot_be_rendered_ends_the_streams_that_may_see_it_and_no_others() -> None:
    async def test(site: Site) -> None:
        mine, other = site.join(Reader("p", HIDDEN), topic()), site.join(Reader("q", HIDDEN), topic())
        await site.write(row(1), row(2), row(3, project_id="q"))
        assert (await mine.ended).status == "INTERNAL"
        assert [each.metadata.sequenceID for each in await taken(other, 1)] == [3]
        assert not other.ended.done()

    run(test, _Broken(KINDS))
