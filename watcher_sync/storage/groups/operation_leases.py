# SPDX-License-Identifier: Apache-2.0
"""The rows of operation leases and of operations.

An entity's lease row is permanent: its token grows by one at each change of holder. One conditional statement takes it:
an update of a free or expired row, or the first insert under its primary key. So exactly one caller wins.

A caller needs its answer at once and cannot watch a beat. So all times are those of the database's clock. If it jumps,
a lease ends early or late, and the token still fences.

An expired lease stays expired, taken or not: others may have written since. A row has the digest of its secret, not
the secret.

For any thread. A call without a connection is one transaction.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Collection, Iterator

import msgspec
import sqlalchemy as sa
from oslo_db.exception import DBDeadlock

from watcher_sync.exceptions import DatabaseUnavailable, RowRefused
from watcher_sync.storage.database.database import retried, translated
from watcher_sync.storage.database.database_time import database_now
from watcher_sync.storage.schema.tables import Tables

RUNNING, EXPIRED = "RUNNING", "EXPIRED"
COMPLETED, ROLLED_BACK, FAILED_TEMP, FAILED = "COMPLETED", "ROLLED_BACK", "FAILED_TEMP", "FAILED"

FAILURES = (FAILED_TEMP, FAILED)
"""States that leave something to resolve (ETSI GS NFV-SOL 003, 5.6.2.3)."""

ENDS = (COMPLETED, ROLLED_BACK, *FAILURES)
"""States that a holder ends an operation with."""

STATES = (RUNNING, *ENDS, EXPIRED)

_DEADLOCKS = 5
"""How often a deletion is tried while the database ends it because of a deadlock."""

_OWNER = ("user_id", "project_id", "secret_digest")
_RECORDED = ("id", "kind", "entity_id", "token", "holder", *_OWNER)
"""Columns that the history of operations copies from the lease."""
_SHOWN = ("id", "operation", "holder", "token", "state", "since", "ended_at", *_OWNER)


class LeaseRow(msgspec.Struct, frozen=True, kw_only=True):
    """A lease with a holder."""

    kind: str
    entity_id: str
    id: str
    """A uuid: this holding of it."""
    holder: str
    operation: str
    token: int
    since: datetime.datetime
    expires_at: datetime.datetime
    heartbeat_at: datetime.datetime
    remaining: float
    """Seconds until it expires, by the database's clock; 0 or less: it has."""
    user_id: str | None = None
    """The owner; None: a caller without authentication."""
    project_id: str | None = None
    secret_digest: str | None = None
    """SHA-256 of the secret, as hexadecimal digits."""


class OperationRow(msgspec.Struct, frozen=True, kw_only=True):
    """An operation, running or ended."""

    id: str
    operation: str
    holder: str
    token: int
    state: str
    since: datetime.datetime
    expires_at: datetime.datetime | None
    """While it runs."""
    ended_at: datetime.datetime | None
    user_id: str | None = None
    """The owner; None: a caller without authentication."""
    project_id: str | None = None
    secret_digest: str | None = None
    """SHA-256 of the secret, as hexadecimal digits."""


class LeaseRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The lease that a caller wants to take."""

    kind: str
    entity_id: str
    id: str
    holder: str
    operation: str
    seconds: float
    """How long the holder may be silent."""
    user_id: str
    project_id: str | None
    secret_digest: str
    recorded: bool = True
    """Whether the history tells of it."""


class OperationLeases:
    """The leases of one database. Used by any thread."""

    def __init__(self, database: sa.Engine, tables: Tables) -> None:
        self._database = database
        self._leases = tables.operation_leases
        self._operations = tables.operations
        self._entities = tables.entities

    @retried
    def take(self, request: LeaseRequest) -> LeaseRow:
        """Take the lease if it is free or has expired.

        :returns: the lease in the table: the requested one if the id is that of the request, else the earlier holder's.
        :raises DatabaseUnavailable: the database is unavailable. Whether it was taken is unknown then; if it
            was, it expires.
        """
        while True:
            # This read only selects the next statement, which decides.
            exists, there = self._read_row(request.kind, request.entity_id)
            if there is not None and there.remaining > 0:
                return there
            if (taken := self._take_row(request, there) if exists else self._make_row(request)) is not None:
                return taken

    def read(self, kind: str, entity_id: str) -> LeaseRow | None:
        """The lease, expired or not; None if it is free."""
        return self._read_row(kind, entity_id)[1]

    def running(self, kind: str, entity_ids: Collection[str]) -> dict[str, LeaseRow]:
        """Entity id -> running lease, of those of these entities that have one."""
        t = self._leases
        found: dict[str, LeaseRow] = {}
        ids = list(entity_ids)
        with translated(), self._begin() as connection:
            for start in range(0, len(ids), 500):
                query = self._select().where(t.c.kind == kind, t.c.entity_id.in_(ids[start : start + 500]))
                for row in connection.execute(query.where(t.c.id != "", t.c.expires_at > self._now())):
                    lease = _lease(row)
                    found[lease.entity_id] = lease
        return found

    def page_of_running(self, kind: str, *, project_id: str | None, after: str, limit: int) -> list[LeaseRow]:
        """Running leases of existing entities, by their ids.

        :param project_id: only those of entities of this project; None: of all.
        :param after: the id of the last lease of the page before; empty: from the first one.
        """
        t, entity = self._leases, self._entities[kind]
        own = sa.exists().where(entity.c.id == t.c.entity_id)
        if project_id is not None:
            own = own.where(entity.c.project_id == project_id)
        query = self._select().where(t.c.kind == kind, t.c.id > after, t.c.id != "", t.c.expires_at > self._now(), own)
        with translated(), self._begin() as connection:
            return [_lease(row) for row in connection.execute(query.order_by(t.c.id).limit(limit))]

    @retried
    def heartbeat(self, kind: str, entity_id: str, lease_id: str, token: int | None, seconds: float) -> LeaseRow | None:
        """Extend the lease: the holder is alive.

        :param token: also to be compared, unless None.
        :returns: the lease, or None if it has expired, has another holder or is free.
        """
        t = self._leases
        statement = (
            sa.update(t)
            .where(self._is(kind, entity_id, lease_id, token), t.c.expires_at > self._now())
            .values(heartbeat_at=self._now(), expires_at=self._now(seconds))
        )
        with translated(), self._begin() as connection:
            if connection.execute(statement).rowcount != 1:
                return None
            return self._read(connection, kind, entity_id)

    @retried
    def end(self, kind: str, entity_id: str, lease_id: str, token: int | None, state: str) -> bool:
        """Give the lease back.

        :param state: one of :data:`ENDS`.
        :returns: whether it was this holder's, and had not expired.
        """
        with translated(), self._begin() as connection:
            return self.end_within(connection, kind, entity_id, lease_id, token, state)

    def end_within(
        self, connection: sa.Connection, kind: str, entity_id: str, lease_id: str, token: int | None, state: str
    ) -> bool:
        """The same, in a transaction of the caller."""
        t, o = self._leases, self._operations
        mine = self._is(kind, entity_id, lease_id, token), t.c.expires_at > self._now()
        free = sa.update(t).where(*mine).values(id="", holder="", operation="")
        if connection.execute(free).rowcount != 1:
            return False
        connection.execute(sa.update(o).where(o.c.id == lease_id).values(state=state, ended_at=self._now()))
        return True

    def lock_token(self, connection: sa.Connection, kind: str, entity_id: str, token: int) -> LeaseRow | None:
        """Lock the lease of this token: no other holder takes it until the connection's transaction ends.

        :param connection: in the transaction that writes what the lease is about.
        :returns: the lease; None if the token is not valid now.
        """
        t = self._leases
        statement = (
            sa.update(t)
            .where(t.c.kind == kind, t.c.entity_id == entity_id, t.c.token == token, t.c.id != "")
            .where(t.c.expires_at > self._now())
            .values(heartbeat_at=self._now())
        )
        if connection.execute(statement).rowcount != 1:
            return None
        return self._read(connection, kind, entity_id)

    @retried
    def forget(self, kind: str, entity_id: str, lease_id: str) -> None:
        """Give the lease back for an entity that is gone and whose id is never used again."""
        with translated(), self._begin() as connection:
            connection.execute(sa.delete(self._leases).where(self._is(kind, entity_id, lease_id, None)))

    @retried
    def forget_absent(self, kind: str, entity_id: str, lease_id: str) -> bool:
        """Give the lease back and delete its row if the entity does not exist; else do nothing.

        :returns: whether the row is deleted.
        """
        t, entity = self._leases, self._entities[kind]
        exists = sa.exists().where(entity.c.id == entity_id)
        statement = sa.delete(t).where(self._is(kind, entity_id, lease_id, None), ~exists)
        for _ in range(_DEADLOCKS):
            with translated(), contextlib.suppress(DBDeadlock), self._begin() as connection:
                return connection.execute(statement).rowcount == 1
        return False

    def operation(self, kind: str, entity_id: str, operation_id: str) -> OperationRow | None:
        """One recorded operation."""
        o = self._operations
        where = sa.and_(o.c.kind == kind, o.c.entity_id == entity_id, o.c.id == operation_id)
        return next(iter(self._history(kind, entity_id, where, 1)), None)

    def history(self, kind: str, entity_id: str, *, after: int = 0, limit: int = 1000) -> list[OperationRow]:
        """The recorded operations of an entity in order.

        :param after: the token of the last one of the page before.
        """
        o = self._operations
        where = sa.and_(o.c.kind == kind, o.c.entity_id == entity_id, o.c.token > after)
        return self._history(kind, entity_id, where, limit)

    # Statements

    def _read_row(self, kind: str, entity_id: str) -> tuple[bool, LeaseRow | None]:
        """Whether there is a row, and the lease that it shows."""
        query = self._select().where(self._leases.c.kind == kind, self._leases.c.entity_id == entity_id)
        with translated(), self._begin() as connection:
            row = connection.execute(query).one_or_none()
        return row is not None, _lease(row) if row is not None and row._mapping["id"] else None

    def _take_row(self, request: LeaseRequest, expired: LeaseRow | None) -> LeaseRow | None:
        """Take a row that is free or has expired.

        :param expired: the lease in it; None: it is free.
        """
        t, o = self._leases, self._operations
        mine = sa.and_(t.c.kind == request.kind, t.c.entity_id == request.entity_id)
        # An expired lease stays expired, so its id is enough.
        statement = (
            sa.update(t)
            .where(mine, t.c.id == (expired.id if expired is not None else ""))
            .values(**self._holding(request), token=t.c.token + 1)
        )
        with translated(), contextlib.suppress(DBDeadlock), self._begin() as connection:
            if connection.execute(statement).rowcount != 1:
                return None
            if expired is not None:
                ended = sa.update(o).where(o.c.id == expired.id)
                connection.execute(ended.values(state=EXPIRED, ended_at=expired.expires_at))
            return self._record(connection, request)
        return None  # the transaction is rolled back

    def _make_row(self, request: LeaseRequest) -> LeaseRow | None:
        """Insert the row of an entity that never had a lease."""
        statement = sa.insert(self._leases).values(
            kind=request.kind, entity_id=request.entity_id, token=1, **self._holding(request)
        )
        try:
            with translated(), contextlib.suppress(DBDeadlock), self._begin() as connection:
                connection.execute(statement)
                return self._record(connection, request)
        except RowRefused:  # there is one
            return None
        return None  # MariaDB ends one of several inserts after a deletion, and the transaction is rolled back

    def _holding(self, request: LeaseRequest) -> dict[str, object]:
        return {
            "id": request.id,
            "holder": request.holder,
            "operation": request.operation,
            "user_id": request.user_id,
            "project_id": request.project_id,
            "secret_digest": request.secret_digest,
            "since": self._now(),
            "heartbeat_at": self._now(),
            "expires_at": self._now(request.seconds),
        }

    def _record(self, connection: sa.Connection, request: LeaseRequest) -> LeaseRow:
        """What was just taken, under the row's lock; and the history's row of it."""
        lease = self._read(connection, request.kind, request.entity_id)
        if lease is None:
            raise DatabaseUnavailable("the lease that was written is not there")
        if request.recorded:
            values = {name: getattr(lease, name) for name in _RECORDED}
            insert = sa.insert(self._operations)
            connection.execute(insert.values(**values, operation=lease.operation, state=RUNNING, since=lease.since))
        return lease

    def _history(self, kind: str, entity_id: str, where: sa.ColumnElement[bool], limit: int) -> list[OperationRow]:
        o = self._operations
        with translated(), self._begin() as connection:
            rows = connection.execute(sa.select(o).where(where).order_by(o.c.token).limit(limit)).all()
            lease = self._read(connection, kind, entity_id)
        return [_operation(row, lease) for row in rows]

    def _is(self, kind: str, entity_id: str, lease_id: str, token: int | None) -> sa.ColumnElement[bool]:
        t = self._leases
        same = sa.and_(t.c.kind == kind, t.c.entity_id == entity_id, t.c.id == lease_id, t.c.id != "")
        return same if token is None else sa.and_(same, t.c.token == token)

    def _read(self, connection: sa.Connection, kind: str, entity_id: str) -> LeaseRow | None:
        t = self._leases
        query = self._select().where(t.c.kind == kind, t.c.entity_id == entity_id, t.c.id != "")
        row = connection.execute(query).one_or_none()
        return None if row is None else _lease(row)

    def _select(self) -> sa.Select[tuple[object, ...]]:
        return sa.select(self._leases, self._now().label("now"))

    def _now(self, later: float = 0.0) -> sa.ColumnElement[datetime.datetime]:
        return database_now(self._database.dialect, later=later)

    @contextlib.contextmanager
    def _begin(self) -> Iterator[sa.Connection]:
        """One transaction. MariaDB would lock the gaps between rows, too, and others' inserts with them."""
        with self._database.connect() as connection, connection.begin():
            if connection.dialect.name in ("mysql", "mariadb"):
                # The session's level stays what it is.
                connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
            yield connection


