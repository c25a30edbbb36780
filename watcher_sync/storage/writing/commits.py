# SPDX-License-Identifier: Apache-2.0
"""One commit: what it contains, its statements, who writes it, and why it may not be written.

The statements are made before the transaction begins: the work of the processor is done while nothing is locked. The
rest is the database's work, so another thread can wait for it.

Two classes implement :class:`CommitStore`: :class:`~watcher_sync.storage.writing.store.Store`, with a transaction for
each commit, and :class:`~watcher_sync.storage.writing.locked.LockedStore`, inside one transaction that locks the
journal's head. Both refuse a commit that is based on another history, another leader's lease, or an older head.
"""

from __future__ import annotations

import collections
import datetime
import itertools
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NoReturn, Protocol

import msgspec
import sqlalchemy as sa

from watcher_sync.exceptions import HeadMoved, LeaseLost, RowRefused
from watcher_sync.model.kinds import Kinds
from watcher_sync.model.model import Staged
from watcher_sync.model.texts import storable
from watcher_sync.storage.epochs import Position, continues, new_mark, read_position
from watcher_sync.storage.groups.followed_sites import FollowedSites
from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.stored.quotas import Connect, EntityQuota, EventQuotas, QuotaKeeper, StoredUsage, Superseded
from watcher_sync.storage.stored.stored_events import (
    MAX_BODY_BYTES,
    Parked,
    RefusedEvent,
    parked_columns,
    quarantined_columns,
    reason_columns,
)
from watcher_sync.storage.writing import journal
from watcher_sync.storage.writing.entity_rows import EntityRows
from watcher_sync.storage.writing.statements import Row, Statement, Statements


class Fence(msgspec.Struct, frozen=True):
    """The lease under which an engine writes."""

    name: str
    token: int


class Commit(msgspec.Struct, kw_only=True):
    """Everything that one database transaction writes."""

    generation: int
    """The journal seq that the changes are based on."""
    epoch: str | None = None
    """The epoch that they are based on; None: neither epoch nor mark are compared, as the head is locked."""
    mark: int | None = None
    """The mark of the head that they are based on."""
    new_mark: int = msgspec.field(default_factory=new_mark)
    """The mark of this commit, if it changes anything."""
    staged: Collection[Staged] = ()
    cursors: Mapping[str, str] = {}
    quarantined: Sequence[RefusedEvent] = ()
    parked: Sequence[Parked] = ()
    unparked: Sequence[int] = ()
    """Ids of parked events that this commit contains."""
    released: Sequence[int] = ()
    """Ids of quarantined events that this commit contains."""
    fence: Fence | None = None
    unleased: Mapping[str, Collection[str]] = {}
    """Kind -> ids of entities that no operation may hold at the commit."""

    @property
    def mark_after(self) -> int | None:
        """The mark of the head after this commit."""
        return self.new_mark if self.staged else self.mark

    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        return not (self.staged or self.cursors or self.quarantined or self.parked or self.unparked or self.released)


class Prepared(msgspec.Struct):
    """A commit whose statements are ready."""

    commit: Commit
    swap: Statement | None
    """Moves the head if generation and fence match; None if the commit needs neither."""
    statements: list[Statement]
    dropped: Mapping[str, Mapping[str, int]] = {}
    """Table -> source -> its oldest events that are deleted because of a quota."""


