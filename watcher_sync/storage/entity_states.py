# SPDX-License-Identifier: Apache-2.0
"""Reads entities with their versions as JSON text, sorted by id: what a copy of the model needs of them.

A page has about 8 MiB of documents at most. For any thread.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import msgspec
import sqlalchemy as sa

from watcher_sync.model.kinds import Kind
from watcher_sync.storage.encoded_rows import EncodedRows
from watcher_sync.storage.journal import fitting, stored_bytes
from watcher_sync.storage.reading import equals
from watcher_sync.storage.tables import Tables

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
        self._table = tables.entities[kind.name]
        self._rows = EncodedRows(self._table, kind, (*kind.public, "seq", "versions"), {}, dialect)

    def read(
        self,
        connection: sa.Connection,
        *,
        limit: int,
        after: str | None = None,
        ids: Collection[str] | None = None,
        filters: Mapping[str, str] | None = None,
    ) -> StatePage:
        """One page: at most ``limit`` entities, but at least one if there is one.

        :param after: the marker of the page before.
        :param ids: only entities with one of these ids; None: all.
        :param filters: indexed field -> value.
        :raises ValueError: when a filter's value cannot be one of its field.
        """
        rows, column = self._rows, self._table.c.id
        query = rows.query.where(*(equals(self._kind, self._table, *each) for each in (filters or {}).items()))
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