def lock_leases(
    connection: sa.Connection, tables: Tables, kind: str, entity_ids: Collection[str]
) -> dict[str, LeaseRow]:
    """Return the running leases of these entities. No process takes a free one until the connection's transaction ends.

    A lease row is read with a shared lock, and SQLite locks the whole database anyway. On PostgreSQL an entity that
    never had a lease has no row to lock: its first lease may begin while this transaction ends.

    :param connection: in the transaction that writes the entities.
    """
    t = tables.operation_leases
    query = sa.select(t, database_now(connection.dialect).label("now")).where(
        t.c.kind == kind, t.c.entity_id.in_(entity_ids)
    )
    rows = connection.execute(query.with_for_update(read=True)).all()
    leases = [_lease(row) for row in rows if row._mapping["id"]]
    return {lease.entity_id: lease for lease in leases if lease.remaining > 0}


def _lease(row: sa.Row[tuple[object, ...]]) -> LeaseRow:
    values = dict(row._mapping)
    moment = values.pop("now")
    return LeaseRow(**values, remaining=(values["expires_at"] - moment).total_seconds())


def _operation(row: sa.Row[tuple[object, ...]], lease: LeaseRow | None) -> OperationRow:
    """A running one that is not the lease's any more, or whose time is up, has expired."""
    values = {name: row._mapping[name] for name in _SHOWN}
    runs = values["state"] == RUNNING and lease is not None and lease.id == values["id"]
    if values["state"] == RUNNING and not (runs and lease is not None and lease.remaining > 0):
        values["state"] = EXPIRED
    expires_at = lease.expires_at if runs and lease is not None else None
    if values["state"] == EXPIRED:
        values["ended_at"], expires_at = values["ended_at"] or expires_at, None
    return OperationRow(**values, expires_at=expires_at)
