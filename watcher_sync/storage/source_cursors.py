# SPDX-License-Identifier: Apache-2.0
"""The stored positions of the sources, outside the commits that move them."""

from __future__ import annotations

import datetime

import sqlalchemy as sa

from watcher_sync.storage.database import translated
from watcher_sync.storage.statements import Statements
from watcher_sync.storage.tables import Tables


def write_cursor(database: sa.Engine, tables: Tables, source: str, position: str) -> None:
    """Replace the position of one source. The caller holds the lease of the engine group that has the source.

    :param position: as :meth:`watcher_sync.sources.base.Source.cursor` returns it.
    :raises DatabaseUnavailable: the database is unavailable.
    """
    writer = Statements(database).upsert(tables.source_cursors)
    now = datetime.datetime.now(datetime.UTC)
    with translated(), database.begin() as connection:
        connection.exec_driver_sql(writer.sql, writer.values((source, position, now)))
