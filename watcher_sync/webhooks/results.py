# SPDX-License-Identifier: Apache-2.0
"""What the result of an attempt does to its delivery and its subscription.

* Success ends the delivery. After the last delivery of a deleted instance, the subscription is gone.
* A failed delivery is repeated by the schedule. After the schedule's end it is dead, and the next delivery has all
  resources.
* Failures for too long suspend the subscription. The status 410 ends it.
* A test message is sent once. Its failure does not count.
* Rows that the database refuses suspend the subscription.

For one thread.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable

import msgspec
from oslo_log import log as logging

from watcher_sync.model.model import Model
from watcher_sync.webhooks.attempts import Attempt, bounded
from watcher_sync.webhooks.live import Live, Outgoing
from watcher_sync.webhooks.outbox import Outbox
from watcher_sync.webhooks.retries import delay_after
from watcher_sync.webhooks.rows import DeliveryResult, StateChange
from watcher_sync.webhooks.settings import Clock, DeliverySettings
from watcher_sync.webhooks.subscription_rows import DEAD, DELIVERED, GONE, PENDING, SUSPENDED, Progress

AUDIT = logging.getLogger("watcher_sync.audit")

AFTER_DEAD_SECONDS = 7200.0
"""Between the end of a delivery's schedule and the first attempt of the next delivery."""

_NOT_ACCEPTED = "an earlier delivery was not accepted"
_NOT_STORED = "an earlier delivery was not stored"

_MAX_ATTEMPTS_STORED = 20


