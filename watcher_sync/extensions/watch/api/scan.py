# SPDX-License-Identifier: Apache-2.0
"""The scan of the journal for one page of the events of a watch topic, in either direction.

The database drops what costs nothing to drop there: rows of other kinds, changes and projects, and rows that only
raised a version. The filters of the topic decide about the rest.

A scan for one page stops after a number of rows. The next request for this page skips the ranges that the scan before
it read in vain, so it comes further. A range counts only while the journal has its last row: a restored journal has
another one at this sequence.
"""

from __future__ import annotations

import collections
import threading
from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from watcher_sync.api.http.problems import Problem
from watcher_sync.api.service import Service
from watcher_sync.extensions.watch.model.filters import FilterIndex
from watcher_sync.extensions.watch.model.resources import Describer, Reader
from watcher_sync.extensions.watch.model.topics import ANY, WatchTopic
from watcher_sync.extensions.watch.wire.descriptions import ChangeDescription
from watcher_sync.read.row_entities import values_at
from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.writing.journal import JournalRow, journal_page

MAX_SCANNED_ROWS: Final = 200_000
"""Candidate rows that the API reads for one page. A page that would need more is refused."""
_MAX_PAGE_BYTES: Final = 67_108_864
"""Bytes of attributes on one page, about. A larger page is refused."""
_CHUNK_ROWS: Final = 1_000
_CHUNK_BYTES: Final = 1_048_576
"""Bytes of deltas that are decoded at once. Decoded, they may be twenty times as many."""
_MAX_RANGES: Final = 16_384
_NO_DELTA: Final = "{}"

End = tuple[int, str]
"""The sequence and the event id of the last row of a range."""


class WantedEvents(msgspec.Struct, frozen=True, kw_only=True):
    """Which events a request asks for."""

    after: int | None
    """Only events after this sequence; None: all that the journal has."""
    size: int
    page: int = 1
    descending: bool = False
    is_keyset: bool = False

    @property
    def stores_position(self) -> bool:
        """Whether the answer moves the position of the caller: only as a catch-up of the dialect does it.

        A monitoring script or a second reader of the same identity must not move where a stream starts.
        """
        return not self.descending and not self.is_keyset

    def label(self, page: int) -> str:
        """What a page of these events is stored as."""
        return f"{'' if self.after is None else self.after}/{self.size}/{page}"


class Candidates(msgspec.Struct, frozen=True, kw_only=True):
    """Which rows may be events."""

    kinds: Collection[str]
    changes: Collection[str]
    """Of created, updated and deleted."""
    project_id: str | None = None
    """Only rows of entities of this project; None: all."""
    descending: bool = False

    def read(self, connection: sa.Connection, tables: Tables, position: int | None, limit: int) -> list[JournalRow]:
        """The next rows: at most ``limit`` of about 1 MiB, at least one if there is one.

        :param position: the rows are after it, or before it if descending; None: from the journal's first or last row.
        """
        t = tables.journal
        has_delta = sa.or_(t.c.change != "updated", sa.type_coerce(t.c.delta, sa.Text()) != _NO_DELTA)
        where = [t.c.kind.in_(self.kinds), t.c.change.in_(self.changes), has_delta]
        if self.project_id is not None:
            where.append(t.c.project_id == self.project_id)
        if position is not None:
            where.append(t.c.seq < position if self.descending else t.c.seq > position)
        page = journal_page(connection, tables, where, limit, descending=self.descending, max_bytes=_CHUNK_BYTES)
        return [row.decoded() for row in page.rows]


class EmptyRanges:
    """Ranges without an event for a topic and a reader, in ascending order. Used by all threads."""

    def __init__(self, max_ranges: int = _MAX_RANGES) -> None:
        self._max_ranges = max_ranges
        self._lock = threading.Lock()  # guards the ends
        self._ends: collections.OrderedDict[Any, End] = collections.OrderedDict()

    def add(self, key: Any, ranges: Mapping[int | None, End]) -> None:
        """Store ranges.

        :param key: the topic, and what its reader may see.
        :param ranges: the position before the first row -> the last row.
        """
        with self._lock:
            for start, end in ranges.items():
                self._ends[key, start] = end
                self._ends.move_to_end((key, start))
            while len(self._ends) > self._max_ranges:
                self._ends.popitem(last=False)

    def end(self, connection: sa.Connection, tables: Tables, key: Any, position: int | None) -> End | None:
        """The last row of the range that begins after a position; None: there is no such range."""
        with self._lock:
            found = self._ends.get((key, position))
        if found is None:
            return None
        t = tables.journal
        event_id = connection.execute(sa.select(t.c.event_id).where(t.c.seq == found[0])).scalar_one_or_none()
        return found if event_id == found[1] else None


