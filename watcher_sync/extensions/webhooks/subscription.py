# SPDX-License-Identifier: Apache-2.0
"""One subscription of a worker, as a state machine: every decision of its life is here. It does no I/O.

========  ==============================================  =========================================
State     Until                                           Then
========  ==============================================  =========================================
reading   the older rows of the journal are merged        idle, or news
idle      a row concerns it                               news
news      ``min-notify-interval`` and a pause are over    delivery; idle if all cancelled out
delivery  an attempt is accepted                          idle, or news; gone if it said the end
delivery  its schedule ends                               news: all resources, after a pause
held      the subscriber writes it                        reading: what came since ``held_since``
========  ==============================================  =========================================

News that come with a delivery under way wait for its end. A subscription that is suspended or gone is ``held``: by
failures for too long, the status 410, refused rows, or the end of its instance.

Two positions are stored. ``sequence`` is the last delivery's. Before ``held_since`` no change waits; without it, none
waits up to the sequence of its shard. A crash loses neither: the next worker reads from there.

For one thread.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from typing import Final

import msgspec
from oslo_log import log as logging

from watcher_sync.extensions.webhooks.contents import News, is_foreign, make_filter, new_delivery, take_contents
from watcher_sync.extensions.webhooks.deliveries import (
    Attempt,
    Clock,
    DeliverySettings,
    Outbox,
    Outgoing,
    bounded,
    delay_after,
    suspension,
    wait_of,
)
from watcher_sync.extensions.webhooks.matcher import Matcher
from watcher_sync.extensions.webhooks.onap.merging import Cache, Changes
from watcher_sync.extensions.webhooks.rows import (
    ACTIVE,
    ALL_RESOURCES,
    DEAD,
    DELIVERED,
    GONE,
    PENDING,
    SUSPENDED,
    NewDelivery,
    Row,
    StateChange,
    is_lowered,
)
from watcher_sync.extensions.webhooks.secrets import SecretBox, SecretUnreadable
from watcher_sync.extensions.webhooks.standard_webhooks import BadSecret, parse_secret
from watcher_sync.extensions.webhooks.webhook_messages import MessageHead
from watcher_sync.model.model import Model
from watcher_sync.storage.writing.journal import JournalRow

LOG = logging.getLogger(__name__)
AUDIT = logging.getLogger("watcher_sync.audit")

AFTER_DEAD_SECONDS: Final = 7200.0
"""Between the end of a delivery's schedule and the first attempt of the next delivery."""

_FOREIGN: Final = "the instance belongs to another project"
_DELETED: Final = "the instance was deleted"
_MISSED: Final = "the database went back in time, or an earlier delivery of all resources was not accepted"
_NOT_ACCEPTED: Final = "an earlier delivery was not accepted"
_NOT_STORED: Final = "an earlier delivery was not stored"
_WITHDRAWN: Final = "an earlier delivery of all resources was withdrawn"

_MEMBERSHIP: Final = frozenset({"vdus", "cluster", "namespace"})
"""Fields of a VNF instance that say which workloads it has."""


class OlderRows(msgspec.Struct, eq=False, frozen=True):
    """Rows that the model contains already, and that a subscription has not merged."""

    subscription: Subscription
    after: int
    """The rows after this seq, up to the model's when it began to wait for them."""
    known: int
    """What the rows up to this seq changed may be known to the receiver: it must not cancel out."""

    @property
    def is_awaited(self) -> bool:
        """Whether the subscription still waits for them."""
        return self.subscription.older is self


class SubscriptionContext(msgspec.Struct, frozen=True, kw_only=True):
    """What the subscriptions of a planner share."""

    model: Model
    """The replica. It has reached every position of a subscription that is put."""
    secrets: SecretBox
    settings: DeliverySettings
    max_body_bytes: int
    """See :class:`~watcher_sync.extensions.webhooks.resources.WorkerResources`."""
    clock: Clock
    outbox: Outbox
    matcher: Matcher[Subscription]
    ready: dict[str, Subscription]
    """Those that may have something to plan now, in the order of their changes."""