class Results:
    """Records the results of attempts."""

    def __init__(
        self, model: Model, outbox: Outbox, settings: DeliverySettings, clock: Clock, unmatch: Callable[[Live], None]
    ) -> None:
        """:param unmatch: ends the matching of journal rows for a subscription."""
        self._model = model
        self._outbox = outbox
        self._settings = settings
        self._clock = clock
        self._unmatch = unmatch

    def record(self, outgoing: Outgoing, attempt: Attempt, *, is_former: bool = False) -> None:
        """Record the result of an attempt that was made.

        :param is_former: whether it was made at a callback that the subscriber has replaced since. Its failure says
            nothing about the present one.
        """
        live, now = outgoing.live, self._clock.now()
        made = {"time": now, "code": attempt.code, "detail": attempt.detail, "seconds": round(attempt.seconds, 3)}
        outgoing.attempts = [*outgoing.attempts, made][-_MAX_ATTEMPTS_STORED:]
        self._outbox.set_progress(live, last_notify_time=now, last_notify_status=attempt.code)
        if not outgoing.is_test:
            self._outbox.set_progress(live, next_attempt_at=None)
        if attempt.ok:
            self._succeeded(outgoing, now)
        elif is_former and not outgoing.is_test:
            self._repeat(outgoing, now, 0.0)
        elif attempt.gone and not is_former:
            self._end(outgoing, DEAD, now)
            if not outgoing.is_test:
                live.note(outgoing.first_seq, resync=_NOT_ACCEPTED)
            self._change_state(live, GONE, "the callback answered 410")
        elif outgoing.is_test:
            self._end(outgoing, DEAD, now)
        else:
            self._failed(outgoing, attempt, now)

    def refuse_test(self, outgoing: Outgoing, reason: str) -> None:
        """End a test message that cannot be sent."""
        now = self._clock.now()
        outgoing.attempts = [{"time": now, "code": 0, "detail": reason, "seconds": 0.0}]
        self._end(outgoing, DEAD, now)

    def withdraw(self, outgoing: Outgoing) -> None:
        """End a delivery that its subscriber may no longer see, as the API does with those that are stored.

        The API did not see it if it was not stored yet; then its changes are to be merged again.
        """
        live, since = outgoing.live, outgoing.delivery.previous_sequence
        live.delivery = None
        if live.subscription.replay_since is None or live.subscription.replay_since > since:
            self._outbox.writes.results.append(_result(outgoing, DEAD, None, self._clock.now()))
            live.subscription = msgspec.structs.replace(live.subscription, replay_since=since)

    def refuse(self, live: Live, outgoing: Outgoing | None, reason: str) -> None:
        """Suspend a subscription whose rows the database refuses; what they have is planned again after a PUT.

        :param outgoing: the delivery that could not be stored; None: the other rows were refused.
        """
        if outgoing is not None:
            delivery = outgoing.delivery
            if live.delivery is outgoing:
                live.delivery = None
            live.note(outgoing.first_seq, resync=_NOT_STORED)
            live.is_ending_planned = False
            self._outbox.set_progress(live, sequence=delivery.previous_sequence)
        if live.is_active:
            self._change_state(live, SUSPENDED, bounded(f"the database refuses its delivery: {reason}"))

    def hold(self, live: Live) -> None:
        """A subscription is not active any more: mark the first change that it has not received."""
        self._unmatch(live)
        first = live.first_seq()
        if first is None:
            first = max(self._model.generation, live.after) + 1
        live.take()
        self._outbox.set_progress(live, held_since=first, next_attempt_at=None)

    def _succeeded(self, outgoing: Outgoing, now: datetime.datetime) -> None:
        live = outgoing.live
        self._end(outgoing, DELIVERED, now)
        if outgoing.is_test:
            return
        self._outbox.set_progress(live, failures=0, failing_since=None)
        self._end_with_instance(live)

    def _failed(self, outgoing: Outgoing, attempt: Attempt, now: datetime.datetime) -> None:
        live = outgoing.live
        progress = live.progress
        self._outbox.set_progress(live, failures=progress.failures + 1, failing_since=progress.failing_since or now)
        # A PUT resets the failures of the subscription, and with them the schedule of the delivery under way.
        failed = min(len(outgoing.attempts), live.progress.failures)
        delay = delay_after(failed, attempt.retry_after, self._clock.random)
        if delay is None:
            self._end(outgoing, DEAD, now)
            first = outgoing.first_seq
            live.note(first, resync=_NOT_ACCEPTED)
            live.is_held = True
            self._outbox.set_progress(live, held_since=first)
            live.paused_until = self._clock.monotonic() + AFTER_DEAD_SECONDS
            self._end_with_instance(live)
        else:
            self._repeat(outgoing, now, delay)
        reason = self._suspension(live.progress, now, attempt)
        if reason and live.is_active:
            self._change_state(live, SUSPENDED, reason)

    def _repeat(self, outgoing: Outgoing, now: datetime.datetime, delay: float) -> None:
        """Have a delivery sent again after so many seconds."""
        outgoing.due = self._clock.monotonic() + delay
        due_at = now + datetime.timedelta(seconds=delay)
        self._outbox.set_progress(outgoing.live, next_attempt_at=due_at)
        self._outbox.writes.results.append(_result(outgoing, PENDING, due_at, None))

    def _end_with_instance(self, live: Live) -> None:
        """End the subscription if the delivery that ended was the last one of a deleted instance."""
        if live.ending and live.is_ending_planned:
            self._change_state(live, GONE, live.ending)

    def _suspension(self, progress: Progress, now: datetime.datetime, attempt: Attempt) -> str:
        """Why a subscription is to be suspended; empty: it is not."""
        settings, since = self._settings, progress.failing_since
        limit = settings.suspend_after_failures
        last = attempt.detail or f"status {attempt.code}"
        if since is not None and (now - since).total_seconds() >= settings.suspend_after:
            return f"every attempt since {since:%Y-%m-%d %H:%M:%S}Z failed; the last one: {last}"
        if limit and progress.failures >= limit:
            return f"{progress.failures} attempts in sequence failed; the last one: {last}"
        return ""

    def _end(self, outgoing: Outgoing, state: str, now: datetime.datetime) -> None:
        live = outgoing.live
        if live.delivery is outgoing:
            live.delivery = None
            self._outbox.set_progress(live, behind_since=live.since)
        self._outbox.writes.results.append(_result(outgoing, state, None, now))

    def _change_state(self, live: Live, state: str, reason: str) -> None:
        subscription, was_active = live.subscription, live.is_active
        self._outbox.writes.states.append(
            StateChange(
                subscription_id=live.id,
                instance_kind=subscription.instance_kind,
                instance_id=subscription.instance_id,
                revision=subscription.revision,
                state=state,
                reason=reason,
            )
        )
        live.subscription = msgspec.structs.replace(subscription, state=state, reason=reason)
        if was_active:
            self.hold(live)
        AUDIT.info(
            "subscription %s (%s of %s) is %s: %s", live.id, subscription.name, subscription.instance_id, state, reason
        )


def _result(
    outgoing: Outgoing, state: str, next_attempt_at: datetime.datetime | None, ended_at: datetime.datetime | None
) -> DeliveryResult:
    return DeliveryResult(
        webhook_id=outgoing.delivery.webhook_id,
        subscription_id=outgoing.delivery.subscription_id,
        state=state,
        attempts=list(outgoing.attempts),
        next_attempt_at=next_attempt_at,
        ended_at=ended_at,
    )
