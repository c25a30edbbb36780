# SPDX-License-Identifier: Apache-2.0
"""The rows of outlets: how far each has published, and the state of its publisher.

The token of the publisher's lease fences a write: a publisher that was deposed writes nothing. Times are of the
database's clock, aware UTC. The row may lag behind the log by about a second, so a publisher that begins asks the log.
"""

from __future__ import annotations

import datetime

import msgspec
import sqlalchemy as sa

from watcher_sync.exceptions import LeaseLost
from watcher_sync.extensions.log.leadership import LEASE_PREFIX
from watcher_sync.model.kinds import Kinds
from watcher_sync.storage.database.database import retried, translated
from watcher_sync.storage.database.database_time import database_now
from watcher_sync.storage.schema.tables import Tables

_TABLES = Tables(Kinds())
_TABLE = _TABLES.outlet_cursors
_JOURNAL = _TABLES.journal
"""They do not depend on the entity kinds."""

SNAPSHOT = "snapshot"
"""The publisher writes a snapshot to the log."""
PUBLISHING = "publishing"
FAILED = "failed"
"""The log cannot be reached, or refuses the changes; the publisher tries again."""
STOPPED = "stopped"
"""The publisher was stopped in order, and no other one has begun."""
GONE = "gone"
"""The publisher has written nothing for long."""


class OutletCursor(msgspec.Struct, frozen=True, kw_only=True):
    """One outlet, as its publisher last wrote it."""

    outlet: str
    driver: str
    partition: str
    token: int
    """Of the publisher's lease."""
    selection: str
    """The digest of what the outlet publishes (:class:`~watcher_sync.extensions.log.selection.OutletSelection`); empty:
    a snapshot is needed."""
    epoch: str
    """Empty: a snapshot is needed."""
    seq: int
    """The journal was read up to here."""
    published_seq: int
    """The last change that the log has; at most ``seq``, because not every change is wanted."""
    state: str
    """snapshot, publishing, failed or stopped."""
    detail: str = ""
    """Why it failed, or what was too large for the log since it was opened, in one line."""
    since: datetime.datetime
    """When the state began."""
    host: str
    pid: int
    updated_at: datetime.datetime


class OutletView(msgspec.Struct, frozen=True, kw_only=True):
    """One outlet, as other processes see it."""

    outlet: str
    driver: str
    partition: str
    state: str
    """snapshot, publishing, failed, stopped or gone."""
    detail: str
    since: datetime.datetime
    """When the state began; of one that is gone, when it last wrote."""
    epoch: str
    seq: int
    published_seq: int
    lag: int
    """Journal rows that it has not published yet."""
    lag_seconds: float
    """Seconds since the first of them was committed."""
    host: str
    pid: int
    updated_at: datetime.datetime


def read_outlet(database: sa.Engine, outlet: str) -> OutletCursor | None:
    """The row of an outlet; None: it has never published.

    :raises DatabaseUnavailable: the database is unavailable.
    """
    with translated(), database.connect() as connection:
        row = connection.execute(sa.select(_TABLE).where(_TABLE.c.outlet == outlet)).one_or_none()
    return None if row is None else OutletCursor(**row._mapping)


@retried
def write_outlet(database: sa.Engine, cursor: OutletCursor) -> None:
    """Insert or replace the row of an outlet.

    The row of the lease decides, and not the token in the row of the outlet. A database that went back in time gives
    smaller tokens than before.

    :raises LeaseLost: another publisher has the lease.
    :raises DatabaseUnavailable: the database is unavailable.
    """
    values = msgspec.structs.asdict(cursor)
    leases = _TABLES.leases
    with translated(), database.begin() as connection:
        query = sa.select(leases.c.token).where(leases.c.name == LEASE_PREFIX + cursor.outlet)
        if connection.execute(query).scalar_one_or_none() not in (None, cursor.token):
            raise LeaseLost(f"another publisher of outlet {cursor.outlet} has the lease")
        if not connection.execute(sa.update(_TABLE).where(_TABLE.c.outlet == cursor.outlet).values(**values)).rowcount:
            connection.execute(sa.insert(_TABLE).values(**values))


def list_outlets(database: sa.Engine, *, gone_after: float) -> list[OutletView]:
    """All outlets that have published, by name.

    :param gone_after: seconds after the last write of its publisher, after which it counts as gone.
    :raises DatabaseUnavailable: the database is unavailable.
    """
    head = _TABLES.journal_head
    with translated(), database.connect() as connection:
        rows = [OutletCursor(**row._mapping) for row in connection.execute(sa.select(_TABLE).order_by(_TABLE.c.outlet))]
        now = connection.execute(sa.select(database_now(database.dialect))).scalar_one()
        last = connection.execute(sa.select(head.c.seq)).scalar_one()
        return [_view(row, now, last, _oldest_after(connection, row.seq), gone_after) for row in rows]


def _oldest_after(connection: sa.Connection, seq: int) -> datetime.datetime | None:
    query = sa.select(_JOURNAL.c.time).where(_JOURNAL.c.seq > seq).order_by(_JOURNAL.c.seq).limit(1)
    found: datetime.datetime | None = connection.execute(query).scalar()
    return found


def _view(
    row: OutletCursor, now: datetime.datetime, head: int, missing: datetime.datetime | None, gone_after: float
) -> OutletView:
    is_gone = row.state != STOPPED and (now - row.updated_at).total_seconds() > gone_after
    return OutletView(
        outlet=row.outlet,
        driver=row.driver,
        partition=row.partition,
        state=GONE if is_gone else row.state,
        detail=row.detail,
        since=row.updated_at if is_gone else row.since,
        epoch=row.epoch,
        seq=row.seq,
        published_seq=row.published_seq,
        lag=max(0, head - row.seq),
        lag_seconds=0.0 if missing is None else max(0.0, (now - missing).total_seconds()),
        host=row.host,
        pid=row.pid,
        updated_at=row.updated_at,
    )
