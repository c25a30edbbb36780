# SPDX-License-Identifier: Apache-2.0
"""The rows of subscriptions and of their progress, as the API writes and reads them.

Each write first increments the row of :data:`subscription_head`, which serialises the writers. So revisions are ordered
by commit, and a worker that reads the rows above the last revision misses none. A deleted subscription stays as a row
in the state ``deleted`` until the retention removes it.

A worker writes the progress (:mod:`watcher_sync.extensions.webhooks.worker_rows`), and of a subscription only state and
reason.

For any thread.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import sqlalchemy as sa

from watcher_sync.exceptions import QuotaReached, WatcherSyncError
from watcher_sync.extensions.webhooks.rows import (
    ACTIVE,
    ALL_RESOURCES,
    DEAD,
    DELETED,
    DOCUMENTS,
    PENDING,
    RIGHTS,
    DeliveryRow,
    Progress,
    Row,
    SubscriptionRow,
    count_of,
    is_lowered,
    next_revision,
    rows_of,
    select_rows,
    shard_of,
)
from watcher_sync.storage.database.database import retried, translated
from watcher_sync.storage.database.pages import DecodedPage, bounded_page
from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.writing.journal import read_head


class SubscriptionExists(WatcherSyncError):
    """The instance has a subscription of this name."""


class Subscriptions:
    """The subscriptions of a database."""

    def __init__(
        self,
        database: sa.Engine,
        tables: Tables,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ) -> None:
        self._database = database
        self._tables = tables
        self._now = now

    @retried
    def create(self, subscription: SubscriptionRow, *, quota: int = -1) -> SubscriptionRow:
        """Store a new subscription. ``shard``, ``revision``, ``start_after`` and the times are set here.

        :param quota: the maximum number of subscriptions of its project; -1: no limit.
        :raises SubscriptionExists: the instance has one of this name.
        :raises QuotaReached: the project has as many as it may have.
        :raises DatabaseUnavailable: the database is unavailable.
        """
        t, now = self._tables.subscriptions, self._now()
        with translated(), self._database.begin() as connection:
            revision = next_revision(connection, self._tables)
            namesakes = self._find(connection, subscription.instance_id, subscription.name)
            if any(each.project_id == subscription.project_id for each, _ in namesakes):
                raise SubscriptionExists(
                    f"{subscription.instance_id} has a subscription of the name {subscription.name}"
                )
            if quota >= 0 and subscription.project_id is not None:
                used = count_of(connection, self._tables, subscription.project_id)
                if used >= quota:
                    raise QuotaReached(subscription.project_id, quota, used, "subscriptions")
            made = msgspec.structs.replace(
                subscription,
                shard=shard_of(subscription.id),
                revision=revision,
                start_after=read_head(connection, self._tables),
                created_at=now,
                updated_at=now,
            )
            connection.execute(sa.insert(t).values(**msgspec.structs.asdict(made), owner=made.project_id or ""))
            # A worker that has not read the subscription yet may write a later seq for the shard.
            progress = Progress(subscription_id=made.id, sequence=made.start_after, held_since=made.start_after + 1)
            connection.execute(sa.insert(self._tables.subscription_progress).values(**msgspec.structs.asdict(progress)))
        return made

    def find(self, instance_id: str, name: str) -> Row | None:
        """A subscription by its instance and name; None: there is none. Of several projects' the first.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        found = self.find_all(instance_id, name)
        return found[0] if found else None

    def find_all(self, instance_id: str, name: str) -> list[Row]:
        """The subscriptions of an instance and name: at most one of each project.

        Projects may have instances of one id, or one after the other.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        with translated(), self._database.connect() as connection:
            return self._find(connection, instance_id, name)

    def of_instance(self, instance_id: str) -> list[Row]:
        """The subscriptions of an instance, by name.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        t = self._tables.subscriptions
        query = self._query().where(t.c.instance_id == instance_id).order_by(t.c.name)
        with translated(), self._database.connect() as connection:
            return list(rows_of(connection.execute(query)))

    def page(
        self, *, after: str = "", limit: int = 100, project_id: str | None = None, state: str | None = None
    ) -> DecodedPage[Row]:
        """Some subscriptions, by id: at most ``limit``, whose documents have about 8 MiB, but at least one.

        :param after: the last id of the page before.
        :param project_id: only those of this project; None: all.
        :param state: only those in this state; None: all but the deleted ones.
        :raises DatabaseUnavailable: the database is unavailable.
        """
        t = self._tables.subscriptions
        query = self._query().where(t.c.id > after)
        if project_id is not None:
            query = query.where(t.c.project_id == project_id)
        if state is not None:
            query = query.where(t.c.state == state)
        documents = {SubscriptionRow.__struct_fields__.index(name): t.c[name] for name in DOCUMENTS}
        with translated(), self._database.connect() as connection:
            page = bounded_page(connection, query, [t.c.id], limit, key=t.c.id, documents=documents)
        return DecodedPage(rows_of(page.rows), page.more)

    @retried
    def replace(self, subscription: SubscriptionRow) -> SubscriptionRow | None:
        """Store what a subscriber changed, and make the subscription active again.

        Identity, instance, name, ``start_after`` and creation time do not change. If it loses a right, a delivery that
        has not ended is dropped, and its changes are merged again.

        :param subscription: with the revision that the writer has read.
        :returns: the subscription as stored; None: it was deleted or written meanwhile.
        :raises DatabaseUnavailable: the database is unavailable.
        """
        t = self._tables.subscriptions
        fixed = ("id", "instance_kind", "instance_id", "name", "start_after", "shard", "created_at", "replay_since")
        with translated(), self._database.begin() as connection:
            made = msgspec.structs.replace(
                subscription,
                state=ACTIVE,
                reason="",
                revision=next_revision(connection, self._tables),
                updated_at=self._now(),
            )
            values = {name: v for name, v in msgspec.structs.asdict(made).items() if name not in fixed}
            where = (t.c.id == made.id, t.c.state != DELETED, t.c.revision == subscription.revision)
            was = connection.execute(
                sa.select(*(t.c[name] for name in RIGHTS), t.c.replay_since).where(*where)
            ).one_or_none()
            if was is not None and is_lowered(was, made):
                values |= self._end_pending(connection, made.id, was.replay_since)
            if connection.execute(sa.update(t).where(*where).values(**values)).rowcount != 1:
                return None
            p = self._tables.subscription_progress
            connection.execute(
                sa.update(p).where(p.c.subscription_id == made.id).values(failures=0, failing_since=None)
            )
        return made

    def _end_pending(self, connection: sa.Connection, subscription_id: str, replay_since: int | None) -> dict[str, Any]:
        """End the deliveries of changes that have not ended. Return what has their changes delivered again.

        :param replay_since: the seq of a replay that has not begun.
        """
        d = self._tables.webhook_deliveries
        where = (d.c.subscription_id == subscription_id, d.c.state == PENDING, d.c.purpose != "test")
        found = connection.execute(sa.select(d.c.previous_sequence, d.c.purpose).where(*where)).all()
        connection.execute(
            sa.update(d).where(*where).values(state=DEAD, body=None, next_attempt_at=None, ended_at=self._now())
        )
        if not found:
            return {}
        if any(each.purpose == "resync" for each in found):
            p = self._tables.subscription_progress
            mine = p.c.subscription_id == subscription_id
            connection.execute(sa.update(p).where(mine).values(held_since=ALL_RESOURCES))
        since = min(each.previous_sequence for each in found)
        return {"replay_since": since if replay_since is None else min(since, replay_since)}

    def delete(self, subscription_id: str) -> bool:
        """Delete a subscription. Return whether there was one.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        # The name is free for another one. No subscriber can choose a control character.
        return self._change(subscription_id, state=DELETED, reason="", secrets=None, name=f"\x01{subscription_id}")

    def replay(self, subscription_id: str, since: int) -> bool:
        """Have all changes after a seq delivered again. Return whether there is such a subscription.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        return self._change(subscription_id, state=ACTIVE, reason="", replay_since=since)

    @retried
    def add_test(self, subscription_id: str, webhook_id: str, content_type: str, body: bytes) -> bool:
        """Add a test message, which is sent once. Return whether there is such a subscription.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        now = self._now()
        with translated(), self._database.begin() as connection:
            if not self._changed(connection, subscription_id, {}):
                return False
            connection.execute(
                sa.insert(self._tables.webhook_deliveries).values(
                    webhook_id=webhook_id,
                    subscription_id=subscription_id,
                    purpose="test",
                    previous_sequence=0,
                    sequence=0,
                    state=PENDING,
                    content_type=content_type,
                    body=body,
                    attempts=[],
                    next_attempt_at=now,
                    created_at=now,
                )
            )
        return True

    def deliveries(
        self, subscription_id: str, *, before: int | None = None, limit: int = 100, state: str | None = None
    ) -> list[DeliveryRow]:
        """One page of the delivery log, the newest first.

        :param before: the last id of the page before.
        :raises DatabaseUnavailable: the database is unavailable.
        """
        t = self._tables.webhook_deliveries
        columns = [t.c[name] for name in DeliveryRow.__struct_fields__]
        query = sa.select(*columns).where(t.c.subscription_id == subscription_id).order_by(t.c.id.desc()).limit(limit)
        if before is not None:
            query = query.where(t.c.id < before)
        if state is not None:
            query = query.where(t.c.state == state)
        with translated(), self._database.connect() as connection:
            return [DeliveryRow(**row._mapping) for row in connection.execute(query)]

    @retried
    def reencrypt(self, renew: Callable[[str], str]) -> int:
        """Encrypt the secrets of all subscriptions again. Return how many had secrets.

        :raises SecretUnreadable: the secrets of one cannot be decrypted; nothing is changed.
        :raises DatabaseUnavailable: the database is unavailable.
        """
        t = self._tables.subscriptions
        with translated(), self._database.begin() as connection:
            revision = next_revision(connection, self._tables)
            found = connection.execute(sa.select(t.c.id, t.c.secrets).where(t.c.secrets.is_not(None))).all()
            for row in found:
                statement = sa.update(t).where(t.c.id == row.id).values(secrets=renew(row.secrets), revision=revision)
                connection.execute(statement)
            return len(found)

    @retried
    def _change(self, subscription_id: str, **values: Any) -> bool:
        with translated(), self._database.begin() as connection:
            return self._changed(connection, subscription_id, values)

    def _changed(self, connection: sa.Connection, subscription_id: str, values: Mapping[str, Any]) -> bool:
        t = self._tables.subscriptions
        revision = next_revision(connection, self._tables)
        statement = sa.update(t).where(t.c.id == subscription_id, t.c.state != DELETED)
        values = {**values, "revision": revision} | ({"updated_at": self._now()} if values else {})
        return bool(connection.execute(statement.values(**values)).rowcount == 1)

    def _query(self) -> sa.Select[Any]:
        return select_rows(self._tables).where(self._tables.subscriptions.c.state != DELETED)

    def _find(self, connection: sa.Connection, instance_id: str, name: str) -> list[Row]:
        t = self._tables.subscriptions
        query = self._query().where(t.c.instance_id == instance_id, t.c.name == name).order_by(t.c.created_at)
        return list(rows_of(connection.execute(query)))
