# SPDX-License-Identifier: Apache-2.0
"""Reads the entities of one kind in pages by key: a page begins after the (sort value, id) of the last row before.

Every page costs the same, and concurrent inserts and deletes shift no row to another page. A list sorted by id shows
each entity that exists and matches throughout exactly once. If the sort field of an entity changes meanwhile, the list
may miss or repeat it. A page ends after about 8 MiB of documents, too.

The ids of a page are chosen first. They are in the indexes, so a common value costs no reading of rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from watcher_sync.model.kinds import Kind
from watcher_sync.read.filters import Clause, FieldCondition, clauses
from watcher_sync.read.reading import RowPage
from watcher_sync.storage.database.types import Document
from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.writing.journal import fitting, stored_bytes

_MAX_PAGE_BYTES: Final = 8_388_608
"""Bytes of documents after which a page ends."""


class Sort(msgspec.Struct, frozen=True):
    """The order of a list: by this field, then by id."""

    field: str = "id"
    descending: bool = False


class After(msgspec.Struct, frozen=True):
    """The last row of the page before: its sort value and its id."""

    value: Any
    id: str


def read_page(
    connection: sa.Connection,
    tables: Tables,
    kind: Kind,
    *,
    names: Sequence[str],
    conditions: Iterable[FieldCondition] = (),
    sort: Sort,
    after: After | None,
    limit: int,
    ids: Collection[str] | None = None,
) -> RowPage[dict[str, Any]]:
    """One page of a kind's entities as name -> value: at most ``limit`` of about 8 MiB, but at least one.

    :param connection: with one consistent state of the database.
    :param names: the columns to read.
    :param conditions: all have to hold.
    :param sort: by id or a field that is no list and no object.
    :param after: where the page before ended.
    :param ids: only entities with one of these ids; None: all.
    """
    table = tables.entities[kind.name]
    where = clauses(kind, table, connection.dialect.name, conditions)
    if ids is not None:
        where.append(table.c.id.in_(ids))
    if after is not None:
        where.append(_beyond(table, sort, after))
    key = table.c[sort.field]
    order = [table.c.id] if sort.field == "id" else [key.is_(None), key, table.c.id]
    query = sa.select(table.c.id).where(*where).order_by(*(c.desc() if sort.descending else c for c in order))
    found = list(connection.execute(query.limit(limit + 1)).scalars())
    columns = [table.c[name] for name in dict.fromkeys([*names, "id", sort.field])]
    chosen = _fitting(connection, table, [c for c in columns if isinstance(c.type, Document)], found[:limit])
    rows = {row.id: row for row in connection.execute(sa.select(*columns).where(table.c.id.in_(chosen)))}
    return RowPage([dict(rows[each]._mapping) for each in chosen], len(found) > len(chosen))


def _fitting(
    connection: sa.Connection, table: sa.Table, documents: Sequence[sa.Column[Any]], ids: Sequence[str]
) -> Sequence[str]:
    """The first of these entities: those whose documents have about 8 MiB, but at least one."""
    if not documents or not ids:
        return ids
    query = sa.select(table.c.id, stored_bytes(connection, *documents)).where(table.c.id.in_(ids))
    sizes = {row[0]: row[1] for row in connection.execute(query)}
    return ids[: fitting((sizes[each] for each in ids), _MAX_PAGE_BYTES) or 1]


def _beyond(table: sa.Table, sort: Sort, after: After) -> Clause:
    """The rows after a place in the order; where a field has no value, it is greater than every value."""

    def past(column: sa.ColumnElement[Any], value: Any) -> Clause:
        beyond: Clause = column < value if sort.descending else column > value
        return beyond

    if sort.field == "id":
        return past(table.c.id, after.id)
    key = table.c[sort.field]
    if after.value is None:
        same = sa.and_(key.is_(None), past(table.c.id, after.id))
        return sa.or_(key.is_not(None), same) if sort.descending else same
    value = sa.literal(after.value, key.type)
    same = sa.and_(key == value, past(table.c.id, after.id))
    if sort.descending:
        return sa.or_(past(key, value), same)
    return sa.or_(past(key, value), same, key.is_(None))
