# SPDX-License-Identifier: Apache-2.0
"""The rows of operation leases, and what became of the operations.

A lease is a row that stays: its token grows by one whenever it changes hands, for ever, also when it was
given back in between. It is taken with *one* conditional statement, an update of a row that is free or has
expired, or, where nobody ever took it, an insert that the primary key lets only one through. So of any number
who try at once, exactly one wins, on every database, and nothing is read before.

Engines watch each other's beat by their own monotonic clocks (see :mod:`watcher_sync.storage.leases`), because
clocks of two machines cannot be compared. Whoever asks for an operation lease asks once and cannot watch:
the answer must be there at once, from whichever API worker. So all times of these rows are the database's, which is
one clock (see :mod:`watcher_sync.storage.clock`). Should that clock jump, a lease ends early or late, and the
token still keeps a deposed holder from writing.

A lease that has expired and that nobody took belongs to its holder still: a late heartbeat is good for it,
since nobody can have done anything in between.

Any thread; every call is a transaction of its own, unless it is given a connection.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Collection, Iterator

import msgspec
import sqlalchemy as sa

from watcher_sync.exceptions import DatabaseUnavailable, RowRefused
from watcher_sync.storage.clock import now
from watcher_sync.storage.database import translated
from watcher_sync.storage.tables import Tables

RUNNING, COMPLETED, FAILED, EXPIRED = "RUNNING", "COMPLETED", "FAILED", "EXPIRED"
"""What an operation can have become."""

STATES = (RUNNING, COMPLETED, FAILED, EXPIRED)


class LeaseRow(msgspec.Struct, frozen=True, kw_only=True):
    """A lease that somebody holds."""

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


class OperationRow(msgspec.Struct, frozen=True, kw_only=True):
    """An operation, whatever became of it."""

    id: str
    operation: str
    holder: str
    token: int
    state: str
    since: datetime.datetime
    expires_at: datetime.datetime | None
    """While it runs."""
    ended_at: datetime.datetime | None


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for."""

    kind: str
    entity_id: str
    id: str
    holder: str
    operation: str
    seconds: float
    """How long the holder may be silent."""
    recorded: bool = True
    """Whether the history tells of it."""


