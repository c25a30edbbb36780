# SPDX-License-Identifier: Apache-2.0
"""The values that some fields of entities had at journal rows, such as the name and the host of an instance.

A row has the changed fields only. A value comes from the row's delta, else from the next later row that changed the
field, else from the entity's present row. So a renamed, moved or deleted entity shows what it was at each row.

The cost is one query per kind for present rows. Entities that were written again cost one or more queries over their
later rows, each bounded in rows. The caller's connection has one consistent state of the database.

For any thread.
"""

from __future__ import annotations

import collections
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa

from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.writing.journal import JournalRow, is_of_kind

Key = tuple[str, str]
"""(kind, id)."""
Values = Mapping[str, Any]
Fields = Mapping[str, tuple[str, ...]]
"""Kind -> the wanted fields."""
Before = tuple[int, Any]
"""The seq of a row that changed a field, and the value before it."""

_MAX_IDS: Final = 500
"""Ids in one statement."""
_MAX_LATER_ROWS: Final = 2_000
"""Later rows that one query reads."""
_NONE: Final = (None, None)


def values_at(
    connection: sa.Connection, tables: Tables, fields: Fields, rows: Sequence[JournalRow]
) -> dict[int, Values]:
    """Read the values of entities at journal rows: after each row; before it, if it is a deletion.

    :param fields: the fields of each kind. Rows of other kinds get no values.
    :param rows: any rows of the journal, in order.
    :returns: seq -> field -> value.
    """
    of_key: dict[Key, list[JournalRow]] = {}
    for row in rows:
        if _lacks(row, fields.get(row.kind, ())):
            of_key.setdefault((row.kind, row.entity_id), []).append(row)
    present, written = _present(connection, tables, fields, of_key)
    # An entity that was not written after its first row here has no later row; a deleted one has no present row.
    again = {key: found for key, found in of_key.items() if written.get(key, found[0].seq + 1) > found[0].seq}
    later = _later(connection, tables, fields, again)
    found: dict[int, Values] = {}
    for row in rows:
        key, names = (row.kind, row.entity_id), fields.get(row.kind, ())
        side = 0 if row.change == "deleted" else 1
        if key in of_key and _lacks(row, names):
            values = present.get(key, {})
            found[row.seq] = {
                name: row.delta[name][1]
                if name in row.delta
                else _after(later.get((*key, name), ()), row.seq, values.get(name))
                for name in names
            }
        else:
            found[row.seq] = {name: row.delta.get(name, _NONE)[side] for name in names}
    return found


def _lacks(row: JournalRow, names: tuple[str, ...]) -> bool:
    """Whether the row does not have all values itself. Creations and deletions have all that are not null."""
    return row.change == "updated" and not row.delta.keys() >= set(names)


def _after(changes: Iterable[Before], seq: int, present: Any) -> Any:
    """The value after a row: the one before the next change, else the present one."""
    return next((old for at, old in changes if at > seq), present)


def _present(
    connection: sa.Connection, tables: Tables, fields: Fields, keys: Collection[Key]
) -> tuple[dict[Key, Values], dict[Key, int]]:
    """The values of the entities' present rows, and the seqs that wrote them."""
    values: dict[Key, Values] = {}
    written: dict[Key, int] = {}
    for kind, ids in _parts(keys):
        table, names = tables.entities[kind], fields[kind]
        columns = [table.c.id, table.c.seq, *(table.c[name] for name in names)]
        for row in connection.execute(sa.select(*columns).where(table.c.id.in_(ids))):
            written[kind, row[0]] = row[1]
            values[kind, row[0]] = dict(zip(names, row[2:], strict=True))
    return values, written


def _later(
    connection: sa.Connection, tables: Tables, fields: Fields, of_key: Mapping[Key, list[JournalRow]]
) -> dict[tuple[str, str, str], list[Before]]:
    """(kind, id, field) -> its changes after the entity's first row, in order, up to one after its last row."""
    changes: dict[tuple[str, str, str], list[Before]] = collections.defaultdict(list)
    for kind, ids in _parts(of_key):
        wanted = {entity_id: set(fields[kind]) for entity_id in ids}
        since = min(of_key[kind, entity_id][0].seq for entity_id in ids)
        while ids:
            rows = connection.execute(_touching(tables.journal, kind, ids, fields[kind], since)).all()
            for since, entity_id, change, delta in rows:
                last = of_key[kind, entity_id][-1].seq
                for name in fields[kind]:
                    if change != "updated" or name in delta:
                        changes[kind, entity_id, name].append((since, delta.get(name, _NONE)[0]))
                        if since > last:
                            wanted[entity_id].discard(name)
            if len(rows) < _MAX_LATER_ROWS:
                break
            ids = [entity_id for entity_id in ids if wanted[entity_id]]
    return changes


def _touching(t: sa.Table, kind: str, ids: list[str], names: tuple[str, ...], since: int) -> sa.Select[Any]:
    """Select rows of entities after a seq that may change one of the fields."""
    text = sa.type_coerce(t.c.delta, sa.Text())
    return (
        sa.select(t.c.seq, t.c.entity_id, t.c.change, t.c.delta)
        .where(t.c.entity_id.in_(ids), t.c.seq > since, is_of_kind(t, kind))
        .where(sa.or_(t.c.change != "updated", *(text.like(f'%"{name}":[%') for name in names)))
        .order_by(t.c.seq)
        .limit(_MAX_LATER_ROWS)
    )


def _parts(keys: Collection[Key]) -> Iterator[tuple[str, list[str]]]:
    """The ids of each kind, as many as one statement may have."""
    for kind in sorted({kind for kind, _ in keys}):
        ids = sorted(entity_id for each, entity_id in keys if each == kind)
        for start in range(0, len(ids), _MAX_IDS):
            yield kind, ids[start : start + _MAX_IDS]
