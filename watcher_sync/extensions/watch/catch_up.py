# SPDX-License-Identifier: Apache-2.0
"""Brings a stream from its start to the hub's position, and has it join the hub there.

The hub's position moves in the thread of the event loop only. A stream joins in the moment in which it has all rows up
to that position. So it gets each row once, without a gap. A stream that catches up waits for its client, not the
client's events for it: they stay in the journal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from watcher_sync.exceptions import JournalPurged
from watcher_sync.extensions.watch.hub import Hub, WatchStats
from watcher_sync.extensions.watch.limits import Turns
from watcher_sync.extensions.watch.model.filters import filter_type, key_of, passes
from watcher_sync.extensions.watch.rendering import PreparedEvents, Rendered, Renderer, RunInThread
from watcher_sync.extensions.watch.stream import WatchStream
from watcher_sync.extensions.watch.wire import messages
from watcher_sync.read.journal_reader import JournalReader
from watcher_sync.storage.writing.journal import JournalRow

_CHUNK_ROWS: Final = 200
_POSITION_SECONDS: Final = 0.05


class CatchUp:
    """Reads the journal for single streams. For the thread of the event loop."""

    def __init__(
        self, journal: JournalReader, hub: Hub, renderer: Renderer, run: RunInThread, stats: WatchStats
    ) -> None:
        self._journal = journal
        self._hub = hub
        self._renderer = renderer
        self._run_in_thread = run
        self._stats = stats
        self._turns = Turns(1)
        """Of reads: the streams of one identity do not take all threads."""

    async def start(self, stream: WatchStream, after: int | None, epoch: str = "") -> None:
        """Send what follows a sequence, and then join the hub.

        :param after: None: the stream begins at the hub's position.
        :param epoch: of that sequence; empty: the client does not know it.
        :raises StreamEnd: OUT_OF_RANGE: the journal has no such position.
        :raises StorageError: the database cannot answer.
        """
        self._hub.approach(stream)
        await self._hub.wait_for_position()
        if after is not None and epoch and epoch != self._hub.epoch:
            raise await self._hub.bounds(self._run_in_thread)
        if after is None or after == self._hub.position:
            self._hub.join(stream)
            return
        if after > self._hub.position and after > await self._run_in_thread(self._journal.head):
            raise await self._hub.bounds(self._run_in_thread)
        stream.reached = after
        start = previous = after
        while after > self._hub.position:  # the hub reads these rows in a moment; the client has them
            await asyncio.sleep(_POSITION_SECONDS)
        try:
            while after < self._hub.position:
                previous, after = await self._send_chunk(stream, after, previous)
        except JournalPurged:
            raise await self._hub.bounds(self._run_in_thread) from None
        # No other task runs between the comparison and this call.
        self._hub.join(stream, None if previous == start else previous)

    async def _send_chunk(self, stream: WatchStream, after: int, previous: int) -> tuple[int, int]:
        """:returns: the sequence of the last event, and the one up to which all rows were read."""
        await stream.wait_for_room()
        assert stream.caller is not None
        rows = self._journal.cached(after, _CHUNK_ROWS)
        if not rows:
            async with self._turns.of(stream.caller.identity):
                rows = await self._run_in_thread(self._journal.read, after, _CHUNK_ROWS)
        if not self._journal.is_of(self._hub.epoch):
            # The hub ends the stream in a moment. Its client knows the old epoch, and these rows may be of the new one.
            raise JournalPurged("the database went back in time")
        rows = [row for row in rows if row.seq <= self._hub.position]
        while rows:
            caller = stream.caller
            assert caller is not None
            async with self._turns.of(caller.identity):
                prepared = await self._renderer.prepare(rows, self._run_in_thread, (caller.rights,))
            # A new token may have other rights: they count from the next event on.
            while rows and stream.caller is not None and stream.caller.rights == caller.rights:
                previous, after = self._send_until_full(stream, rows, prepared, previous)
                rows = [row for row in rows if row.seq > after]
                await stream.wait_for_room()
        await asyncio.sleep(0)
        return previous, after

    def _send_until_full(
        self, stream: WatchStream, rows: Sequence[JournalRow], prepared: PreparedEvents, previous: int
    ) -> tuple[int, int]:
        """:returns: the sequence of the last event, and the one of the last row that was read."""
        caller, topic = stream.caller, stream.topic
        assert caller is not None
        assert topic is not None
        after = rows[0].seq
        for row in rows:
            if caller.reader.sees(row):
                rendered = self._renderer.render(row, prepared, caller.rights, caller.reader)
                if rendered is not None and self._passes(stream, rendered):
                    if stream.push(messages.addressed(rendered.body, topic.ref, previous)):
                        self._stats.events += 1
                    previous = row.seq
            stream.reached = after = row.seq
            if not stream.has_room:
                break
        return previous, after

    @staticmethod
    def _passes(stream: WatchStream, rendered: Rendered) -> bool:
        assert stream.topic is not None
        key, wanted = key_of(rendered.change.resource), filter_type(rendered.change.type)
        return any(passes(each, key, wanted) for each in stream.topic.filters)
