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
from watcher_sync.model.visibility import decoded
from watcher_sync.read.row_entities import values_at
from watcher_sync.storage.database.pages import MAX_PAGE_BYTES
from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.writing.journal import JournalRow, is_of_kind, journal_page

_CHUNK_ROWS: Final = 100
"""Rows of an entity that are read at once."""
_CHUNK_BYTES: Final = 1_048_576

_encode: Final = msgspec.json.Encoder().encode

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
    fields: msgspec.Raw
    """Field -> [old, new], of the fields that differ, as JSON."""
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
    names = {
        name: (each.name_field,) for name, each in kinds.items() if each.name_field is not None and name not in unnamed
    }
    found: list[tuple[JournalRow, str, msgspec.Raw]] = []
    size, last = 0, keys[limit - 1] if len(keys) > limit else None
    for number, key in enumerate(keys[:limit]):
        summed = _Sum()
        for row in _rows(connection, tables, key, since, upto):
            if (seen := shown(row)) is not None:
                summed.add(seen)
        delta = summed.delta
        if (change := summed.change(delta)) is not None:
            found.append((_with_only(summed.last, names.get(key[0], ())), change, msgspec.Raw(_encode(delta))))
            size += len(found[-1][2])
        if size >= MAX_PAGE_BYTES and number + 1 < len(keys):
            last = key
            break
    values = values_at(connection, tables, names, sorted((row for row, _, _ in found), key=_seq_of))
    documents = [
        EntityDifference(row.kind, row.entity_id, _name(values.get(row.seq)), change, fields, row.seq)
        for row, change, fields in found
    ]
    return Differences(documents, last)


def _rows(connection: sa.Connection, tables: Tables, key: Key, since: int, upto: int) -> Iterator[JournalRow]:
    """The rows of an entity between the seqs, with undecoded values. They are read some at a time."""
    t = tables.journal
    kind, entity_id = key
    more = True
    while more:
        where = [t.c.entity_id == entity_id, is_of_kind(t, kind), t.c.seq <= upto, t.c.seq > since]
        page = journal_page(connection, tables, where, _CHUNK_ROWS, max_bytes=_CHUNK_BYTES)
        yield from (row.undecoded() for row in page.rows)
        more, since = page.more, page.rows[-1].seq if page.rows else since


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
        return {name: (old, new[name]) for name, old in self._old.items() if _differ(old, new[name])}

    def change(self, delta: Mapping[str, tuple[Any, Any]]) -> str | None:
        """created, updated or deleted; None: the entity is as it was."""
        if self._existed and self._exists:
            return "updated" if delta else None
        if not self._existed and not self._exists:
            return None
        return "created" if self._exists else "deleted"


def _differ(old: Any, new: Any) -> bool:
    """Whether two values differ. Equal texts of JSON are equal values, and need not be decoded."""
    if isinstance(old, msgspec.Raw) and isinstance(new, msgspec.Raw) and bytes(old) == bytes(new):
        return False
    return differ(decoded(old), decoded(new))


def _with_only(row: JournalRow, names: Collection[str]) -> JournalRow:
    """The row without the values of other fields."""
    delta = {name: (decoded(old), decoded(new)) for name, (old, new) in row.delta.items() if name in names}
    return msgspec.structs.replace(row, delta=delta)


def _seq_of(row: JournalRow) -> int:
    return row.seq


def _name(values: Mapping[str, Any] | None) -> str | None:
    return next(iter(values.values())) if values else None
