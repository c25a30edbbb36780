# SPDX-License-Identifier: Apache-2.0
"""Writes one commit in one database transaction, everything or nothing.

The head of the journal is one row, and a commit begins with a compare-and-swap on it::

    UPDATE journal_head SET seq = seq + n, mark = :new WHERE seq = :generation AND mark = :mark AND epoch = :epoch

If it matches, this writer's replica was at the head, and seq order is commit order without a gap. The row lock excludes
every other writer until the commit. If it does not match, another writer was first. The caller reads its journal rows
into the replica, dispatches the batch again and retries. An engine's
commit also names its lease, so a deposed engine cannot write.

One commit at a time is written, over one connection that stays open; reads open their own. :meth:`Store.begin` waits
for the database in another thread.
"""

from __future__ import annotations

import contextlib
import datetime
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import TypeVar

import sqlalchemy as sa

from watcher_sync.exceptions import (
    DatabaseUnavailable,
    EntitiesLeased,
    HeadMoved,
    HistoryChanged,
    LeaseLost,
    RowRefused,
    StorageError,
    TransactionConflict,
)
from watcher_sync.model.kinds import Entity, Kinds
from watcher_sync.model.model import Key, Model, Written
from watcher_sync.periodic import run_in_background
from watcher_sync.storage import epochs
from watcher_sync.storage.database import sqlite_file, time_limits
from watcher_sync.storage.database.database import MAX_PACKET, no_duplicates, run_with_retries, translated
from watcher_sync.storage.database.database_time import DatabaseTime
from watcher_sync.storage.database.time_limits import CommitWatch
from watcher_sync.storage.epochs import Position, position_of
from watcher_sync.storage.groups.followed_sites import FollowedSites
from watcher_sync.storage.groups.operation_leases import lock_leases
from watcher_sync.storage.loading import Only, load_rows
from watcher_sync.storage.schema.tables import tables_of
from watcher_sync.storage.stored.quotas import Connect, DroppedEvents, EventQuotas
from watcher_sync.storage.writing import journal
from watcher_sync.storage.writing.commits import Commit, CommitWriter, Prepared, explain_refusal, require_lease
from watcher_sync.storage.writing.entity_rows import read_last_seen, write_last_seen
from watcher_sync.storage.writing.statements import has_row_above

T = TypeVar("T")


