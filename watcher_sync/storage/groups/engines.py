# SPDX-License-Identifier: Apache-2.0
"""The engines of all groups: one row for each process, for other processes to read.

Each engine writes its row every few seconds, in a transaction of its own. The lease of a group says which engine leads;
the row of the engine says what else is known about it. An engine of a release without these rows is known by its lease.
The heartbeat is compared with the clock of the database.

The row of an engine that was stopped says so. It is deleted when an engine of its group starts on its machine, or an
hour later by the heartbeat of another engine. So the last engines are known for as long as none runs.
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
STOPPED = "stopped"

FORGOTTEN_AFTER_SECONDS = 3600.0
"""An engine is no longer listed when its last heartbeat is older than that of another engine by this time."""


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
    stopped_at: datetime.datetime | None = None
    """When it was stopped in order; None: it runs, or its process was killed."""


class EngineView(msgspec.Struct, frozen=True, kw_only=True):
    """One engine, as other processes see it."""

    group: str
    host: str
    pid: int | None
    state: str
    """leading, standby, gone or stopped."""
    since: datetime.datetime
    """When the state began; of an engine that is gone, its last heartbeat."""
    release: str | None
    heartbeat_at: datetime.datetime
    seq: int | None
    lag_seconds: float | None
    """None for an engine that is gone or stopped, or that does not report it."""
    sources: list[str]


@retried
def write_engine(database: sa.Engine, row: EngineRow, began: datetime.datetime | None = None) -> None:
    """Insert or replace the row of one engine, and delete rows that are not listed any more.

    :param began: when the engine's process began; engines of its group and machine that were stopped by then are
        deleted. Default: the row's ``since``.
    :raises DatabaseUnavailable: the database is unavailable.
    :raises RowRefused: when it refuses a value.
    """
    writer = Statements(database).upsert(_TABLE)
    values = writer.values(tuple(getattr(row, column.name) for column in _TABLE.columns))
    oldest = row.heartbeat_at - datetime.timedelta(seconds=FORGOTTEN_AFTER_SECONDS)
    t = _TABLE.c
    is_before = sa.and_(t.engine_group == row.engine_group, t.host == row.host, t.stopped_at <= (began or row.since))
    with translated(), database.begin() as connection:
        connection.exec_driver_sql(writer.sql, [values])
        found = connection.execute(sa.select(t.id).where(sa.or_(t.heartbeat_at < oldest, is_before))).scalars().all()
        if found:
            connection.execute(sa.delete(_TABLE).where(t.id.in_(found)))


@retried
def end_engine(database: sa.Engine, engine_id: str, now: datetime.datetime) -> None:
    """Write into the row of an engine that it was stopped.

    :raises DatabaseUnavailable: the database is unavailable.
    """
    with translated(), database.begin() as connection:
        connection.execute(sa.update(_TABLE).where(_TABLE.c.id == engine_id).values(stopped_at=now, heartbeat_at=now))


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
    last = max((view.heartbeat_at for view in views), default=now)
    recent = [
        _with_age(view, (now - view.heartbeat_at).total_seconds(), gone_after)
        for view in views
        if (last - view.heartbeat_at).total_seconds() < FORGOTTEN_AFTER_SECONDS
    ]
    order = (LEADING, STANDBY, GONE, STOPPED)
    return sorted(recent, key=lambda view: (view.group, order.index(view.state), view.host, view.pid or 0))


def _view(row: EngineRow, lease: Mapping[Any, Any] | None) -> EngineView:
    state, since = (STANDBY, row.since) if lease is None else (LEADING, lease["since"])
    if row.stopped_at is not None:
        state, since = STOPPED, row.stopped_at
    return EngineView(
        group=row.engine_group,
        host=row.host,
        pid=row.pid,
        state=state,
        since=since,
        release=row.release,
        heartbeat_at=row.heartbeat_at,
        seq=row.seq,
        lag_seconds=None if state == STOPPED else row.lag_seconds,
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
    if age <= gone_after or view.state == STOPPED:
        return view
    return msgspec.structs.replace(view, state=GONE, since=view.heartbeat_at, lag_seconds=None)
