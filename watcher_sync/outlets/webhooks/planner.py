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

import msgspec
from oslo_log import log as logging

from watcher_sync.model.kinds import Entity
from watcher_sync.model.model import Model
from watcher_sync.model.onap.instances import INSTANCE_KINDS
from watcher_sync.model.onap.merging import Cache, Changes
from watcher_sync.model.staged import Key
from watcher_sync.outlets.webhooks.attempts import Attempt
from watcher_sync.outlets.webhooks.contents import new_delivery, take_contents
from watcher_sync.outlets.webhooks.handshake import Grant
from watcher_sync.outlets.webhooks.live import Live, Outgoing
from watcher_sync.outlets.webhooks.live import effective_after as effective_after
from watcher_sync.outlets.webhooks.matcher import Matcher, entity_of
from watcher_sync.outlets.webhooks.outbox import Outbox
from watcher_sync.outlets.webhooks.results import Results
from watcher_sync.outlets.webhooks.settings import Clock as Clock
from watcher_sync.outlets.webhooks.settings import Settings as Settings
from watcher_sync.storage.journal import JournalRow
from watcher_sync.storage.subscription_secrets import SecretBox, SecretUnreadable
from watcher_sync.storage.subscriptions import DELETED, WANTED, Row
from watcher_sync.storage.webhooks import NewDelivery, WorkerWrites
from watcher_sync.wire.standard_webhooks import BadSecret, parse_secret

LOG = logging.getLogger(__name__)

_MEMBERSHIP = frozenset({"vdus", "cluster", "namespace"})
"""Fields of a VNF instance that say which workloads it has."""

_PLAN_SECONDS = 0.05
"""After which :meth:`Planner.plan` returns, so that the attempts under way continue."""

_FOREIGN = "the instance belongs to another project"

_BEHIND_SECONDS = 0.1
"""Between two checks of a subscription while the replica is behind the worker before."""