class OperationLeases:
    """The leases of one database. Used by any thread."""

    def __init__(self, engine: sa.Engine, tables: Tables) -> None:
        self._engine = engine
        self._leases = tables.operation_leases
        self._operations = tables.operations

    def take(self, wanted: Wanted) -> LeaseRow:
        """Take the lease if nobody holds it.

        :returns: the lease as it stands: the wanted one if its id is the wanted one's, else who was first.
        :raises DatabaseUnavailable: when the database is away. Whether it was taken is unknown then; if it
            was, it expires.
        """
        while True:
            if (taken := self._take_row(wanted)) is not None:
                return taken
            # This decides nothing, it only tells what to do next: both ways end in one statement that does.
            exists, there = self._peek(wanted.kind, wanted.entity_id)
            if there is not None and there.remaining > 0:
                return there
            if not exists and (made := self._make_row(wanted)) is not None:
                return made

    def look(self, kind: str, entity_id: str) -> LeaseRow | None:
        """The lease as it stands, expired or not; None where nobody has it."""
        return self._peek(kind, entity_id)[1]

    def held(self, kind: str, entity_ids: Collection[str]) -> dict[str, LeaseRow]:
        """Which of these entities somebody works on now."""
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

    def heartbeat(self, kind: str, entity_id: str, lease_id: str, token: int | None, seconds: float) -> LeaseRow | None:
        """Say that the holder lives.

        :param token: also to be compared, unless None.
        :returns: the lease, or None where it is another's now, or nobody's.
        """
        t = self._leases
        statement = (
            sa.update(t)
            .where(self._is(kind, entity_id, lease_id, token))
            .values(heartbeat_at=self._now(), expires_at=self._now(seconds))
        )
        with translated(), self._begin() as connection:
            if connection.execute(statement).rowcount != 1:
                return None
            return self._read(connection, kind, entity_id)

    def end(self, kind: str, entity_id: str, lease_id: str, token: int | None, state: str) -> bool:
        """Give the lease back.

        :param state: COMPLETED or FAILED.
        :returns: whether it was this holder's.
        """
        t, o = self._leases, self._operations
        free = sa.update(t).where(self._is(kind, entity_id, lease_id, token)).values(id="", holder="", operation="")
        with translated(), self._begin() as connection:
            if connection.execute(free).rowcount != 1:
                return False
            connection.execute(sa.update(o).where(o.c.id == lease_id).values(state=state, ended_at=self._now()))
            return True

    def hold(self, connection: sa.Connection, kind: str, entity_id: str, token: int) -> bool:
        """Whether this token holds now; until the connection's transaction ends, nobody takes the lease.

        :param connection: in the transaction that writes what the lease is about.
        """
        t = self._leases
        statement = (
            sa.update(t)
            .where(t.c.kind == kind, t.c.entity_id == entity_id, t.c.token == token, t.c.id != "")
            .values(heartbeat_at=self._now())
        )
        return connection.execute(statement).rowcount == 1

    def forget(self, kind: str, entity_id: str, lease_id: str) -> None:
        """Give the lease back for an entity that is gone and whose id is never used again."""
        with translated(), self._begin() as connection:
            connection.execute(sa.delete(self._leases).where(self._is(kind, entity_id, lease_id, None)))

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

    def _peek(self, kind: str, entity_id: str) -> tuple[bool, LeaseRow | None]:
        """Whether there is a row, and the lease that it shows."""
        query = self._select().where(self._leases.c.kind == kind, self._leases.c.entity_id == entity_id)
        with translated(), self._begin() as connection:
            row = connection.execute(query).one_or_none()
        return row is not None, _lease(row) if row is not None and row._mapping["id"] else None

    def _take_row(self, wanted: Wanted) -> LeaseRow | None:
        """Take a row that is free or has expired."""
        t, o = self._leases, self._operations
        mine = sa.and_(t.c.kind == wanted.kind, t.c.entity_id == wanted.entity_id)
        statement = (
            sa.update(t)
            .where(mine, sa.or_(t.c.id == "", t.c.expires_at <= self._now()))
            .values(**self._holding(wanted), token=t.c.token + 1)
        )
        with translated(), self._begin() as connection:
            if connection.execute(statement).rowcount != 1:
                return None
            expired = sa.update(o).where(
                o.c.kind == wanted.kind, o.c.entity_id == wanted.entity_id, o.c.state == RUNNING
            )
            connection.execute(expired.values(state=EXPIRED, ended_at=self._now()))
            return self._record(connection, wanted)

    def _make_row(self, wanted: Wanted) -> LeaseRow | None:
        """Make the row of an entity that nobody ever worked on."""
        statement = sa.insert(self._leases).values(
            kind=wanted.kind, entity_id=wanted.entity_id, token=1, **self._holding(wanted)
        )
        try:
            with translated(), self._begin() as connection:
                connection.execute(statement)
                return self._record(connection, wanted)
        except RowRefused:  # there is one
            return None

    def _holding(self, wanted: Wanted) -> dict[str, object]:
        return {
            "id": wanted.id,
            "holder": wanted.holder,
            "operation": wanted.operation,
            "since": self._now(),
            "heartbeat_at": self._now(),
            "expires_at": self._now(wanted.seconds),
        }

    def _record(self, connection: sa.Connection, wanted: Wanted) -> LeaseRow:
        """What was just taken, under the row's lock; and the history's row of it."""
        lease = self._read(connection, wanted.kind, wanted.entity_id)
        if lease is None:
            raise DatabaseUnavailable("the lease that was written is not there")
        if wanted.recorded:
            values = {name: getattr(lease, name) for name in ("id", "kind", "entity_id", "token", "holder")}
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
        return now(self._engine.dialect, later=later)

    @contextlib.contextmanager
    def _begin(self) -> Iterator[sa.Connection]:
        """One transaction. MariaDB would lock the gaps between rows, too, and others' inserts with them."""
        with self._engine.connect() as connection:
            if connection.dialect.name in ("mysql", "mariadb"):
                connection = connection.execution_options(isolation_level="READ COMMITTED")
            with connection.begin():
                yield connection


def lock_leases(
    connection: sa.Connection, tables: Tables, kind: str, entity_ids: Collection[str]
) -> dict[str, LeaseRow]:
    """The running leases of these entities; nobody takes a free one until the connection's transaction ends.

    A lease row is read with a shared lock, and SQLite locks the whole database anyway. On PostgreSQL an entity that
    never had a lease has no row to lock: its first lease may begin while this transaction ends.

    :param connection: in the transaction that writes the entities.
    """
    t = tables.operation_leases
    query = sa.select(t, now(connection.dialect).label("now")).where(t.c.kind == kind, t.c.entity_id.in_(entity_ids))
    rows = connection.execute(query.with_for_update(read=True)).all()
    leases = [_lease(row) for row in rows if row._mapping["id"]]
    return {lease.entity_id: lease for lease in leases if lease.remaining > 0}


def _lease(row: sa.Row[tuple[object, ...]]) -> LeaseRow:
    values = dict(row._mapping)
    moment = values.pop("now")
    return LeaseRow(**values, remaining=(values["expires_at"] - moment).total_seconds())


def _operation(row: sa.Row[tuple[object, ...]], lease: LeaseRow | None) -> OperationRow:
    """A running one that is not the lease's any more, or whose time is up, has expired."""
    values = {name: row._mapping[name] for name in ("id", "operation", "holder", "token", "state", "since", "ended_at")}
    runs = values["state"] == RUNNING and lease is not None and lease.id == values["id"]
    if values["state"] == RUNNING and not (runs and lease is not None and lease.remaining > 0):
        values["state"] = EXPIRED
    return OperationRow(**values, expires_at=lease.expires_at if runs and lease is not None else None)
