# SPDX-License-Identifier: Apache-2.0
"""Takes journal rows back: what the entities of a kind were before the changes after a seq.

A journal row has the old values of the fields that it changed. The value of a field at a seq is the old one of the
first later row that changed it. If no later row did, it is the present one. An entity existed at the seq if its first
later row is no creation; without a later row, if it exists now. The caller makes sure that the journal has all later
rows.

The journal has no times when entities were last seen. They are unknown at a seq of the past.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from watcher_sync.model.kinds import Kind
from watcher_sync.storage.database.types import delta_of_text
from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.writing.journal import is_of_kind

CHUNK_ROWS: Final = 1000
"""Rows that are read at once."""
_MAX_IDS: Final = 500
"""Ids in one statement."""
_EMPTY: Final = "{}"


class Before(msgspec.Struct):
    """What the later rows say about an entity at a seq."""

    values: dict[str, Any]
    """Field -> its value in JSON, of the fields that were changed later."""
    is_whole: bool = False
    """Whether the entity had no other values: it was deleted later."""


def read_before(
    connection: sa.Connection,
    tables: Tables,
    kind: Kind,
    seq: int,
    *,
    entity_id: str | None = None,
    moved: set[str] | None = None,
) -> dict[str, Before | None]:
    """Id -> what later rows say about the entity at a seq; None: it did not exist.

    The values of an entity that is not named are those of now.

    :param connection: with one consistent state of the database.
    :param entity_id: the only entity of interest; None: all of the kind.
    :param moved: gets the ids of later rows that have no values: these entities have a later seq, if they exist.
    """
    t = tables.journal
    text = sa.type_coerce(t.c.delta, sa.Text())
    delta_but_of_creation = sa.case((t.c.change != "created", text))
    query = sa.select(t.c.seq, t.c.entity_id, t.c.change, delta_but_of_creation).where(t.c.seq > seq)
    if moved is None:
        query = query.where(sa.or_(t.c.change != "updated", text != _EMPTY))
    if entity_id is None:
        query = query.where(t.c.kind == kind.name)
    else:
        query = query.where(t.c.entity_id == entity_id, is_of_kind(t, kind.name))
    found: dict[str, Before | None] = {}
    for rows in in_parts(connection, query, t.c.seq, 0):
        for _seq, key, change, delta in rows:
            if moved is not None and change == "updated" and delta == _EMPTY:
                moved.add(key)
                continue
            if key not in found:
                if change == "created":
                    found[key] = None
                    continue
                found[key] = Before({})
            before = found[key]
            if before is None or before.is_whole or change == "created":
                continue
            for name, (old, _) in delta_of_text(delta).items():
                before.values.setdefault(name, old)
            before.is_whole = change == "deleted"
    return found


def in_parts(
    connection: sa.Connection, query: sa.Select[Any], key: sa.Column[Any], position: int, *, ordered: bool = True
) -> Iterator[Sequence[Any]]:
    """The rows of a query, some at a time.

    MariaDB's driver reads a whole result into memory. If it does not, the server ends the connection of a client that
    takes the rows slowly. So each part is a query of its own there.

    :param connection: with one consistent state of the database.
    :param key: a unique column.
    :param position: that of the column among those of the query.
    :param ordered: whether the order has to be that of the column, which may cost more.
    """
    is_streamed = connection.dialect.name != "mysql"
    if ordered or not is_streamed:
        query = query.order_by(key)
    if is_streamed:
        with connection.execute(query, execution_options={"yield_per": CHUNK_ROWS}) as result:
            yield from result.partitions(CHUNK_ROWS)
        return
    rows = connection.execute(query.limit(CHUNK_ROWS)).all()
    while rows:
        yield rows
        if len(rows) < CHUNK_ROWS:
            return
        rows = connection.execute(query.where(key > rows[-1][position]).limit(CHUNK_ROWS)).all()


def read_item_at(
    connection: sa.Connection, tables: Tables, kind: Kind, entity_id: str, seq: int
) -> dict[str, Any] | None:
    """One entity's fields at a seq, with the seq that wrote it; None: it did not exist.

    :param connection: with one consistent state of the database.
    """
    table = tables.entities[kind.name]
    row = connection.execute(sa.select(table).where(table.c.id == entity_id)).one_or_none()
    later = read_before(connection, tables, kind, seq, entity_id=entity_id)
    before = later.get(entity_id, Before({}))
    if before is None or (row is None and not before.is_whole):
        return None
    present = {} if row is None else dict(row._mapping)
    values = {} if before.is_whole else {name: present[name] for name in kind.fields}
    values = filled(kind, {**values, **kind.from_json(before.values)})
    written: int | None = present.get("seq")
    if written is None or written > seq:
        written = last_writes(connection, tables, kind.name, [entity_id], seq).get(entity_id)
    return {"id": entity_id, **values, "seq": written}


def filled(kind: Kind, values: Mapping[str, Any]) -> dict[str, Any]:
    """All fields: unknown ones are None, or have the default if the field cannot be None."""
    found: dict[str, Any] = {}
    for name, field in kind.fields.items():
        value = values.get(name)
        found[name] = kind.defaults[name] if value is None and not field.nullable else value
    if kind.last_seen_field is not None:
        found[kind.last_seen_field] = None
    return found


def last_writes(connection: sa.Connection, tables: Tables, kind: str, ids: Collection[str], seq: int) -> dict[str, int]:
    """Id -> the seq of the last change of the entity up to a seq, if the journal still has it."""
    t = tables.journal
    texts = [sa.type_coerce(column, sa.Text()) for column in (t.c.delta, t.c.versions)]
    wrote = sa.or_(t.c.change != "updated", *(text != _EMPTY for text in texts))
    found: dict[str, int] = {}
    for part in parts_of_ids(ids):
        query = (
            sa.select(t.c.entity_id, sa.func.max(t.c.seq))
            .where(t.c.entity_id.in_(part), t.c.seq <= seq, is_of_kind(t, kind), wrote)
            .group_by(t.c.entity_id)
        )
        found.update((row[0], int(row[1])) for row in connection.execute(query))
    return found


def parts_of_ids(keys: Collection[Any]) -> Iterable[list[Any]]:
    """Ids, as many as one statement has."""
    every, size = list(keys), min(_MAX_IDS, CHUNK_ROWS)
    return (every[start : start + size] for start in range(0, len(every), size))