class CommitWriter:
    """Makes the statements of commits; for the thread that dispatches.

    :param quotas: the limits of stored events; read at every commit that stores one.
    """

    def __init__(self, database: sa.Engine, tables: Tables, kinds: Kinds, quotas: EventQuotas) -> None:
        self.statements = statements = Statements(database)
        self._tables = tables
        self._quarantine_quota = QuotaKeeper(tables.quarantine, quotas)
        self._parked_quota = QuotaKeeper(tables.parked, quotas)
        self.quota_keepers = (self._quarantine_quota, self._parked_quota)
        self._entity_quota = EntityQuota(tables.parked, quotas)
        entities = tables.entities
        self._entities = {name: EntityRows(statements, table, kinds[name]) for name, table in entities.items()}
        self._remove = {name: statements.delete(table, "id") for name, table in entities.items()}
        self._add_tombstone = statements.upsert(tables.tombstones, newer="seq")
        self._remove_tombstone = statements.delete(tables.tombstones, "kind", "id")
        self._journal = statements.insert(tables.journal)
        self._swap = {
            variant: statements.swap(
                tables.journal_head,
                tables.leases,
                marks=variant[0],
                moves=variant[1],
                compared=variant[2],
                fenced=variant[3],
            )
            for variant in itertools.product((True, False), repeat=4)
        }
        self._cursor = statements.upsert(tables.source_cursors)
        self._quarantine = statements.store_event(tables.quarantine)
        self._release = statements.delete(tables.quarantine, "id")
        self._refuse_again = statements.change(tables.quarantine, ("reason", "detail"), "id")
        self._park = statements.store_event(tables.parked)
        self._unpark = statements.delete(tables.parked, "id")
        self._drop_of_source = {
            table.name: statements.delete_oldest(table, "source") for table in (tables.quarantine, tables.parked)
        }
        self._drop_of_entity = statements.delete_oldest(tables.parked, "kind", "entity_id")
        self._park_again = statements.change(tables.parked, ("kind", "entity_id"), "id")

    def prepare(self, commit: Commit, now: datetime.datetime, connect: Connect) -> Prepared:
        """:param now: what the rows give as the time of the commit.

        :param connect: opens a connection for reading, if a quota has to be counted.
        :raises RowRefused: a row is too large for the database.
        """
        statements: list[Statement] = []
        for sql, ids in ((self._unpark, commit.unparked), (self._release, commit.released)):
            _add(statements, sql, [(i,) for i in ids])
        if commit.staged:
            self._prepare_staged(commit, now, statements)
        for source, position in commit.cursors.items():
            statements += self._cursor.statements([self._cursor.values((source, position, now))])
        dropped: dict[str, Mapping[str, int]] = {}
        if commit.quarantined or commit.parked:
            dropped = self._prepare_stored(commit, now, connect, statements)
        return Prepared(commit, self._head(commit), statements, dropped)

    def _prepare_stored(
        self, commit: Commit, now: datetime.datetime, connect: Connect, statements: list[Statement]
    ) -> dict[str, Mapping[str, int]]:
        """Add the statements of the quarantined and the parked events.

        :returns: table -> source -> events that are deleted for these.
        """
        max_body = min(MAX_BODY_BYTES, self.statements.max_value_bytes)
        refused = [q for q in commit.quarantined if q.row is None]
        quarantined = [quarantined_columns(q, max_body) | {"received_at": now} for q in refused]
        again = [(*reason_columns(q), q.row) for q in commit.quarantined if q.row is not None]
        _add(statements, self._refuse_again, again)
        new = [p for p in commit.parked if p.row is None]
        parked = [parked_columns(p, max_body) | {"parked_at": now, "expires_at": p.expires_at} for p in new]
        _add(statements, self._park_again, [(p.kind, p.entity_id, p.row) for p in commit.parked if p.row is not None])
        dropped: dict[str, Mapping[str, int]] = {}
        if quarantined:
            doomed = self._quarantine_quota.make_room(_usage(quarantined), connect)
            self._drop("quarantine", doomed, statements, dropped)
        if parked:
            # An event may be beyond both quotas: it is counted twice.
            doomed = self._parked_quota.make_room(_usage(parked), connect)
            doomed += self._entity_quota.make_room(((row["kind"], row["entity_id"]) for row in parked), connect)
            self._drop("parked", doomed, statements, dropped)
        for writer, table, rows in (
            (self._quarantine, self._tables.quarantine, quarantined),
            (self._park, self._tables.parked, parked),
        ):
            names = [c.name for c in table.columns if c.name != "id"]
            statements += writer.statements([writer.values(tuple([row[n] for n in names])) for row in rows])
        return dropped

    def _drop(
        self,
        table: str,
        doomed: Sequence[Superseded],
        statements: list[Statement],
        dropped: dict[str, Mapping[str, int]],
    ) -> None:
        """Add the statements that delete the oldest events, and count them."""
        counts: collections.Counter[str] = collections.Counter()
        for rows in doomed:
            sql = self._drop_of_source[table] if len(rows.values) == 1 else self._drop_of_entity
            statements.append(Statement(sql, (*rows.values, rows.last_id)))
            counts.update(rows.sources)
        if counts:
            dropped[table] = counts

    def _head(self, commit: Commit) -> Statement | None:
        marks, fence, compared = bool(commit.staged), commit.fence, commit.epoch is not None
        moves = bool(commit.staged or commit.parked or compared)
        if not moves and fence is None:
            return None
        values: list[Any] = [len(commit.staged)]
        if marks:
            values.append(commit.new_mark)
        if moves:
            values.append(commit.generation)
        if compared:
            values += (commit.mark, commit.epoch)
        is_fenced = fence is not None and self.statements.swap_reads_lease
        if fence is not None and is_fenced:
            values += (fence.name, fence.token)
        return Statement(self._swap[marks, moves, compared, is_fenced], tuple(values))

    def _prepare_staged(self, commit: Commit, now: datetime.datetime, statements: list[Statement]) -> None:
        changed: dict[str, list[tuple[Staged, str]]] = {}
        removals: dict[str, list[Row]] = {}
        tombstones: list[Row] = []
        revived: list[Row] = []
        entries: list[Row] = []
        last = commit.generation + len(commit.staged)
        for s in commit.staged:
            name, owned = s.kind.name, s.entity
            if s.entity is not None:
                versions = journal.versions_text(s.kind, s.entity.versions)
                changed.setdefault(name, []).append((s, versions))
                if s.base is None and (s.revives or s.kind.ids_reused or s.kind.is_placeholder):
                    revived.append((name, s.id))
            elif s.tombstone is not None:
                versions = journal.versions_text(s.kind, s.tombstone.versions)
                tombstones.append(self._add_tombstone.values((name, s.id, versions, s.tombstone.deleted_at, s.seq)))
                owned = s.base
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
                (event.id if event.id.isprintable() else storable(event.id))[:255],
                (event.type if event.type.isprintable() else storable(event.type))[:255],
                event.source,
                s.merged,
                event.actor,
                owned.project_id if s.kind.is_scoped and owned is not None else None,  # type: ignore[attr-defined]
                commit.new_mark if s.seq == last else None,
            )
            row = self._journal.values(entry)
            if _NUL in row[_DELTA]:
                _refuse_nul(s)
            entries.append(row)
        for name, entities in changed.items():
            statements += self._entities[name].statements(entities)
        for name, rows in removals.items():
            _add(statements, self._remove[name], rows)
        _add(statements, self._remove_tombstone, revived)
        statements += self._add_tombstone.statements(tombstones)
        statements += self._journal.statements(entries)


