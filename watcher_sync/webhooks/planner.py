# SPDX-License-Identifier: Apache-2.0
"""Decides what is delivered, and when. It does no I/O.

Its owner brings in journal rows, subscriptions and the results of attempts. It takes out deliveries to send and rows to
write. A delivery may be sent only after the write that contains it.

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
from collections.abc import Iterable, Mapping, Sequence

from oslo_log import log as logging

from watcher_sync.model.kinds import Entity
from watcher_sync.model.model import Model
from watcher_sync.model.onap.merging import Cache
from watcher_sync.model.staged import Key
from watcher_sync.storage.writing.journal import JournalRow
from watcher_sync.webhooks.attempts import Attempt
from watcher_sync.webhooks.contents import new_delivery, take_contents
from watcher_sync.webhooks.lifecycle import Lifecycle
from watcher_sync.webhooks.live import Live, Outgoing
from watcher_sync.webhooks.merging import JournalMerger
from watcher_sync.webhooks.outbox import Outbox
from watcher_sync.webhooks.results import Results
from watcher_sync.webhooks.roster import Roster
from watcher_sync.webhooks.rows import NewDelivery, WorkerWrites
from watcher_sync.webhooks.secrets import SecretBox
from watcher_sync.webhooks.settings import Clock, DeliverySettings
from watcher_sync.webhooks.subscription_rows import ALL_RESOURCES, Row

LOG = logging.getLogger(__name__)

_PLAN_SECONDS = 0.05
"""After which :meth:`Planner.plan` returns, so that the attempts under way continue."""

_BEHIND_SECONDS = 0.1
"""Between two checks of a subscription while the replica is behind the worker before."""


class Planner:
    """The subscriptions of one worker."""

    def __init__(self, model: Model, secrets: SecretBox, settings: DeliverySettings, clock: Clock) -> None:
        """:param model: the replica, at the seq of the last rows of :meth:`add_rows`."""
        self._model = model
        self._settings = settings
        self._clock = clock
        self._outbox = Outbox()
        self._roster = Roster(model)
        self._results = Results(model, self._outbox, settings, clock, self._roster.unmatch)
        self._lifecycle = Lifecycle(self._roster, model, secrets, self._outbox, self._results, clock)
        self._merger = JournalMerger(self._roster, model)
        self._timers: list[tuple[float, int, Live]] = []
        """(monotonic time, number, subscription): when to look at a subscription again."""
        self._numbers = itertools.count()

    def __len__(self) -> int:
        """The number of subscriptions."""
        return len(self._roster.live)

    # Subscriptions

    def put(self, row: Row, shard_sequence: int, pending: Sequence[NewDelivery] = ()) -> Live | None:
        """Add a subscription, or take what the subscriber wrote of it.

        :param shard_sequence: the seq up to which the worker before has planned; for a new one.
        :param pending: its stored deliveries that have not ended.
        :returns: the subscription if rows have to be read that the model already contains; see :meth:`begin_reading`.
            Until then its new rows wait.
        """
        return self._lifecycle.put(row, shard_sequence, pending)

    def remove(self, subscription_id: str) -> None:
        """Forget a subscription."""
        self._lifecycle.remove(subscription_id)

    def wants(self, outgoing: Outgoing) -> bool:
        """Whether a delivery is still to be sent: its subscription is there, and active unless it is a test."""
        live = outgoing.live
        if outgoing.is_test:
            return self._roster.live.get(live.id) is live
        return self.is_active(live) and live.delivery is outgoing

    def is_active(self, live: Live) -> bool:
        """Whether a subscription is still there, and active."""
        return self._roster.is_active(live)

    def of_shards(self, shards: Iterable[int]) -> list[Live]:
        """The subscriptions of these shards."""
        return self._roster.of_shards(shards)

    def instances(self) -> set[Key]:
        """(kind, id) of what is subscribed to. O(subscriptions)."""
        subscriptions = (live.subscription for live in self._roster.live.values())
        return {(each.instance_kind, each.instance_id) for each in subscriptions}

    # The journal

    def add_rows(self, rows: Sequence[JournalRow], before: Mapping[Key, Entity | None]) -> None:
        """Merge new rows into the subscriptions that they concern. The model is at the last one.

        :param before: entities as they were before the first row.
        """
        self._merger.add_rows(rows, before)
        self._lifecycle.check_reached()

    def remember_deleted(self, rows: Iterable[JournalRow]) -> None:
        """Learn which workloads were deleted before; see :class:`Matcher`.

        :param rows: their deletions.
        """
        self._merger.remember_deleted(rows)

    def begin_reading(self, lives: Iterable[Live]) -> object:
        """Begin to merge older rows into what :meth:`put` returned. Return the pass, for the other methods."""
        return self._merger.begin_reading(lives)

    def add_older_rows(self, rows: Sequence[JournalRow], reading: object) -> None:
        """Merge rows that the model already contains into the subscriptions of a pass."""
        self._merger.add_older_rows(rows, reading)

    def end_reading(self, lives: Iterable[Live], reading: object) -> None:
        """The older rows of a pass are merged."""
        self._merger.end_reading(lives, reading)

    def restored(self, lives: Iterable[Live], epoch: str) -> None:
        """The database went back in time since these subscriptions were planned: they get all resources.

        :param epoch: the new one.
        """
        for live in lives:
            # A worker may have written positions of the lost history into the restored database.
            seq = self._model.generation
            live.floor, live.after, live.done = min(live.floor, seq), min(live.after, seq), min(live.done, seq)
            self._outbox.set_progress(live, sequence=min(live.progress.sequence, seq), held_since=ALL_RESOURCES)
            if live.is_active:
                live.note(ALL_RESOURCES, resync=f"the database went back in time to epoch {epoch}")
                self._roster.ready[live.id] = live
                LOG.warning("webhooks: subscription %s is of another epoch; it gets all resources", live.id)

    def purged(self, lives: Iterable[Live], reading: object) -> None:
        """The journal no longer has the rows that a pass needs: its subscriptions get all resources."""
        self._merger.purged(lives, reading)

    # Plans

    def plan(self, limit: int = 500) -> None:
        """Plan the deliveries that are due, at most so many."""
        now = self._clock.monotonic()
        while self._timers and self._timers[0][0] <= now:
            when, _, live = heapq.heappop(self._timers)
            if live.timer == when:
                live.timer = None
                if self._roster.live.get(live.id) is live:
                    self._roster.ready[live.id] = live
        cache: Cache = {}
        for live in list(itertools.islice(self._roster.ready.values(), limit)):
            if self._clock.monotonic() - now > _PLAN_SECONDS:
                return
            del self._roster.ready[live.id]
            self._plan_one(live, now, cache)

    @property
    def has_ready(self) -> bool:
        """Whether :meth:`plan` has more to do now."""
        return bool(self._roster.ready)

    def next_due(self) -> float | None:
        """When :meth:`plan` has something to do, by the monotonic clock; None: nothing is scheduled."""
        return self._timers[0][0] if self._timers else None

    def _plan_one(self, live: Live, now: float, cache: Cache) -> None:
        if live.trouble or not live.is_active:
            return
        if live.delivery is not None:
            self._repeat(live, live.delivery, now)
        elif live.reading is not None or not live.has_news:
            return
        elif self._model.generation < live.floor:
            self._set_timer(live, now + _BEHIND_SECONDS)
        elif (due := max(live.earliest, live.paused_until)) > now:
            self._set_timer(live, due)
        else:
            self._deliver(live, now, cache)

    def _repeat(self, live: Live, outgoing: Outgoing, now: float) -> None:
        """Send a stored delivery if its time has come."""
        if outgoing.is_sending:
            return
        if outgoing.due <= now:
            outgoing.is_sending = True
            self._outbox.due[outgoing.delivery.webhook_id] = outgoing
        else:
            self._set_timer(live, outgoing.due)

    def _settle(self, live: Live) -> None:
        """Nothing is to be delivered: the changes cancelled out."""
        live.done = self._model.generation
        live.noted_at = None
        if live.is_held:
            live.is_held = False
            self._outbox.set_progress(live, held_since=self._model.generation + 1, behind_since=None)
        elif live.progress.behind_since is not None:
            # The end of a delivery found the changes, and no checkpoint marked them as held since.
            self._outbox.set_progress(live, behind_since=None)

    def _deliver(self, live: Live, now: float, cache: Cache) -> None:
        since, time = live.since or self._clock.now(), self._clock.now()
        resources, more = take_contents(self._model, live, cache)
        if resources.is_empty() and not more:
            self._settle(live)
            return
        delivery = new_delivery(
            live,
            resources,
            more,
            webhook_id=self._clock.new_id(),
            sequence=self._model.generation,
            time=time,
            max_bytes=self._settings.max_body_bytes,
        )
        live.done = delivery.sequence
        live.resync = ""
        live.noted_at = None
        live.is_held = False
        live.is_ending_planned = bool(live.ending)
        live.earliest = now + live.subscription.min_notify_interval
        live.delivery = outgoing = Outgoing(delivery, live, now, is_sending=True)
        self._outbox.writes.planned.append(delivery)
        self._outbox.planned.append(outgoing)
        self._outbox.set_progress(
            live, sequence=delivery.sequence, held_since=None, behind_since=since, next_attempt_at=time
        )

    def _set_timer(self, live: Live, when: float) -> None:
        if live.timer is None or when < live.timer:
            live.timer = when
            heapq.heappush(self._timers, (when, next(self._numbers), live))

    # Results

    def attempted(self, outgoing: Outgoing, attempt: Attempt, url: str | None = None) -> None:
        """Record the result of an attempt.

        :param url: the callback that it was made at; None: the present one.
        """
        outgoing.is_sending = False
        live = outgoing.live
        if self._roster.live.get(live.id) is not live or not (outgoing.is_test or live.delivery is outgoing):
            return
        if attempt.not_sent:
            self._outbox.due[outgoing.delivery.webhook_id] = outgoing
            return
        self._results.record(outgoing, attempt, is_former=url not in (None, live.subscription.callback_url))
        if live.is_active:
            self._roster.ready[live.id] = live

    def behind_since(self) -> datetime.datetime | None:
        """When the oldest change was committed that is not delivered; None: all are. O(subscriptions)."""
        times = [live.progress.behind_since or live.since for live in self._roster.live.values() if live.is_active]
        return min((time for time in times if time is not None), default=None)

    @property
    def has_writes(self) -> bool:
        """Whether there is something to write."""
        return not self._outbox.writes.is_empty()

    @property
    def has_urgent_writes(self) -> bool:
        """Whether something waits for a write: a delivery to be sent, or a subscription that ended."""
        writes = self._outbox.writes
        return bool(writes.planned or writes.states or writes.replayed)

    # For the owner's writes

    def take_writes(self, *, checkpoint: bool) -> tuple[WorkerWrites, list[Outgoing]]:
        """Return what is to be written, and the deliveries that may be sent once it is written.

        :param checkpoint: also write the seq up to which every change is in a delivery or marked as held.
        """
        if checkpoint:
            for live in self._roster.live.values():
                self._mark_held(live)
            self._outbox.writes.sequence = self._model.generation
        return self._outbox.take()

    def restore(self, writes: WorkerWrites, planned: list[Outgoing]) -> None:
        """Take back what could not be written."""
        self._outbox.restore(writes, planned)

    def refused(self, subscription_id: str, planned: Sequence[Outgoing], reason: str) -> None:
        """The database refuses the rows of a subscription: it is suspended, and its place in the journal is held.

        :param planned: its deliveries of the refused writes; at most one has changes.
        :param reason: what the database says.
        """
        live = self._roster.live.get(subscription_id)
        if live is None or not live.is_active:
            LOG.error("webhooks: the database refuses the rows of subscription %s: %s", subscription_id, reason)
            return
        LOG.warning("webhooks: the database refuses the rows of subscription %s: %s", subscription_id, reason)
        self._results.refuse(live, next(iter(planned), None), reason)

    def take_due(self) -> list[Outgoing]:
        """Return the stored deliveries whose next attempt begins now."""
        return self._outbox.take_due()

    def _mark_held(self, live: Live) -> None:
        """Mark whether a subscription has changes in no delivery, so that the next worker reads them again."""
        if not live.is_active:
            return
        first, held_since = live.first_seq(), live.progress.held_since
        if first is not None:
            if not live.is_held:
                live.is_held = True
                behind_since = live.progress.behind_since or live.since
                self._outbox.set_progress(live, held_since=first, behind_since=behind_since)
        elif held_since is not None and max(live.floor, held_since - 1) <= self._model.generation:
            live.is_held = False
            self._outbox.set_progress(live, held_since=None)
