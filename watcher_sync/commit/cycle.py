# SPDX-License-Identifier: Apache-2.0
"""Dispatches, commits and publishes one batch of events.

When :meth:`BatchCommitter.run` returns, each event is committed as changes, quarantined or parked, or changes nothing.
The model is at that generation. If it raises, the caller runs the batch again: the ordering guard recognises what was
committed.

* If a handler fails, only its own event is quarantined.
* If another writer was first, the replica reads its journal rows and the batch is dispatched again.
* If the database refuses a row, the batch is bisected until the event is found and quarantined.
* If an entity appears that parked events wait for, those events are dispatched in portions, each a commit of its own.

It runs in the thread that writes the model.
"""

from __future__ import annotations

import abc
import collections
import datetime
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import msgspec
from oslo_log import log as logging

from watcher_sync.commit.authorisation import Authority, with_envelope
from watcher_sync.commit.evaluation import Evaluated, Evaluator, NoEvaluation
from watcher_sync.commit.failure_log import FailureLog
from watcher_sync.commit.in_hand import EventInHand
from watcher_sync.commit.stats import CommitStats
from watcher_sync.dispatch import Dispatcher
from watcher_sync.events import Event
from watcher_sync.exceptions import (
    EntitiesLeased,
    HeadMoved,
    InvalidEvent,
    JournalPurged,
    NotYet,
    RowRefused,
    UnauthorisedEvent,
)
from watcher_sync.handlers import sortable
from watcher_sync.model.changes import Outcome
from watcher_sync.model.clock import ClockLimit, limit_at, reset_limit, set_limit
from watcher_sync.model.kinds import Entity
from watcher_sync.model.model import Model, Written
from watcher_sync.model.reader import ModelReader
from watcher_sync.model.transaction import Key, Transaction
from watcher_sync.storage.commit_store import CommitStore
from watcher_sync.storage.commits import Commit, Fence
from watcher_sync.storage.parking import PORTION_EVENTS, Awaited, ParkedEvents
from watcher_sync.storage.store import Store
from watcher_sync.storage.stored_events import Parked, Quarantined

LOG = logging.getLogger(__name__)


_MAX_REASON_LENGTH = 2000
"""Characters of the reason in a quarantined event."""


MAX_CLOCK_SKEW_SECONDS = 300.0
"""Seconds that the times of versions may be ahead of this system's clock, if nothing else is configured."""


class Batch(msgspec.Struct, kw_only=True):
    """Events that are committed together, with the positions and rows that go with them."""

    events: Sequence[Event]
    cursors: Mapping[str, str] = {}
    """source -> its position after these events."""
    unparked: Sequence[int] = ()
    """The row of each of these events, if they were parked; else empty."""
    waited: Sequence[Key] = ()
    """The entity that each of them waited for, if they were parked."""
    released: Sequence[int] = ()
    """Rows of the quarantined events among them."""
    authorised: bool = False
    """Whether their sources were found to be allowed to bring them before, as with parked events."""


class Dispatched(msgspec.Struct):
    """The result of the dispatch of a batch, before its commit."""

    transaction: Transaction
    outcomes: list[Outcome]
    quarantined: list[Quarantined]
    parked: list[Parked]
    kept: set[int] = set()
    """Rows of the parked events that still wait."""
    waiting: list[Key] = []
    """The entities that events still wait for; nothing of their rows changes."""
    unauthorised: list[Event] = []
    """Those that their source may not bring; they are among the quarantined ones."""


Dispatch = Callable[[Transaction, Batch], Dispatched]


class Pending(msgspec.Struct, eq=False):
    """A batch that is dispatched and not committed."""

    batch: Batch
    work: Dispatched
    commit: Commit
    evaluated: Evaluated
    began: float
    """When its dispatch began, by the cycle's monotonic clock."""


class CommittedModel(ModelReader, Protocol):
    """The committed state that a cycle moves forward."""

    def publish(self, transaction: Transaction) -> None:
        """Move to the state after a transaction that the store committed."""


