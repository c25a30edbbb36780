# SPDX-License-Identifier: Apache-2.0
"""The lease of an engine group: one engine leads, the others are standbys.

A lease is a row with a holder, a token that grows with every change of holder, and a beat that the holder increments.
A standby watches the beat by its own monotonic clock. If the beat rests for the lease's time, the standby takes the
lease with a compare-and-swap on (token, beat). A commit names the token, so a leader that was suspended fails at its
next commit.

Each statement is a transaction of its own. The server ends it (``autocommit``), so a machine that stops leaves no
lock. No commit locks the row.

A dead holder of this machine is recognised at once.
"""

from __future__ import annotations

import datetime
import os
import pathlib
import socket
import time
from collections.abc import Callable

import msgspec
import sqlalchemy as sa

from watcher_sync.exceptions import DatabaseUnavailable, LeaseLost, RowRefused, TransactionConflict
from watcher_sync.storage.database.database import retried, translated
from watcher_sync.storage.database.database_time import database_now
from watcher_sync.storage.database.sqlite_locks import writer_of
from watcher_sync.storage.database.time_limits import end_stalled_transactions
from watcher_sync.storage.schema import schema
from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.writing.commits import Fence


class LeaseView(msgspec.Struct, frozen=True):
    """The lease as the database has it."""

    holder: str
    """Empty if the lease is free."""
    token: int
    beat: int
    since: datetime.datetime


