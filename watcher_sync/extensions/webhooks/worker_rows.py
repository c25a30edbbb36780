# SPDX-License-Identifier: Apache-2.0
"""What a worker of the webhook outlet reads and writes: subscriptions of its shards, and their deliveries.

A delivery is stored before it is sent, with its id and its body. So a repeated attempt, also by another worker, has the
same ``webhook-id`` and the same body. One transaction stores what a worker planned and learned since the one before.

Every write is fenced: it first locks the worker's shards, and fails if another worker took one of them over.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping
from typing import Any

import msgspec
import sqlalchemy as sa

from watcher_sync.exceptions import LeaseLost
from watcher_sync.extensions.webhooks.rows import (
    ACTIVE,
    DELETED,
    OUTLET,
    PENDING,
    NewDelivery,
    Progress,
    Row,
    StateChange,
    WorkerWrites,
    next_revision,
    read_revision,
    rows_of,
    select_rows,
)
from watcher_sync.storage.database.database import MAX_PACKET, retried, translated
from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.writing.journal import JournalRow
from watcher_sync.storage.writing.statements import Statements, hex_text

_PURGED_AT_ONCE = 200
"""Rows of one transaction of a purge."""
_MAX_DELETED = 20_000
"""Rows of deletions that are read at once: as many as a matcher remembers."""
_INSERT_CHUNK = 50
"""Deliveries of one statement: a body may have megabytes."""


class Loaded(msgspec.Struct, frozen=True):
    """Subscriptions as the database has them."""

    rows: list[Row]
    pending: list[NewDelivery]
    """Deliveries of these subscriptions that have not ended, the oldest first."""
    revision: int
    """The subscriptions are at least as new as this revision."""


class WebhookStore:
    """The database of one worker. For one thread at a time."""

    def __init__(self, database: sa.Engine, tables: Tables) -> None:
        self._database = database
        self._tables = tables
        # Plain SQL: with thousands of rows a second, SQLAlchemy's own would cost as much as the sending.
        statements = Statements(database)
        t, p = tables.webhook_deliveries, tables.subscription_progress
        self._statements = statements
        self._takes_hex = statements.dialect == "postgresql"
        self._insert_delivery = statements.insert_hex(t, key="webhook_id", skip=("id",))
        self._update_delivery = statements.change_rows(t, ("state", "attempts", "next_attempt_at"), "webhook_id")
        ended = ("state", "attempts", "body", "next_attempt_at", "ended_at")
        self._end_delivery = statements.change_rows(t, ended, "webhook_id")
        self._update_progress = statements.change_rows(p, Progress.__struct_fields__[1:], "subscription_id")

    def max_value_bytes(self) -> int:
        """Bytes of a body that the database stores in any case, by a query of the server's limit.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        with translated(), self._database.connect() as connection:
            self._learn_packet(connection)
        return self._statements.max_value_bytes

    def _learn_packet(self, connection: sa.Connection) -> None:
        """Learn the largest statement from a connection: it may have changed with a restart of the server."""
        self._statements.packet.bytes = connection.info.get(MAX_PACKET, self._statements.packet.bytes)

    def load(self, shards: Collection[int]) -> Loaded:
        """All subscriptions of these shards that are not deleted, and their pending deliveries.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        t = self._tables.subscriptions
        return self._load(t.c.shard.in_(list(shards)), t.c.state != DELETED)

    def changed_since(self, revision: int, shards: Collection[int]) -> Loaded:
        """The subscriptions of these shards that were written after a revision, deleted ones too.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        t = self._tables.subscriptions
        return self._load(t.c.revision > revision, t.c.shard.in_(list(shards)))

    def shard_sequences(self, shards: Collection[int]) -> dict[int, int]:
        """Shard -> the seq up to which its workers have planned.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        s = self._tables.outlet_shards
        query = sa.select(s.c.shard, s.c.sequence).where(s.c.outlet == OUTLET, s.c.shard.in_(list(shards)))
        with translated(), self._database.connect() as connection:
            return {row.shard: row.sequence for row in connection.execute(query)}

    def shard_epochs(self, shards: Collection[int]) -> dict[int, str | None]:
        """Shard -> the epoch whose changes its workers have planned; None: none yet.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        s = self._tables.outlet_shards
        query = sa.select(s.c.shard, s.c.epoch).where(s.c.outlet == OUTLET, s.c.shard.in_(list(shards)))
        with translated(), self._database.connect() as connection:
            return {row.shard: row.epoch for row in connection.execute(query)}

    @retried
    def write_epoch(
        self, epoch: str, sequence: int, shards: Collection[int], owned: Mapping[int, int], owner: str
    ) -> None:
        """Store that the subscriptions of these shards know an epoch.

        :param sequence: the seq up to which all is planned. A stored one of the lost history may be higher.
        :param owned: shard -> its token, of all shards of the worker.
        :param owner: the worker.
        :raises LeaseLost: another worker took over a shard; nothing was written.
        :raises DatabaseUnavailable: the database is unavailable.
        """
        s = self._tables.outlet_shards
        with translated(), self._database.begin() as connection:
            self._fence(connection, owned, owner)
            mine = sa.and_(s.c.outlet == OUTLET, s.c.shard.in_(list(shards)))
            connection.execute(sa.update(s).where(mine, s.c.sequence > sequence).values(sequence=sequence))
            connection.execute(sa.update(s).where(mine).values(epoch=epoch))

    def revision(self) -> int:
        """The revision of the last write to subscriptions.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        with translated(), self._database.connect() as connection:
            return read_revision(connection, self._tables)

    @retried
    def write(self, writes: WorkerWrites, owned: Mapping[int, int], owner: str) -> list[StateChange]:
        """Write everything or nothing. What a write with an unknown outcome has stored may be written again.

        :param owned: shard -> its token.
        :param owner: the worker.
        :returns: the changes of states that were written: no later write of a subscriber overtook them.
        :raises LeaseLost: another worker took over a shard; nothing was written.
        :raises RowRefused: the database never takes one of the rows; nothing was written.
        :raises DatabaseUnavailable: the database is unavailable.
        """
        with translated(), self._database.begin() as connection:
            self._learn_packet(connection)
            self._fence(connection, owned, owner)
            self._write_deliveries(connection, writes)
            for statement in self._update_progress.statements([self._progress(e) for e in writes.progress.values()]):
                statement.run(connection)
            changed = self._write_states(connection, writes)
            if writes.sequence is not None:
                s = self._tables.outlet_shards
                connection.execute(
                    sa.update(s)
                    .where(s.c.outlet == OUTLET, s.c.shard.in_(list(owned)), s.c.sequence < writes.sequence)
                    .values(sequence=writes.sequence)
                )
        return changed

    def deleted_between(self, kind: str, after: int, upto: int) -> list[JournalRow]:
        """The journal's last rows of deletions of one kind, after one seq and up to another: at most 20,000.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        t = self._tables.journal
        query = sa.select(t).where(t.c.seq > after, t.c.seq <= upto, t.c.kind == kind, t.c.change == "deleted")
        with translated(), self._database.connect() as connection:
            rows = connection.execute(query.order_by(t.c.seq.desc()).limit(_MAX_DELETED))
            return [JournalRow(*row) for row in rows][::-1]

    @retried
    def purge(self, before: datetime.datetime) -> int:
        """Delete a portion of the ended deliveries and deleted subscriptions that are older.

        :returns: how many rows were deleted; 0: there are no more.
        :raises DatabaseUnavailable: the database is unavailable.
        """
        t, s, p = self._tables.webhook_deliveries, self._tables.subscriptions, self._tables.subscription_progress
        with translated(), self._database.begin() as connection:
            old = sa.select(t.c.id).where(t.c.ended_at < before).limit(_PURGED_AT_ONCE)
            if ids := connection.execute(old).scalars().all():
                return int(connection.execute(sa.delete(t).where(t.c.id.in_(ids))).rowcount)
            deleted = sa.select(s.c.id).where(s.c.state == DELETED, s.c.updated_at < before).limit(_PURGED_AT_ONCE)
            gone = connection.execute(deleted).scalars().all()
            if not gone:
                return 0
            # Those that have not ended.
            left = sa.select(t.c.id).where(t.c.subscription_id.in_(gone)).limit(_PURGED_AT_ONCE)
            if ids := connection.execute(left).scalars().all():
                return int(connection.execute(sa.delete(t).where(t.c.id.in_(ids))).rowcount)
            connection.execute(sa.delete(p).where(p.c.subscription_id.in_(gone)))
            return int(connection.execute(sa.delete(s).where(s.c.id.in_(gone))).rowcount)

    def _load(self, *conditions: sa.ColumnElement[bool]) -> Loaded:
        t, s = self._tables.webhook_deliveries, self._tables.subscriptions
        columns = [t.c[name] for name in NewDelivery.__struct_fields__]
        pending = (
            sa.select(*columns)
            .join_from(t, s, s.c.id == t.c.subscription_id)
            .where(t.c.state == PENDING, *conditions)
            .order_by(t.c.id)
        )
        with translated(), self._database.connect() as connection:
            revision = read_revision(connection, self._tables)
            rows = list(rows_of(connection.execute(select_rows(self._tables).where(*conditions))))
            return Loaded(rows, [NewDelivery(**row._mapping) for row in connection.execute(pending)], revision)

    def _fence(self, connection: sa.Connection, owned: Mapping[int, int], owner: str) -> None:
        s = self._tables.outlet_shards
        mine = sa.and_(s.c.outlet == OUTLET, s.c.shard.in_(sorted(owned)), s.c.owner == owner)
        if connection.dialect.name == "sqlite":
            # It has no locks of rows: the update begins the only write transaction.
            connection.execute(sa.update(s).where(mine, s.c.shard == min(owned)).values(owner=owner))
        query = sa.select(s.c.shard, s.c.token).where(mine).order_by(s.c.shard)
        rows = connection.execute(query.with_for_update(key_share=True))
        found = {row.shard: row.token for row in rows}
        lost = [shard for shard, token in owned.items() if found.get(shard) != token]
        if lost:
            raise LeaseLost(f"another worker took over {len(lost)} of {len(owned)} shards")

    def _write_deliveries(self, connection: sa.Connection, writes: WorkerWrites) -> None:
        insert, update, end = self._insert_delivery, self._update_delivery, self._end_delivery
        planned = [
            insert.values(
                (
                    each.webhook_id, each.subscription_id, each.purpose, each.previous_sequence, each.sequence, PENDING,
                    each.content_type, self._bytes(each.body), each.attempts, each.next_attempt_at, each.created_at,
                    None,
                )
            )
            for each in writes.planned
        ]  # fmt: skip
        pending = [
            update.values((each.state, each.attempts, each.next_attempt_at, each.webhook_id))
            for each in writes.results
            if each.ended_at is None
        ]
        ended = [
            end.values((each.state, each.attempts, None, None, each.ended_at, each.webhook_id))
            for each in writes.results
            if each.ended_at is not None
        ]
        for start in range(0, len(planned), _INSERT_CHUNK):
            for statement in insert.statements(planned[start : start + _INSERT_CHUNK]):
                statement.run(connection)
        for writer, rows in ((update, pending), (end, ended)):
            for statement in writer.statements(rows):
                statement.run(connection)

    def _bytes(self, body: bytes) -> bytes | str:
        return hex_text(body) if self._takes_hex else body

    def _progress(self, progress: Progress) -> tuple[Any, ...]:
        subscription_id, *values = msgspec.structs.astuple(progress)
        return self._update_progress.values((*values, subscription_id))

    def _write_states(self, connection: sa.Connection, writes: WorkerWrites) -> list[StateChange]:
        """Write states. Return the changes of states that no later write of a subscriber overtook."""
        t = self._tables.subscriptions
        changed = []
        if writes.states:
            revision = next_revision(connection, self._tables)
            for change in writes.states:
                update = (
                    sa.update(t)
                    .where(t.c.id == change.subscription_id, t.c.revision == change.revision, t.c.state == ACTIVE)
                    .values(state=change.state, reason=change.reason, revision=revision)
                )
                if connection.execute(update).rowcount == 1:
                    changed.append(change)
        for subscription_id, since in writes.replayed:
            connection.execute(
                sa.update(t).where(t.c.id == subscription_id, t.c.replay_since == since).values(replay_since=None)
            )
        return changed