def reached_by(row: Row, shard_sequence: int) -> int:
    """The highest seq that a worker before had reached with a subscription. An older replica would plan it again."""
    written, progress = row
    return max(shard_sequence, progress.sequence, written.start_after, (progress.held_since or 0) - 1)


class Subscription:
    """A subscription. At most one delivery of changes is under way, so a callback gets them in order."""

    def __init__(
        self, context: SubscriptionContext, row: Row, shard_sequence: int, pending: Sequence[NewDelivery]
    ) -> None:
        """:param shard_sequence: the seq up to which the worker before has planned.

        :param pending: its stored deliveries that have not ended.
        """
        self._context = context
        self.row, self.progress = row
        self.filter = make_filter(self.row, context.model.kinds)
        self.secrets: Sequence[tuple[bytes, datetime.datetime | None]] = ()
        """(secret, when it ceases to sign) of each, the newest first."""
        self.unsendable = ""
        """Why nothing can be sent, such as secrets that no key decrypts."""
        self.news = News()
        self.older: OlderRows | None = None
        """What is being read for it. Nothing is planned meanwhile."""
        self.delivery: Outgoing | None = None
        self.ending = ""
        """Why the subscription ends with the next delivery; empty: it does not."""
        self._ended_at = 0
        """The seq of the deletion of its instance."""
        self._is_ending_planned = False
        """Whether a planned delivery says that the subscription ends."""
        self._earliest = -math.inf
        """When the next delivery may be planned, by the monotonic clock."""
        self._paused_until = -math.inf
        """Not before that either: an earlier delivery was not accepted. A PUT or a replay ends the pause."""
        self._tests: set[str] = set()
        """The ids of its test messages that are known."""
        self.timer: float | None = None
        """When its planner checks it again."""
        self.sending = 0
        """Its requests under way, test messages too."""
        self._open_secrets()
        self._adopt(pending)
        if self.is_active:
            self._wait_for_interval()
            self._activate(shard_sequence)

    @property
    def id(self) -> str:
        """The id of the subscription."""
        return self.row.id

    @property
    def is_active(self) -> bool:
        """Whether it is neither suspended nor gone."""
        return self.row.state == ACTIVE

    @property
    def has_news(self) -> bool:
        """Whether there may be something to deliver."""
        return bool(self.news.resync or self.ending) or not self.news.changes.is_empty()

    @property
    def is_busy(self) -> bool:
        """Whether older rows are read for it, or a request is under way."""
        return self.older is not None or self.sending > 0

    # What the subscriber wrote

    def rewrite(self, row: Row, shard_sequence: int, pending: Sequence[NewDelivery]) -> None:
        """Take what the subscriber wrote. Of the progress, this worker knows more than the database."""
        was, was_active, new = self.row, self.is_active, row[0]
        self.row = new
        self.filter = make_filter(new, self._context.model.kinds)
        self._open_secrets()
        self._adopt([each for each in pending if each.purpose == "test"])
        if not self.is_active:
            if was_active:
                self._hold()
            return
        if self.delivery is not None and is_lowered(was, new):
            self._withdraw(self.delivery)
        is_moved = was.callback_url != new.callback_url
        is_renewed = not was_active or is_moved or row[1].failing_since is None
        self._earliest += new.min_notify_interval - was.min_notify_interval
        if is_renewed or new.replay_since is not None:
            self._paused_until = -math.inf
        if is_renewed:
            self._set(failures=0, failing_since=None)
        if self.delivery is not None and (is_moved or not was_active):
            self.delivery.due = self._context.clock.monotonic()
        if was_active:
            self._wake()
            first = self.news.first
            planned = first - 1 if first is not None else self._context.model.generation
            since = self._take_replay(planned)
            if since is not None:
                self._await_older(since, planned)
        else:
            self.news, self.ending = News(), ""
            self._activate(shard_sequence)

    def _activate(self, shard_sequence: int) -> None:
        """Match rows for it from its position on."""
        context, row, model = self._context, self.row, self._context.model
        context.matcher.add(row.instance_kind, row.instance_id, row.id, self)
        self._wake()
        held_since = self.progress.held_since
        planned = held_since - 1 if held_since is not None else reached_by((row, self.progress), shard_sequence)
        # A worker may have written positions of a lost history into a restored database.
        after = planned = min(planned, model.generation)
        if held_since == ALL_RESOURCES:
            after = model.generation  # no older row is to be read
            self._tell_all(ALL_RESOURCES, _MISSED)
        self._check_instance(after)
        since = self._take_replay(planned)
        if since is not None:
            self._await_older(since, planned)
        elif after < model.generation:
            self._await_older(after, self.progress.sequence)

    def _check_instance(self, after: int) -> None:
        """End a subscription whose instance was deleted, or went to another project, before this worker knew it."""
        row, model = self.row, self._context.model
        instance = model.get(row.instance_kind, row.instance_id)
        if is_foreign(row, instance):
            self._begin_end(after + 1, _FOREIGN)
        elif instance is None:
            tombstone = model.tombstone(row.instance_kind, row.instance_id)
            seq = tombstone.seq if tombstone is not None else after + 1
            planned = self.delivery.delivery.sequence if self.delivery is not None else -1
            self._begin_end(seq, _DELETED, is_planned=tombstone is not None and planned >= seq)

    def _take_replay(self, planned: int) -> int | None:
        """Go back to the seq that the subscriber asked for. Return it, or None if that is not necessary.

        :param planned: the changes after this seq are in no delivery yet.
        """
        since = self.row.replay_since
        if since is None:
            return None
        self._context.outbox.writes.replayed.append((self.id, since))
        self.row = msgspec.structs.replace(self.row, replay_since=None)
        if since >= planned:
            return None
        self.news = News(self.news.resync, self.news.first)
        # Another worker does not know how far this one had planned. Changes after the last delivery may have cancelled
        # out, and do so again only if all of them are merged.
        self._set(held_since=min(since, self.progress.sequence) + 1)
        return since

    def _wait_for_interval(self) -> None:
        """Plan nothing until the interval after the last attempt of the worker before is over."""
        clock, last = self._context.clock, self.progress.last_notify_time
        if last is not None:
            passed = (clock.now() - last).total_seconds()
            self._earliest = clock.monotonic() + self.row.min_notify_interval - max(0.0, passed)

    def _open_secrets(self) -> None:
        self.secrets, self.unsendable = (), ""
        try:
            opened = self._context.secrets.open(self.row.secrets)
            self.secrets = [(parse_secret(each.secret), each.expires_at) for each in opened]
        except (SecretUnreadable, BadSecret) as exc:
            self.unsendable = str(exc)
            LOG.error("webhooks: subscription %s is not delivered: %s", self.id, exc)

    def _adopt(self, pending: Sequence[NewDelivery]) -> None:
        """Accept stored deliveries, of a worker before or of the API."""
        now, monotonic = self._context.clock.now(), self._context.clock.monotonic()
        for delivery in pending:
            outgoing = Outgoing(delivery, self, monotonic + wait_of(delivery, now), list(delivery.attempts))
            if not outgoing.is_test:
                self.delivery = outgoing
            elif delivery.webhook_id not in self._tests:
                self._tests.add(delivery.webhook_id)
                if self.unsendable:
                    outgoing.add_attempt(Attempt(0, self.unsendable, 0.0), now)
                    self._end(outgoing, DEAD, now)
                else:
                    self._context.outbox.due[delivery.webhook_id] = outgoing

    def _withdraw(self, outgoing: Outgoing) -> None:
        """End a delivery that its subscriber may no longer see, as the API does with those that are stored.

        The API did not see it if it was not stored yet; then its changes are to be merged again. The result of an
        attempt may have overwritten what the API wrote.
        """
        self.delivery, since = None, outgoing.delivery.previous_sequence
        self._write(outgoing, DEAD, ended_at=self._context.clock.now())
        if outgoing.first_seq == ALL_RESOURCES:
            self._set(held_since=ALL_RESOURCES)
            self._tell_all(ALL_RESOURCES, _WITHDRAWN)
        elif self.row.replay_since is None or self.row.replay_since > since:
            self.row = msgspec.structs.replace(self.row, replay_since=since)

    # The journal

    def merge(self, row: JournalRow) -> None:
        """Merge a new row that concerns it. The model is at the row's seq or later."""
        self._merge(row, self.news.changes if self.older is None else self.news.later)

    def merge_older(self, row: JournalRow) -> None:
        """Merge a row that the model already contained, while it waits for older rows."""
        if self.older is not None and row.seq > self.older.after:
            self._merge(row, self.news.changes)
            if row.seq <= self.older.known:
                self.news.replayed.add((row.kind, row.entity_id))

    def end_older(self, older: OlderRows, *, purged: bool = False) -> None:
        """The older rows are merged.

        :param purged: the journal no longer has them: the subscription gets all resources.
        """
        if self.older is not older:
            return
        self.older, later = None, self.news.later
        if purged:
            self.news = News(self.news.resync, self.news.first)
            self._tell_all(older.after + 1, "the journal no longer has all changes")
            LOG.warning("webhooks: subscription %s is behind the journal; it gets all resources", self.id)
        self.news.changes.extend(later)
        if not self.has_news:
            self.news = News()
        self._wake()

    def instance_changed(self, row: JournalRow) -> None:
        """Its instance was created, deleted or written: it ends, goes on, or gets all resources."""
        is_vnf = row.kind == "vnf_instance"
        if row.change == "deleted":
            self._begin_end(row.seq, _DELETED)
        elif is_foreign(self.row, self._context.model.get(row.kind, row.entity_id)):
            self._begin_end(row.seq, _FOREIGN)
        elif row.change == "created" and row.seq > max(self._ended_at, self.row.start_after):
            self.ending = ""
            if is_vnf:
                self._tell_all(row.seq, "the instance was created again")
        elif row.change == "updated" and is_vnf and not _MEMBERSHIP.isdisjoint(row.delta):
            self._tell_all(row.seq, "the instance names other workloads")
        else:
            return
        self.news.since = self.news.since or row.time
        self._wake()

    def older_instance_changed(self, row: JournalRow) -> None:
        """Its instance changed by a row that the model already contained, while it waits for older rows."""
        if self.older is not None and row.seq > self.older.after:
            self.instance_changed(row)

    def restored(self, epoch: str) -> None:
        """The database went back in time since it was planned: it gets all resources, once it is active.

        :param epoch: the new one.
        """
        self._set(sequence=min(self.progress.sequence, self._context.model.generation), held_since=ALL_RESOURCES)
        if self.is_active:
            self._tell_all(ALL_RESOURCES, f"the database went back in time to epoch {epoch}")
            self._wake()
            LOG.warning("webhooks: subscription %s is of another epoch; it gets all resources", self.id)

    def _merge(self, row: JournalRow, into: Changes) -> None:
        if row.change == "updated" and not row.delta:
            return
        kinds = self._context.model.kinds
        self.news.add(kinds[row.kind], row, into)
        if row.change == "updated" and "owner_uid" in row.delta:
            self._tell_all(row.seq, "a resource has another owner")
        if row.kind == "workload" and row.change == "created":
            below = self._context.matcher.below(row.entity_id)
            self.news.add_created(((kinds[kind], entity) for kind, entity in below), row, into)
        self._wake()

    def _await_older(self, after: int, known: int) -> None:
        """Merge new rows apart from now on, until those after this seq were read."""
        self.older = OlderRows(self, after, max(known, self.progress.sequence))
        self.news.later = Changes()
        self.news.begin(after + 1)

    def _tell_all(self, seq: int, reason: str) -> None:
        """Have the next delivery tell all resources."""
        self.news.resync = reason
        self.news.begin(seq)

    def _begin_end(self, seq: int, reason: str, *, is_planned: bool = False) -> None:
        """Have the next delivery be the last one.

        :param is_planned: the delivery under way says so already.
        """
        self.ending = reason
        self._ended_at = max(self._ended_at, seq)
        self._is_ending_planned = is_planned
        if not is_planned:
            self.news.begin(seq)

    # Deliveries

    def plan(self, now: float, cache: Cache) -> float | None:
        """Plan what is due.

        :param now: by the monotonic clock.
        :returns: when it has something to plan, by the monotonic clock; None: not before its next change.
        """
        if self.unsendable or not self.is_active:
            return None
        if (outgoing := self.delivery) is not None:
            if outgoing.is_sending or outgoing.due > now:
                return None if outgoing.is_sending else outgoing.due
            outgoing.is_sending = True
            self._context.outbox.due[outgoing.delivery.webhook_id] = outgoing
        elif self.older is None and self.has_news:
            if (due := max(self._earliest, self._paused_until)) > now:
                return due
            self._deliver(now, cache)
        return None

    def checkpoint(self) -> None:
        """Store whether it has changes in no delivery, so that the next worker reads them again."""
        if not self.is_active:
            return
        first, since, held_since = self.news.first, self.news.since, self.progress.held_since
        behind_since = self.progress.behind_since
        if first is None:
            if held_since is not None:
                self._set(held_since=None, behind_since=None if self.delivery is None else behind_since)
        elif held_since is None or first < held_since:
            self._set(held_since=first, behind_since=behind_since or since)
        elif behind_since is None and since is not None:
            self._set(behind_since=since)

    def behind_since(self) -> datetime.datetime | None:
        """When the oldest change was committed that is not delivered; None: all are."""
        return (self.progress.behind_since or self.news.since) if self.is_active else None

    def attempted(self, outgoing: Outgoing, attempt: Attempt, url: str | None) -> None:
        """Take the result of an attempt that was made.

        :param url: the callback that it was made at; None: the present one. The failure of one that the subscriber has
            replaced says nothing about the present one.
        """
        now, is_former = self._context.clock.now(), url not in (None, self.row.callback_url)
        outgoing.add_attempt(attempt, now)
        self._set(last_notify_time=now, last_notify_status=attempt.code)
        if outgoing.is_test:
            self._end(outgoing, DELIVERED if attempt.ok else DEAD, now)
        elif attempt.ok:
            self._end(outgoing, DELIVERED, now, failures=0, failing_since=None)
            self._end_with_instance()
        elif is_former:
            self._repeat(outgoing, now, 0.0)
        elif attempt.gone:
            self._end(outgoing, DEAD, now)
            self._tell_all(outgoing.first_seq, _NOT_ACCEPTED)
        else:
            self._failed(outgoing, attempt, now)
        if attempt.gone and not is_former:
            self._change_state(GONE, "the callback answered 410")
        if self.is_active:
            self._wake()

    def refused(self, outgoing: Outgoing | None, reason: str) -> None:
        """The database refuses its rows: it is suspended, and what they have is planned again after a PUT.

        :param outgoing: the delivery that could not be stored; None: the other rows were refused.
        :param reason: what the database says.
        """
        if outgoing is not None:
            if self.delivery is outgoing:
                self.delivery = None
            self._tell_all(outgoing.first_seq, _NOT_STORED)
            self._is_ending_planned = False
            self._set(sequence=outgoing.delivery.previous_sequence)
        self._change_state(SUSPENDED, bounded(f"the database refuses its delivery: {reason}"))

    def _deliver(self, now: float, cache: Cache) -> None:
        """Plan a delivery of the news, unless they cancelled out."""
        context, news, time = self._context, self.news, self._context.clock.now()
        generation = context.model.generation
        resources, more = take_contents(news, context.model, self.row, self.filter, self.ending, cache)
        self.news = News()
        if resources.is_empty() and not more:
            if self.progress.held_since is not None:
                self._set(held_since=generation + 1, behind_since=None)
            elif self.progress.behind_since is not None:
                # The end of a delivery found the changes, and no checkpoint marked them as held since.
                self._set(behind_since=None)
            return
        head = MessageHead(
            webhook_id=context.clock.new_id(),
            sequence=generation,
            previous_sequence=self.progress.sequence,
            time=time,
            more=more,
        )
        delivery = new_delivery(self.row, resources, head, context.max_body_bytes)
        self.delivery = Outgoing(delivery, self, now, is_sending=True)
        self._is_ending_planned = bool(self.ending)
        self._earliest = now + self.row.min_notify_interval
        context.outbox.writes.planned.append(delivery)
        context.outbox.planned.append(self.delivery)
        since = news.since or time
        self._set(sequence=generation, held_since=None, behind_since=since, next_attempt_at=time)

    def _failed(self, outgoing: Outgoing, attempt: Attempt, now: datetime.datetime) -> None:
        """Repeat a delivery by the schedule. At its end the delivery is dead, and the next one has all resources."""
        clock, progress = self._context.clock, self.progress
        self._set(failures=progress.failures + 1, failing_since=progress.failing_since or now)
        # A PUT resets the failures of the subscription, and with them the schedule of the delivery under way.
        failed = min(len(outgoing.attempts), self.progress.failures)
        delay = delay_after(failed, attempt.retry_after, clock.random)
        if delay is not None:
            self._repeat(outgoing, now, delay)
        else:
            first, held_since = outgoing.first_seq, self.progress.held_since
            self._end(outgoing, DEAD, now, held_since=first if held_since is None else min(first, held_since))
            self._tell_all(outgoing.first_seq, _NOT_ACCEPTED)
            self._paused_until = clock.monotonic() + AFTER_DEAD_SECONDS
            self._end_with_instance()
        reason = suspension(self.progress, self._context.settings, now, attempt)
        if reason and self.is_active:
            self._change_state(SUSPENDED, reason)

    def _repeat(self, outgoing: Outgoing, now: datetime.datetime, delay: float) -> None:
        """Have a delivery sent again after so many seconds."""
        outgoing.due = self._context.clock.monotonic() + delay
        next_at = now + datetime.timedelta(seconds=delay)
        self._set(next_attempt_at=next_at)
        self._write(outgoing, PENDING, next_at=next_at)

    def _end(self, outgoing: Outgoing, state: str, now: datetime.datetime, **progress: object) -> None:
        """End a delivery."""
        self._write(outgoing, state, ended_at=now)
        if self.delivery is outgoing:
            self.delivery = None
            self._set(next_attempt_at=None, behind_since=self.news.since, **progress)

    def _end_with_instance(self) -> None:
        """End the subscription if the delivery that ended was the last one of a deleted instance."""
        if self.ending and self._is_ending_planned:
            self._change_state(GONE, self.ending)

    # What the transitions share

    def close(self) -> None:
        """Match no further rows for it, read nothing and plan nothing."""
        row = self.row
        self._context.matcher.remove(row.instance_kind, row.instance_id, row.id)
        self._context.ready.pop(row.id, None)
        self.older = None

    def _change_state(self, state: str, reason: str) -> None:
        """Suspend it, or end it."""
        row, was_active = self.row, self.is_active
        self._context.outbox.writes.states.append(
            StateChange(
                subscription_id=row.id,
                instance_kind=row.instance_kind,
                instance_id=row.instance_id,
                revision=row.revision,
                state=state,
                reason=reason,
            )
        )
        self.row = msgspec.structs.replace(row, state=state, reason=reason)
        if was_active:
            self._hold()
        AUDIT.info("subscription %s (%s of %s) is %s: %s", row.id, row.name, row.instance_id, state, reason)

    def _hold(self) -> None:
        """It is not active any more: store the first change that it has not received."""
        self.close()
        first = self.news.first if self.news.first is not None else self._context.model.generation + 1
        self.news = News()
        self._set(held_since=first, next_attempt_at=None)

    def _wake(self) -> None:
        self._context.ready[self.row.id] = self

    def _set(self, **changes: object) -> None:
        """Change its progress, and have it written."""
        self.progress = msgspec.structs.replace(self.progress, **changes)
        self._context.outbox.writes.progress[self.row.id] = self.progress

    def _write(
        self,
        outgoing: Outgoing,
        state: str,
        *,
        next_at: datetime.datetime | None = None,
        ended_at: datetime.datetime | None = None,
    ) -> None:
        """Have the state of a delivery written."""
        self._context.outbox.writes.results.append(outgoing.result(state, next_at=next_at, ended_at=ended_at))
