# SPDX-License-Identifier: Apache-2.0
"""The subscriptions of one worker: rows of the journal reach them, and each is planned when its time has come.

It does no I/O. Its owner brings in journal rows, subscriptions and the results of attempts. It takes out deliveries to
send and rows to write. A delivery may be sent only after the write that contains it.

Guaranteed, for each subscription:

* A change is in a delivery, or cancels out with a later one, whatever fails between.
* One delivery of changes is under way at a time, and a repeated attempt has its id and body.
* The first change is planned at once; further ones after ``min-notify-interval``, merged.

For one thread.
"""

from __future__ import annotations

import datetime
import heapq
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec
from oslo_log import log as logging

from watcher_sync.extensions.webhooks.deliveries import Attempt, Clock, DeliverySettings, Outbox, Outgoing
from watcher_sync.extensions.webhooks.matcher import Matcher, entity_of
from watcher_sync.extensions.webhooks.onap.merging import Cache
from watcher_sync.extensions.webhooks.rows import ACTIVE, DELETED, NewDelivery, Row, WorkerWrites
from watcher_sync.extensions.webhooks.secrets import SecretBox
from watcher_sync.extensions.webhooks.subscription import OlderRows, Subscription, SubscriptionContext, reached_by
from watcher_sync.model.kinds import Entity
from watcher_sync.model.model import Key, Model
from watcher_sync.storage.writing.journal import JournalRow

LOG = logging.getLogger(__name__)

_PLAN_SECONDS: Final = 0.05
"""After which :meth:`Planner.plan` returns, so that the attempts under way continue."""