_NUL = "\\u0000"
_DELTA = 5
"""Where a journal row has what differs, as JSON."""


def _refuse_nul(staged: Staged) -> None:
    """Refuse on every database what PostgreSQL refuses. Inside a JSON document, each of them stores it.

    :raises RowRefused: a text has a NUL character.
    """
    for name, field in staged.kind.fields.items():
        if field.python is str and "\0" in (getattr(staged.entity, name, None) or ""):
            raise RowRefused(f"{staged.kind.name} {staged.id}: {name} has a NUL character")


def _usage(rows: Sequence[Mapping[str, Any]]) -> dict[str, StoredUsage]:
    """Source -> what these rows add."""
    usage: dict[str, StoredUsage] = {}
    for row in rows:
        found = usage.get(row["source"], StoredUsage())
        usage[row["source"]] = StoredUsage(found.events + 1, found.bytes + row["size"])
    return usage


def _add(statements: list[Statement], sql: str, rows: list[Row]) -> None:
    if rows:
        statements.append(Statement(sql, rows))


def require_lease(connection: sa.Connection, tables: Tables, fence: Fence) -> None:
    """:raises LeaseLost: another engine has the lease."""
    leases = tables.leases
    token = connection.execute(sa.select(leases.c.token).where(leases.c.name == fence.name)).scalar_one_or_none()
    if token != fence.token:
        raise LeaseLost(f"the lease {fence.name!r} was taken over by another engine")


def explain_refusal(connection: sa.Connection, tables: Tables, commit: Commit) -> NoReturn:
    """Raise the reason why the head did not move for a commit.

    The lease of another history says nothing, so it is not compared then.

    :raises HeadMoved: another writer was first, or the database has another history.
    :raises LeaseLost: another engine has the lease.
    :raises DatabaseUnavailable: the journal has no head.
    """
    head = read_position(connection, tables)
    if commit.epoch is not None:
        known = Position(commit.epoch, commit.generation, commit.mark)
        if not continues(connection, tables, head, known):
            raise HeadMoved(f"the journal does not have seq {commit.generation} of this history")
    if commit.fence is not None:
        require_lease(connection, tables, commit.fence)
    raise HeadMoved(f"the journal is past seq {commit.generation}")


class CommitStore(Protocol):
    """Writes commits, and reads what the cycle needs for them."""

    tables: Tables
    sites: FollowedSites

    def connect(self) -> AbstractContextManager[sa.Connection]:
        """A connection for reading, for the length of the block.

        :raises DatabaseUnavailable: the database is unavailable, when connecting or in the block.
        """

    def commit(self, commit: Commit) -> None:
        """Write everything or nothing.

        :raises HeadMoved: another writer committed first; nothing was written.
        :raises LeaseLost: the fence is no longer valid; nothing was written.
        :raises RowRefused: a value can never be written; nothing was written.
        :raises DatabaseUnavailable: the database is unavailable.
        """

    def head(self) -> int:
        """The seq of the journal's last row.

        :raises DatabaseUnavailable: the database does not answer.
        """

    def persist_last_seen(self, seen: Mapping[str, Mapping[str, datetime.datetime]]) -> None:
        """Write kind -> id -> the time when an entity was last seen.

        :raises DatabaseUnavailable: the database is unavailable.
        """
