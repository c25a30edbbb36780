# SPDX-License-Identifier: Apache-2.0
"""The engines of all groups, leading and standing by: one row for each process, for other processes to read.

Each engine writes its row every few seconds, in a transaction of its own. The lease of a group says which engine leads;
the row of the engine says what else is known about it. An engine of a release without these rows is known by its lease.
The heartbeat is compared with the clock of the database.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

import msgspec
import sqlalchemy as sa

from watcher_sync.model.kinds import Kinds
from watcher_sync.storage.database.database import retried, translated
from watcher_sync.storage.database.database_time import database_now
from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.writing.statements import Statements

_TABLES = Tables(Kinds())
_TABLE = _TABLES.engines
_LEASES = _TABLES.leases
_JOURNAL = _TABLES.journal
"""They do not depend on the entity kinds."""

LEASE_PREFIX = "engine:"
"""What the name of a group's lease begins with."""

LEADING = "leading"
STANDBY = "standby"
GONE = "gone"

FORGOTTEN_AFTER_SECONDS = 3600.0
"""An engine without a heartbeat for this time is no longer listed."""


class EngineRow(msgspec.Struct, frozen=True, kw_only=True):
    """One engine process, as it last reported itself."""

    id: str
    """The name of the process, as in its lease."""
    engine_group: str
    host: str
    pid: int
    release: str
    since: datetime.datetime
    """When the engine began to stand by."""
    heartbeat_at: datetime.datetime
    seq: int
    """The journal seq of its model."""
    lag_seconds: float
    """Seconds that its model is behind the journal."""
    sources: list[str]
    """Its enabled sources. It reads them while it leads."""


class EngineView(msgspec.Struct, frozen=True, kw_only=True):
    """One engine, as other processes see it."""

    group: str
    host: str
    pid: int | None
    state: str
    """leading, standby or gone."""
    since: datetime.datetime
    """When the state began; of an engine that is gone, its last heartbeat."""
    release: str | None
    heartbeat_at: datetime.datetime
    seq: int | None
    lag_seconds: float | None
    """None for an engine that is gone, or that does not report it."""
    sources: list[str]


@retried
def write_engine(database: sa.Engine, row: EngineRow) -> None:
    """Insert or replace the row of one engine, and delete rows that are long without a heartbeat.

    :raises DatabaseUnavailable: the database is unavailable.
    :raises RowRefused: when it refuses a value.
    """
    writer = Statements(database).upsert(_TABLE)
    values = writer.values(tuple(getattr(row, column.name) for column in _TABLE.columns))
    oldest = row.heartbeat_at - datetime.timedelta(seconds=FORGOTTEN_AFTER_SECONDS)
    with translated(), database.begin() as connection:
        connection.exec_driver_sql(writer.sql, [values])
        found = connection.execute(sa.select(_TABLE.c.id).where(_TABLE.c.heartbeat_at < oldest)).scalars().all()
        if found:
            connection.execute(sa.delete(_TABLE).where(_TABLE.c.id.in_(found)))


@retried
def remove_engine(database: sa.Engine, engine_id: str) -> None:
    """Delete the row of an engine that ends.

    :raises DatabaseUnavailable: the database is unavailable.
    """
    with translated(), database.begin() as connection:
        connection.execute(sa.delete(_TABLE).where(_TABLE.c.id == engine_id))


def read_lag(database: sa.Engine, seq: int, now: datetime.datetime) -> float:
    """Seconds since the first change of the journal that a model at this seq does not have; 0 if it has all.

    :raises DatabaseUnavailable: the database is unavailable.
    """
    query = sa.select(_JOURNAL.c.time).where(_JOURNAL.c.seq > seq).order_by(_JOURNAL.c.seq).limit(1)
    with translated(), database.connect() as connection:
        missing = connection.execute(query).scalar_one_or_none()
    return max((now - missing).total_seconds(), 0.0) if missing is not None else 0.0


def list_engines(database: sa.Engine, *, gone_after: float) -> list[EngineView]:
    """The engines of all groups: by group, the leader first.

    :param gone_after: seconds without a heartbeat after which an engine is gone.
    :raises DatabaseUnavailable: the database is unavailable.
    """
    leases_query = sa.select(_LEASES).where(_LEASES.c.name.startswith(LEASE_PREFIX), _LEASES.c.holder != "")
    with translated(), database.connect() as connection:
        now = connection.execute(sa.select(database_now(database.dialect))).scalar_one()
        rows = [EngineRow(**row._mapping) for row in connection.execute(sa.select(_TABLE))]
        leases = {row.holder: row._mapping for row in connection.execute(leases_query)}
    views = [_view(row, leases.get(row.id)) for row in rows]
    views += [_view_of_lease(lease) for holder, lease in leases.items() if holder not in {row.id for row in rows}]
    recent = [
        _with_age(view, age, gone_after)
        for view in views
        if (age := (now - view.heartbeat_at).total_seconds()) < FORGOTTEN_AFTER_SECONDS
    ]
    order = (LEADING, STANDBY, GONE)
    return sorted(recent, key=lambda view: (view.group, order.index(view.state), view.host, view.pid or 0))


def _view(row: EngineRow, lease: Mapping[Any, Any] | None) -> EngineView:
    return EngineView(
        group=row.engine_group,
        host=row.host,
        pid=row.pid,
        state=STANDBY if lease is None else LEADING,
        since=row.since if lease is None else lease["since"],
        release=row.release,
        heartbeat_at=row.heartbeat_at,
        seq=row.seq,
        lag_seconds=row.lag_seconds,
        sources=row.sources,
    )


def _view_of_lease(lease: Mapping[Any, Any]) -> EngineView:
    """An engine without a row: it has just begun."""
    parts = str(lease["holder"]).rsplit("/", 4)
    is_pid = len(parts) == 5 and parts[3].isdigit()
    return EngineView(
        group=str(lease["name"]).removeprefix(LEASE_PREFIX),
        host=parts[0],
        pid=int(parts[3]) if is_pid else None,
        state=LEADING,
        since=lease["since"],
        release=None,
        heartbeat_at=lease["heartbeat_at"],
        seq=None,
        lag_seconds=None,
        sources=[],
    )


def _with_age(view: EngineView, age: float, gone_after: float) -> EngineView:
    if age <= gone_after:
        return view
    return msgspec.structs.replace(view, state=GONE, since=view.heartbeat_at, lag_seconds=None)
