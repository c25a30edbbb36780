# SPDX-License-Identifier: Apache-2.0
"""Reads the entities of one kind as JSON text. Objects, lists and times stay text on their way, which costs less.

A page begins after the (sort value, id) of the last row before. So each page costs the same, and concurrent inserts and
deletes shift no row to another page. A list sorted by id shows each entity that exists and matches throughout exactly
once. If the sort field of an entity changes meanwhile, the list may miss or repeat it. A page ends after about 8 MiB of
documents, too.

Pure but for the queries; any thread.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from watcher_sync.model.kinds import Kind
from watcher_sync.read.filters import Clause, FieldCondition, clause
from watcher_sync.storage.database.pages import RowPage, bounded_page, document_bytes
from watcher_sync.storage.database.types import JsonDocument, VersionsDocument, time_as_text, versions_of_text
from watcher_sync.storage.schema.tables import Tables

_IDS_AT_ONCE: Final = 1_000

_encode = msgspec.json.Encoder().encode


class Sort(msgspec.Struct, frozen=True):
    """The order of a list: by this field, then by id."""

    field: str = "id"
    descending: bool = False


class After(msgspec.Struct, frozen=True):
    """The last row of the page before: its sort value and its id."""

    value: Any
    id: str


class EntityReader:
    """Reads some members of the entities of one kind."""

    def __init__(
        self,
        tables: Tables,
        kind: Kind,
        dialect: str,
        names: Sequence[str],
        *,
        computed: Sequence[str] = (),
        beside: Sequence[str] = (),
    ) -> None:
        """:param dialect: sqlite, postgresql or mysql.

        :param names: the columns that the text has.
        :param computed: the members of the text that no column has.
        :param beside: further columns that a row has, but not the text.
        """
        self._kind = kind
        self._dialect = dialect
        self._table = table = tables.entities[kind.name]
        columns = [table.c[name] for name in names]
        times = {name for name, field in kind.fields.items() if field.python is datetime.datetime}
        self._documents = {i: column for i, column in enumerate(columns) if isinstance(column.type, JsonDocument)}
        self._versions = [i for i, column in self._documents.items() if isinstance(column.type, VersionsDocument)]
        self._times = [i for i, name in enumerate(names) if name in times]
        self._count = len(names)
        self._beside = tuple(beside)
        self.computed = tuple(computed)
        self._object = msgspec.defstruct(kind.cls.__name__, [*names, *computed], gc=False)
        self._query = sa.select(
            *(_as_text(each, each.name in times, dialect).label(each.name) for each in columns),
            *(table.c[name].label(f"beside_{name}") for name in beside),
        )
        self.position = {name: i for i, name in enumerate(names)}
        """Name -> where a row has its value, as in the text."""

    def read(self, connection: sa.Connection, ids: Collection[str] | None = None) -> Iterator[Sequence[Any]]:
        """The rows with these ids, or all."""
        if ids is None:
            yield from connection.execute(self._query).all()
            return
        chosen = sorted(ids)
        for start in range(0, len(chosen), _IDS_AT_ONCE):
            some = chosen[start : start + _IDS_AT_ONCE]
            yield from connection.execute(self._query.where(self._table.c.id.in_(some))).all()

    def page(
        self,
        connection: sa.Connection,
        *,
        limit: int,
        sort: Sort = Sort(),  # noqa: B008 - immutable
        after: After | None = None,
        conditions: Iterable[FieldCondition] = (),
        ids: Collection[str] | None = None,
    ) -> RowPage[Sequence[Any]]:
        """One page: at most ``limit`` rows of about 8 MiB, but at least one. A row ends with its sort value.

        :param connection: with one consistent state of the database.
        :param sort: by id or a field that is no list and no object.
        :param after: where the page before ended.
        :param conditions: all have to hold.
        :param ids: only entities with one of these ids; None: all.
        """
        table = self._table
        where = [clause(self._kind, table, self._dialect, each) for each in conditions]
        has_filter = bool(where)
        if ids is not None:
            where.append(table.c.id.in_(ids))
        if after is not None:
            where.append(_beyond(table, sort, after))
        value = table.c[sort.field]
        order = [table.c.id] if sort.field == "id" else [value.is_(None), value, table.c.id]
        return bounded_page(
            connection,
            self._query.add_columns(value.label("sort_value")).where(*where),
            [each.desc() for each in order] if sort.descending else order,
            limit,
            key=table.c.id,
            documents=self._documents,
            keys_first=has_filter,
        )

    def sizes(self, connection: sa.Connection, ids: Collection[str]) -> dict[str, int]:
        """Id -> the bytes of documents, of those of these entities that exist.

        :param ids: at most 1,000.
        """
        column = self._table.c.id
        query = sa.select(column, document_bytes(connection, self._documents.values())).where(column.in_(ids))
        return {entity_id: int(size) for entity_id, size in connection.execute(query)}

    def beside(self, row: Sequence[Any]) -> dict[str, Any]:
        """The columns of a row that the text does not have."""
        return dict(zip(self._beside, row[self._count :], strict=False))

    def encode(self, row: Sequence[Any], computed: Sequence[Any] = ()) -> bytes:
        """A row as JSON.

        :param computed: the values of the computed members, in their order.
        """
        values = [*row[: self._count], *computed]
        for i in self._documents:
            if (text := values[i]) is not None:
                values[i] = msgspec.Raw(text)
        for i in self._versions:
            values[i] = versions_of_text(row[i])
        for i in self._times:
            if (text := values[i]) is not None:
                values[i] = f"{text[:10]}T{text[11:].removesuffix('.000000')}Z"  # as msgspec encodes a time
        return _encode(self._object(*values))


def state_reader(tables: Tables, kind: Kind, dialect: str) -> EntityReader:
    """Reads entities with their versions: what a copy of the model needs of them."""
    return EntityReader(tables, kind, dialect, (*kind.public, "seq", "versions"))


def _as_text(column: sa.Column[Any], is_time: bool, dialect: str) -> sa.ColumnElement[Any]:
    if is_time:
        return time_as_text(column, dialect)
    return sa.type_coerce(column, sa.Text()) if isinstance(column.type, JsonDocument) else column


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
