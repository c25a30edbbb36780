# SPDX-License-Identifier: Apache-2.0
"""What happens to a subscription when its row is read: it is added, rewritten, resumed, replayed or removed.

It does no I/O. For one thread.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
from oslo_log import log as logging

from watcher_sync.model.model import Model
from watcher_sync.webhooks.live import Live, Outgoing
from watcher_sync.webhooks.outbox import Outbox
from watcher_sync.webhooks.results import Results
from watcher_sync.webhooks.roster import Roster
from watcher_sync.webhooks.rows import NewDelivery
from watcher_sync.webhooks.secrets import SecretBox, SecretUnreadable
from watcher_sync.webhooks.settings import Clock
from watcher_sync.webhooks.subscription_rows import ALL_RESOURCES, DELETED, Row
from watcher_sync.wire.standard_webhooks import BadSecret, parse_secret

LOG = logging.getLogger(__name__)

FOREIGN = "the instance belongs to another project"
"""Why a subscription ends whose instance came to another project."""

_MISSED = "the database went back in time, or an earlier delivery of all resources was not accepted"
"""Why a subscription gets all resources whose stored progress says so."""


class Lifecycle:
    """Brings the subscriptions of a roster up to date with their rows."""

    def __init__(
        self, roster: Roster, model: Model, secrets: SecretBox, outbox: Outbox, results: Results, clock: Clock
    ) -> None:
        self._roster = roster
        self._model = model
        self._secrets = secrets
        self._outbox = outbox
        self._results = results
        self._clock = clock

    def put(self, row: Row, shard_sequence: int, pending: Sequence[NewDelivery] = ()) -> Live | None:
        """Add a subscription, or take what the subscriber wrote of it.

        :param shard_sequence: the seq up to which the worker before has planned; for a new one.
        :param pending: its stored deliveries that have not ended.
        :returns: the subscription if rows have to be read that the model already contains; see
            :meth:`~watcher_sync.webhooks.merging.JournalMerger.begin_reading`.
            Until then its new rows wait.
        """
        subscription, progress = row
        if subscription.state == DELETED:
            self.remove(subscription.id)
            return None
        known = self._roster.live.get(subscription.id)
        if known is not None:
            return self._rewrite(known, row, pending)
        live = Live(subscription, progress, shard_sequence, self._model.kinds)
        self._roster.live[live.id] = live
        self._open_secrets(live)
        self._adopt(live, pending)
        if not live.is_active:
            return None
        if progress.last_notify_time is not None:
            passed = (self._clock.now() - progress.last_notify_time).total_seconds()
            live.earliest = self._clock.monotonic() + subscription.min_notify_interval - max(0.0, passed)
        return self._activate(live)

    def remove(self, subscription_id: str) -> None:
        """Forget a subscription."""
        live = self._roster.live.pop(subscription_id, None)
        if live is not None:
            self._roster.unmatch(live)
            self._outbox.forget(live)

    def _activate(self, live: Live) -> Live | None:
        """Match rows for a subscription from its seq on."""
        self._roster.matcher.add(live.subscription.instance_kind, live.subscription.instance_id, live.id, live)
        self._roster.ready[live.id] = live
        upto = live.after
        if live.progress.held_since == ALL_RESOURCES:
            live.after = self._model.generation  # no older row is to be read
            live.note(ALL_RESOURCES, resync=_MISSED)
        self._check_instance(live)
        self._begin_replay(live, upto)
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
        if live.delivery is not None and was.sees_admin_only and not subscription.sees_admin_only:
            self._results.withdraw(live.delivery)
        is_moved = was.callback_url != subscription.callback_url
        live.earliest += subscription.min_notify_interval - was.min_notify_interval
        is_renewed = not was_active or is_moved or progress.failing_since is None
        if is_renewed or subscription.replay_since is not None:
            live.paused_until = -math.inf
        if is_renewed:
            self._outbox.set_progress(live, failures=0, failing_since=None)
        if live.delivery is not None and (is_moved or not was_active):
            live.delivery.due = self._clock.monotonic()
        if not was_active:
            return self._resume(live)
        self._roster.ready[live.id] = live
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

    def _check_instance(self, live: Live) -> None:
        """End a subscription whose instance was deleted before this planner knew it."""
        subscription = live.subscription
        kind, instance_id = subscription.instance_kind, subscription.instance_id
        if self._model.generation < live.after:
            self._roster.unchecked[live.id] = live
            return
        instance = self._model.get(kind, instance_id)
        if live.is_foreign(instance):
            live.note(live.after + 1, ending=FOREIGN)
            return
        if instance is not None:
            return
        tombstone = self._model.tombstone(kind, instance_id)
        seq = tombstone.seq if tombstone is not None else live.after + 1
        noted_at = live.noted_at
        live.note(seq, ending="the instance was deleted")
        if tombstone is not None and live.delivery is not None and live.delivery.delivery.sequence >= seq:
            live.is_ending_planned = True
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

    def check_reached(self) -> None:
        """Check the instances of subscriptions that the replica has reached now."""
        for live in [each for each in self._roster.unchecked.values() if each.after <= self._model.generation]:
            del self._roster.unchecked[live.id]
            if self._roster.is_active(live):
                self._check_instance(live)
                self._roster.ready[live.id] = live
