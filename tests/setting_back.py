# SPDX-License-Identifier: Apache-2.0
"""Takes a database back in time, as the restoration of a backup or a fail-over to a late standby does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from watcher_sync.storage.writing.store import Store


class Backup:
    """The rows of all tables at one moment."""

    def __init__(self, store: Store) -> None:
        self._database = store.database
        self._tables = sa.MetaData()
        self._tables.reflect(self._database)
        with self._database.connect() as connection:
            self._rows: dict[sa.Table, list[Any]] = {
                table: [tuple(row) for row in connection.execute(sa.select(*_plain(table)))]
                for table in self._tables.sorted_tables
            }

    def restore(self, then: Callable[[sa.Connection], None] = lambda _connection: None) -> None:
        """Bring every table back, in one transaction.

        :param then: writes more in the same transaction, before any other process sees the tables.
        """
        with self._database.begin() as connection:
            for table, rows in self._rows.items():
                connection.execute(table.delete())
                if rows:
                    names = [column.name for column in table.columns]
                    connection.execute(table.insert(), [dict(zip(names, row, strict=True)) for row in rows])
            then(connection)


def _plain(table: sa.Table) -> list[sa.ColumnElement[Any]]:
    return list(table.columns)
