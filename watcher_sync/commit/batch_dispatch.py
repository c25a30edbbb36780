# SPDX-License-Identifier: Apache-2.0
"""Calls the handlers of one batch's events, and stages their changes in a transaction.

Each event ends with an outcome: it is applied, ignored, quarantined or parked. If a handler fails, only its own event
is quarantined, and :class:`FailureLog` logs why, at a limited rate. It runs in the thread that writes the model.

:class:`EventInHand` shows a watchdog in another thread which event is dispatched, and since when. The dispatch stores
two attributes per event, and notices when an event has taken longer than the limit. A handler that does not release the
interpreter also keeps the watchdog from running; the event is found afterwards.
"""

from __future__ import annotations

import collections
import datetime
import math
import re
import time
import traceback
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from oslo_log import log as logging

from watcher_sync.commit.authorisation import Authority, with_envelope
from watcher_sync.commit.batch import Batch, Dispatched
from watcher_sync.commit.doubts import Doubts
from watcher_sync.commit.evaluation import Evaluator, NoEvaluation
from watcher_sync.commit.spans import BatchTracer
from watcher_sync.commit.stats import CommitStats
from watcher_sync.commit.suspects import Suspects
from watcher_sync.dispatch import Dispatcher
from watcher_sync.events import NATIVE, Event
from watcher_sync.exceptions import (
    UNAUTHORISED,
    InvalidEvent,
    NotYet,
    UnauthorisedEvent,
    described,
    interrupts,
    text_of,
)
from watcher_sync.handlers import sortable
from watcher_sync.model.changes import Outcome
from watcher_sync.model.clock import ClockLimit, limit_at, reset_limit, set_limit
from watcher_sync.model.model import Key
from watcher_sync.model.transaction import Transaction
from watcher_sync.storage.stored.stored_events import Parked, RefusedEvent
from watcher_sync.storage.writing.commits import Fence

LOG = logging.getLogger(__name__)

_MAX_LATE: Final = 100
"""Events that wait for the watchdog; the oldest are dropped."""


class EventInHand:
    """One thread writes, any thread reads."""

    def __init__(self) -> None:
        self.event: Event | None = None
        """The event that is dispatched now."""
        self.since = math.inf
        """When its dispatch began, by the cycle's monotonic clock. Stored before ``event``."""
        self.limit = math.inf
        """Seconds after which an event is late; the watchdog sets them."""
        self.late: collections.deque[tuple[Event, float]] = collections.deque(maxlen=_MAX_LATE)
        """Events whose dispatch has ended late, and its seconds."""

    def end(self, now: float) -> None:
        """The dispatch of the event in hand is over."""
        event = self.event
        if event is not None and now - self.since > self.limit:
            self.late.append((event, now - self.since))
        self.event = None

    def current(self, clock: Callable[[], float]) -> tuple[Event, float] | None:
        """The event in hand and the seconds since its dispatch began, for another thread."""
        event, since = self.event, self.since
        if event is None or self.event is not event:
            return None
        return event, clock() - since


_LOG_INTERVAL_SECONDS = 60.0
_MAX_LINES: Final = 50
_MAX_LOGGED: Final = 300
"""Characters of a reason in a line."""
_VALUES: Final = re.compile(r"""['"].*['"]""", re.DOTALL)
"""What a reason quotes of an event. The policy says who sees it in the quarantine; a log has other readers."""


def _without_values(reason: str) -> str:
    """A reason as a line of the log has it. One that is unauthorised names the type or the source of its event."""
    return (reason if reason.startswith(UNAUTHORISED) else _VALUES.sub("'...'", reason))[:_MAX_LOGGED]


