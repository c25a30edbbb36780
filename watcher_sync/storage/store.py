# SPDX-License-Identifier: Apache-2.0
"""The commit: what one batch changed, in one database transaction, all or nothing.

The head of the journal is one row, and a commit begins with a compare-and-swap on it::

    UPDATE journal_head SET seq = seq + n WHERE seq = :generation

If it matches, this writer's replica was at the head, seq order is commit order without a gap, and the
row lock keeps every other writer out until the commit. If it does not, another writer was first: the
caller reads its journal rows into the replica, dispatches the batch again on top, and comes back.
An engine's commit also names its lease, so one that was deposed cannot write any more.

One thread uses a store for writing, over one connection that is kept; reading opens its own.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from watcher_sync.exceptions import DatabaseUnavailable, HeadMoved, LeaseLost, StorageError
from watcher_sync.model.kinds import Kinds
from watcher_sync.model.model import Model, Written
from watcher_sync.model.transaction import Staged
from watcher_sync.storage import journal
from watcher_sync.storage.database import translated
from watcher_sync.storage.entity_rows import EntityRows
from watcher_sync.storage.kept import Parked, Quarantined, columns_of
from watcher_sync.storage.loading import load_rows
from watcher_sync.storage.statements import Row, Statements
from watcher_sync.storage.tables import Tables

_FROZEN = 4
"""Seconds between two statements of one commit after which its writer is taken for frozen. Commits compute
nothing in between, and it is less than the usual lease time."""


class Fence(msgspec.Struct, frozen=True):
    """The lease under which an engine writes."""

    name: str
    token: int


class Commit(msgspec.Struct, kw_only=True):
    """Everything that one database transaction holds."""

    generation: int
    """The journal seq that the changes are based on."""
    staged: Collection[Staged] = ()
    cursors: Mapping[str, str] = {}
    quarantined: Sequence[Quarantined] = ()
    parked: Sequence[Parked] = ()
    unparked: Sequence[int] = ()
    """Ids of parked events that this commit takes up."""
    released: Sequence[int] = ()
    """Ids of quarantined events that this commit takes up again."""
    fence: Fence | None = None

    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        return not (self.staged or self.cursors or self.quarantined or self.parked or self.unparked or self.released)


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
        statements = Statements(engine)
        self._entities = {
            name: EntityRows(statements, table, kinds[name]) for name, table in self.tables.entities.items()
        }
        self._remove = {name: statements.delete(table, "id") for name, table in self.tables.entities.items()}
        self._bury = statements.upsert(self.tables.tombstones, newer="seq")
        self._unbury = statements.delete(self.tables.tombstones, "kind", "id")
        self._journal = statements.insert(self.tables.journal)
        head, leases = self.tables.journal_head, self.tables.leases
        self._swap = {
            (moves, fenced): statements.swap(head, leases, moves=moves, fenced=fenced)
            for moves, fenced in ((True, True), (True, False), (False, True))
        }
        self._cursor = statements.upsert(self.tables.source_cursors)
        self._quarantine = statements.keep_event(self.tables.quarantine)
        self._park = statements.keep_event(self.tables.parked)

    def load(self) -> Model:
        """The model as the tables have it, at one consistent seq.

        :raises DatabaseUnavailable: when the database cannot be read.
        """
        with translated(), self._snapshot() as connection:
            return load_rows(connection, self.tables, self.kinds)

    def catch_up(self, model: Model, *, chunk: int = 5000) -> list[Written]:
        """Read what other writers committed into the replica.

        :returns: what changed in the replica, empty when it was at the head.
        :raises JournalPurged: when the journal does not reach back that far.
        :raises DatabaseUnavailable: when the database cannot be read.
        """
        changed: list[Written] = []
        with translated(), self.engine.connect() as connection:
            while rows := journal.read_since(connection, self.tables, model.generation, chunk):
                changed += journal.follow(model, rows)
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
        :raises RowRefused: a value can never be written; nothing was.
        :raises DatabaseUnavailable: the database is away. Whether the commit reached it is unknown; the
            caller catches up before it tries again, so that it is seen if it did.
        """
        try:
            with translated():
                connection = self._writer()
                with connection.begin():
                    self._swap_head(connection, commit)
                    self._write(connection, commit)
        except (HeadMoved, LeaseLost):
            raise
        except StorageError:
            self.close()
            raise

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

    def persist_heard(self, heard: Mapping[str, Mapping[str, datetime.datetime]]) -> None:
        """Write signs of life; only newer ones replace what the row has. No journal, no seq.

        :raises DatabaseUnavailable: when the database is away.
        """
        with translated(), self.engine.begin() as connection:
            for kind, times in heard.items():
                field = self.kinds[kind].volatile
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

    def read_heard(self) -> dict[str, dict[str, datetime.datetime]]:
        """kind -> id -> when it was last heard, as persisted by any engine."""
        heard: dict[str, dict[str, datetime.datetime]] = {}
        with translated(), self.engine.connect() as connection:
            for name, kind in self.kinds.items():
                if kind.volatile is None:
                    continue
                table = self.tables.entities[name]
                column = table.c[kind.volatile]
                rows = connection.execute(sa.select(table.c.id, column).where(column.is_not(None)))
                heard[name] = {row[0]: row[1] for row in rows}
        return heard

    # One transaction

    def _writer(self) -> sa.Connection:
        if self._connection is None or self._connection.invalidated:
            self.close()
            self._connection = self.engine.connect()
            self.free_head_of_the_frozen(self._connection)
        return self._connection

    def free_head_of_the_frozen(self, connection: sa.Connection) -> None:
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

    def _swap_head(self, connection: sa.Connection, commit: Commit) -> None:
        head, leases = self.tables.journal_head, self.tables.leases
        moves = bool(commit.staged or commit.parked)
        if not moves and commit.fence is None:
            return
        values: list[Any] = [len(commit.staged)]
        if moves:
            values.append(commit.generation)
        if commit.fence is not None:
            values += (commit.fence.name, commit.fence.token)
        sql = self._swap[moves, commit.fence is not None]
        if connection.exec_driver_sql(sql, tuple(values)).rowcount == 1:
            return
        if commit.fence is not None:
            token = connection.execute(
                sa.select(leases.c.token).where(leases.c.name == commit.fence.name)
            ).scalar_one_or_none()
            if token != commit.fence.token:
                raise LeaseLost(f"the lease {commit.fence.name!r} was taken over by another engine")
        if connection.execute(sa.select(sa.func.count()).select_from(head)).scalar_one() != 1:
            raise DatabaseUnavailable("the journal has no head; run db_sync")
        raise HeadMoved(f"the journal is past seq {commit.generation}")

    def _write(self, connection: sa.Connection, commit: Commit) -> None:
        now = self._now()
        for table, ids in ((self.tables.parked, commit.unparked), (self.tables.quarantine, commit.released)):
            if ids:
                statement = sa.delete(table).where(table.c.id == sa.bindparam("b_id"))
                connection.execute(statement, [{"b_id": i} for i in ids])
        if commit.staged:
            self._write_staged(connection, commit, now)
        for source, position in commit.cursors.items():
            self._cursor.write(connection, [self._cursor.values((source, position, now))])
        if commit.quarantined:
            rows = [
                self._quarantine.values((*columns_of(q.event).values(), now, q.reason, q.detail))
                for q in commit.quarantined
            ]
            self._quarantine.write(connection, rows)
        if commit.parked:
            rows = [
                self._park.values((*columns_of(p.event).values(), p.kind, p.entity_id, now, p.expires_at))
                for p in commit.parked
            ]
            self._park.write(connection, rows)

    def _write_staged(self, connection: sa.Connection, commit: Commit, now: datetime.datetime) -> None:
        changed: dict[str, list[tuple[Staged, str]]] = {}
        removals: dict[str, list[Row]] = {}
        buried: list[Row] = []
        unburied: list[Row] = []
        entries: list[Row] = []
        for s in commit.staged:
            name = s.kind.name
            if s.entity is not None:
                versions = journal.versions_text(s.kind, s.entity.versions)
                changed.setdefault(name, []).append((s, versions))
                if s.base is None and (s.kind.ids_reused or s.kind.implied):
                    unburied.append((name, s.id))
            elif s.tombstone is not None:
                versions = journal.versions_text(s.kind, s.tombstone.versions)
                buried.append(self._bury.values((name, s.id, versions, s.tombstone.deleted_at, s.seq)))
                if s.base is not None:
                    removals.setdefault(name, []).append((s.id,))
            event = s.event
            entry = (
                s.seq,
                now,
                name,
                s.id,
                s.change(),
                s.delta(),
                versions,
                event.id[:255],
                event.type[:255],
                event.source,
                s.merged,
            )
            entries.append(self._journal.values(entry))
        for name, entities in changed.items():
            self._entities[name].write(connection, entities)
        for name, rows in removals.items():
            _run(connection, self._remove[name], rows)
        _run(connection, self._unbury, unburied)
        self._bury.write(connection, buried)
        self._journal.write(connection, entries)


def _run(connection: sa.Connection, sql: str, rows: list[Row]) -> None:
    if rows:
        connection.exec_driver_sql(sql, rows)
