# SPDX-License-Identifier: Apache-2.0
"""The stored positions of the sources, outside the commits that move them, and the counter of epochs.

A driver that numbers its events itself needs an epoch that is greater at each start. No clock decides it: the database
counts, for all sources together, before the first event is emitted. So a cluster may move to a source of another name.

The counter begins above all epochs in the database.
"""

from __future__ import annotations

import datetime
import re
from typing import Final

import sqlalchemy as sa

from watcher_sync.storage.database.database import retried, translated
from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.writing.statements import Statements

_COUNTER: Final = "~epoch"
"""The row of the counter. No source has this name."""
_KINDS: Final = ("pod", "workload", "custom_object", "cluster")
"""Kinds whose versions begin with an epoch."""
_EPOCH: Final = re.compile(r'"(\d{17})\.\d{12}\D')
_DIGITS: Final = 17
"""Of an epoch in a version."""
_EVENT_TYPES: Final = "kubernetes.%"


@retried
def write_cursor(database: sa.Engine, tables: Tables, source: str, position: str) -> None:
    """Replace the position of one source. The caller holds the lease of the engine group that has the source.

    :param position: as :meth:`watcher_sync.sources.base.Source.cursor` returns it.
    :raises DatabaseUnavailable: the database is unavailable.
    """
    writer = Statements(database).upsert(tables.source_cursors)
    now = datetime.datetime.now(datetime.UTC)
    with translated(), database.begin() as connection:
        connection.exec_driver_sql(writer.sql, writer.values((source, position, now)))


def next_epoch(database: sa.Engine, tables: Tables, source: str) -> int:
    """Count a start of a source: a number greater than each one before, committed when this returns.

    :raises DatabaseUnavailable: the database is unavailable.
    """
    writer = Statements(database).upsert(tables.source_cursors)
    t = tables.source_cursors
    now = datetime.datetime.now(datetime.UTC)
    with translated(), database.begin() as connection:
        # Locks the row: of two processes that count, the second one waits.
        connection.execute(sa.update(t).where(t.c.source == _COUNTER).values(position=t.c.position))
        rows = connection.execute(sa.select(t).where(t.c.source.in_([_COUNTER, source])))
        stored = {row.source: int(row.position) for row in rows if _is_epoch(row.position)}
        if _COUNTER not in stored:
            stored[_COUNTER] = _highest_epoch(connection, tables)
        epoch = max(stored.values()) + 1
        connection.exec_driver_sql(writer.sql, writer.values((_COUNTER, str(epoch), now)))
    return epoch


def _highest_epoch(connection: sa.Connection, tables: Tables) -> int:
    """The highest epoch in versions, positions and stored events; it reads all rows, for the first start only."""
    highest = 0
    dead = tables.tombstones
    documents = [sa.select(sa.type_coerce(dead.c.versions, sa.Text)).where(dead.c.kind.in_(_KINDS))]
    documents += [
        sa.select(sa.type_coerce(tables.entities[kind].c.versions, sa.Text))
        for kind in _KINDS
        if kind in tables.entities
    ]
    for query in documents:
        for (text,) in connection.execute(query):
            highest = max([highest, *map(int, _EPOCH.findall(text))])
    for table in (tables.quarantine, tables.parked):
        c = table.c
        stored = sa.select(sa.func.max(c.stream_epoch)).where(c.event_type.like(_EVENT_TYPES))
        highest = max(highest, connection.execute(stored).scalar() or 0)
    for (position,) in connection.execute(sa.select(tables.source_cursors.c.position)):
        if _is_epoch(position):
            highest = max(highest, int(position))
    return highest


def _is_epoch(position: str) -> bool:
    """Whether a stored position is an epoch, and leaves room for the next one."""
    return position.isascii() and position.isdecimal() and len(position) < _DIGITS
