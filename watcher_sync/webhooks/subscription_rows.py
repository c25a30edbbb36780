# SPDX-License-Identifier: Apache-2.0
"""The rows of subscriptions, their progress and their deliveries, and the statements that the API and workers share.

Each writer of subscriptions first increments the revision in its transaction.
"""

from __future__ import annotations

import datetime
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from watcher_sync.storage.schema.tables import Tables

ACTIVE, SUSPENDED, GONE, DELETED = "active", "suspended", "gone", "deleted"
"""The states of a subscription. The API shows the first three."""

PENDING, DELIVERED, DEAD = "pending", "delivered", "dead"
"""The states of a delivery."""

SHARDS: Final = 32
"""The parts into which subscriptions are divided; a worker owns whole shards."""


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """What a subscriber asked for."""

    id: str
    """A uuid."""
    instance_kind: str
    instance_id: str
    name: str
    project_id: str | None
    """The project whose entities it tells; None: all."""
    user_id: str | None
    sees_admin_only: bool
    """Whether it tells the fields that tell of hosts: the right of the caller that wrote it last."""
    callback_url: str
    min_notify_interval: float
    """Seconds between two deliveries."""
    metadata: dict[str, Any] = {}
    payload: str = "status"
    """status or full."""
    format: str = "onap"
    """onap, cloudevents or cloudevents-batch."""
    filter: dict[str, Any] = {}
    """kinds, ids, fields: lists of texts; labels: name -> value. What is missing filters nothing."""
    secrets: str | None = msgspec.field(default=None)
    """Encrypted (:class:`~watcher_sync.webhooks.secrets.SecretBox`)."""
    state: str = ACTIVE
    reason: str = ""
    """Why it is not active."""
    replay_since: int | None = None
    """The changes after this seq are to be delivered again; None once a worker has begun."""
    start_after: int = 0
    """The journal's head when it was created: only later changes are delivered."""
    shard: int = 0
    revision: int = 0
    created_at: datetime.datetime
    updated_at: datetime.datetime


ALL_RESOURCES: Final = 0
"""In place of the first seq of undelivered changes: the journal does not lead from what the receiver has."""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far the deliveries of a subscription are."""

    subscription_id: str
    sequence: int = 0
    """The seq up to which the last planned delivery tells."""
    held_since: int | None = None
    """The first seq whose change no delivery contains yet, because the interval or a failing delivery holds it.
    :data:`ALL_RESOURCES`: the next delivery has all resources."""
    behind_since: datetime.datetime | None = None
    """When the oldest change was committed that is not delivered; None: all are."""
    last_notify_time: datetime.datetime | None = None
    last_notify_status: int = 0
    """The HTTP status of the last attempt; 0: no attempt, or no answer."""
    failures: int = 0
    """Failed attempts since the last success."""
    failing_since: datetime.datetime | None = None
    next_attempt_at: datetime.datetime | None = None


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One message to a callback, with all its attempts."""

    id: int
    webhook_id: str
    subscription_id: str
    purpose: str
    """changes, test or resync."""
    previous_sequence: int
    sequence: int
    state: str
    attempts: list[dict[str, Any]]
    """time, code, detail and seconds of each."""
    next_attempt_at: datetime.datetime | None
    created_at: datetime.datetime
    ended_at: datetime.datetime | None


Row = tuple[Subscription, Progress]


def shard_of(subscription_id: str) -> int:
    """The shard of a subscription."""
    return zlib.crc32(subscription_id.encode()) % SHARDS


def next_revision(connection: sa.Connection, tables: Tables) -> int:
    """Increment the revision and return it. Until the transaction ends, no other writer of subscriptions commits."""
    t = tables.subscription_head
    connection.execute(sa.update(t).values(revision=t.c.revision + 1))
    return int(connection.execute(sa.select(t.c.revision)).scalar_one())


def read_revision(connection: sa.Connection, tables: Tables) -> int:
    """The revision of the last write to subscriptions."""
    return int(connection.execute(sa.select(tables.subscription_head.c.revision)).scalar_one())


def count_of(connection: sa.Connection, tables: Tables, project_id: str) -> int:
    """The number of subscriptions of a project."""
    t = tables.subscriptions
    query = sa.select(sa.func.count()).select_from(t).where(t.c.project_id == project_id, t.c.state != DELETED)
    return int(connection.execute(query).scalar_one())


def select_rows(tables: Tables) -> sa.Select[Any]:
    """Selects subscriptions with their progress, for :func:`rows_of`."""
    t, p = tables.subscriptions, tables.subscription_progress
    return sa.select(*_columns(t, Subscription), *_columns(p, Progress)).join_from(t, p, p.c.subscription_id == t.c.id)


def _columns(table: sa.Table, of: type[msgspec.Struct]) -> list[sa.Column[Any]]:
    return [table.c[name] for name in of.__struct_fields__]


_SPLIT = len(Subscription.__struct_fields__)


def rows_of(result: Iterable[Sequence[Any]]) -> list[Row]:
    """The rows of :func:`select_rows`."""
    names, progress_names = Subscription.__struct_fields__, Progress.__struct_fields__
    return [
        (
            Subscription(**dict(zip(names, row[:_SPLIT], strict=True))),
            Progress(**dict(zip(progress_names, row[_SPLIT:], strict=True))),
        )
        for row in result
    ]
