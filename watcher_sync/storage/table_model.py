# SPDX-License-Identifier: Apache-2.0
"""The model as the tables have it, read one entity at a time in a process without a replica.

:class:`TableModel` is a :class:`~watcher_sync.model.view.ModelReader` over one connection: within one database
transaction it is one consistent state. It caches what it reads, so it must not outlast that transaction.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec
import sqlalchemy as sa

from watcher_sync.model.kinds import Entity, Kind, Kinds
from watcher_sync.model.table import index_values
from watcher_sync.model.tombstones import Tombstone
from watcher_sync.model.transaction import Transaction
from watcher_sync.model.view import not_declared
from watcher_sync.storage.database.database import translated
from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.writing.journal import read_head, versions_of


class TableModel:
    """The model as the tables have it, read one entity at a time.

    :param connection: in a transaction with a stable view, or holding the journal's head.
    """

    def __init__(self, connection: sa.Connection, tables: Tables, kinds: Kinds) -> None:
        self.kinds = kinds
        self.generation = read_head(connection, tables)
        self._connection = connection
        self._tables = tables
        self.last_seen: dict[str, dict[str, datetime.datetime]] = {}
        """kind -> id -> time, from transactions: for the caller to persist."""
        self._known: dict[tuple[str, str], Entity | None] = {}
        self._found: dict[tuple[str, str, str], list[Entity]] = {}
        self._ids: dict[tuple[str, str, str], set[str]] = {}
        self._buried: dict[tuple[str, str], Tombstone | None] = {}

    def prefetch(self, kind: str, ids: Collection[str]) -> None:
        """Read these entities and tombstones of a kind in two queries, before they are asked for one by one."""
        declared, table, t = self.kinds[kind], self._tables.entities[kind], self._tables.tombstones
        self._known.update(dict.fromkeys(((kind, one) for one in ids), None))
        self._buried.update(dict.fromkeys(((kind, one) for one in ids), None))
        for row in self._connection.execute(sa.select(table).where(table.c.id.in_(ids))):
            self._known[kind, row.id] = entity_of(declared, row._mapping)
        for row in self._connection.execute(sa.select(t).where(t.c.kind == kind, t.c.id.in_(ids))):
            self._buried[kind, row.id] = _tombstone(declared, row)

    def publish(self, transaction: Transaction, mark: int | None = None) -> None:
        """The transaction is written to the tables, over the same connection."""
        self.generation = transaction.head
        for cache in (self._known, self._found, self._ids, self._buried):
            cache.clear()
        for kind, times in transaction.seen.items():
            known = self.last_seen.setdefault(kind, {})
            for entity_id, time in times.items():
                known[entity_id] = max(time, known.get(entity_id, time))

    def get(self, kind: str, entity_id: str) -> Entity | None:
        """The entity, or None where it does not exist. One query, unless it is known already."""
        key = (kind, entity_id)
        if key not in self._known:
            table = self._table(kind)
            row = self._connection.execute(sa.select(table).where(table.c.id == entity_id)).one_or_none()
            self._known[key] = None if row is None else entity_of(self.kinds[kind], row._mapping)
        return self._known[key]

    def _table(self, kind: str) -> sa.Table:
        """The table of a kind.

        :raises NotDeclared: there is no such kind.
        """
        if kind not in self.kinds:
            raise not_declared(self.kinds, kind)
        return self._tables.entities[kind]

    def by(self, kind: str, index: str, value: Any) -> Collection[Entity]:
        """The entities whose indexed field has this value; for a list field, that contain it. One query.

        :raises NotDeclared: there is no such kind, or the kind has no such index.
        """
        if kind not in self.kinds or index not in self.kinds[kind].indexes:
            raise not_declared(self.kinds, kind, index)
        declared, key = self.kinds[kind], (kind, index, str(value))
        if key not in self._found:
            table = self._tables.entities[kind]
            query = sa.select(table).where(equals(declared, table, index, str(value)))
            found = [entity_of(declared, row._mapping) for row in self._connection.execute(query)]
            self._found[key] = [one for one in found if str(value) in index_values(getattr(one, index))]
        return self._found[key]

    def indexed_ids(self, kind: str, index: str, value: str) -> set[str]:
        """Ids by indexed value."""
        key = (kind, index, value)
        if key not in self._ids:
            if kind not in self.kinds or index not in self.kinds[kind].indexes:
                raise not_declared(self.kinds, kind, index)
            declared = self.kinds[kind]
            if declared.fields[index].python is str:
                table = self._tables.entities[kind]
                query = sa.select(table.c.id).where(equals(declared, table, index, value))
                self._ids[key] = set(self._connection.execute(query).scalars())
            else:
                self._ids[key] = {entity.id for entity in self.by(kind, index, value)}
        return self._ids[key]

    def all(self, kind: str, prefix: str = "") -> Iterator[Entity]:
        """The entities of a kind, in no order. One query, whose rows are in memory before the first one is returned."""
        table = self._table(kind)
        query = sa.select(table).where(table.c.id.startswith(prefix, autoescape=True)) if prefix else sa.select(table)
        rows = self._connection.execute(query).all()
        entities = (entity_of(self.kinds[kind], row._mapping) for row in rows)
        return (entity for entity in entities if entity.id.startswith(prefix))  # as in ids_with_prefix

    def ids_with_prefix(self, kind: str, prefix: str) -> set[str]:
        """The ids of a kind that begin with a prefix, without the rest of their rows. One query."""
        column = self._tables.entities[kind].c.id
        query = sa.select(column).where(column.startswith(prefix, autoescape=True))
        # LIKE takes upper for lower case on some databases.
        return {found for found in self._connection.execute(query).scalars() if found.startswith(prefix)}

    def tombstone(self, kind: str, entity_id: str) -> Tombstone | None:
        """What is remembered of a deleted entity."""
        key = (kind, entity_id)
        if key not in self._buried:
            t = self._tables.tombstones
            query = sa.select(t).where(t.c.kind == kind, t.c.id == entity_id)
            row = self._connection.execute(query).one_or_none()
            self._buried[key] = None if row is None else _tombstone(self.kinds[kind], row)
        return self._buried[key]


class TableView:
    """The tables as a view, for a process without a replica that reads for longer than one transaction.

    Each question has its own connection and is answered as of its own moment. For any thread.
    """

    def __init__(self, database: sa.Engine, tables: Tables, kinds: Kinds) -> None:
        self.kinds = kinds
        self._database = database
        self._tables = tables

    def get(self, kind: str, entity_id: str) -> Entity | None:
        """The entity, or None where it does not exist.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        with translated(), self._database.connect() as connection:
            return TableModel(connection, self._tables, self.kinds).get(kind, entity_id)

    def by(self, kind: str, index: str, value: Any) -> Collection[Entity]:
        """The entities whose indexed field has this value; for a list field, that contain it.

        :raises NotDeclared: there is no such kind, or the kind has no such index.
        :raises DatabaseUnavailable: the database is unavailable.
        """
        with translated(), self._database.connect() as connection:
            return TableModel(connection, self._tables, self.kinds).by(kind, index, value)

    def all(self, kind: str, prefix: str = "") -> Iterator[Entity]:
        """The entities of a kind, in no order. One query, whose rows are in memory before the first one is returned.

        :raises NotDeclared: there is no such kind.
        :raises DatabaseUnavailable: the database is unavailable.
        """
        with translated(), self._database.connect() as connection:
            return TableModel(connection, self._tables, self.kinds).all(kind, prefix)


