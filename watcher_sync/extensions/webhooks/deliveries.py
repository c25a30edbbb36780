# SPDX-License-Identifier: Apache-2.0
"""A delivery until it has ended, its attempts, and what a worker has to write and to send.

A planned delivery may be sent only after the write that contains it. A repeated attempt has its id and its body.

Source of the schedule: the one that the Standard Webhooks specification recommends.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from watcher_sync.escaping import escaped
from watcher_sync.extensions.webhooks.rows import ALL_RESOURCES, DeliveryResult, NewDelivery, Progress, WorkerWrites

if TYPE_CHECKING:
    from watcher_sync.extensions.webhooks.subscription import Subscription

MAX_DETAIL_LENGTH: Final = 200
"""Characters of a detail."""

SCHEDULE_SECONDS: Final = (0, 5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400)
"""Seconds before each attempt, counted from the end of the one before."""

_JITTER: Final = 0.2
"""The share of a delay by which it may be shorter or longer."""

_GONE: Final = 410
_MAX_ATTEMPTS_STORED: Final = 20


class DeliverySettings(msgspec.Struct, frozen=True):
    """Options of ``[outlet_webhook]``. The option group itself serves, too: a reload of its values then counts."""

    max_body_bytes: int = 1_048_576
    suspend_after: float = 432_000.0
    suspend_after_failures: int = 0
    max_connections: int = 1000
    """At the same time, for all hosts."""
    connections_per_host: int = 10
    """At the same time, for one host and port."""
    total_timeout: float = 15.0
    """Seconds for a whole attempt, from the look-up of the name to the answer."""
    allowed_networks: Sequence[str] = ()
    """Networks that are permitted beside globally reachable addresses; read at each attempt and at each connect."""
    allow_http: bool = False
    """Whether URLs without TLS are permitted; read at each attempt."""
    delivery_log_days: int = 7
    """For how long ended deliveries are stored; read at each purge."""


class Clock(msgspec.Struct, frozen=True):
    """The sources of time, chance and ids."""

    now: Callable[[], datetime.datetime]
    """Aware UTC."""
    monotonic: Callable[[], float]
    random: Callable[[], float]
    new_id: Callable[[], str]
    """A new ``webhook-id``."""


class Attempt(msgspec.Struct, frozen=True):
    """One request and its result."""

    code: int
    """The status of the answer; 0 if there was none."""
    detail: str
    """A printable reason of at most 200 characters."""
    seconds: float
    """How long the attempt took."""
    retry_after: float | None = None
    """Seconds that the receiver asks to wait, from 0 to 24 hours; None if it does not ask."""
    ended: bool = True
    """Whether the answer was read to its end; False when it is long, slow or in too many parts."""
    not_sent: bool = False
    """Whether the request was held back, because the sender had lost the right to send it."""

    @property
    def ok(self) -> bool:
        """Whether the receiver accepted the request: a status of 200 to 299."""
        return 200 <= self.code <= 299

    @property
    def gone(self) -> bool:
        """Whether the receiver wants no more requests at all: the status 410."""
        return self.code == _GONE


class Outgoing(msgspec.Struct, eq=False):
    """A delivery until it has ended."""

    delivery: NewDelivery
    subscription: Subscription
    due: float
    """When the next attempt begins, by the monotonic clock."""
    attempts: list[dict[str, object]] = msgspec.field(default_factory=list)
    is_sending: bool = False
    """Whether it waits for its host, or is being sent."""

    @property
    def first_seq(self) -> int:
        """The first seq whose change the receiver lacks if it does not accept the delivery."""
        delivery = self.delivery
        return ALL_RESOURCES if delivery.purpose == "resync" else delivery.previous_sequence + 1

    @property
    def is_test(self) -> bool:
        """Whether it is a test message: sent once, beside the deliveries of changes."""
        return self.delivery.purpose == "test"

    def add_attempt(self, attempt: Attempt, now: datetime.datetime) -> None:
        """Remember an attempt that was made; only the last 20 are stored."""
        made = {"time": now, "code": attempt.code, "detail": attempt.detail, "seconds": round(attempt.seconds, 3)}
        self.attempts = [*self.attempts, made][-_MAX_ATTEMPTS_STORED:]

    def result(
        self, state: str, *, next_at: datetime.datetime | None = None, ended_at: datetime.datetime | None = None
    ) -> DeliveryResult:
        """What is to be written of it."""
        return DeliveryResult(
            webhook_id=self.delivery.webhook_id,
            subscription_id=self.delivery.subscription_id,
            state=state,
            attempts=list(self.attempts),
            next_attempt_at=next_at,
            ended_at=ended_at,
        )


class Outbox:
    """Rows to write and deliveries to send, until the owner takes them. For one thread."""

    def __init__(self) -> None:
        self.writes = WorkerWrites()
        self.planned: list[Outgoing] = []
        """Deliveries of the writes that were not taken yet."""
        self.due: dict[str, Outgoing] = {}
        """webhook-id -> a stored delivery that is to be sent now."""

    def take(self) -> tuple[WorkerWrites, list[Outgoing]]:
        """Return what is to be written, and the deliveries that may be sent once it is written."""
        writes, self.writes = self.writes, WorkerWrites()
        planned, self.planned = self.planned, []
        return writes, planned

    def restore(self, writes: WorkerWrites, planned: list[Outgoing]) -> None:
        """Take back what could not be written."""
        self.writes = writes.followed_by(self.writes)
        self.planned = planned + self.planned

    def take_due(self) -> list[Outgoing]:
        """Return the stored deliveries whose next attempt begins now."""
        due, self.due = list(self.due.values()), {}
        for outgoing in due:
            outgoing.is_sending = True
        return due

    def forget(self, subscription: Subscription) -> None:
        """Neither write the progress of a subscription nor send its deliveries."""
        self.writes.progress.pop(subscription.id, None)
        self.due = {i: each for i, each in self.due.items() if each.subscription is not subscription}
        self.planned = [each for each in self.planned if each.subscription is not subscription]


def bounded(detail: str) -> str:
    """The text as a detail: printable, in one line, at most 200 characters."""
    return escaped(detail)[:MAX_DETAIL_LENGTH]


def delay_after(attempts: int, retry_after: float | None, random: Callable[[], float]) -> float | None:
    """Seconds until the next attempt; None if the schedule is exhausted.

    :param attempts: how many attempts have failed.
    :param retry_after: seconds that the receiver asked for, or None. The delay is never shorter.
    :param random: gives numbers from 0 to 1.
    """
    if attempts >= len(SCHEDULE_SECONDS):
        return None
    scheduled = SCHEDULE_SECONDS[max(attempts, 0)] * (1 - _JITTER + 2 * _JITTER * random())
    return max(scheduled, retry_after or 0.0)


def wait_of(delivery: NewDelivery, now: datetime.datetime) -> float:
    """Seconds until the next attempt of a stored delivery. Another clock may have stored its times.

    One that was never attempted is due at once. Another one waits no longer than was decided after its last attempt.
    """
    next_at = delivery.next_attempt_at
    if next_at is None or not delivery.attempts:
        return 0.0
    last = msgspec.convert(delivery.attempts[-1]["time"], datetime.datetime)
    return max(0.0, min(next_at - now, next_at - last).total_seconds())


def suspension(progress: Progress, settings: DeliverySettings, now: datetime.datetime, attempt: Attempt) -> str:
    """Why a subscription is to be suspended after an attempt that failed; empty: it is not."""
    since, limit = progress.failing_since, settings.suspend_after_failures
    last = attempt.detail or f"status {attempt.code}"
    if since is not None and (now - since).total_seconds() >= settings.suspend_after:
        return f"every attempt since {since:%Y-%m-%d %H:%M:%S}Z failed; the last one: {last}"
    if limit and progress.failures >= limit:
        return f"{progress.failures} attempts in sequence failed; the last one: {last}"
    return ""
