# SPDX-License-Identifier: Apache-2.0
"""Reads entities with their versions as JSON text, sorted by id: what a copy of the model needs of them.

A page has about 8 MiB of documents at most. For any thread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

import msgspec
import sqlalchemy as sa

from watcher_sync.model.kinds import Kind
from watcher_sync.read.encoded_rows import EncodedRows
from watcher_sync.read.filters import FieldCondition, clauses
from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.writing.journal import fitting, stored_bytes

_MAX_PAGE_BYTES: Final = 8_388_608


class StatePage(msgspec.Struct, frozen=True):
    """Some entities."""

    texts: list[bytes]
    marker: str | None
    """The id of the last one, if more follow."""


class StateReader:
    """Reads the entities of one kind."""

    def __init__(self, tables: Tables, kind: Kind, dialect: str) -> None:
        """:param dialect: sqlite, postgresql or mysql."""
        self._kind = kind
        self._dialect = dialect
        self._table = tables.entities[kind.name]
        self._rows = EncodedRows(self._table, kind, (*kind.public, "seq", "versions"), {}, dialect)

    def read(
        self,
        connection: sa.Connection,
        *,
        limit: int,
        after: str | None = None,
        ids: Collection[str] | None = None,
        conditions: Iterable[FieldCondition] = (),
    ) -> StatePage:
        """One page: at most ``limit`` entities, but at least one if there is one.

        :param after: the marker of the page before.
        :param ids: only entities with one of these ids; None: all.
        :param conditions: all have to hold.
        """
        rows, column = self._rows, self._table.c.id
        query = rows.query.where(*clauses(self._kind, self._table, self._dialect, conditions))
        if ids is not None:
            query = query.where(column.in_(ids))
        if after is not None:
            query = query.where(column > after)
        query = query.order_by(column)
        sizes = query.with_only_columns(stored_bytes(connection, *rows.documents)).limit(limit)
        limit = fitting(connection.execute(sizes).scalars(), _MAX_PAGE_BYTES) or 1
        found = connection.execute(query.limit(limit + 1)).all()
        page = found[:limit]
        marker = str(page[-1][rows.position["id"]]) if len(found) > limit else None
        return StatePage([rows.encode(row) for row in page], marker)

    def sizes(self, connection: sa.Connection, ids: Collection[str]) -> dict[str, int]:
        """Id -> the bytes of documents, of those of these entities that exist.

        :param ids: at most 1,000.
        """
        column = self._table.c.id
        size = stored_bytes(connection, *self._rows.documents) if self._rows.documents else sa.literal(0)
        query = sa.select(column, size).where(column.in_(ids))
        return {entity_id: int(size) for entity_id, size in connection.execute(query)}

    def texts(self, connection: sa.Connection, ids: Collection[str]) -> dict[str, bytes]:
        """Id -> the entity with its versions, of those of these entities that exist."""
        rows, position = self._rows, self._rows.position["id"]
        return {row[position]: rows.encode(row) for row in rows.read(connection, ids)}