class EventScan:
    """Reads the events of one page."""

    def __init__(
        self,
        service: Service,
        describer: Describer,
        topic: WatchTopic,
        reader: Reader,
        wanted: WantedEvents,
        empty: EmptyRanges,
    ) -> None:
        self._empty = empty
        self._key = (topic.id, reader.project_id, bool(reader.hidden))
        self._service = service
        self._describer = describer
        self._reader = reader
        self._wanted = wanted
        self._index = FilterIndex([(topic.id, topic.filters)])
        kinds = [
            name
            for name in service.kinds
            if any(
                each.group in (ANY, describer.shown[name].group) and each.kind in (ANY, describer.shown[name].kind)
                for each in topic.filters
            )
        ]
        changes = sorted(frozenset().union(*(each.types for each in topic.filters)))
        self._candidates = Candidates(
            kinds=kinds, changes=changes, project_id=reader.project_id, descending=wanted.descending
        )

    def read(self, connection: sa.Connection, end: int | None) -> list[ChangeDescription]:
        """The events of the page.

        :param end: the last sequence of the page before; None: it is not known, and the pages before are read, too.
        """
        wanted = self._wanted
        skip = 0 if end is not None else (wanted.page - 1) * wanted.size
        position = end if end is not None else (None if wanted.descending else wanted.after)
        found: list[ChangeDescription] = []
        ranges: dict[int | None, End] = {}
        start, scanned, size = position, 0, 0
        while len(found) < wanted.size and self._candidates.kinds:
            end_of_range = self._end_of_range(connection, position)
            if end_of_range is not None:
                ranges[start], position = end_of_range, end_of_range[0]
                continue
            limit = min(_CHUNK_ROWS, max(100, wanted.size - len(found) + skip))
            rows = self._candidates.read(connection, self._service.tables, position, limit)
            if not rows:
                break
            position, scanned = rows[-1].seq, scanned + len(rows)
            matching = self._matching(connection, rows)
            if matching:
                start = position
            else:
                ranges[start] = position, rows[-1].event_id
            for change in matching:
                if skip:
                    skip -= 1
                elif len(found) < wanted.size and not self._is_before(change):
                    found.append(change)
                    size += sum(map(len, change.resource.attributes.values()))
            if wanted.descending and wanted.after is not None and position <= wanted.after:
                break
            self._require_bounded(scanned, size, ranges)
        return found

    def _end_of_range(self, connection: sa.Connection, position: int | None) -> End | None:
        if self._wanted.descending:
            return None
        return self._empty.end(connection, self._service.tables, self._key, position)

    def _require_bounded(self, scanned: int, size: int, ranges: Mapping[int | None, End]) -> None:
        """:raises Problem: 503 when one page would cost too much. The next request skips the ranges."""
        if scanned >= MAX_SCANNED_ROWS:
            if not self._wanted.descending:
                self._empty.add(self._key, ranges)
            raise Problem(503, f"The page is not full after {scanned} changes; ask again, or filter for fewer kinds")
        if size >= _MAX_PAGE_BYTES:
            raise Problem(503, f"The page has more than {_MAX_PAGE_BYTES} bytes; ask for a smaller pageSize")

    def _is_before(self, change: ChangeDescription) -> bool:
        return self._wanted.after is not None and change.seq <= self._wanted.after

    def _matching(self, connection: sa.Connection, rows: list[Any]) -> list[ChangeDescription]:
        ordered = rows[::-1] if self._wanted.descending else rows
        values = values_at(connection, self._service.tables, self._describer.fields, ordered)
        changes = [self._describer.change(row, values[row.seq], self._reader) for row in rows]
        return [each for each in changes if each is not None and self._index.matching(each.type, each.resource)]
