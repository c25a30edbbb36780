# SPDX-License-Identifier: Apache-2.0
"""Reads the present states of the entities that changed after a seq, for a copy of the model.

An entity that changed often is read once. Its state may be newer than the last row that was read: versions tell a copy
what is newer. Rows that moved only versions count, too. A page has about 8 MiB of documents at most. For any thread.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import sqlalchemy as sa

from watcher_sync.exceptions import JournalPurged
from watcher_sync.read.entity_reader import EntityReader
from watcher_sync.storage.database.pages import MAX_PAGE_BYTES
from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.writing.journal import read_head

_ROWS_PER_ENTITY: Final = 10
"""Journal rows that are read for one page, for each entity that it may have."""
_IDS_AT_ONCE: Final = 1_000

_Key = tuple[str, str]
"""(kind, id)"""


class Deletion(msgspec.Struct, frozen=True):
    """An entity that exists no more."""

    kind: str
    id: str
    seq: int
    time: datetime.datetime
    versions: dict[str, str]
    """Facet -> version after the deletion."""


class ChangedPage(msgspec.Struct, frozen=True):
    """The entities that some rows of the journal concern."""

    states: dict[str, list[msgspec.Raw]]
    """Kind -> entities with their versions."""
    deleted: list[Deletion]
    next_since: int
    """The seq up to which all changes are known to a reader of this page."""
    head: int
    """The seq of the last change in the journal, from before the page was read."""


class _Changed:
    """What the rows tell of one entity."""

    __slots__ = ("deleted_at", "first")

    def __init__(self, first: int) -> None:
        self.first = first
        """The seq of the first row."""
        self.deleted_at: int | None = None
        """The seq of the deletion, if no creation follows; else None."""


class ChangedStates:
    """Reads the states of all kinds."""

    def __init__(self, tables: Tables, readers: Mapping[str, EntityReader]) -> None:
        """:param readers: kind -> reader of its entities."""
        self._tables = tables
        self._readers = readers

    def read(self, connection: sa.Connection, since: int, limit: int) -> ChangedPage:
        """The states of entities that changed after a seq, at least one if there is one.

        :param limit: the maximum number of entities.
        :raises JournalPurged: the journal does not reach back to the position, or ends before it.
        """
        head = read_head(connection, self._tables)
        if since == head:
            return ChangedPage({}, [], since, head)
        if since > head:
            raise JournalPurged(f"the journal ends at seq {head}, so seq {since} is of another one")
        changed, reached = self._changed(connection, since, limit)
        keys = list(changed)
        states: dict[str, list[msgspec.Raw]] = {}
        found: set[_Key] = set()
        room = MAX_PAGE_BYTES
        for start in range(0, len(keys), _IDS_AT_ONCE):
            some = keys[start : start + _IDS_AT_ONCE]
            count, size = self._fitting(connection, some, room)
            count = count if start else max(1, count)
            self._add_states(connection, some[:count], states, found)
            room -= size
            if count < len(some):
                # The entities come in the order of their first rows, so all changes before this one are known.
                reached = changed[some[count]].first - 1
                keys = keys[: start + count]
                break
        gone = [last for key in keys if key not in found and (last := changed[key].deleted_at) is not None]
        return ChangedPage(states, self._deletions(connection, gone), reached, head)

    def _changed(self, connection: sa.Connection, since: int, limit: int) -> tuple[dict[_Key, _Changed], int]:
        """The entities that changed, in the order of their first rows, and the seq of the last row."""
        t = self._tables.journal
        query = sa.select(t.c.seq, t.c.kind, t.c.entity_id, t.c.change).where(t.c.seq > since)
        changed: dict[_Key, _Changed] = {}
        reached = since
        for seq, kind, entity_id, change in connection.execute(query.order_by(t.c.seq).limit(_ROWS_PER_ENTITY * limit)):
            if seq != reached + 1:
                break
            if kind in self._readers:  # else of a plugin that this process does not have
                one = changed.get((kind, entity_id))
                if one is None:
                    if len(changed) == limit:
                        break
                    one = changed[kind, entity_id] = _Changed(seq)
                if change != "updated":
                    one.deleted_at = seq if change == "deleted" else None
            reached = seq
        if reached == since:
            raise JournalPurged(f"the journal begins after seq {since + 1}")
        return changed, reached

    def _fitting(self, connection: sa.Connection, keys: Sequence[_Key], room: int) -> tuple[int, int]:
        """How many of the first entities have at most so many bytes of documents, and their bytes."""
        sizes = {
            (kind, entity_id): size
            for kind, ids in _by_kind(keys).items()
            for entity_id, size in self._readers[kind].sizes(connection, ids).items()
        }
        total = 0
        for count, key in enumerate(keys):
            size = sizes.get(key, 0)
            if total + size > room:
                return count, total
            total += size
        return len(keys), total

    def _add_states(
        self, connection: sa.Connection, keys: Sequence[_Key], states: dict[str, list[msgspec.Raw]], found: set[_Key]
    ) -> None:
        for kind, ids in _by_kind(keys).items():
            reader, texts = self._readers[kind], states.setdefault(kind, [])
            for row in reader.read(connection, ids):
                texts.append(msgspec.Raw(reader.encode(row)))
                found.add((kind, row[reader.position["id"]]))

    def _deletions(self, connection: sa.Connection, seqs: Sequence[int]) -> list[Deletion]:
        t = self._tables.journal
        query = sa.select(t.c.kind, t.c.entity_id, t.c.seq, t.c.time, t.c.versions)
        return [
            Deletion(*row)
            for start in range(0, len(seqs), _IDS_AT_ONCE)
            for row in connection.execute(query.where(t.c.seq.in_(seqs[start : start + _IDS_AT_ONCE])))
        ]


def _by_kind(keys: Sequence[_Key]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for kind, entity_id in keys:
        found.setdefault(kind, []).append(entity_id)
    return found
