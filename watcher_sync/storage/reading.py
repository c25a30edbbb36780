# SPDX-License-Identifier: Apache-2.0
"""Reads entities and their history from the tables, for a process without a replica.

:class:`TableModel` is a :class:`~watcher_sync.model.reader.ModelReader` over one connection: within one database
transaction it is one consistent state. It caches what it reads, so it must not outlast that transaction.

A history is read in pages. A page ends after about 8 MiB of documents, too.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec
import sqlalchemy as sa

from watcher_sync.model.kinds import PROJECT_FIELD, Entity, Kind, Kinds
from watcher_sync.model.table import index_values
from watcher_sync.model.tombstones import Tombstone
from watcher_sync.model.transaction import Transaction
from watcher_sync.storage.database.database import translated
from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.writing.journal import JournalRow, fitting, is_of_kind, read_head, stored_bytes, versions_of

OUTLET_EVENTS: Final = "outlet.subscription."
"""How the types of rows begin that record the end of a subscription, and change nothing of the entity."""

_MAX_PAGE_BYTES = 8_388_608
"""Bytes of documents after which a page ends."""


class Owner(msgspec.Struct, frozen=True):
    """Who an entity belongs to."""

    project_id: str | None
    """None: to no project."""


_Row = TypeVar("_Row")


class Page(msgspec.Struct, Generic[_Row], frozen=True):
    """The rows of a page."""

    rows: list[_Row]
    more: bool
    """Whether rows follow after the last one."""


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
        for kind, heard in transaction.seen.items():
            known = self.last_seen.setdefault(kind, {})
            for entity_id, time in heard.items():
                known[entity_id] = max(time, known.get(entity_id, time))

    def get(self, kind: str, entity_id: str) -> Entity | None:
        """The entity, or None where it does not exist."""
        key = (kind, entity_id)
        if key not in self._known:
            table = self._tables.entities[kind]
            row = self._connection.execute(sa.select(table).where(table.c.id == entity_id)).one_or_none()
            self._known[key] = None if row is None else entity_of(self.kinds[kind], row._mapping)
        return self._known[key]

    def by(self, kind: str, index: str, value: Any) -> Collection[Entity]:
        """The entities whose indexed field has this value; for a list field, that contain it.

        :raises KeyError: when the kind declares no such index.
        """
        declared = self.kinds[kind]
        if index not in declared.indexes:
            raise KeyError((kind, index))
        key = (kind, index, str(value))
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
            declared = self.kinds[kind]
            if declared.fields[index].python is str:
                table = self._tables.entities[kind]
                query = sa.select(table.c.id).where(equals(declared, table, index, value))
                self._ids[key] = set(self._connection.execute(query).scalars())
            else:
                self._ids[key] = {entity.id for entity in self.by(kind, index, value)}
        return self._ids[key]

    def ids_with_prefix(self, kind: str, prefix: str) -> set[str]:
        """The ids of a kind that begin with a prefix."""
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
        self._database = database
        self._tables = tables
        self._kinds = kinds

    def get(self, kind: str, entity_id: str) -> Entity | None:
        """The entity, or None where it does not exist.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        with translated(), self._database.connect() as connection:
            return TableModel(connection, self._tables, self._kinds).get(kind, entity_id)

    def by(self, kind: str, index: str, value: Any) -> Collection[Entity]:
        """The entities whose indexed field has this value; for a list field, that contain it.

        :raises KeyError: when the kind declares no such index.
        :raises DatabaseUnavailable: the database is unavailable.
        """
        with translated(), self._database.connect() as connection:
            return TableModel(connection, self._tables, self._kinds).by(kind, index, value)


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


def _bounded(
    connection: sa.Connection, query: sa.Select[*tuple[Any, ...]], documents: Sequence[sa.Column[Any]], limit: int
) -> Page[sa.Row[*tuple[Any, ...]]]:
    """The first rows of a query: at most ``limit``, whose documents have about 8 MiB, but at least one."""
    if documents:
        sizes = query.with_only_columns(stored_bytes(connection, *documents)).limit(limit)
        limit = fitting(connection.execute(sizes).scalars(), _MAX_PAGE_BYTES) or 1
    rows = connection.execute(query.limit(limit + 1)).all()
    return Page(list(rows[:limit]), len(rows) > limit)


def read_item(connection: sa.Connection, tables: Tables, kind: Kind, entity_id: str) -> dict[str, Any] | None:
    """One entity's fields, and the seq that wrote it."""
    table = tables.entities[kind.name]
    columns = [table.c[name] for name in ("id", *kind.fields, "seq")]
    row = connection.execute(sa.select(*columns).where(table.c.id == entity_id)).one_or_none()
    return None if row is None else dict(row._mapping)


