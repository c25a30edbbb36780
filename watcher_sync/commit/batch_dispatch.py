# SPDX-License-Identifier: Apache-2.0
"""Calls the handlers of one batch's events, and stages their changes in a transaction.

Each event ends with an outcome: it is applied, ignored, quarantined or parked. If a handler fails, only its own event
is quarantined. It runs in the thread that writes the model.
"""

from __future__ import annotations

import datetime
import traceback
from collections.abc import Callable

import msgspec

from watcher_sync.commit.authorisation import Authority, with_envelope
from watcher_sync.commit.batch import Batch, Dispatched
from watcher_sync.commit.failure_log import FailureLog
from watcher_sync.commit.in_hand import EventInHand
from watcher_sync.dispatch import Dispatcher
from watcher_sync.events import NATIVE, Event
from watcher_sync.exceptions import InvalidEvent, NotYet, UnauthorisedEvent, interrupts
from watcher_sync.handlers import sortable
from watcher_sync.model.changes import Outcome
from watcher_sync.model.clock import ClockLimit, limit_at, reset_limit, set_limit
from watcher_sync.model.staged import Key
from watcher_sync.model.transaction import Transaction
from watcher_sync.storage.stored.stored_events import Parked, RefusedEvent

_MAX_REASON_LENGTH = 2000
"""Characters of the reason in a quarantined event."""


class CommitLimits(msgspec.Struct, frozen=True):
    """What ``[engine]`` limits in a commit. The option group itself serves, too: a reload of its values then counts."""

    parked_ttl: float = 3600.0
    """Seconds that an event waits for its entity; read when one is parked."""
    max_clock_skew: float = 300.0
    """Seconds that the times of versions may be ahead of this system's clock; read once per batch."""
    liveness_interval: float = 60.0
    """Seconds between two writes of the times at which entities were last seen; read at each write."""
    event_watchdog: float = 10.0
    """Seconds after which an event in hand is reported; 0: never. Read for each decision."""


class BatchDispatch:
    """The dispatch of one commit cycle."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        *,
        authority: Authority | None,
        limits: CommitLimits,
        in_hand: EventInHand,
        failures: FailureLog,
        now: Callable[[], datetime.datetime],
        monotonic: Callable[[], float],
    ) -> None:
        """For the arguments see :class:`~watcher_sync.commit.batch_committer.BatchCommitter`."""
        self._dispatcher = dispatcher
        self._authority = authority
        self._limits = limits
        self._in_hand = in_hand
        self._failures = failures
        self._now = now
        self._monotonic = monotonic

    def run(self, transaction: Transaction, batch: Batch) -> Dispatched:
        """Stage the changes of a batch's events in a transaction. This writes nothing."""
        limit = limit_at(self._now(), self._limits.max_clock_skew)
        transaction.clock_limit = limit
        token = set_limit(limit)
        try:
            return self._run_within(limit, transaction, batch)
        finally:
            reset_limit(token)
            self._in_hand.end(self._monotonic())

    def _run_within(self, limit: ClockLimit, transaction: Transaction, batch: Batch) -> Dispatched:
        work = Dispatched(transaction, [], [], [])
        refusal = self._authority.refusal if self._authority is not None and not batch.authorised else _no_refusal
        find, monotonic, hand = self._dispatcher.find, self._monotonic, self._in_hand
        latest, last, utc = limit.latest, limit.microseconds, datetime.UTC
        for event in batch.events:
            now = monotonic()
            if now - hand.since > hand.limit:
                hand.end(now)
            hand.since = now
            hand.event = event
            if event.undecodable is not None:
                work.quarantined.append(RefusedEvent(event, event.undecodable))
                work.outcomes.append(Outcome.QUARANTINED)
                continue
            if (refused := refusal(event)) is not None:
                work.quarantined.append(RefusedEvent(with_envelope(event, refused), refused))
                work.unauthorised.append(event)
                work.outcomes.append(Outcome.QUARANTINED)
                continue
            entry = find(event.type, event.channel)
            if entry is None or entry.call is None:
                work.outcomes.append(Outcome.IGNORED)
                continue
            try:
                when, sequence = event.time, event.sequence
                if (when is not None and (when.tzinfo is not utc or when > latest)) or (
                    sequence is not None and sequence[0] > last and event.envelope != NATIVE
                ):
                    sortable.check_times(event, limit)
                outcome = transaction.apply(event, entry.call(event, transaction) or ())
            except InvalidEvent as exc:
                work.quarantined.append(RefusedEvent(event, str(exc)[:_MAX_REASON_LENGTH]))
                if isinstance(exc, UnauthorisedEvent):
                    work.unauthorised.append(event)
                outcome = Outcome.QUARANTINED
            except NotYet as exc:
                self._park(work, batch, event, (exc.kind, exc.entity_id))
                outcome = Outcome.PARKED
            except BaseException as exc:
                # A plugin's bug quarantines its own event only, even one that would end the thread.
                if interrupts(exc):
                    raise
                reason = f"the handler {entry.handler} failed: {type(exc).__name__}: {exc}"
                work.quarantined.append(RefusedEvent(event, reason[:_MAX_REASON_LENGTH], traceback.format_exc()))
                self._failures.log_failure(entry.handler, reason)
                outcome = Outcome.QUARANTINED
            work.outcomes.append(outcome)
        return work

    def _park(self, work: Dispatched, batch: Batch, event: Event, key: Key) -> None:
        """An event waits for this entity; one that was parked before keeps its row."""
        row = None
        if batch.unparked:
            number = len(work.outcomes)
            row = batch.unparked[number]
            work.kept.add(row)
            if batch.waited[number] == key:
                work.waiting.append(key)
                return
        expires = self._now() + datetime.timedelta(seconds=self._limits.parked_ttl)
        work.parked.append(Parked(event, *key, expires, row))


def _no_refusal(event: Event) -> str | None:
    """Every event may come."""
    return None