class Planner:
    """The subscriptions of one worker."""

    def __init__(self, model: Model, secrets: SecretBox, settings: Settings, clock: Clock) -> None:
        """:param model: the replica, at the seq of the last rows of :meth:`add_rows`."""
        self._model = model
        self._secrets = secrets
        self._settings = settings
        self._clock = clock
        self._outbox = Outbox()
        self._results = Results(model, self._outbox, settings, clock, self._unmatch)
        self._matcher: Matcher[Live] = Matcher(model)
        self._live: dict[str, Live] = {}
        self._ready: dict[str, Live] = {}
        """Subscriptions that may have something to plan now, in the order of their changes."""
        self._unchecked: dict[str, Live] = {}
        """Subscriptions whose instance is checked when the replica reaches the worker before."""
        self._timers: list[tuple[float, int, Live]] = []
        """(monotonic time, number, subscription): when to look at a subscription again."""
        self._numbers = itertools.count()

    def __len__(self) -> int:
        """The number of subscriptions."""
        return len(self._live)

    # Subscriptions

    def put(self, row: Row, shard_sequence: int, pending: Sequence[NewDelivery] = ()) -> Live | None:
        """Add a subscription, or take what the subscriber wrote of it.

        :param shard_sequence: the seq up to which the worker before has planned; for a new one.
        :param pending: its stored deliveries that have not ended.
        :returns: the subscription if rows have to be read that the model already contains; see :meth:`begin_reading`.
            Until then its new rows wait.
        """
        subscription, progress = row
        if subscription.state == DELETED:
            self.remove(subscription.id)
            return None
        known = self._live.get(subscription.id)
        if known is not None:
            return self._rewrite(known, row, pending)
        live = Live(subscription, progress, shard_sequence, self._model.kinds)
        self._live[live.id] = live
        self._open_secrets(live)
        self._adopt(live, pending)
        if not live.is_active:
            return None
        if progress.last_notify_time is not None:
            passed = (self._clock.now() - progress.last_notify_time).total_seconds()
            live.earliest = self._clock.monotonic() + live.interval - max(0.0, passed)
        return self._activate(live)

    def remove(self, subscription_id: str) -> None:
        """Forget a subscription."""
        live = self._live.pop(subscription_id, None)
        if live is not None:
            self._unmatch(live)
            self._outbox.forget(live)

    def wants(self, outgoing: Outgoing) -> bool:
        """Whether a delivery is still to be sent: its subscription is there, and active unless it is a test."""
        live = outgoing.live
        if outgoing.is_test:
            return self._live.get(live.id) is live
        return self.is_active(live) and live.delivery is outgoing

    def asks(self, live: Live) -> bool:
        """Whether the receiver of a subscription is still to be asked for its consent."""
        return self.is_active(live) and live.subscription.consent == WANTED

    def is_active(self, live: Live) -> bool:
        """Whether a subscription is still there, and active."""
        return live.is_active and self._live.get(live.id) is live

    def of_shards(self, shards: Iterable[int]) -> list[Live]:
        """The subscriptions of these shards."""
        wanted = set(shards)
        return [live for live in self._live.values() if live.subscription.shard in wanted]

    def _activate(self, live: Live) -> Live | None:
        """Match rows for a subscription from its seq on."""
        self._matcher.add(live.subscription.instance_kind, live.subscription.instance_id, live.id, live)
        self._ready[live.id] = live
        self._check_instance(live)
        self._begin_replay(live, live.after)
        if live.after >= self._model.generation:
            return None
        live.await_older_rows()
        return live

    def _rewrite(self, live: Live, row: Row, pending: Sequence[NewDelivery]) -> Live | None:
        """Take what the subscriber wrote. Of the progress, this planner knows more than the database."""
        was, was_active = live.subscription, live.is_active
        subscription, progress = row
        live.rewrite(subscription, self._model.kinds)
        self._open_secrets(live)
        self._adopt(live, [each for each in pending if each.purpose == "test"])
        if not live.is_active:
            if was_active:
                self._results.hold(live)
            return None
        if was.sees_admin_only and not subscription.sees_admin_only:
            # Its body may have what the writer does not see. The API ended it, and has its changes merged again.
            live.delivery = None
        is_moved = was.callback_url != subscription.callback_url
        if is_moved or not was_active or (subscription.consent == WANTED) != (was.consent == WANTED):
            live.times_asked = 0
            if was.consent == WANTED:
                live.earliest = self._clock.monotonic()
        live.earliest += subscription.min_notify_interval - was.min_notify_interval
        if not was_active or is_moved or progress.failing_since is None:
            self._outbox.set_progress(live, failures=0, failing_since=None)
        if live.delivery is not None and (is_moved or not was_active):
            live.delivery.due = self._clock.monotonic()
        if not was_active:
            return self._resume(live)
        self._ready[live.id] = live
        first = live.first_seq()
        if not self._begin_replay(live, first - 1 if first is not None else self._model.generation):
            return None
        live.await_older_rows()
        return live

    def _resume(self, live: Live) -> Live | None:
        """Begin again with what came while the subscription was not active."""
        live.take()
        live.reading, live.noted_at, live.resync, live.ending = None, None, "", ""
        if live.progress.held_since is not None:
            live.after = live.progress.held_since - 1
            live.is_held = True
        return self._activate(live)

    def _unmatch(self, live: Live) -> None:
        subscription = live.subscription
        self._matcher.remove(subscription.instance_kind, subscription.instance_id, live.id)
        self._ready.pop(live.id, None)

    def _check_instance(self, live: Live) -> None:
        """End a subscription whose instance was deleted before this planner knew it."""
        subscription = live.subscription
        kind, instance_id = subscription.instance_kind, subscription.instance_id
        if self._model.generation < live.after:
            self._unchecked[live.id] = live
            return
        instance = self._model.get(kind, instance_id)
        if live.is_foreign(instance):
            live.note(live.after + 1, ending=_FOREIGN)
            return
        if instance is not None:
            return
        tombstone = self._model.tombstone(kind, instance_id)
        seq = tombstone.seq if tombstone is not None else live.after + 1
        noted_at = live.noted_at
        live.note(seq, ending="the instance was deleted")
        if tombstone is not None and live.delivery is not None and live.delivery.delivery.sequence >= seq:
            live.has_told_ending = True
            live.noted_at = noted_at

    def _begin_replay(self, live: Live, upto: int) -> bool:
        """Go back to the seq that the subscriber asked for. Return whether that is necessary.

        :param upto: the changes after this seq are in no delivery yet.
        """
        since = live.subscription.replay_since
        if since is None:
            return False
        self._outbox.writes.replayed.append((live.id, since))
        live.subscription = msgspec.structs.replace(live.subscription, replay_since=None)
        if since >= upto:
            return False
        live.take()
        live.done = max(live.done, upto)
        live.after = since
        live.is_held = True
        self._outbox.set_progress(live, held_since=since + 1)
        return True

    def _open_secrets(self, live: Live) -> None:
        live.trouble = ""
        try:
            opened = self._secrets.open(live.subscription.secrets)
            live.secrets = [(parse_secret(each.secret), each.expires_at) for each in opened]
        except (SecretUnreadable, BadSecret) as exc:
            live.secrets = ()
            live.trouble = str(exc)
            LOG.error("webhooks: subscription %s is not delivered: %s", live.id, exc)

    def _adopt(self, live: Live, pending: Sequence[NewDelivery]) -> None:
        """Accept stored deliveries, of a worker before or of the API."""
        now, monotonic = self._clock.now(), self._clock.monotonic()
        for delivery in pending:
            wait = (delivery.next_attempt_at - now).total_seconds() if delivery.next_attempt_at else 0.0
            outgoing = Outgoing(delivery, live, monotonic + max(0.0, wait), list(delivery.attempts))
            if not outgoing.is_test:
                live.delivery = outgoing
            elif delivery.webhook_id not in live.tests:
                live.tests.add(delivery.webhook_id)
                if live.trouble:
                    self._results.refuse_test(outgoing, live.trouble)
                else:
                    self._outbox.due[delivery.webhook_id] = outgoing

    # The journal

    def add_rows(self, rows: Sequence[JournalRow], before: Mapping[Key, Entity | None]) -> None:
        """Merge new rows into the subscriptions that they concern. The model is at the last one.

        :param before: entities as they were before the first row.
        """
        for row in rows:
            if row.kind == "vnf_instance":
                self._matcher.index(row.entity_id)
            for live in self._matcher.match(row, before):
                if row.seq > live.after:
                    self._merge(live, row, live.changes if live.reading is None else live.later)
            if row.kind in INSTANCE_KINDS:
                for live in self._matcher.of_instance(row.kind, row.entity_id).values():
                    self._instance_changed(live, row)
        for live in [each for each in self._unchecked.values() if each.after <= self._model.generation]:
            del self._unchecked[live.id]
            if self.is_active(live):
                self._check_instance(live)
                self._ready[live.id] = live

    def remember_deleted(self, rows: Iterable[JournalRow]) -> None:
        """Learn which workloads were deleted before; see :class:`Matcher`.

        :param rows: their deletions.
        """
        for row in rows:
            self._matcher.remember(entity_of(self._model.kinds[row.kind], row))

    def begin_reading(self, lives: Iterable[Live]) -> object:
        """Begin to merge older rows into what :meth:`put` returned. Return the pass, for the other methods."""
        reading = object()
        for live in lives:
            if live.reading is not None:
                live.reading = reading
        return reading

    def add_older_rows(self, rows: Sequence[JournalRow], reading: object) -> None:
        """Merge rows that the model already contains into the subscriptions of a pass."""
        for row in rows:
            for live in self._matcher.match(row, {}):
                if live.reading is reading and row.seq > live.after:
                    self._merge(live, row, live.changes)
                    live.after = row.seq
                    if row.seq <= live.done:
                        live.replayed.add((row.kind, row.entity_id))
            if row.kind in INSTANCE_KINDS:
                for live in self._matcher.of_instance(row.kind, row.entity_id).values():
                    if live.reading is reading:
                        self._instance_changed(live, row)

    def end_reading(self, lives: Iterable[Live], reading: object) -> None:
        """The older rows of a pass are merged."""
        for live in lives:
            if live.reading is reading:
                live.reading = None
                live.changes.extend(live.later)
                if self._live.get(live.id) is live and live.is_active:
                    self._ready[live.id] = live

    def purged(self, lives: Iterable[Live], reading: object) -> None:
        """The journal no longer has the rows that a pass needs: its subscriptions get all resources."""
        for live in lives:
            if live.reading is reading:
                live.take()
                live.note(live.after + 1, resync="the journal no longer has all changes")
                LOG.warning("webhooks: subscription %s is behind the journal; it gets all resources", live.id)
        self.end_reading(lives, reading)

    def _merge(self, live: Live, row: JournalRow, into: Changes) -> None:
        if row.change == "updated" and not row.delta:
            return
        into.add(self._model.kinds[row.kind], row.entity_id, row.change, row.delta, row.seq)
        if row.change == "updated" and "owner_uid" in row.delta:
            live.note(row.seq, resync="a resource has another owner")
        if row.kind == "workload" and row.change == "created":
            for kind, entity in self._matcher.below(row.entity_id):
                into.add(self._model.kinds[kind], entity.id, "created", {}, row.seq)
                live.replayed.add((kind, entity.id))  # a row before may have matched, too, as a modification
        if live.since is None:
            live.since = row.time
        self._ready[live.id] = live

    def _instance_changed(self, live: Live, row: JournalRow) -> None:
        """The instance was created, deleted or written: the subscription ends, goes on, or gets all resources."""
        if row.seq <= live.after and live.reading is None:
            return
        is_vnf = row.kind == "vnf_instance"
        if row.change != "deleted" and live.is_foreign(self._model.get(row.kind, row.entity_id)):
            live.note(row.seq, ending=_FOREIGN)
            self._ready[live.id] = live
            return
        if row.change == "deleted":
            live.note(row.seq, ending="the instance was deleted")
        elif row.change == "created":
            if row.seq <= max(live.ended_at, live.subscription.start_after):
                return
            live.ending = ""
            if is_vnf:
                live.note(row.seq, resync="the instance was created again")
        elif is_vnf and not _MEMBERSHIP.isdisjoint(row.delta):
            live.note(row.seq, resync="the instance names other workloads")
        else:
            return
        live.since = live.since or row.time
        self._ready[live.id] = live

    # Plans

    def plan(self, limit: int = 500) -> None:
        """Plan the deliveries that are due, at most so many."""
        now = self._clock.monotonic()
        while self._timers and self._timers[0][0] <= now:
            when, _, live = heapq.heappop(self._timers)
            if live.timer == when:
                live.timer = None
                if self._live.get(live.id) is live:
                    self._ready[live.id] = live
        cache: Cache = {}
        for live in list(itertools.islice(self._ready.values(), limit)):
            if self._clock.monotonic() - now > _PLAN_SECONDS:
                return
            del self._ready[live.id]
            self._plan_one(live, now, cache)

    @property
    def has_ready(self) -> bool:
        """Whether :meth:`plan` has more to do now."""
        return bool(self._ready)

    def next_due(self) -> float | None:
        """When :meth:`plan` has something to do, by the monotonic clock; None: nothing is scheduled."""
        return self._timers[0][0] if self._timers else None

    def _plan_one(self, live: Live, now: float, cache: Cache) -> None:
        if live.trouble or not live.is_active:
            return
        if live.subscription.consent == WANTED:
            self._ask(live, now)
        elif live.delivery is not None:
            self._repeat(live, live.delivery, now)
        elif live.reading is not None or not live.has_news:
            return
        elif self._model.generation < live.floor:
            self._set_timer(live, now + _BEHIND_SECONDS)
        elif live.earliest > now:
            self._set_timer(live, live.earliest)
        else:
            self._deliver(live, now, cache)

    def _ask(self, live: Live, now: float) -> None:
        """Have the receiver asked for its consent, unless it is too early."""
        if live.is_asking:
            return
        if live.earliest > now:
            self._set_timer(live, live.earliest)
        else:
            live.is_asking = True
            self._outbox.asking.append(live)

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
        live.has_told_ending = bool(live.ending)
        live.earliest = now + live.interval
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

    def attempted(self, outgoing: Outgoing, attempt: Attempt) -> None:
        """Record the result of an attempt."""
        outgoing.is_sending = False
        live = outgoing.live
        if self._live.get(live.id) is not live or not (outgoing.is_test or live.delivery is outgoing):
            return
        if attempt.not_sent:
            self._outbox.due[outgoing.delivery.webhook_id] = outgoing
            return
        self._results.record(outgoing, attempt)
        if live.is_active:
            self._ready[live.id] = live

    def answered(self, live: Live, url: str, grant: Grant) -> None:
        """Record whether a receiver consented to deliveries.

        :param url: the callback that was asked.
        """
        live.is_asking = False
        if self._live.get(live.id) is not live:
            return
        now = live.subscription
        if live.is_active and now.consent == WANTED and now.callback_url == url:
            self._results.record_consent(live, grant)
        if live.is_active:
            self._ready[live.id] = live

    def behind_since(self) -> datetime.datetime | None:
        """When the oldest change was committed that is not delivered; None: all are. O(subscriptions)."""
        times = [live.progress.behind_since or live.since for live in self._live.values() if live.is_active]
        return min((time for time in times if time is not None), default=None)

    @property
    def has_writes(self) -> bool:
        """Whether there is something to write."""
        return not self._outbox.writes.is_empty()

    # For the owner's writes

    def take_writes(self, *, checkpoint: bool) -> tuple[WorkerWrites, list[Outgoing]]:
        """Return what is to be written, and the deliveries that may be sent once it is written.

        :param checkpoint: also write the seq up to which every change is in a delivery or marked as held.
        """
        if checkpoint:
            for live in self._live.values():
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
        live = self._live.get(subscription_id)
        if live is None or not live.is_active:
            LOG.error("webhooks: the database refuses the rows of subscription %s: %s", subscription_id, reason)
            return
        LOG.warning("webhooks: the database refuses the rows of subscription %s: %s", subscription_id, reason)
        self._results.refuse(live, next(iter(planned), None), reason)

    def take_due(self) -> list[Outgoing]:
        """Return the stored deliveries whose next attempt begins now."""
        return self._outbox.take_due()

    def take_asking(self) -> list[Live]:
        """Return the subscriptions whose receivers are to be asked for their consent now."""
        return self._outbox.take_asking()

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