def read_namespace_owner(connection: sa.Connection, tables: Tables, cluster: str, namespace: str) -> str | None:
    """The project of the pods and workloads of a namespace; None: no engine mapped the namespace to a project."""
    for kind in ("pod", "workload"):
        t = tables.entities[kind]
        where = sa.and_(t.c.namespace == namespace, t.c.cluster == cluster, t.c.project_id.is_not(None))
        owner: str | None = connection.execute(sa.select(t.c.project_id).where(where).limit(1)).scalar()
        if owner is not None:
            return owner
    return None


def read_owner(
    connection: sa.Connection, tables: Tables, kind: Kind, entity_id: str, *, deleted: bool = False
) -> Owner | None:
    """The owner of an entity, or None where it does not exist.

    :param deleted: whether to find a deleted entity, too, as long as the journal has its last change.
    """
    table = tables.entities[kind.name]
    column = table.c[PROJECT_FIELD] if kind.is_scoped else sa.null()
    row = connection.execute(sa.select(column).where(table.c.id == entity_id)).one_or_none()
    if row is not None:
        return Owner(row[0])
    last = last_change(connection, tables, kind.name, entity_id) if deleted else None
    if last is None:
        return None
    old, new = last.delta.get(PROJECT_FIELD, (None, None))  # for a row from before the journal had projects
    return Owner(last.project_id or (old if last.change == "deleted" else new))


def read_history(
    connection: sa.Connection, tables: Tables, kind: str, entity_id: str, *, after: int, limit: int
) -> Page[JournalRow]:
    """What happened to one entity after a seq, as far back as the journal reaches.

    A page has at most ``limit`` rows of about 8 MiB, but at least one. Rows that moved versions only are left out.
    """
    t = tables.journal
    query = (
        sa.select(t)
        .where(t.c.entity_id == entity_id, is_of_kind(t, kind), t.c.seq > after)
        .where(
            sa.or_(
                sa.type_coerce(t.c.delta, sa.Text()) != "{}",
                t.c.change != "updated",
                t.c.event_type.startswith(OUTLET_EVENTS),
            )
        )
        .order_by(t.c.seq)
    )
    page = _bounded(connection, query, [t.c.delta], limit)
    return Page([JournalRow(*row) for row in page.rows], page.more)


def last_change(connection: sa.Connection, tables: Tables, kind: str, entity_id: str) -> JournalRow | None:
    """The last journal row of an entity that the journal still has."""
    t = tables.journal
    query = sa.select(t).where(t.c.entity_id == entity_id, is_of_kind(t, kind)).order_by(t.c.seq.desc()).limit(1)
    row = connection.execute(query).one_or_none()
    return None if row is None else JournalRow(*row)


def read_last(
    connection: sa.Connection,
    tables: Tables,
    limit: int,
    *,
    kind: str | None = None,
    entity_id: str | None = None,
    project_id: str | None = None,
    before: int | None = None,
) -> list[JournalRow]:
    """The last rows of the journal, in order: at most ``limit`` of about 8 MiB, but at least one.

    :param kind: only those of entities of this kind; None: of all.
    :param entity_id: only those of the entity with this id; None: of all.
    :param project_id: only those of entities of this project; None: of all.
    :param before: only those before this seq; None: those up to the end.
    """
    t = tables.journal
    wanted = {t.c.entity_id: entity_id, t.c.project_id: project_id}
    if kind is None:
        of_kind: sa.ColumnElement[bool] = sa.true()
    else:
        of_kind = t.c.kind == kind if entity_id is None else is_of_kind(t, kind)
    chosen = sa.and_(
        t.c.seq < before if before is not None else sa.true(),
        of_kind,
        *(column == value for column, value in wanted.items() if value is not None),
    )
    sizes = sa.select(stored_bytes(connection, t.c.delta)).where(chosen).order_by(t.c.seq.desc()).limit(limit)
    count = fitting(connection.execute(sizes).scalars(), _MAX_PAGE_BYTES)
    rows = connection.execute(sa.select(t).where(chosen).order_by(t.c.seq.desc()).limit(count)).all()
    return [JournalRow(*row) for row in reversed(rows)]


def oldest_seq(connection: sa.Connection, tables: Tables) -> int | None:
    """The first seq that the journal still has, or None where it is empty."""
    return connection.execute(sa.select(sa.func.min(tables.journal.c.seq))).scalar()