class FailureLog:
    """For one thread. Of events that are refused for their content, it logs at most ``_MAX_LINES`` in a minute."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._logged_at: dict[tuple[str, str], float] = {}
        """Of the handlers, and of the sources that may not bring an event: there are few."""
        self._reasons_at: dict[tuple[str, str], float] = {}

    def log_failure(self, handler: str, reason: str) -> None:
        """Log that a handler raised an exception that it should not."""
        if self._is_due(self._logged_at, ("handler", handler)):
            LOG.error("%s (the event is in quarantine, with the traceback)", _without_values(reason))

    def log_quarantined(self, quarantined: Iterable[RefusedEvent]) -> None:
        """Log these events: one of each source and reason, and one of each source that may not bring its event."""
        for kept in quarantined:
            if kept.reason.startswith(UNAUTHORISED):
                is_due = self._is_due(self._logged_at, ("source", kept.event.source))
            else:
                is_due = not kept.detail and self._is_due(
                    self._reasons_at, (kept.event.source, kept.reason), _MAX_LINES
                )
            if is_due:
                reason = _without_values(kept.reason)
                LOG.warning("source %s: %s (the event is in quarantine)", kept.event.source, reason)

    def _is_due(self, logged_at: dict[tuple[str, str], float], what: tuple[str, str], limit: int | None = None) -> bool:
        """Whether its last line is a minute old; then this counts as the next one.

        :param limit: the most lines of a minute; None: no limit.
        """
        now = self._monotonic()
        if limit is not None and len(logged_at) >= limit:
            for old in [key for key, at in logged_at.items() if now - at >= _LOG_INTERVAL_SECONDS]:
                del logged_at[old]
            if len(logged_at) >= limit:
                return False
        if now - logged_at.get(what, -_LOG_INTERVAL_SECONDS) < _LOG_INTERVAL_SECONDS:
            return False
        logged_at[what] = now
        return True


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
    max_deliveries: int = 3
    """Ends of the process after which an event that was alone in hand at each is quarantined."""


class CommitOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What one commit cycle works with beside its store, model and dispatcher."""

    stats: CommitStats = msgspec.field(default_factory=CommitStats)
    """Counts the events and the commits."""
    evaluation: Evaluator = NoEvaluation()
    """Adds changes that follow from a batch to its commit."""
    authority: Authority | None = None
    """Decides which source may bring which events; None: all events are the caller's own."""
    fence: Callable[[], Fence | None] = lambda: None
    """Returns the lease to write under; called at every commit."""
    limits: CommitLimits = CommitLimits()
    in_hand: EventInHand = msgspec.field(default_factory=EventInHand)
    """Gets the event that is dispatched, for a watchdog."""
    suspects: Suspects = msgspec.field(default_factory=lambda: Suspects(None, CommitLimits()))
    """Remembers the events in hand beyond the end of the process; by default they are not remembered."""
    doubts: Doubts | None = None
    """Gets the entities that a committed batch marked as doubtful; None: they are not collected."""
    tracer: BatchTracer | None = None
    """Gets each published batch; None: nothing is traced."""
    now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC)
    monotonic: Callable[[], float] = time.monotonic


class BatchDispatch:
    """The dispatch of one commit cycle."""

    def __init__(self, dispatcher: Dispatcher, options: CommitOptions, failures: FailureLog) -> None:
        self._dispatcher = dispatcher
        self._authority = options.authority
        self._limits = options.limits
        self._in_hand = options.in_hand
        self._suspects = options.suspects
        self._failures = failures
        self._now = options.now
        self._monotonic = options.monotonic

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
            self._suspects.end()

    def _run_within(self, limit: ClockLimit, transaction: Transaction, batch: Batch) -> Dispatched:
        work = Dispatched(transaction, [], [], [])
        refusal = self._authority.refusal if self._authority is not None and not batch.authorised else _no_refusal
        find, monotonic, hand = self._dispatcher.find, self._monotonic, self._in_hand
        latest, last, utc = limit.latest, limit.microseconds, datetime.UTC
        has_suspect = self._suspects.begin(batch.events)
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
            if has_suspect and (refused := self._suspects.take(event)) is not None:
                work.quarantined.append(RefusedEvent(event, refused))
                work.outcomes.append(Outcome.QUARANTINED)
                continue
            try:
                when, sequence = event.time, event.sequence
                if (when is not None and (when.tzinfo is not utc or when > latest)) or (
                    sequence is not None and sequence[0] > last and event.envelope != NATIVE
                ):
                    sortable.check_times(event, limit)
                outcome = transaction.apply(event, entry.call(event, transaction) or ())
            except InvalidEvent as exc:
                work.quarantined.append(RefusedEvent(event, text_of(exc)[:_MAX_REASON_LENGTH]))
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
                reason = f"the handler {entry.handler} failed: {described(exc)}"
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