class BatchCommitter(abc.ABC):
    """Applies batches to one model over one store."""

    def __init__(
        self,
        store: CommitStore,
        model: CommittedModel,
        dispatcher: Dispatcher,
        *,
        stats: CommitStats | None = None,
        evaluation: Evaluator | None = None,
        authority: Authority | None = None,
        fence: Callable[[], Fence | None] = lambda: None,
        parked_ttl: Callable[[], float] = lambda: 3600.0,
        max_clock_skew: Callable[[], float] = lambda: MAX_CLOCK_SKEW_SECONDS,
        in_hand: EventInHand | None = None,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """:param evaluation: adds changes that follow from a batch to its commit; None: nothing is added.

        :param authority: decides which source may bring which events; None: all events are the caller's own.

        :param fence: returns the lease to write under; called at every commit.

        :param parked_ttl: returns the seconds that an event waits for its entity; called when one is parked.
        :param max_clock_skew: returns the seconds that the times of versions may be ahead of ``now``; called once
            per batch.
        :param in_hand: gets the event that is dispatched, for a watchdog.
        """
        self.store: CommitStore = store
        self.model: CommittedModel = model
        self.dispatcher = dispatcher
        self.stats = stats or CommitStats()
        self.evaluation: Evaluator = evaluation or NoEvaluation()
        self._authority = authority
        self._fence = fence
        self._parked_ttl = parked_ttl
        self._max_clock_skew = max_clock_skew
        self._in_hand = in_hand or EventInHand()
        self._now = now
        self._monotonic = monotonic
        self._parked = ParkedEvents(store)
        self._awaited: Awaited = collections.Counter()
        self._tried: set[Key] = set()
        """Entities of the latest count whose events wait although the entity may exist."""
        self._lately: tuple[set[Key], set[Key]] = (set(), set())
        """Entities that this cycle parked events for, since the latest count and in the time before it."""
        self._ready: dict[Key, int] = {}
        """Entity -> the row after which its events are to be tried."""
        self._failures = FailureLog(monotonic)
        self.read_parked()

    def run(self, batch: Batch) -> None:
        """Commit a batch, and a portion of the parked events that are ready.

        :raises DatabaseUnavailable: the database is unavailable; call :meth:`catch_up` and run the batch again.
        :raises LeaseLost: this process no longer leads.
        """
        began = self._monotonic()
        self._run(batch)
        self._unpark_ready()
        while self.evaluation.wants_own_commit():
            self._run(Batch(events=()))
        if batch.events:
            self.observe(batch, began)

    def catch_up(self) -> None:
        """Move the model to the head of the journal, and commit a portion of the parked events that are ready.

        :raises DatabaseUnavailable: the database is unavailable.
        :raises LeaseLost: this process no longer leads.
        """
        self.follow()
        self._unpark_ready()

    @abc.abstractmethod
    def follow(self) -> None:
        """Move the model to the head of the journal and write nothing."""

    @abc.abstractmethod
    def read_parked(self) -> None:
        """Read which events are parked now."""

    def _unpark_ready(self) -> None:
        """Commit a portion of the parked events whose entity exists, and those that they make ready in turn.

        :attr:`has_ready` says whether more of them wait for the next call.
        """
        room = PORTION_EVENTS
        while self._ready and room > 0:
            portion = self._parked.portion(self._ready)
            before = {key: self._ready[key] for key in (*portion.complete, *portion.last)}
            done = {key: self._awaited.pop(key, 0) for key in portion.complete}
            for key in done:
                del self._ready[key]
                self._forget(key)
            self._ready.update(portion.last)
            try:
                if portion.rows:
                    self._run(Batch(events=portion.events, unparked=portion.rows, waited=portion.keys, authorised=True))
            except BaseException:
                # The rows are still in the table. An event that still waits is counted already.
                self._awaited.update(done)
                self._ready.update(before)
                raise
            room -= max(1, len(portion.rows))

    def _forget(self, key: Key) -> None:
        """No event waits for this entity, as far as this cycle knows."""
        self._tried.discard(key)
        for keys in self._lately:
            keys.discard(key)

    def _run(self, batch: Batch) -> None:
        """Commit the batch, and bisect it if the database refuses a row."""
        parts = [batch]
        while parts:
            part = parts.pop()
            try:
                self._commit(part, self._dispatch)
            except RowRefused as exc:
                self.stats.refused += 1
                if len(part.events) > 1:
                    parts += _halves(part)
                else:
                    self.store.ping()
                    self._commit(part, _refusing(f"the database refuses it: {exc}"))

    def _commit(self, batch: Batch, dispatch: Dispatch) -> None:
        """Dispatch, commit and publish a batch; dispatch it again as often as another writer is first."""
        while True:
            pending = self._pending(batch, Transaction(self.model, now=self._now), dispatch)
            seconds = None
            if not pending.commit.is_empty():
                began = self._monotonic()
                try:
                    self.store.commit(pending.commit)
                except HeadMoved:
                    self.stats.conflicts += 1
                    self.follow()
                    continue
                except EntitiesLeased as exc:
                    self.evaluation.held(exc.leases)
                    continue
                except RowRefused as exc:
                    if self.evaluation.refused(pending.evaluated, exc):
                        continue
                    raise
                seconds = self._monotonic() - began
            self.publish(pending, seconds)
            return

    def _pending(
        self,
        batch: Batch,
        transaction: Transaction,
        dispatch: Dispatch,
        below: Evaluated | None = None,
    ) -> Pending:
        began = self._monotonic()
        work = dispatch(transaction, batch)
        evaluated = self.evaluation.evaluate_into(transaction, below)
        written = evaluated.written()
        unparked = [row for row in batch.unparked if row not in work.kept] if work.kept else batch.unparked
        commit = Commit(
            generation=transaction.base_generation,
            staged=transaction.staged(),
            cursors=batch.cursors,
            quarantined=work.quarantined,
            parked=work.parked,
            unparked=unparked,
            released=batch.released,
            fence=self._fence(),
            unleased={self.evaluation.kind: written} if written else {},
        )
        return Pending(batch, work, commit, evaluated, began)

    # What a pipeline needs (watcher_sync.commit.pipeline)

    def dispatch(self, batch: Batch, *, on: Pending | None = None) -> Pending:
        """Dispatch a batch. This writes nothing.

        :param on: a batch under way to the database. The result is valid only if that batch is committed and published
            and makes no parked event ready.
        """
        transaction = Transaction(self.model, on=on.work.transaction if on is not None else None, now=self._now)
        return self._pending(batch, transaction, self._dispatch, on.evaluated if on is not None else None)

    def publish(self, pending: Pending, seconds: float | None) -> None:
        """Move the model to the generation of a committed batch, and count its events.

        :param seconds: duration of the database transaction; None if there was nothing to write.
        """
        work = pending.work
        if seconds is not None:
            self.stats.commit_seconds.observe(seconds)
            self.stats.commits += 1
            self.stats.changes += len(pending.commit.staged)
            LOG.debug("Committed %d events as %d changes", len(pending.batch.events), len(pending.commit.staged))
        self.model.publish(work.transaction)
        self.evaluation.published(pending.evaluated)
        self.stats.count(pending.batch.events, work.outcomes)
        if work.unauthorised:
            self.stats.unauthorised.update([event.source for event in work.unauthorised])
            self._failures.log_unauthorised(work.quarantined)
        self._await([(parked.kind, parked.entity_id) for parked in work.parked])
        self._await(work.waiting)
        self._tried.update(work.waiting)
        self._mark_appeared(work.transaction.written())

    def _await(self, keys: Sequence[Key]) -> None:
        """Events of this cycle wait for these entities."""
        if keys:
            self._awaited.update(keys)
            self._lately[0].update(keys)

    def observe(self, batch: Batch, began: float) -> None:
        """Measure a batch that is done.

        :param began: when its dispatch began, by the cycle's monotonic clock.
        """
        self.stats.batch_events.observe(len(batch.events))
        self.stats.batch_seconds.observe(self._monotonic() - began)

    @property
    def has_ready(self) -> bool:
        """Whether parked events are ready for :meth:`catch_up` or :meth:`run`."""
        return bool(self._ready)

    def _mark_appeared(self, written: Iterable[Written]) -> None:
        """Mark those of these entities that exist and have parked events as ready."""
        if self._awaited:
            for item in written:
                if item.entity is not None and (item.kind, item.id) in self._awaited:
                    self._ready[item.kind, item.id] = 0

    def _dispatch(self, transaction: Transaction, batch: Batch) -> Dispatched:
        limit = limit_at(self._now(), self._max_clock_skew())
        transaction.clock_limit = limit
        token = set_limit(limit)
        try:
            return self._dispatch_within(limit, transaction, batch)
        finally:
            reset_limit(token)
            self._in_hand.end(self._monotonic())

    def _dispatch_within(self, limit: ClockLimit, transaction: Transaction, batch: Batch) -> Dispatched:
        work = Dispatched(transaction, [], [], [])
        refusal = self._authority.refusal if self._authority is not None and not batch.authorised else _no_refusal
        find, monotonic, hand = self.dispatcher.find, self._monotonic, self._in_hand
        latest, last, utc = limit.latest, limit.microseconds, datetime.UTC
        for event in batch.events:
            now = monotonic()
            if now - hand.since > hand.limit:
                hand.end(now)
            hand.since = now
            hand.event = event
            if event.undecodable is not None:
                work.quarantined.append(Quarantined(event, event.undecodable))
                work.outcomes.append(Outcome.QUARANTINED)
                continue
            if (refused := refusal(event)) is not None:
                work.quarantined.append(Quarantined(with_envelope(event, refused), refused))
                work.unauthorised.append(event)
                work.outcomes.append(Outcome.QUARANTINED)
                continue
            entry = find(event.type)
            if entry is None or entry.call is None:
                work.outcomes.append(Outcome.IGNORED)
                continue
            try:
                when, sequence = event.time, event.sequence
                if (when is not None and (when.tzinfo is not utc or when > latest)) or (
                    sequence is not None and sequence[0] > last
                ):
                    _check_times(event, limit)
                outcome = transaction.apply(event, entry.call(event, transaction) or ())
            except InvalidEvent as exc:
                work.quarantined.append(Quarantined(event, str(exc)[:_MAX_REASON_LENGTH]))
                if isinstance(exc, UnauthorisedEvent):
                    work.unauthorised.append(event)
                outcome = Outcome.QUARANTINED
            except NotYet as exc:
                self._park(work, batch, event, (exc.kind, exc.entity_id))
                outcome = Outcome.PARKED
            except Exception as exc:  # noqa: BLE001 - a plugin's bug quarantines its own event only
                reason = f"the handler {entry.handler} failed: {type(exc).__name__}: {exc}"
                work.quarantined.append(Quarantined(event, reason[:_MAX_REASON_LENGTH], traceback.format_exc()))
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
        expires = self._now() + datetime.timedelta(seconds=self._parked_ttl())
        work.parked.append(Parked(event, *key, expires, row))


class CommitCycle(BatchCommitter):
    """The commit cycle over a replica: what an engine runs, and a process that replays events."""

    store: Store
    model: Model
    _counted: Awaited | None = None
    """What parked events wait for, by the latest count; None once it is merged."""

    def follow(self) -> None:
        """Move the replica to the head of the journal and write nothing. A standby does only this.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        before: dict[Key, Entity | None] = {}
        try:
            written = self.store.catch_up(self.model, before=before)
            self._mark_appeared(written)
            self._mark_created([w for w in written if w.entity is not None and before.get((w.kind, w.id)) is None])
        except JournalPurged:
            LOG.info("The journal no longer reaches back to seq %d; loading the tables", self.model.generation)
            self.model.replace_with(self.store.load())
            self.evaluation.reset()
            self._mark_all_appeared()
        finally:
            if before:
                self.evaluation.followed(before, self.model)

    def read_parked(self) -> None:
        """Read which events are parked now; another engine may have parked some.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        self._awaited = self._parked.awaited()
        self._tried, self._lately = set(self._awaited), (set(), set())
        self._mark_all_appeared()

    def add_awaited(self, awaited: Awaited) -> None:
        """Learn what parked events wait for, including those of other writers. Any thread may call it."""
        self._counted = awaited

    def catch_up(self) -> None:
        """As the base class does, with what :meth:`add_awaited` was called with."""
        counted, self._counted = self._counted, None
        if counted is not None:
            self._replace_awaited(counted)
        super().catch_up()

    def _replace_awaited(self, counted: Awaited) -> None:
        """Take over a count, and what this cycle parked since it began.

        It began after the one before it was handed over, maybe before that one was taken over. So what was parked since
        the one before the latest stays. Events of an existing entity are tried once: later writes of it are noticed.
        """
        found = (key for key in counted if key not in self._tried)
        self._ready.update((key, 0) for key in found if self.model.get(*key) is not None)
        since, earlier = self._lately
        self._awaited = collections.Counter(counted)
        for key in since | earlier:
            self._awaited[key] = max(1, counted[key])
        self._tried, self._lately = set(counted), (set(), since)

    def _mark_created(self, written: Sequence[Written]) -> None:
        """Mark those of these new entities as ready that events of another writer wait for."""
        keys = [(item.kind, item.id) for item in written if (item.kind, item.id) not in self._awaited]
        if keys:
            self._ready.update(dict.fromkeys(self._parked.existing(keys), 0))

    def _mark_all_appeared(self) -> None:
        self._ready.update((key, 0) for key in self._awaited if self.model.get(*key) is not None)


def _halves(batch: Batch) -> list[Batch]:
    """A batch in two parts, the last one first.

    Cursors and rows of quarantined events go with the last part: before it, the batch is not done.
    """
    middle = len(batch.events) // 2
    first = Batch(
        events=batch.events[:middle],
        unparked=batch.unparked[:middle],
        waited=batch.waited[:middle],
        authorised=batch.authorised,
    )
    last = msgspec.structs.replace(
        batch, events=batch.events[middle:], unparked=batch.unparked[middle:], waited=batch.waited[middle:]
    )
    return [last, first]


def _no_refusal(event: Event) -> str | None:
    """Every event may come."""
    return None


def _check_times(event: Event, limit: ClockLimit) -> None:
    """Check the times of an event that may become part of a version. The handler checks those of the payload.

    :raises InvalidEvent: one of them is after the limit.
    """
    time = event.time
    if time is not None and (time if time.tzinfo is datetime.UTC else sortable.utc(time, "time")) > limit.latest:
        limit.refuse("time", time)
    if event.sequence is not None and event.sequence[0] > limit.microseconds:
        limit.refuse("sequence (the creation time of the stream)", event.sequence[0])


def _refusing(reason: str) -> Dispatch:
    """A dispatch that quarantines every event."""

    def dispatch(transaction: Transaction, batch: Batch) -> Dispatched:
        kept = [Quarantined(event, reason) for event in batch.events]
        return Dispatched(transaction, [Outcome.QUARANTINED] * len(kept), kept, [])

    return dispatch
