# SPDX-License-Identifier: Apache-2.0
"""What changed of each entity between two seqs: the journal rows between them, summed up.

The journal rows suffice: a row has the old and the new values of the fields that it changed. A field that has its old
value again did not change, and an entity that was created and deleted did not either.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from watcher_sync.model.kinds import Kind
from watcher_sync.model.model import Key, differ
from watcher_sync.read.row_entities import values_at
from watcher_sync.storage.database.pages import MAX_PAGE_BYTES
from watcher_sync.storage.database.types import json_text
from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.writing.journal import JournalRow, is_of_kind

_CHUNK_ROWS: Final = 100
"""Rows of an entity that are read at once."""

Shown = Callable[[JournalRow], JournalRow | None]
"""A row as the reader sees it; None: it sees nothing of it."""


class EntityDifference(msgspec.Struct, frozen=True):
    """How an entity differs at two moments."""

    kind: str
    id: str
    name: str | None
    """Its name at the later moment, or before its deletion."""
    change: str
    """created, updated or deleted."""
    fields: dict[str, tuple[Any, Any]]
    """Field -> (old, new), of the fields that differ."""
    seq: int
    """Its last change between the moments."""


class Differences(msgspec.Struct, frozen=True):
    """A page."""

    found: list[EntityDifference]
    last: Key | None
    """Where the next page begins: after this entity; None: this is the last page."""


def read_differences(
    connection: sa.Connection,
    tables: Tables,
    kinds: Mapping[str, Kind],
    since: int,
    upto: int,
    *,
    kind: str | None = None,
    project_id: str | None = None,
    after: Key | None = None,
    limit: int,
    shown: Shown,
    unnamed: Collection[str] = (),
) -> Differences:
    """The entities that differ, by kind and id: of at most ``limit`` entities with journal rows between the seqs.

    A page ends early at about 8 MiB.

    :param connection: with one consistent state of the database. Its journal has every row between the seqs.
    :param since: the earlier seq.
    :param upto: the later seq.
    :param kind: entities of this kind only; None: of all.
    :param project_id: only entities with rows of this project; None: of all.
    :param after: the last entity of the page before.
    :param shown: what the reader sees of a row.
    :param unnamed: kinds whose names the reader does not see.
    """
    t = tables.journal.c
    touched = sa.or_(t.change != "updated", sa.type_coerce(t.delta, sa.Text()) != "{}")
    where = [t.seq > since, t.seq <= upto, t.kind.in_([kind] if kind is not None else sorted(kinds)), touched]
    if project_id is not None:
        where.append(t.project_id == project_id)
    if after is not None:
        where.append(sa.or_(t.kind > after[0], sa.and_(t.kind == after[0], t.entity_id > after[1])))
    query = sa.select(t.kind, t.entity_id).where(*where).distinct().order_by(t.kind, t.entity_id).limit(limit + 1)
    keys: list[Key] = [(row[0], row[1]) for row in connection.execute(query)]
    sums: dict[Key, _Sum] = {}
    size, last = 0, keys[limit - 1] if len(keys) > limit else None
    for number, key in enumerate(keys[:limit]):
        found = _Sum()
        for row in _rows(connection, tables, key, since, upto):
            if (seen := shown(row)) is not None:
                found.add(seen)
        if found.change is not None:
            sums[key] = found
            size += found.size()
        if size >= MAX_PAGE_BYTES and number + 1 < len(keys):
            last = key
            break
    fields = {
        name: (each.name_field,) for name, each in kinds.items() if each.name_field is not None and name not in unnamed
    }
    names = values_at(connection, tables, fields, sorted((each.last for each in sums.values()), key=_seq_of))
    documents = [
        EntityDifference(*key, _name(names.get(found.last.seq)), found.change or "", found.delta, found.last.seq)
        for key, found in sums.items()
    ]
    return Differences(documents, last)


def _rows(connection: sa.Connection, tables: Tables, key: Key, since: int, upto: int) -> Iterator[JournalRow]:
    """The rows of an entity between the seqs, read some at a time."""
    t = tables.journal
    kind, entity_id = key
    query = sa.select(t).where(t.c.entity_id == entity_id, is_of_kind(t, kind), t.c.seq <= upto).order_by(t.c.seq)
    while True:
        rows = connection.execute(query.where(t.c.seq > since).limit(_CHUNK_ROWS)).all()
        yield from (JournalRow(*row) for row in rows)
        if len(rows) < _CHUNK_ROWS:
            return
        since = rows[-1].seq


class _Sum:
    """The rows of an entity between the seqs, summed up."""

    last: JournalRow

    def __init__(self) -> None:
        self._old: dict[str, Any] = {}
        self._new: dict[str, Any] = {}
        self._existed: bool | None = None
        self._exists = False

    def add(self, row: JournalRow) -> None:
        """Add the next row."""
        if self._existed is None:
            self._existed = row.change != "created"
        self._exists = row.change != "deleted"
        for name, (before, after) in row.delta.items():
            self._old.setdefault(name, before)
            self._new[name] = after
        self.last = row

    @property
    def delta(self) -> dict[str, tuple[Any, Any]]:
        """Field -> (old, new), of the fields that differ."""
        new = self._new
        return {name: (old, new[name]) for name, old in self._old.items() if differ(old, new[name])}

    @property
    def change(self) -> str | None:
        """created, updated or deleted; None: the entity is as it was."""
        if self._existed and self._exists:
            return "updated" if self.delta else None
        if not self._existed and not self._exists:
            return None
        return "created" if self._exists else "deleted"

    def size(self) -> int:
        """About how many bytes a page has of it."""
        return len(json_text(self.delta)) + self.last.size()


def _seq_of(row: JournalRow) -> int:
    return row.seq


def _name(values: Mapping[str, Any] | None) -> str | None:
    return next(iter(values.values())) if values else None