class Planner:
    """The subscriptions of one worker."""

    def __init__(
        self, model: Model, secrets: SecretBox, settings: DeliverySettings, clock: Clock, max_body_bytes: int
    ) -> None:
        """:param model: the replica, at the seq of the last rows of :meth:`add_rows`."""
        self._model = model
        self._clock = clock
        self._outbox = Outbox()
        self._matcher: Matcher[Subscription] = Matcher(model)
        self._subscriptions: dict[str, Subscription] = {}
        self._ready: dict[str, Subscription] = {}
        self._context = SubscriptionContext(
            model=model,
            secrets=secrets,
            settings=settings,
            max_body_bytes=max_body_bytes,
            clock=clock,
            outbox=self._outbox,
            matcher=self._matcher,
            ready=self._ready,
        )
        self._timers: list[tuple[float, int, Subscription]] = []
        """(monotonic time, number, subscription): when to look at a subscription again."""
        self._numbers = itertools.count()
        self._unknown: set[str] = set()
        """Kinds of subscriptions that are left out, as far as the log has them."""

    def __len__(self) -> int:
        """The number of subscriptions."""
        return len(self._subscriptions)

    # Subscriptions

    def put(self, row: Row, shard_sequence: int, pending: Sequence[NewDelivery] = ()) -> OlderRows | None:
        """Add a subscription, or take what the subscriber wrote of it.

        The model must have reached :func:`~watcher_sync.extensions.webhooks.subscription.reached_by` of the row.

        :param shard_sequence: the seq up to which the worker before has planned.
        :param pending: its stored deliveries that have not ended.
        :returns: rows that the model contains and that the owner has to read for it; None: there are none. Until
            :meth:`end_older` its new rows wait.
        """
        subscription_id = row[0].id
        if row[0].state == DELETED:
            self.remove(subscription_id)
            return None
        if row[0].instance_kind not in self._model.kinds:
            self._hold(row, shard_sequence)
            return None
        known = self._subscriptions.get(subscription_id)
        before = known.older if known is not None else None
        if known is not None:
            known.rewrite(row, shard_sequence, pending)
        else:
            known = Subscription(self._context, row, shard_sequence, pending)
            self._subscriptions[subscription_id] = known
        return known.older if known.older is not before else None

    def _hold(self, row: Row, shard_sequence: int) -> None:
        """Leave out a subscription to an entity of a plugin that is not loaded; its place in the journal is held."""
        written, progress = row
        self.remove(written.id)
        if written.state == ACTIVE and progress.held_since is None:
            held_since = reached_by(row, shard_sequence) + 1
            self._outbox.writes.progress[written.id] = msgspec.structs.replace(progress, held_since=held_since)
        if written.instance_kind not in self._unknown:
            self._unknown.add(written.instance_kind)
            LOG.warning("webhooks: subscriptions to %s wait: the kind is not installed", written.instance_kind)

    def remove(self, subscription_id: str) -> None:
        """Forget a subscription."""
        known = self._subscriptions.pop(subscription_id, None)
        if known is not None:
            known.close()
            self._outbox.forget(known)

    def wants(self, outgoing: Outgoing) -> bool:
        """Whether a delivery is still to be sent: its subscription is there, and active unless it is a test."""
        return self._knows(outgoing) and (outgoing.is_test or outgoing.subscription.is_active)

    def of_shards(self, shards: Iterable[int]) -> list[Subscription]:
        """The subscriptions of these shards."""
        wanted = set(shards)
        return [each for each in self._subscriptions.values() if each.row.shard in wanted]

    def instances(self) -> set[Key]:
        """(kind, id) of what is subscribed to. O(subscriptions)."""
        return {(each.row.instance_kind, each.row.instance_id) for each in self._subscriptions.values()}

    # The journal

    def add_rows(self, rows: Sequence[JournalRow], before: Mapping[Key, Entity | None]) -> None:
        """Merge new rows into the subscriptions that they concern. The model is at the last one.

        :param before: entities as they were before the first row.
        """
        for row in rows:
            if row.kind == "vnf_instance":
                self._matcher.index(row.entity_id)
            for each in self._matcher.match(row, before):
                each.merge(row)
            for each in self._matcher.of_instance(row.kind, row.entity_id).values():
                each.instance_changed(row)

    def add_older_rows(self, rows: Sequence[JournalRow], waiting: Collection[OlderRows]) -> None:
        """Merge rows that the model already contains into the subscriptions that wait for them.

        :param waiting: what :meth:`put` returned. The pass begins after the lowest of its positions.
        """
        for row in rows:
            for each in self._matcher.match(row, {}):
                if each.older in waiting:
                    each.merge_older(row)
            for each in self._matcher.of_instance(row.kind, row.entity_id).values():
                if each.older in waiting:
                    each.older_instance_changed(row)

    def end_older(self, waiting: Iterable[OlderRows], *, purged: bool = False) -> None:
        """The older rows of a pass are merged.

        :param purged: the journal no longer has them: the subscriptions get all resources.
        """
        for older in waiting:
            older.subscription.end_older(older, purged=purged)

    def remember_deleted(self, rows: Iterable[JournalRow]) -> None:
        """Learn which workloads were deleted before; see :class:`Matcher`.

        :param rows: their deletions.
        """
        for row in rows:
            self._matcher.remember(entity_of(self._model.kinds[row.kind], row))

    def restored(self, shards: Iterable[int], epoch: str) -> None:
        """The database went back in time since these shards were planned: their subscriptions get all resources.

        :param epoch: the new one.
        """
        for each in self.of_shards(shards):
            each.restored(epoch)

    # Plans and results

    def plan(self, limit: int = 500) -> None:
        """Plan the deliveries that are due, at most so many."""
        now = self._clock.monotonic()
        while self._timers and self._timers[0][0] <= now:
            when, _, each = heapq.heappop(self._timers)
            if each.timer == when:
                each.timer = None
                if self._subscriptions.get(each.id) is each:
                    self._ready[each.id] = each
        cache: Cache = {}
        for each in list(itertools.islice(self._ready.values(), limit)):
            if self._clock.monotonic() - now > _PLAN_SECONDS:
                return
            del self._ready[each.id]
            due = each.plan(now, cache)
            if due is not None and (each.timer is None or due < each.timer):
                each.timer = due
                heapq.heappush(self._timers, (due, next(self._numbers), each))

    @property
    def has_ready(self) -> bool:
        """Whether :meth:`plan` has more to do now."""
        return bool(self._ready)

    def next_due(self) -> float | None:
        """When :meth:`plan` has something to do, by the monotonic clock; None: nothing is scheduled."""
        return self._timers[0][0] if self._timers else None

    def attempted(self, outgoing: Outgoing, attempt: Attempt, url: str | None = None) -> None:
        """Record the result of an attempt.

        :param url: the callback that it was made at; None: the present one.
        """
        outgoing.is_sending = False
        if not self._knows(outgoing):
            return
        if attempt.not_sent:
            self._outbox.due[outgoing.delivery.webhook_id] = outgoing
        else:
            outgoing.subscription.attempted(outgoing, attempt, url)

    def behind_since(self) -> datetime.datetime | None:
        """When the oldest change was committed that is not delivered; None: all are. O(subscriptions)."""
        times = [each.behind_since() for each in self._subscriptions.values()]
        return min((time for time in times if time is not None), default=None)

    # For the owner's writes

    @property
    def has_writes(self) -> bool:
        """Whether there is something to write."""
        return not self._outbox.writes.is_empty()

    @property
    def has_urgent_writes(self) -> bool:
        """Whether something waits for a write: a delivery to be sent, or a subscription that ended."""
        writes = self._outbox.writes
        return bool(writes.planned or writes.states or writes.replayed)

    def take_writes(self, *, checkpoint: bool) -> tuple[WorkerWrites, list[Outgoing]]:
        """Return what is to be written, and the deliveries that may be sent once it is written.

        :param checkpoint: also write the seq up to which every change is in a delivery or marked as held.
        """
        if checkpoint:
            for each in self._subscriptions.values():
                each.checkpoint()
            self._outbox.writes.sequence = self._model.generation
        return self._outbox.take()

    def restore(self, writes: WorkerWrites, planned: list[Outgoing]) -> None:
        """Take back what could not be written."""
        self._outbox.restore(writes, planned)

    def refused(self, writes: WorkerWrites, planned: Sequence[Outgoing], reason: str) -> None:
        """The database refuses the rows of a subscription: it is suspended, and its place in the journal is held.

        :param writes: the refused ones, of one subscription.
        :param planned: its deliveries among them; at most one has changes.
        :param reason: what the database says.
        """
        (subscription_id,) = writes.subscriptions()
        known = self._subscriptions.get(subscription_id)
        is_active = known is not None and known.is_active
        level = logging.WARNING if is_active else logging.ERROR
        LOG.log(level, "webhooks: the database refuses the rows of subscription %s: %s", subscription_id, reason)
        if known is not None and is_active:
            known.refused(next(iter(planned), None), reason)
            ids = {each.delivery.webhook_id for each in planned}
            # What ended before is written with the suspension. If the database refuses that, too, it is left out.
            self._outbox.writes.results[:0] = [each for each in writes.results if each.webhook_id not in ids]

    def take_due(self) -> list[Outgoing]:
        """Return the stored deliveries whose next attempt begins now."""
        return self._outbox.take_due()

    def _knows(self, outgoing: Outgoing) -> bool:
        """Whether a delivery is the one under way, or a test message, of a subscription that is there."""
        subscription = outgoing.subscription
        is_there = self._subscriptions.get(subscription.id) is subscription
        return is_there and (outgoing.is_test or subscription.delivery is outgoing)
