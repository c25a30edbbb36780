# SPDX-License-Identifier: Apache-2.0
"""Reads the rows of one kind as JSON text. Objects, lists and times stay text on their way, which costs less.

Pure but for the queries; any thread.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from watcher_sync.model.kinds import Kind
from watcher_sync.storage.database.types import Document, rfc3339, time_as_text

_IDS_AT_ONCE: Final = 1000

_encode = msgspec.json.Encoder().encode


class EncodedRows:
    """Some columns of the rows of one kind."""

    def __init__(
        self, table: sa.Table, kind: Kind, names: Sequence[str], computed: Mapping[str, Any], dialect: str
    ) -> None:
        """:param computed: name -> type of the members that no column has.

        :param dialect: sqlite, postgresql or mysql.
        """
        self._table = table
        columns = [table.c[name] for name in names]
        self.documents = [column for column in columns if isinstance(column.type, Document)]
        """The columns with objects and lists."""
        self._documents = [i for i, column in enumerate(columns) if isinstance(column.type, Document)]
        times = {name for name in names if name in kind.fields and kind.fields[name].python is datetime.datetime}
        self._times = [i for i, name in enumerate(names) if name in times]
        self.query = sa.select(*(_selected(each, each.name in times, dialect).label(each.name) for each in columns))
        """Selects the rows as :meth:`encode` takes them."""
        self._object = msgspec.defstruct(kind.cls.__name__, [*((n, Any) for n in names), *computed.items()], gc=False)
        self.position = {name: i for i, name in enumerate(names)}

    def read(self, connection: sa.Connection, ids: Collection[str] | None = None) -> Iterator[Sequence[Any]]:
        """The rows with these ids, or all."""
        if ids is None:
            yield from connection.execute(self.query).all()
            return
        chosen = sorted(ids)
        for start in range(0, len(chosen), _IDS_AT_ONCE):
            some = chosen[start : start + _IDS_AT_ONCE]
            yield from connection.execute(self.query.where(self._table.c.id.in_(some))).all()

    def encode(self, row: Sequence[Any], computed: Sequence[Any] = ()) -> bytes:
        """A row as JSON.

        :param computed: the values of the computed members, in their order.
        """
        values = [*row, *computed]
        for i in self._documents:
            if (text := values[i]) is not None:
                values[i] = msgspec.Raw(text)
        for i in self._times:
            if (text := values[i]) is not None:
                values[i] = rfc3339(text)
        return _encode(self._object(*values))


def _selected(column: sa.Column[Any], is_time: bool, dialect: str) -> sa.ColumnElement[Any]:
    if is_time:
        return time_as_text(column, dialect)
    return sa.type_coerce(column, sa.Text()) if isinstance(column.type, Document) else column
