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

from watcher_sync.extensions.watch.model.resources import Describer, Reader
from watcher_sync.extensions.watch.wire import messages
from watcher_sync.extensions.watch.wire.descriptions import ChangeDescription
from watcher_sync.storage.writing.journal import JournalRow

MAX_CACHED_CHANGES: Final = 2_000
"""Rendered changes in memory, of all rights together."""
MAX_CACHED_BYTES: Final = 33_554_432
"""Their bytes as messages. The last change stays, whatever its size."""

_Key = tuple[Hashable, int]
"""(rights, seq)"""

ReadValues = Callable[[Sequence[JournalRow]], Mapping[int, Mapping[str, Any]]]
"""Rows -> seq -> the values of :attr:`Describer.fields` at the row. Called in a thread."""

RunInThread = Callable[..., Awaitable[Any]]
"""Run a function with arguments in a thread of the pool."""


class Rendered(msgspec.Struct, frozen=True, eq=False):
    """A change, and its bytes without the topic."""

    change: ChangeDescription
    body: bytes


class NotPrepared(LookupError):
    """A row is to be rendered whose values were not read: a defect of the caller."""


class PreparedEvents(msgspec.Struct, frozen=True, eq=False):
    """What :meth:`Renderer.render` needs of some rows. It stays valid while other rows push them out of the memory."""

    values: Mapping[int, Mapping[str, Any]]
    """Seq -> the values of a row."""
    seqs: frozenset[int]
    """The rows whose values were read."""
    rendered: Mapping[_Key, Rendered | None]
    """The changes that were in memory."""
    generation: int
    """Of the memory: what was read before the memory was emptied does not go there."""


class Renderer:
    """Renders rows for the hub and for the streams that catch up."""

    def __init__(self, describer: Describer, read_values: ReadValues) -> None:
        self._describer = describer
        self._read_values = read_values
        self._cache: collections.OrderedDict[_Key, Rendered | None] = collections.OrderedDict()
        """The change; None: these rights see nothing of it."""
        self._bytes = 0
        self._generation = 0

    async def prepare(
        self, rows: Sequence[JournalRow], run: RunInThread, rights: Iterable[Hashable] = ()
    ) -> PreparedEvents:
        """Read what :meth:`render` needs of these rows.

        :param run: has a thread read.
        :param rights: the only rights that they are to be rendered for, if these are known: what is in memory is not
            read again.
        :raises StorageError: the database cannot answer.
        """
        wanted, generation = tuple(rights), self._generation
        keys = ((each, row.seq) for row in rows for each in wanted)
        rendered = {key: self._cache[key] for key in keys if key in self._cache}
        if wanted:
            rows = [row for row in rows if any((each, row.seq) not in rendered for each in wanted)]
        values: Mapping[int, Mapping[str, Any]] = await run(self._read_values, rows) if rows else {}
        return PreparedEvents(values, frozenset(row.seq for row in rows), rendered, generation)

    def render(self, row: JournalRow, prepared: PreparedEvents, rights: Hashable, reader: Reader) -> Rendered | None:
        """The change as a reader with these rights sees it; None: it sees nothing of it.

        :param prepared: of :meth:`prepare`.
        :raises NotPrepared: it has no values of this row.
        """
        key = (rights, row.seq)
        if key in prepared.rendered:
            return prepared.rendered[key]
        is_current = prepared.generation == self._generation
        if is_current and key in self._cache:
            return self._cache[key]
        if row.seq not in prepared.seqs:
            raise NotPrepared(f"the values of the change {row.seq} were not read")
        change = self._describer.change(row, prepared.values.get(row.seq, {}), reader)
        found = None if change is None else Rendered(change, messages.body(change))
        if is_current:
            self._remember(key, found)
        return found

    def forget(self) -> None:
        """Empty the memory: the journal is another one now."""
        self._generation += 1
        self._cache.clear()
        self._bytes = 0

    def _remember(self, key: _Key, found: Rendered | None) -> None:
        self._cache[key] = found
        self._bytes += _size(found)
        while len(self._cache) > MAX_CACHED_CHANGES or (self._bytes > MAX_CACHED_BYTES and len(self._cache) > 1):
            self._bytes -= _size(self._cache.popitem(last=False)[1])


def _size(rendered: Rendered | None) -> int:
    return 0 if rendered is None else len(rendered.body)