class EngineLease:
    """One engine's view of the lease of its group. Used by one thread at a time.

    :param seconds: how long the beat may rest before the holder counts as dead.
    """

    def __init__(
        self,
        database: sa.Engine,
        tables: Tables,
        name: str,
        *,
        seconds: float,
        holder: str | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.holder = holder or process_name()
        self.seconds = seconds
        self._database = database
        self._tables = tables
        self._table = tables.leases
        self._monotonic = monotonic
        self._seen: LeaseView | None = None
        self._seen_at = 0.0
        self._token: int | None = None
        self._attempted: int | None = None
        """The token of the last attempt to take the lease, whose outcome may be unknown."""

    @property
    def fence(self) -> Fence | None:
        """What a commit names while this engine leads, or has not noticed that it no longer does; None: it does not."""
        return Fence(self.name, self._token) if self._token is not None else None

    def require_fence(self) -> Fence:
        """What a commit must name. The database refuses it if another engine leads.

        :raises LeaseLost: this engine does not lead.
        """
        if self._token is None:
            raise LeaseLost(f"this engine does not have the lease {self.name!r}")
        return Fence(self.name, self._token)

    def read(self) -> LeaseView | None:
        """The lease now; None if it never had a holder.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        table = self._table
        query = sa.select(table.c.holder, table.c.token, table.c.beat, table.c.since).where(table.c.name == self.name)
        with translated(), self._database.connect() as connection:
            row = connection.execute(query).one_or_none()
        return LeaseView(*row) if row is not None else None

    def try_take(self) -> bool:
        """Take the lease if it is free or its holder is dead; whether this engine leads now.

        An attempt whose answer was lost is found in the row, as is a lease that this engine has.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        view = self.read()
        if view is None:
            return self._create()
        if self._seen is None or (self._seen.token, self._seen.beat) != (view.token, view.beat):
            self._seen, self._seen_at = view, self._monotonic()
        if (view.holder, view.token, view.beat) == (self.holder, self._attempted, 0):
            self._token = view.token
            return True
        silent = self._monotonic() - self._seen_at >= self.seconds
        if view.holder and not silent and not is_dead_here(view.holder):
            return False
        self._end_stalled_transactions()
        table = self._table
        now = database_now(self._database.dialect)
        self._attempted = view.token + 1
        statement = (
            sa.update(table)
            .where(table.c.name == self.name, table.c.token == view.token, table.c.beat == view.beat)
            .values(holder=self.holder, token=view.token + 1, beat=0, since=now, heartbeat_at=now)
        )
        if self._execute(statement) != 1:
            return False
        self._token = view.token + 1
        return True

    def find_live_holder(self) -> LeaseView | None:
        """The lease if another live process holds it, after watching its beat for at most a lease time.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        first = self.read()
        if first is None or not first.holder or is_dead_here(first.holder):
            return None
        until = self._monotonic() + self.seconds
        while self._monotonic() < until:
            time.sleep(min(0.2, self.seconds / 10))
            view = self.read()
            if view is None or not view.holder:
                return None
            if (view.token, view.beat) != (first.token, first.beat):
                return view
        return None

    def take_unless_led(self) -> LeaseView | None:
        """Take the lease, or return it if another live process holds it. Waits for a silent one to be dead.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        first = self.read()
        while not self.try_take():
            view = self.read()
            if view is not None and first is not None and (view.token, view.beat) != (first.token, first.beat):
                return view
            first = first or view
            time.sleep(min(0.2, self.seconds / 10))
        return None

    def beat(self) -> None:
        """Increment the beat: the holder is alive.

        :raises LeaseLost: when another engine took the lease.
        :raises DatabaseUnavailable: the database is unavailable.
        """
        table = self._table
        statement = (
            sa.update(table)
            .where(self._is_own(self._token))
            .values(beat=table.c.beat + 1, heartbeat_at=database_now(self._database.dialect))
        )
        for is_last in (False, True):
            try:
                renewed = self._execute(statement)
                break
            except DatabaseUnavailable:
                # The connection may be dead while others work. The pool makes a new one.
                if is_last:
                    raise
        if renewed != 1:  # the token stays, and so the database refuses what this engine still commits
            raise LeaseLost(f"the lease {self.name!r} was taken over by another engine")

    def require_schema(self) -> None:
        """Check, on the connections of the lease, that this release can work on the schema.

        :raises SchemaMissing: it cannot.
        :raises DatabaseUnavailable: the database is unavailable.
        """
        with translated(), self._database.connect() as connection:
            schema.check_revision(connection, self._tables)

    def give_back(self) -> None:
        """Let a standby lead at once; does nothing if this engine does not lead.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        token, self._token = self._token, None
        if token is None:
            return
        table = self._table
        self._execute(sa.update(table).where(self._is_own(token)).values(holder=""))

    def _is_own(self, token: int | None) -> sa.ColumnElement[bool]:
        """Whether the row is this engine's. A database that went back in time may give a token a second time."""
        table = self._table
        return sa.and_(table.c.name == self.name, table.c.token == token, table.c.holder == self.holder)

    def forget(self) -> None:
        """Stop leading, whatever the row says."""
        self._token = self._attempted = None

    def close(self) -> None:
        """Close the connections, such as before a fork."""
        self._database.dispose()

    @retried
    def _execute(self, statement: sa.Insert | sa.Update) -> int:
        """Run one statement as a transaction of its own; how many rows it matched.

        :raises DatabaseUnavailable: the database is unavailable, or the row is locked for too long. Of SQLite, the
            message names the process that holds the write lock.
        """
        try:
            with translated(), self._database.begin() as connection:
                return int(connection.execute(statement).rowcount)
        except TransactionConflict as exc:
            raise TransactionConflict(f"{exc}{writer_of(self._database)}", waited=exc.waited) from exc

    def _end_stalled_transactions(self) -> None:
        """End what a machine that stopped has left unfinished: the next leader would wait for it."""
        with translated(), self._database.begin() as connection:
            end_stalled_transactions(connection)

    def _create(self) -> bool:
        now = database_now(self._database.dialect)
        self._attempted = 1
        statement = sa.insert(self._table).values(
            name=self.name, holder=self.holder, token=1, beat=0, since=now, heartbeat_at=now
        )
        try:
            self._execute(statement)
        except RowRefused:  # another engine created it first
            return False
        self._token = 1
        return True


def process_name() -> str:
    """``host/boot/pid-namespace/pid/start-time``: a name that no other process ever has."""
    pid = os.getpid()
    return "/".join((socket.gethostname(), *_here(), str(pid), _started(pid) or "0"))


def is_dead_here(holder: str) -> bool:
    """Whether the holder was a process of this machine, boot and pid namespace, and has ended."""
    parts = holder.rsplit("/", 4)
    if len(parts) != 5 or parts[:3] != [socket.gethostname(), *_here()] or not parts[3].isdigit():
        return False
    return _started(int(parts[3])) != parts[4]


def _here() -> tuple[str, str]:
    try:
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return boot, os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        return "unknown", "0"


def _started(pid: int) -> str | None:
    """When the process was started, in clock ticks since boot; None when there is no such process."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]