def _tombstone(kind: Kind, row: Any) -> Tombstone:
    return Tombstone(row.id, versions_of(kind, row.versions), row.deleted_at, row.seq)


def entity_of(kind: Kind, row: Mapping[Any, Any]) -> Entity:
    """The entity that a whole row of its table represents."""
    values = dict(row)
    values["versions"] = versions_of(kind, values["versions"])
    return kind.cls(**values)


def equals(kind: Kind, table: sa.Table, field: str, value: str) -> sa.ColumnElement[bool]:
    """Whether an indexed field has the value, or, a list, contains it.

    A list is stored as JSON text: it is searched for the value's own JSON text, quotation marks included. (LIKE
    would take upper for lower case on some databases.)
    """
    column: sa.Column[Any] = table.c[field]
    python = kind.fields[field].python
    if python is list:
        text = sa.type_coerce(column, sa.Text())
        without: sa.ColumnElement[str] = sa.func.replace(text, msgspec.json.encode(value).decode(), "")
        return without != text
    wanted: Any = value
    if python in (int, float):
        wanted = python(value)
    elif python is bool:
        wanted = value.lower() == "true"
    elif python is datetime.datetime:
        wanted = msgspec.convert(value, datetime.datetime)
    same: sa.ColumnElement[bool] = column == wanted
    return same
