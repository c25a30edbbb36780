# SPDX-License-Identifier: Apache-2.0
"""Reads and writes the times when entities were last seen. They have no journal rows and no seq."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

import sqlalchemy as sa

from watcher_sync.model.kinds import Kinds
from watcher_sync.storage.schema.tables import Tables


def write_last_seen(
    connection: sa.Connection, tables: Tables, kinds: Kinds, seen: Mapping[str, Mapping[str, datetime.datetime]]
) -> None:
    """Write times that are newer than those in the rows.

    :param connection: in a transaction of the caller.
    :param seen: kind -> id -> time, aware UTC.
    """
    for kind, times in seen.items():
        field = kinds[kind].last_seen_field
        if field is None or not times:
            continue
        table = tables.entities[kind]
        column = table.c[field]
        statement = (
            sa.update(table)
            .where(table.c.id == sa.bindparam("b_id"))
            .where(sa.or_(column.is_(None), column < sa.bindparam("b_time", type_=column.type)))
            .values({field: sa.bindparam("b_time", type_=column.type)})
        )
        connection.execute(statement, [{"b_id": i, "b_time": t} for i, t in sorted(times.items())])


def read_last_seen(connection: sa.Connection, tables: Tables, kinds: Kinds) -> dict[str, dict[str, datetime.datetime]]:
    """kind -> id -> the stored time, of every kind that has one."""
    seen: dict[str, dict[str, datetime.datetime]] = {}
    for name, kind in kinds.items():
        if kind.last_seen_field is None:
            continue
        table = tables.entities[name]
        column = table.c[kind.last_seen_field]
        rows = connection.execute(sa.select(table.c.id, column).where(column.is_not(None)))
        seen[name] = {row[0]: row[1] for row in rows}
    return seen