class Store:
    """The database of a process that writes commits.

    It implements :class:`~watcher_sync.storage.writing.commits.CommitStore`.
    """

    def __init__(
        self,
        database: sa.Engine,
        kinds: Kinds,
        *,
        now: Callable[[], datetime.datetime] | None = None,
        quotas: EventQuotas = EventQuotas(),  # noqa: B008 - it is frozen
        commits: sa.Engine | None = None,
        watch: CommitWatch | None = None,
    ) -> None:
        """:param quotas: the limits of stored events; read at every commit that stores one.

        :param commits: the same database over connections with the time limits of commits; None: ``database``.
        :param watch: measures the commits; it has the time limit of ``commits``.
        """
        self.database = database
        self.commits = commits if commits is not None else database
        self.watch = watch or CommitWatch()
        self._is_abandoned = False
        """Whether a session of this store may still have a transaction, because its end is unknown."""
        self.kinds = kinds
        self.tables = tables_of(kinds)
        self.time = DatabaseTime(self.commits)
        """The database's time: rows get their times from it, and purges compare with it."""
        self.sites = FollowedSites(self.commits, self.tables)
        """The followed sites, of which no commit but those of their sources writes an entity."""
        self._now = now or self.time.now
        self._connection: sa.Connection | None = None
        self._writer = CommitWriter(database, self.tables, kinds, quotas)
        self._packet_known = database.dialect.name not in ("mysql", "mariadb")
        self.dropped = DroppedEvents()
        """Stored events that were deleted because of a quota."""

    def relieve_quotas(self) -> None:
        """Delete the oldest stored events of sources close to their quota. For one background thread, once a second.

        :raises DatabaseUnavailable: the database is unavailable; committed deletions remain.
        """
        for keeper in self._writer.quota_keepers:
            keeper.relieve(self.database, self.dropped)

    def load(self, only: Only | None = None) -> Model:
        """The model as the tables have it, at one consistent seq.

        :param only: what is to be loaded of it; None: all.
        :raises DatabaseUnavailable: when the database cannot be read.
        """
        with self.connect_stable() as connection:
            return load_rows(connection, self.tables, self.kinds, only)

    def catch_up(
        self, model: Model, *, chunk: int = 5000, before: dict[Key, Entity | None] | None = None
    ) -> list[Written]:
        """Read what other writers committed into the replica.

        :param before: gets key -> the entity before, of all that is written.
        :returns: what changed in the replica, empty when it was at the head.
        :raises HistoryChanged: the database does not have the replica's last commit.
        :raises JournalPurged, DatabaseUnavailable: the journal does not reach back that far, or cannot be read.
        """
        changed: list[Written] = []
        with translated(), self.commits.connect() as connection:
            while True:
                head = epochs.read_position(connection, self.tables)
                known = position_of(model) or head
                if not epochs.continues(connection, self.tables, head, known):
                    raise HistoryChanged(known, head)
                if head.seq == model.generation:
                    model.mark = head.mark
                    return changed
                rows = journal.read_since(connection, self.tables, model.generation, chunk)
                changed += journal.follow(model, rows, before)

    def reload(self, known: Position) -> tuple[Model, Position]:
        """The model of a database that does not have a known commit, which gets a new epoch if it has none yet.

        :returns: the model, and the position of the database.
        :raises DatabaseUnavailable: the database is unavailable, or behind for a moment.
        """

        self.renew_epoch(known)
        model = self.load()
        position = position_of(model)
        assert position is not None
        return model, position

    def renew_epoch(self, known: Position) -> None:
        """Give a database that does not have a known commit a new epoch, if it has none yet.

        :raises DatabaseUnavailable: the database is unavailable, or behind for a moment.
        """

        def renew() -> bool:
            with translated(), self.commits.begin() as connection:
                return epochs.renew_epoch(connection, self.tables, known)

        if not run_with_retries(renew, self.end_stalled_transactions):
            raise DatabaseUnavailable(f"the database was behind the commit at {known}")

    def begin_epoch(self, after: str = "") -> str:
        """Give the database another epoch, and return it.

        :param after: an epoch that it never had, and whose logs it continues; empty: it is a copy of another database,
            and continues no log.
        :raises DatabaseUnavailable: the database is unavailable.
        """
        with translated(), self.commits.begin() as connection:
            return epochs.begin_epoch_by_hand(connection, self.tables, after)

    def cursors(self) -> dict[str, str]:
        """source -> its last committed position."""
        table = self.tables.source_cursors
        with translated(), self.commits.connect() as connection:
            return {row.source: row.position for row in connection.execute(sa.select(table))}

    def commit(self, commit: Commit) -> None:
        """Write everything or nothing.

        :raises HeadMoved: another writer committed first; nothing was written.
        :raises LeaseLost: the fence is no longer valid; nothing was written.
        :raises EntitiesLeased: an operation holds one of the commit's ``unleased``; nothing was written.
        :raises RowRefused: a value can never be written; nothing was.
        :raises DatabaseUnavailable: the database is unavailable. Whether it committed is unknown; the
            caller catches up before it tries again, so that it is seen if it did.
        """
        prepared = self.prepare(commit)
        self._retry(lambda: self._end(self._run(prepared)))

    def commit_locked(self, make: Callable[[], Commit]) -> None:
        """Lock the journal's head, then have the commit made, then write everything or nothing.

        No other writer commits meanwhile.

        :param make: moves the caller's replica to the head and returns the commit; it may read the database over
            other connections.
        :raises LeaseLost, EntitiesLeased, RowRefused, DatabaseUnavailable: as :meth:`commit`. An exception of ``make``
            is passed on; nothing was written.
        """

        def write(connection: sa.Connection) -> None:
            journal.lock_head(connection, self.tables)
            prepared = self.prepare(make())
            with self._large_rows_refused(prepared):
                self.write(connection, prepared)

        self._retry(lambda: self._end(self._transact(write)))

    def prepare(self, commit: Commit, connect: Connect | None = None) -> Prepared:
        """Make the statements, and write nothing yet.

        :param connect: opens a connection for reading, if a quota has to be counted; None: one of the store's own.
        :raises RowRefused: a value can never be written.
        :raises DatabaseUnavailable: the database is unavailable.
        """
        with translated():
            if not self._packet_known:
                with self.commits.connect() as connection:
                    self._learn_packet(connection)
            return self._writer.prepare(commit, self._now(), connect or self.connect)

    def _learn_packet(self, connection: sa.Connection) -> None:
        """Learn the largest statement from a new connection: it may have changed with a restart of the server."""
        limit = connection.info.get(MAX_PACKET)
        if limit is not None:
            self._writer.statements.packet.bytes = limit
            self._packet_known = True

    def begin(self, prepared: Prepared) -> Future[float]:
        """Write everything or nothing while the caller continues; no other commit may begin meanwhile.

        :returns: the seconds that it took, when it is committed; fails as :meth:`commit` does.
        """
        began = time.monotonic()

        def end(transaction: sa.RootTransaction) -> float:
            self._end(transaction)
            return time.monotonic() - began

        if self.database.dialect.name != "sqlite":
            return run_in_background(lambda: self._retry(lambda: end(self._run(prepared))), "commit")
        # SQLite works in this process, and its driver releases and takes the interpreter lock for every row. Only the
        # end of the transaction, which waits for the disk, is worth another thread.
        try:
            transaction = self._run(prepared)
        except StorageError as exc:
            failed: Future[float] = Future()
            failed.set_exception(exc)
            return failed
        return run_in_background(lambda: end(transaction), "commit")

    @contextlib.contextmanager
    def connect(self) -> Iterator[sa.Connection]:
        """A connection of its own for reading, for the length of the block.

        :raises DatabaseUnavailable: the database is unavailable, when connecting or in the block.
        """
        with translated(), self.commits.connect() as connection:
            yield connection

    def close(self) -> None:
        """Give the writer's connection back; the next commit opens another."""
        self.watch.reset()
        self._discard_connection()

    def _discard_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.invalidate()
                connection.close()
            except Exception:  # noqa: BLE001 - the connection is discarded in any state
                return

    def dispose(self) -> None:
        """Close all connections, such as before a fork."""
        self.close()
        self.commits.dispose()
        self.database.dispose()

    def head(self) -> int:
        """The seq of the journal's last row.

        :raises DatabaseUnavailable: when the database does not answer.
        """
        with self.connect() as connection:
            return journal.read_head(connection, self.tables)

    def persist_last_seen(self, seen: Mapping[str, Mapping[str, datetime.datetime]]) -> None:
        """Write times that are newer than those in the rows, in a transaction of its own. No journal, no seq.

        :param seen: kind -> id -> the time when the entity was last seen, aware UTC.
        :raises DatabaseUnavailable: the database is unavailable.
        """

        def write() -> None:
            with translated(), self.commits.begin() as connection:
                write_last_seen(connection, self.tables, self.kinds, seen)

        run_with_retries(write, self.end_stalled_transactions)

    def read_last_seen(self) -> dict[str, dict[str, datetime.datetime]]:
        """kind -> id -> when it was last seen, as persisted by any engine.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        with self.connect() as connection:
            return read_last_seen(connection, self.tables, self.kinds)

    def end_stalled_transactions(self) -> None:
        """End transactions whose process stopped within a pipeline of statements; errors are ignored."""
        with contextlib.suppress(StorageError), translated(), self.commits.begin() as connection:
            time_limits.end_stalled_transactions(connection)

    # One transaction

    def _retry(self, work: Callable[[], T]) -> T:
        """Run a whole commit, again after each conflict."""
        return run_with_retries(lambda: self.watch.run(work), self.end_stalled_transactions)

    def _run(self, prepared: Prepared) -> sa.RootTransaction:
        """Run everything but the end of the transaction; roll back if it fails."""
        with self._large_rows_refused(prepared):
            return self._transact(lambda connection: self.write(connection, prepared))

    def _transact(self, write: Callable[[sa.Connection], None]) -> sa.RootTransaction:
        """Begin a transaction and write into it; roll back if it fails."""
        try:
            with translated():
                connection = self._writer_connection()
                sqlite_file.check(connection)
                transaction = connection.begin()
                try:
                    write(connection)
                except BaseException:
                    transaction.rollback()
                    raise
                return transaction
        except (HeadMoved, LeaseLost, EntitiesLeased, TransactionConflict):
            raise
        except StorageError:
            self._abandon()
            raise

    @contextlib.contextmanager
    def _large_rows_refused(self, prepared: Prepared) -> Iterator[None]:
        """If MariaDB answers again after a statement near its limit, that statement was the reason.

        It closes the connection instead of answering a statement that is too large.

        :raises RowRefused: the commit has such a row.
        :raises DatabaseUnavailable: the database does not answer.
        """
        try:
            with translated():
                yield
        except DatabaseUnavailable as exc:
            limit = self._writer.statements.packet.bytes // 2
            if self.database.dialect.name in ("mysql", "mariadb") and any(
                has_row_above(s.parameters, limit) for s in prepared.statements
            ):
                self.head()
                raise RowRefused(f"a row of more than {limit} bytes ended the connection: {exc}") from exc
            raise

    def _end(self, transaction: sa.RootTransaction) -> None:
        try:
            with translated():
                transaction.commit()
                sqlite_file.check(transaction.connection)
        except StorageError:
            self._abandon()
            raise

    def _abandon(self) -> None:
        """Discard the connection. The server may have the whole commit, a part of it, or nothing."""
        self._is_abandoned = True
        self._discard_connection()

    def _writer_connection(self) -> sa.Connection:
        if self._connection is None or self._connection.invalidated:
            self._discard_connection()
            self._connection = self.commits.connect()
            self._learn_packet(self._connection)
            if self._is_abandoned:
                # A session that got a part of a commit holds the journal's head.
                time_limits.end_stalled_transactions(self._connection)
                self._connection.commit()
                self._is_abandoned = False
        return self._connection

    @contextlib.contextmanager
    def connect_stable(self, *, short: bool = False) -> Iterator[sa.Connection]:
        """A connection of its own that reads one consistent state of the database, for the length of the block.

        :param short: whether the process computes nothing between its statements. Else they may be minutes apart.
        :raises RowRefused: the database cannot compare a value.
        :raises DatabaseUnavailable: the database is unavailable, when connecting or in the block.
        """
        with translated(), self.database.connect() as connection:
            if connection.dialect.name == "postgresql":
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            if not short:
                time_limits.wait_longer(connection)
            yield connection

    def write(self, connection: sa.Connection, prepared: Prepared) -> None:
        """Write a commit into a transaction of the caller.

        :raises LeaseLost, HeadMoved, DatabaseUnavailable: as :meth:`commit`.
        """
        if prepared.swap is not None and prepared.swap.run(connection) != 1:
            explain_refusal(connection, self.tables, prepared.commit)
        if prepared.commit.fence is not None and not self._writer.statements.swap_reads_lease:
            # After the head is locked. In the swap, MariaDB would lock the lease.
            require_lease(connection, self.tables, prepared.commit.fence)
        for kind, ids in prepared.commit.unleased.items():
            # The head is locked by now, so this reads every lease that another writer of the journal released.
            if leases := lock_leases(connection, self.tables, kind, ids):
                raise EntitiesLeased(leases)
        with no_duplicates():
            for statement in prepared.statements:
                statement.run(connection)
        for table, sources in prepared.dropped.items():
            self.dropped.add(table, sources)
