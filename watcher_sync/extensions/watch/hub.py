# SPDX-License-Identifier: Apache-2.0
"""Hands each journal row to the streams that it concerns. For the thread of the event loop.

Streams on one topic, in one version of the dialect, whose callers see the same form a group. It gets the same bytes. A
row costs one look-up for each kind of rights that may see its project.

The filters of a topic compare what the caller sees. So a filter reveals no host to a caller that does not see hosts.

A group remembers the sequence of its last event, which becomes ``prevSequenceID`` of the next one. The first event of
a group has none, unless a stream caught up before: an older event may have concerned the topic without a stream.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final

import msgspec
from oslo_log import log as logging

from watcher_sync.exceptions import JournalPurged, StorageError
from watcher_sync.extensions.watch.endings import StreamEnding, internal, out_of_range
from watcher_sync.extensions.watch.model.filters import FilterIndex
from watcher_sync.extensions.watch.model.resources import Reader
from watcher_sync.extensions.watch.model.topics import WatchTopic
from watcher_sync.extensions.watch.rendering import PreparedEvents, Rendered, Renderer, RunInThread
from watcher_sync.extensions.watch.stream import WatchStream
from watcher_sync.extensions.watch.wire import messages
from watcher_sync.extensions.watch.wire.descriptions import TopicRef
from watcher_sync.periodic import Outage
from watcher_sync.read.journal_reader import JournalReader
from watcher_sync.storage.writing.journal import JournalRow

LOG = logging.getLogger(__name__)

_CHUNK_ROWS: Final = 200
_RETRY_SECONDS: Final = 1.0
_POSITION_SECONDS: Final = 0.05
_MAX_MESSAGES_AT_ONCE: Final = 4_000
"""Messages after which other tasks run: about 15 ms."""
_MAX_RECENT: Final = 64
"""Topics beside the large index, which is built again when there are more."""


class WatchStats(msgspec.Struct):
    """Counts of the process. The event loop writes them, and any thread reads them."""

    streams: int = 0
    subscribed: int = 0
    events: int = 0
    overflows: int = 0
    pings: int = 0
    position: int = -1
    lag_seconds: float = 0.0
    ended: dict[str, int] = msgspec.field(default_factory=dict)
    """Status -> streams that ended with it."""


class Group:
    """The streams on one topic, in one version of the dialect, whose callers see the same."""

    __slots__ = ("filters", "last", "ref", "streams")

    def __init__(self, topic: WatchTopic, last: int | None) -> None:
        self.ref = topic.ref
        self.filters = topic.filters
        self.last = last
        """The sequence of the last event; None: it is not known."""
        self.streams: dict[WatchStream, None] = {}


class RightsClass:
    """The groups whose callers see the same, with an index over their topics."""

    def __init__(self, rights: Hashable, reader: Reader) -> None:
        self.rights = rights
        self.reader = reader
        self.groups: dict[TopicRef, Group] = {}
        self._old: FilterIndex[TopicRef] = FilterIndex(())
        self._new: FilterIndex[TopicRef] = FilterIndex(())
        self._indexed: frozenset[TopicRef] = frozenset()
        """The topics of the large index. One whose streams come back needs no second entry: topics never change."""
        self._recent: dict[TopicRef, None] = {}
        self._stale = False
        """Whether a recent topic is in no index yet."""

    def add(self, group: Group) -> None:
        """Add a group."""
        self.groups[group.ref] = group
        if group.ref not in self._indexed:
            self._recent[group.ref] = None
            self._stale = True

    def concerned(self, rendered: Rendered) -> Iterable[Group]:
        """The groups whose topic lets a change pass."""
        if self._stale:
            self._index()
        change = rendered.change
        for index in (self._old, self._new):
            for ref in index.matching(change.type, change.resource):
                group = self.groups.get(ref)
                if group is not None:
                    yield group

    def end(self, reason: StreamEnding) -> None:
        """End the streams of all groups."""
        for group in self.groups.values():
            for stream in group.streams:
                stream.end(reason)

    def _index(self) -> None:
        """Index the recent topics. Topics without streams leave the large index when it is built again."""
        self._stale = False
        if len(self._recent) > _MAX_RECENT:
            self._old = FilterIndex((ref, group.filters) for ref, group in self.groups.items())
            self._indexed = frozenset(self.groups)
            self._recent = {}
        recent = {ref: self.groups[ref] for ref in self._recent if ref in self.groups}
        self._new = FilterIndex((ref, group.filters) for ref, group in recent.items())


class Hub:
    """Follows the journal on behalf of all streams of the process."""

    def __init__(
        self,
        journal: JournalReader,
        renderer: Renderer,
        run: RunInThread,
        read_first: Callable[[], int],
        stats: WatchStats,
        *,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ) -> None:
        """:param read_first: reads the first sequence of the journal; called in a thread."""
        self._journal = journal
        self._renderer = renderer
        self._run_in_thread = run
        self._read_first = read_first
        self._stats = stats
        self._now = now
        self._classes: dict[Hashable, RightsClass] = {}
        self._by_project: dict[str | None, dict[Hashable, RightsClass]] = {}
        """The only visible project, or None for all -> rights -> class."""
        self._approaching: set[WatchStream] = set()
        """The streams that catch up."""
        self._changed = asyncio.Event()
        self.position = -1
        """The seq up to which all rows were handed on; -1: not known yet."""
        self.epoch = ""
        """The epoch of the position."""

    def wake(self) -> None:
        """The journal's head may have moved."""
        self._changed.set()

    def approach(self, stream: WatchStream) -> None:
        """A stream begins to catch up, until it joins or leaves. A reset of the journal ends it, too."""
        self._approaching.add(stream)

    def join(self, stream: WatchStream, last: int | None = None) -> None:
        """Hand all rows after the present position to a stream.

        :param last: the sequence of the last event that concerned its group; None: it is not known.
        """
        caller = stream.caller
        topic = stream.topic
        assert caller is not None
        assert topic is not None
        found = self._classes.get(caller.rights)
        if found is None:
            found = self._classes[caller.rights] = RightsClass(caller.rights, caller.reader)
            self._by_project.setdefault(caller.reader.project_id, {})[caller.rights] = found
        if topic.ref not in found.groups:
            found.add(Group(topic, last))
        found.groups[topic.ref].streams[stream] = None
        self._approaching.discard(stream)
        stream.reached = None

    def has(self, stream: WatchStream) -> bool:
        """Whether a stream has joined."""
        return self._find(stream) is not None

    def _find(self, stream: WatchStream) -> tuple[RightsClass, Group] | None:
        if stream.caller is None or stream.topic is None:
            return None
        found = self._classes.get(stream.caller.rights)
        group = None if found is None else found.groups.get(stream.topic.ref)
        if found is None or group is None or stream not in group.streams:
            return None
        return found, group

    def leave(self, stream: WatchStream) -> None:
        """Hand no further rows to a stream."""
        self._approaching.discard(stream)
        place = self._find(stream)
        if place is None:
            return
        found, group = place
        del group.streams[stream]
        if not group.streams:
            del found.groups[group.ref]
        if not found.groups:
            del self._classes[found.rights]
            classes = self._by_project[found.reader.project_id]
            del classes[found.rights]
            if not classes:
                del self._by_project[found.reader.project_id]

    def streams(self) -> list[WatchStream]:
        """The streams that have joined."""
        groups = (group for each in self._classes.values() for group in each.groups.values())
        return [stream for group in groups for stream in group.streams]

    async def bounds(self, run: RunInThread) -> StreamEnding:
        """The end of a stream that starts outside of the journal.

        :param run: has a thread read.
        :raises StorageError: the database cannot answer.
        """
        first, head = await run(self._read_first), await run(self._journal.position)
        return out_of_range(first, head.seq, head.epoch)

    async def wait_for_position(self) -> None:
        """Return when the position is known."""
        while self.position < 0:
            await asyncio.sleep(_POSITION_SECONDS)

    async def run(self) -> None:
        """Follow the journal until the task is cancelled."""
        outage = Outage(LOG, "watch: database unavailable", "watch: database recovered")
        while True:
            try:
                await self._follow()
                if outage.reason:
                    outage.succeeded()
            except JournalPurged:
                await self._begin_again()
            except Exception as exc:  # noqa: BLE001 - the edge of the task
                outage.failed(exc)
                await asyncio.sleep(_RETRY_SECONDS)

    async def _follow(self) -> None:
        """Hand the next rows on, or wait for them."""
        if self.position < 0:
            head = await self._run_in_thread(self._journal.position)
            self.epoch = head.epoch
            self._move_to(head.seq)
        self._changed.clear()
        rows: Sequence[JournalRow] = self._journal.cached(self.position, _CHUNK_ROWS)
        if not rows:
            rows = await self._read()
        if not self._journal.is_of(self.epoch):
            raise JournalPurged("the database went back in time")
        if rows:
            await self._hand_on(rows)
            await asyncio.sleep(0)
            return
        self._stats.lag_seconds = 0.0
        await self._changed.wait()

    async def _read(self) -> Sequence[JournalRow]:
        seen = self._journal.seen()
        if seen == self.position or seen < 0:
            return ()
        rows: Sequence[JournalRow] = await self._run_in_thread(self._journal.read, self.position, _CHUNK_ROWS)
        if not rows and await self._run_in_thread(self._journal.head) < self.position:
            raise JournalPurged("the journal ends before the position")
        return rows

    async def _begin_again(self) -> None:
        """The rows after the position are gone: no stream can go on."""
        try:
            end = await self.bounds(self._run_in_thread)
            head = await self._run_in_thread(self._journal.position)
            if not self._journal.is_of(head.epoch):
                await asyncio.sleep(_RETRY_SECONDS)  # the journal's thread reads it in a moment
        except StorageError as exc:
            LOG.warning("watch: database unavailable, retrying: %s", exc)
            await asyncio.sleep(_RETRY_SECONDS)
            return
        # No other task runs from here on, so no stream has rows of both journals.
        self._renderer.forget()
        self.epoch = head.epoch
        self._move_to(head.seq)
        streams = [*self.streams(), *self._approaching]
        LOG.warning("watch: the journal does not go on after the last position; %d streams end", len(streams))
        for stream in streams:
            stream.end(end)

    def _move_to(self, position: int) -> None:
        self.position = self._stats.position = position

    async def _hand_on(self, rows: Sequence[JournalRow]) -> None:
        """Hand rows on, in parts: after some thousand messages other tasks run."""
        prepared, projects = await self._prepare(rows)
        sent = 0
        for row in rows:
            if sent >= _MAX_MESSAGES_AT_ONCE:
                await asyncio.sleep(0)
                sent = 0
                if not projects >= frozenset(self._by_project):
                    prepared, projects = await self._prepare(rows)
            # No other task runs between these two calls, so no stream joins in the midst of a row.
            sent += self._dispatch(row, prepared)
            self._move_to(row.seq)
        self._stats.lag_seconds = max(0.0, (self._now() - rows[-1].time).total_seconds())

    async def _prepare(self, rows: Sequence[JournalRow]) -> tuple[PreparedEvents, frozenset[str | None]]:
        """Read what the streams of this moment need of the rows.

        :returns: this, and the projects that it is for.
        """
        while True:
            projects = frozenset(self._by_project)
            visible = rows if None in projects else [row for row in rows if row.project_id in projects]
            prepared = await self._renderer.prepare(visible, self._run_in_thread)
            if projects >= frozenset(self._by_project):
                return prepared, projects

    def _dispatch(self, row: JournalRow, prepared: PreparedEvents) -> int:
        """:returns: how many messages were made and queued."""
        sent = 0
        classes = [*self._by_project.get(None, {}).values()]
        if row.project_id is not None:
            classes += self._by_project.get(row.project_id, {}).values()
        for each in classes:
            try:
                rendered = self._renderer.render(row, prepared, each.rights, each.reader)
            except Exception:
                # To skip the row would be a gap without a notice, and to repeat it would hold all other streams.
                LOG.exception("watch: the change %d cannot be rendered; the streams that may see it end", row.seq)
                each.end(internal())
                continue
            if rendered is not None:
                for group in each.concerned(rendered):
                    sent += self._send(group, rendered)
        return sent

    def _send(self, group: Group, rendered: Rendered) -> int:
        message = messages.addressed(rendered.body, group.ref, group.last)
        group.last = rendered.change.seq
        for stream in group.streams:
            if stream.push(message):
                self._stats.events += 1
        return 1 + len(group.streams)
