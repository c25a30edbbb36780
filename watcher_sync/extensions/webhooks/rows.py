# SPDX-License-Identifier: Apache-2.0
"""The rows of subscriptions, their progress and their deliveries, and the statements that the API and workers share.

Each writer of subscriptions first increments the revision in its transaction.

What is not done is a row that remains. A delivery that has not ended is pending. Changes that no delivery contains are
behind :attr:`Progress.held_since`.
"""

from __future__ import annotations

import datetime
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from watcher_sync.storage.schema.tables import Tables

ACTIVE, SUSPENDED, GONE, DELETED = "active", "suspended", "gone", "deleted"
"""The states of a subscription. The API shows the first three."""

PENDING, DELIVERED, DEAD = "pending", "delivered", "dead"
"""The states of a delivery."""

OUTLET: Final = "webhook"
"""The name of this outlet in the tables of workers and shards."""

SHARDS: Final = 32
"""The parts into which subscriptions are divided; a worker owns whole shards."""


class SubscriptionRow(msgspec.Struct, frozen=True, kw_only=True):
    """What a subscriber asked for."""

    id: str
    """A uuid."""
    instance_kind: str
    instance_id: str
    name: str
    project_id: str | None
    """The project whose entities it tells; None: all."""
    user_id: str | None
    """Its owner: the caller that created it."""
    sees_admin_only: bool
    """Whether it tells the fields that tell of hosts. This right and the next one are those of its owner."""
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
    sees_all_projects: bool = False
    """Whether it tells more than name and phase of pods that belong to no project."""
    secrets: str | None = msgspec.field(default=None)
    """Encrypted (:class:`~watcher_sync.extensions.webhooks.secrets.SecretBox`)."""
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


RIGHTS: Final = ("sees_admin_only", "sees_all_projects")
"""The fields of a subscription that say what its owner sees."""


def is_lowered(was: Any, now: SubscriptionRow) -> bool:
    """Whether a subscription has lost a right.

    :param was: the row before, with its rights.
    """
    return any(getattr(was, right) and not getattr(now, right) for right in RIGHTS)


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


class DeliveryRow(msgspec.Struct, frozen=True, kw_only=True):
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


class NewDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery that is to be sent."""

    webhook_id: str
    subscription_id: str
    purpose: str
    previous_sequence: int
    sequence: int
    content_type: str
    body: bytes
    created_at: datetime.datetime
    attempts: list[dict[str, Any]] = []
    next_attempt_at: datetime.datetime | None = None


class DeliveryResult(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt changed."""

    webhook_id: str
    subscription_id: str
    state: str
    """pending, delivered or dead."""
    attempts: list[dict[str, Any]]
    next_attempt_at: datetime.datetime | None
    ended_at: datetime.datetime | None


class StateChange(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription that the worker suspended or ended."""

    subscription_id: str
    instance_kind: str
    instance_id: str
    revision: int
    """The one that the worker knows: a later write of the subscriber wins."""
    state: str
    reason: str


class WorkerWrites(msgspec.Struct, kw_only=True):
    """What one transaction of a worker writes."""

    planned: list[NewDelivery] = []
    results: list[DeliveryResult] = []
    progress: dict[str, Progress] = {}
    """Subscription -> its whole progress."""
    states: list[StateChange] = []
    replayed: list[tuple[str, int]] = []
    """Subscription -> the ``replay_since`` that the worker has begun with."""
    sequence: int | None = None
    """The journal's seq up to which every change is in a delivery or marked as held; None: unchanged."""

    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        rows = (self.planned, self.results, self.progress, self.states, self.replayed)
        return not any(rows) and self.sequence is None

    def subscriptions(self) -> list[str]:
        """The ids of the subscriptions that have rows in these writes, in the order of their rows."""
        ids = [
            *(each.subscription_id for each in self.planned),
            *(each.subscription_id for each in self.results),
            *self.progress,
            *(each.subscription_id for each in self.states),
            *(subscription_id for subscription_id, _ in self.replayed),
        ]
        return list(dict.fromkeys(ids))

    def halves(self) -> tuple[WorkerWrites, WorkerWrites]:
        """The writes of the first half of the subscriptions, and those of the others. Neither has the sequence.

        The sequence says that all changes are in stored rows. So it waits for the next writes.
        """
        ids = self.subscriptions()
        first = set(ids[: len(ids) // 2])
        return self._part(first), self._part(set(ids) - first)

    def followed_by(self, newer: WorkerWrites) -> WorkerWrites:
        """These writes and newer ones together, without the sequence of these."""
        return WorkerWrites(
            planned=self.planned + newer.planned,
            results=self.results + newer.results,
            progress=self.progress | newer.progress,
            states=self.states + newer.states,
            replayed=self.replayed + newer.replayed,
        )

    def _part(self, ids: Collection[str]) -> WorkerWrites:
        return WorkerWrites(
            planned=[each for each in self.planned if each.subscription_id in ids],
            results=[each for each in self.results if each.subscription_id in ids],
            progress={name: each for name, each in self.progress.items() if name in ids},
            states=[each for each in self.states if each.subscription_id in ids],
            replayed=[each for each in self.replayed if each[0] in ids],
        )


Row = tuple[SubscriptionRow, Progress]


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


DOCUMENTS: Final = ("metadata", "filter")
"""The fields of a subscription that are objects of any size up to that of a request."""


def select_rows(tables: Tables) -> sa.Select[Any]:
    """Selects subscriptions with their progress, for :func:`rows_of`. Their documents stay texts."""
    t, p = tables.subscriptions, tables.subscription_progress
    columns = (*_columns(t, SubscriptionRow), *_columns(p, Progress))
    texts = (sa.type_coerce(column, sa.Text()) if column.name in DOCUMENTS else column for column in columns)
    return sa.select(*texts).join_from(t, p, p.c.subscription_id == t.c.id)


def _columns(table: sa.Table, of: type[msgspec.Struct]) -> list[sa.Column[Any]]:
    return [table.c[name] for name in of.__struct_fields__]


_SPLIT = len(SubscriptionRow.__struct_fields__)


def rows_of(result: Iterable[Sequence[Any]]) -> Iterator[Row]:
    """The rows of :func:`select_rows`, each decoded when it is read."""
    for row in result:
        values = dict(zip(SubscriptionRow.__struct_fields__, row[:_SPLIT], strict=True))
        documents = {name: msgspec.json.decode(values[name]) for name in DOCUMENTS}
        progress = dict(zip(Progress.__struct_fields__, row[_SPLIT:], strict=True))
        yield SubscriptionRow(**values | documents), Progress(**progress)
