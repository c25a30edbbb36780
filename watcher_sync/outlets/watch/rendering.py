# SPDX-License-Identifier: Apache-2.0
"""Journal rows as the bytes of events, once for all streams whose callers see the same.

A row has the changed fields only. The name and the scope of the entity at that row are read from the tables, in a
thread, for many rows at once (:meth:`Renderer.prepare`). The last changes stay in memory, so streams that catch up
together render them once. For the thread of the event loop.
"""

from __future__ import annotations

import collections
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from watcher_sync.model.watch.resources import Describer, Reader
from watcher_sync.storage.journal import JournalRow
from watcher_sync.wire.watch import messages
from watcher_sync.wire.watch.descriptions import Change

MAX_CACHED_CHANGES: Final = 2_000
"""Rendered changes in memory, of all rights together."""

ReadValues = Callable[[Sequence[JournalRow]], Mapping[int, Mapping[str, Any]]]
"""Rows -> seq -> the values of :attr:`Describer.fields` at the row. Called in a thread."""

RunInThread = Callable[..., Awaitable[Any]]
"""Run a function with arguments in a thread of the pool."""


class Rendered(msgspec.Struct, frozen=True, eq=False):
    """A change, and its bytes without the topic."""

    change: Change
    body: bytes


class Renderer:
    """Renders rows for the hub and for the streams that catch up."""

    def __init__(self, describer: Describer, read_values: ReadValues, run: RunInThread) -> None:
        self._describer = describer
        self._read_values = read_values
        self._run = run
        self._cache: collections.OrderedDict[tuple[Hashable, int], Rendered | None] = collections.OrderedDict()
        """(rights, seq) -> the change; None: these rights see nothing of it."""

    async def prepare(self, rows: Sequence[JournalRow], rights: Iterable[Hashable] = ()) -> Mapping[int, Any]:
        """Read what :meth:`render` needs of these rows.

        :param rights: the only rights that they are to be rendered for, if these are known: what is in memory is not
            read again.
        :raises StorageError: the database cannot answer.
        """
        wanted = tuple(rights)
        if wanted:
            rows = [row for row in rows if any((each, row.seq) not in self._cache for each in wanted)]
        found: Mapping[int, Any] = await self._run(self._read_values, rows) if rows else {}
        return found

    def render(
        self, row: JournalRow, values: Mapping[int, Mapping[str, Any]], rights: Hashable, reader: Reader
    ) -> Rendered | None:
        """The change as a reader with these rights sees it; None: it sees nothing of it.

        :param values: of :meth:`prepare`.
        """
        key = (rights, row.seq)
        if key in self._cache:
            return self._cache[key]
        change = self._describer.change(row, values.get(row.seq, {}), reader)
        found = None if change is None else Rendered(change, messages.body(change))
        self._cache[key] = found
        if len(self._cache) > MAX_CACHED_CHANGES:
            self._cache.popitem(last=False)
        return found

    def forget(self) -> None:
        """Empty the memory: the journal is another one now."""
        self._cache.clear()
