# SPDX-License-Identifier: Apache-2.0
"""Writes the entities of one kind into their table, and the times when they were last seen.

A new entity is written whole, by the guarded upsert. So is a known one, but on SQLite. SQLite writes every column
that a statement sets in each index again. There, a known entity's row gets only the columns of the changed facets and
of the fields derived from them.

Guaranteed: in both ways the row equals the entity afterwards. If a row is missing that the model knows, the row count
shows it, and the rows are written whole. Both statements have the same guard by seq.

Times when entities were last seen have no journal row and no seq.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from watcher_sync.model.kinds import Entity, Kind, Kinds
from watcher_sync.model.model import Staged
from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.writing.statements import RowWriter, Statement, Statements

_MIN_ROWS = 4
"""Fewer rows than this do not get a statement of their own."""

Written = tuple[Entity, str]
"""An entity, and its versions as text."""


class EntityRows:
    """Writes the entities of one kind; for the thread that commits."""

    def __init__(self, statements: Statements, table: sa.Table, kind: Kind) -> None:
        self._statements = statements
        self._table = table
        self._kind = kind
        self._whole = statements.upsert(table, newer="seq", skip=[kind.last_seen_field or ""])
        self._by_part = statements.dialect == "sqlite"
        self._part_of = {field.name: field.facet or field.name for field in kind.fields.values()}
        self._parts: dict[frozenset[str], RowWriter] = {}

    def statements(self, changed: Sequence[tuple[Staged, str]]) -> list[Statement]:
        """The statements that write these entities.

        :param changed: entities that exist, with their versions as text.
        """
        whole: list[Written] = []
        parts: dict[frozenset[str], list[Written]] = {}
        by_part, part_of = self._by_part and len(changed) >= _MIN_ROWS, self._part_of
        for staged, versions in changed:
            entity = staged.entity
            assert entity is not None
            if by_part and staged.base is not None:
                parts.setdefault(frozenset([part_of[name] for name in staged.touched]), []).append((entity, versions))
            else:
                whole.append((entity, versions))
        statements: list[Statement] = []
        for part, entities in parts.items():
            if len(entities) < _MIN_ROWS:
                whole += entities
            else:
                statements.append(self._update(part, entities))
        return statements + self._write(whole)

    def _write(self, entities: Sequence[Written]) -> list[Statement]:
        return self._whole.statements([self._whole.row(*each) for each in entities])

    def _update(self, part: frozenset[str], entities: Sequence[Written]) -> Statement:
        """Write some facets; if a row is missing, write the rows whole."""
        writer = self._parts.get(part)
        if writer is None:
            writer = self._parts[part] = self._writer(part)
        (statement,) = writer.statements([writer.row(*each) for each in entities])
        statement.rows, statement.otherwise = len(entities), lambda: self._write(entities)
        return statement

    def _writer(self, part: frozenset[str]) -> RowWriter:
        fields = [name for name, of in self._part_of.items() if of in part and name != self._kind.last_seen_field]
        return self._statements.update(self._table, fields, key="id", newer="seq")


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
