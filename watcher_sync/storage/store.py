# SPDX-License-Identifier: Apache-2.0
"""The commit: what one batch changed, in one database transaction, all or nothing.

The head of the journal is one row, and a commit begins with a compare-and-swap on it::

    UPDATE journal_head SET seq = seq + n WHERE seq = :generation

If it matches, this writer's replica was at the head, seq order is commit order without a gap, and the
row lock keeps every other writer out until the commit. If it does not, another writer was first: the
caller reads its journal rows into the replica, dispatches the batch again on top, and comes back.
An engine's commit also names its lease, so one that was deposed cannot write any more.

One commit at a time is written, over one connection that is kept; reading opens its own. What the processor has to do
for a commit can be done ahead, and the database be waited for aside: see :meth:`Store.begin`.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future

import sqlalchemy as sa

from watcher_sync.exceptions import DatabaseUnavailable, EntitiesLeased, HeadMoved, LeaseLost, StorageError
from watcher_sync.model.kinds import Entity, Kinds
from watcher_sync.model.model import Model, Written
from watcher_sync.model.transaction import Key
from watcher_sync.storage import journal
from watcher_sync.storage.background import aside
from watcher_sync.storage.commits import Commit, CommitWriter, Prepared
from watcher_sync.storage.database import translated
from watcher_sync.storage.loading import load_rows
from watcher_sync.storage.operation_leases import lock_leases
from watcher_sync.storage.tables import Tables

_FROZEN = 4
"""Seconds between two statements of one commit after which its writer is taken for frozen. Commits compute
nothing in between, and it is less than the usual lease time."""


class Store:
    """The database as the engine sees it."""

    def __init__(
        self,
        engine: sa.Engine,
        kinds: Kinds,
        *,
        now: Callable[[], datetime.datetime] | None = None,
    ) -> None:
        self.engine = engine
        self.kinds = kinds
        self.tables = Tables(kinds)
        self._now = now or (lambda: datetime.datetime.now(datetime.UTC))
        self._connection: sa.Connection | None = None
        self._writer = CommitWriter(engine, self.tables, kinds)

    def load(self) -> Model:
        """The model as the tables have it, at one consistent seq.

        :raises DatabaseUnavailable: when the database cannot be read.
        """
        with translated(), self._snapshot() as connection:
            return load_rows(connection, self.tables, self.kinds)

    def catch_up(
        self, model: Model, *, chunk: int = 5000, before: dict[Key, Entity | None] | None = None
    ) -> list[Written]:
        """Read what other writers committed into the replica.

        :param before: gets key -> the entity before, of all that is written.
        :returns: what changed in the replica, empty when it was at the head.
        :raises JournalPurged: when the journal does not reach back that far.
        :raises DatabaseUnavailable: when the database cannot be read.
        """
        changed: list[Written] = []
        with translated(), self.engine.connect() as connection:
            while rows := journal.read_since(connection, self.tables, model.generation, chunk):
                changed += journal.follow(model, rows, before)
        return changed

    def cursors(self) -> dict[str, str]:
        """source -> its last committed position."""
        table = self.tables.source_cursors
        with translated(), self.engine.connect() as connection:
            return {row.source: row.position for row in connection.execute(sa.select(table))}

    def commit(self, commit: Commit) -> None:
        """Write it, all or nothing.

        :raises HeadMoved: another writer committed first; nothing was written.
        :raises LeaseLost: the fence does not hold any more; nothing was written.
        :raises EntitiesLeased: an operation holds one of the commit's ``unleased``; nothing was written.
        :raises RowRefused: a value can never be written; nothing was.
        :raises DatabaseUnavailable: the database is away. Whether the commit reached it is unknown; the
            caller catches up before it tries again, so that it is seen if it did.
        """
        self._end(self._run(self.prepare(commit)))

    def prepare(self, commit: Commit) -> Prepared:
        """Make the statements, and do nothing yet.

        :raises RowRefused: a value can never be written.
        """
        with translated():
            return self._writer.prepare(commit, self._now())

    def begin(self, prepared: Prepared) -> Future[float]:
        """Write it, all or nothing, while the caller goes on; nothing else may be committed meanwhile.

        :returns: the seconds that it took, when it is committed; fails as :meth:`commit` does.
        """
        began = time.monotonic()

        def end(transaction: sa.RootTransaction) -> float:
            self._end(transaction)
            return time.monotonic() - began

        if self.engine.dialect.name != "sqlite":
            return aside(lambda: end(self._run(prepared)), "commit")
        # SQLite works in this process, and its driver hands the interpreter over and back for every single row. So
        # only the end of the transaction, where the disk is waited for, is worth another thread.
        try:
            transaction = self._run(prepared)
        except StorageError as exc:
            failed: Future[float] = Future()
            failed.set_exception(exc)
            return failed
        return aside(lambda: end(transaction), "commit")

    def close(self) -> None:
        """Give the writer's connection back; the next commit opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.invalidate()
                connection.close()
            except Exception:  # noqa: BLE001 - it is thrown away, in whatever state it is
                return

    def ping(self) -> None:
        """:raises DatabaseUnavailable: when the database does not answer."""
        with translated(), self.engine.connect() as connection:
            journal.read_head(connection, self.tables)

    def persist_last_seen(self, heard: Mapping[str, Mapping[str, datetime.datetime]]) -> None:
        """Write signs of life; only newer ones replace what the row has. No journal, no seq.

        :raises DatabaseUnavailable: when the database is away.
        """
        with translated(), self.engine.begin() as connection:
            for kind, times in heard.items():
                field = self.kinds[kind].last_seen_field
                if field is None or not times:
                    continue
                table = self.tables.entities[kind]
                column = table.c[field]
                statement = (
                    sa.update(table)
                    .where(table.c.id == sa.bindparam("b_id"))
                    .where(sa.or_(column.is_(None), column < sa.bindparam("b_time", type_=column.type)))
                    .values({field: sa.bindparam("b_time", type_=column.type)})
                )
                connection.execute(statement, [{"b_id": i, "b_time": t} for i, t in sorted(times.items())])

    def read_last_seen(self) -> dict[str, dict[str, datetime.datetime]]:
        """kind -> id -> when it was last heard, as persisted by any engine."""
        heard: dict[str, dict[str, datetime.datetime]] = {}
        with translated(), self.engine.connect() as connection:
            for name, kind in self.kinds.items():
                if kind.last_seen_field is None:
                    continue
                table = self.tables.entities[name]
                column = table.c[kind.last_seen_field]
                rows = connection.execute(sa.select(table.c.id, column).where(column.is_not(None)))
                heard[name] = {row[0]: row[1] for row in rows}
        return heard

    # One transaction

    def _run(self, prepared: Prepared) -> sa.RootTransaction:
        """Everything but the end of the transaction; undone if it fails."""
        try:
            with translated():
                connection = self._kept_connection()
                transaction = connection.begin()
                try:
                    self._write(connection, prepared)
                except BaseException:
                    transaction.rollback()
                    raise
                return transaction
        except (HeadMoved, LeaseLost, EntitiesLeased):
            raise
        except StorageError:
            self.close()
            raise

    def _end(self, transaction: sa.RootTransaction) -> None:
        try:
            with translated():
                transaction.commit()
        except StorageError:
            self.close()
            raise

    def _kept_connection(self) -> sa.Connection:
        if self._connection is None or self._connection.invalidated:
            self.close()
            self._connection = self.engine.connect()
            self.limit_idle_transactions(self._connection)
        return self._connection

    def limit_idle_transactions(self, connection: sa.Connection) -> None:
        """Have the server end a transaction whose client froze in the middle of it.

        A commit holds the journal's head. A process that is stopped there, or whose machine lost power, would
        keep every other writer waiting, the standby that takes over from it too.
        """
        dialect = connection.dialect
        if dialect.name == "postgresql":
            connection.exec_driver_sql(f"SET idle_in_transaction_session_timeout = {_FROZEN * 1000}")
        elif getattr(dialect, "is_mariadb", False):
            connection.exec_driver_sql(f"SET SESSION idle_write_transaction_timeout = {_FROZEN}")
        connection.commit()

    def _snapshot(self) -> sa.Connection:
        connection = self.engine.connect()
        if self.engine.dialect.name == "postgresql":
            connection = connection.execution_options(isolation_level="REPEATABLE READ")
        return connection

    def _write(self, connection: sa.Connection, prepared: Prepared) -> None:
        if prepared.swap is not None and prepared.swap.run(connection) != 1:
            self._explain(connection, prepared.commit)
        for kind, ids in prepared.commit.unleased.items():
            # The head is locked by now, so this reads every lease that another writer of the journal released.
            if leases := lock_leases(connection, self.tables, kind, ids):
                raise EntitiesLeased(leases)
        for statement in prepared.statements:
            statement.run(connection)

    def _explain(self, connection: sa.Connection, commit: Commit) -> None:
        """Why the head did not move.

        :raises LeaseLost, HeadMoved, DatabaseUnavailable: as :meth:`commit`.
        """
        head, leases = self.tables.journal_head, self.tables.leases
        if commit.fence is not None:
            token = connection.execute(
                sa.select(leases.c.token).where(leases.c.name == commit.fence.name)
            ).scalar_one_or_none()
            if token != commit.fence.token:
                raise LeaseLost(f"the lease {commit.fence.name!r} was taken over by another engine")
        if connection.execute(sa.select(sa.func.count()).select_from(head)).scalar_one() != 1:
            raise DatabaseUnavailable("the journal has no head; run db_sync")
        raise HeadMoved(f"the journal is past seq {commit.generation}")
