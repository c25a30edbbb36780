# SPDX-License-Identifier: Apache-2.0
"""Deletes old rows: of the journal, tombstones, quarantined events and ended operations, and what exceeds a quota.

Each table is purged in small transactions, oldest rows first. A purge of millions of rows neither blocks the engine
nor fills the write-ahead log. The journal remains gapless: it is cut at its start. One row that is older than its age
remains, so that the model of each time within the age is known.
"""

from __future__ import annotations

import collections
import datetime
from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from watcher_sync.storage.database.database import retried, translated
from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.stored.quotas import (
    DroppedEvents,
    EventQuotas,
    StoredUsage,
    crowded,
    drop_oldest,
    quota_of,
    superseded,
    surplus,
    usage_of,
)
from watcher_sync.storage.writing.journal import first_since, read_head

_CHUNK_ROWS = 5000


class Retention(msgspec.Struct, frozen=True):
    """How long rows are retained; None retains them without limit."""

    journal_age: datetime.timedelta | None
    journal_rows: int | None
    tombstone_age: datetime.timedelta
    quarantine_age: datetime.timedelta | None
    operations_age: datetime.timedelta | None = None

    @classmethod
    def from_conf(cls, group: Any) -> Retention:
        """Of the options ``[retention]``."""
        return cls(
            datetime.timedelta(days=group.journal_days) if group.journal_days else None,
            group.journal_rows or None,
            datetime.timedelta(hours=group.tombstone_hours),
            datetime.timedelta(days=group.quarantine_days) if group.quarantine_days else None,
            datetime.timedelta(days=group.operations_days) if group.operations_days else None,
        )


@retried
def purge(database: sa.Engine, tables: Tables, retention: Retention, now: datetime.datetime | None) -> dict[str, int]:
    """Purge everything that is past its time.

    :param now: the database's time; None: it is doubtful, and only the number of journal rows is limited.
    :returns: table -> rows deleted.
    :raises DatabaseUnavailable: the database is unavailable; committed deletions remain.
    """
    with translated():
        purged = {"journal": _purge_journal(database, tables, retention, now)}
        if now is None:
            return purged
        purged["tombstones"] = _purge_older(
            database,
            tables.tombstones,
            "deleted_at",
            [tables.tombstones.c.kind, tables.tombstones.c.id],
            now - retention.tombstone_age,
        )
        if retention.quarantine_age is not None:
            table = tables.quarantine
            purged["quarantine"] = _purge_older(
                database, table, "received_at", [table.c.id], now - retention.quarantine_age
            )
        else:
            purged["quarantine"] = 0
        if retention.operations_age is not None:
            # A running operation has no end time and is retained.
            o = tables.operations
            purged["operations"] = _purge_older(database, o, "ended_at", [o.c.id], now - retention.operations_age)
        p = tables.watch_positions
        purged["watch_positions"] = _purge_older(database, p, "expires_at", list(p.primary_key), now)
    return purged


@retried
def enforce_quotas(database: sa.Engine, tables: Tables, quotas: EventQuotas, dropped: DroppedEvents) -> None:
    """Delete the oldest stored events of each source that exceeds its quota, and count them.

    :raises DatabaseUnavailable: the database is unavailable; committed deletions remain.
    """
    with translated():
        for table, total in (
            (tables.quarantine, StoredUsage(quotas.quarantine_events, quotas.quarantine_bytes)),
            (tables.parked, StoredUsage()),
        ):
            with database.connect() as connection:
                excess = surplus(usage_of(connection, table), quota_of(quotas, table), total)
            for source, more in excess.items():
                for gone in drop_oldest(database, table, source, more):
                    dropped.add(table.name, {source: gone.events})
        if quotas.parked_events_per_entity:
            _trim_entities(database, tables.parked, quotas.parked_events_per_entity, dropped)


def _trim_entities(database: sa.Engine, table: sa.Table, limit: int, dropped: DroppedEvents) -> None:
    with database.connect() as connection:
        keys = crowded(connection, table, limit)
    for key in keys:
        while True:
            with database.begin() as connection:
                rows = superseded(connection, table, key, limit)
                _delete(connection, table, list(rows))
            dropped.add(table.name, collections.Counter(rows.values()))
            if not rows:
                break


def _delete(connection: sa.Connection, table: sa.Table, row_ids: Sequence[int]) -> None:
    if row_ids:
        connection.execute(sa.delete(table).where(table.c.id == sa.bindparam("b_id")), [{"b_id": i} for i in row_ids])


def _purge_journal(database: sa.Engine, tables: Tables, retention: Retention, now: datetime.datetime | None) -> int:
    table = tables.journal
    with database.connect() as connection:
        keep_after = 0
        if retention.journal_rows is not None:
            keep_after = read_head(connection, tables) - retention.journal_rows
        if retention.journal_age is not None and now is not None:
            # One older row remains: it shows which change was the last before each time within the age.
            keep_after = max(keep_after, first_since(connection, tables, now - retention.journal_age) - 2)
        first = connection.execute(sa.select(sa.func.min(table.c.seq))).scalar()
    if first is None:
        return 0
    purged = 0
    while first <= keep_after:
        last = min(first + _CHUNK_ROWS - 1, keep_after)
        with database.begin() as connection:
            purged += connection.execute(sa.delete(table).where(table.c.seq <= last)).rowcount
        first = last + 1
    return purged


def _purge_older(
    database: sa.Engine, table: sa.Table, time: str, keys: list[sa.Column[Any]], before: datetime.datetime
) -> int:
    purged = 0
    while True:
        with database.begin() as connection:
            rows = connection.execute(sa.select(*keys).where(table.c[time] < before).limit(_CHUNK_ROWS)).all()
            if rows:
                matches = sa.and_(*(key == sa.bindparam(f"b_{key.name}") for key in keys))
                names = [f"b_{key.name}" for key in keys]
                connection.execute(
                    sa.delete(table).where(matches), [dict(zip(names, row, strict=True)) for row in rows]
                )
        purged += len(rows)
        if len(rows) < _CHUNK_ROWS:
            return purged
