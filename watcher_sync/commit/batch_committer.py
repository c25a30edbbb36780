# SPDX-License-Identifier: Apache-2.0
"""Dispatches, commits and publishes one batch of events.

When :meth:`BatchCommitter.run` returns, each event is committed as changes, quarantined or parked, or changes nothing.
The model is at that generation. If it raises, the caller runs the batch again: the ordering guard recognises what was
committed.

* If a handler fails, only its own event is quarantined.
* If another writer was first, the model follows the journal and the batch is dispatched again.
* If the database refuses a row, the batch is bisected until the event is found and quarantined.
* If an entity appears that parked events wait for, those events are dispatched in portions, each a commit of its own.

It runs in the thread that writes the model.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable
from typing import Protocol

from oslo_log import log as logging

from watcher_sync.commit.awaited import AwaitedEntities
from watcher_sync.commit.batch import Batch, Dispatch, Pending, commit_of, halves, refusing
from watcher_sync.commit.batch_dispatch import BatchDispatch, CommitOptions, FailureLog
from watcher_sync.dispatch import Dispatcher
from watcher_sync.exceptions import EntitiesLeased, HeadMoved, RowRefused
from watcher_sync.model.model import Written
from watcher_sync.model.transaction import Transaction
from watcher_sync.model.view import ModelReader
from watcher_sync.storage.stored.parking import PORTION_EVENTS, ParkedEvents
from watcher_sync.storage.stored.stored_events import bare
from watcher_sync.storage.writing.commits import Commit, CommitStore

LOG = logging.getLogger(__name__)


class CommittedModel(ModelReader, Protocol):
    """The committed state that a cycle moves forward."""

    def publish(self, transaction: Transaction, mark: int | None = None) -> None:
        """Move to the state after a transaction that the store committed; ``mark`` is that of the commit."""


class BatchCommitter(abc.ABC):
    """Applies batches to one model over one store."""

    def __init__(
        self,
        store: CommitStore,
        model: CommittedModel,
        dispatcher: Dispatcher,
        options: CommitOptions | None = None,
    ) -> None:
        """:param options: of this cycle only; None: the defaults."""
        options = options or CommitOptions()
        self.store: CommitStore = store
        self.model: CommittedModel = model
        self.dispatcher = dispatcher
        self.stats = options.stats
        self.evaluation = options.evaluation
        self._fence = options.fence
        self._doubts = options.doubts
        self._tracer = options.tracer
        self._suspects = options.suspects
        self._now = options.now
        self._monotonic = options.monotonic
        self._parked = ParkedEvents(store)
        self._awaited = AwaitedEntities(lambda key: self.model.get(*key) is not None)
        self._failures = FailureLog(options.monotonic)
        self._dispatch = BatchDispatch(dispatcher, options, self._failures).run
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
        awaited, room = self._awaited, PORTION_EVENTS
        while awaited.ready and room > 0:
            portion = self._parked.portion(awaited.ready)
            taken = awaited.take(portion)
            try:
                if portion.rows:
                    self._run(Batch(events=portion.events, unparked=portion.rows, waited=portion.keys, authorised=True))
            except BaseException:
                # The rows are still in the table. An event that still waits is counted already.
                awaited.give_back(taken)
                raise
            room -= max(1, len(portion.rows))

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
                    parts += halves(part)
                else:
                    self.store.head()
                    self._quarantine(part, f"the database refuses it: {exc}")

    def _quarantine(self, batch: Batch, reason: str) -> None:
        """Quarantine the one event of a batch, in a reduced form if the database refuses its row, too."""
        try:
            self._commit(batch, refusing(reason))
        except RowRefused as exc:
            self._commit(batch, refusing(f"{reason}; its own row is refused: {exc}", bare))

    def _commit(self, batch: Batch, dispatch: Dispatch) -> None:
        """Dispatch, commit and publish a batch; dispatch it again as often as another writer is first."""
        conflicts = 0
        while True:
            try:
                if self._try_commit(batch, dispatch, conflicts):
                    return
            except HeadMoved:
                conflicts += 1
                self.stats.conflicts += 1
                self.follow()

    def _try_commit(self, batch: Batch, dispatch: Dispatch, conflicts: int) -> bool:
        """Dispatch, commit and publish a batch. Return whether it is committed, or has to be dispatched again.

        :param conflicts: how often another writer was first.
        :raises HeadMoved: another writer was first again.
        """
        pending: Pending | None = None

        def make() -> Commit:
            nonlocal pending
            transaction = Transaction(self.model, now=self._now, sites=self.store.sites.sources)
            pending = self._pending(batch, transaction, dispatch)
            return pending.commit

        try:
            seconds = self._write(make, conflicts)
        except EntitiesLeased as exc:
            self.evaluation.held(exc.leases)
            return False
        except RowRefused as exc:
            if pending is None or not self.evaluation.refused(pending.evaluated, exc):
                raise
            return False
        assert pending is not None
        self.publish(pending, seconds)
        return True

    def _write(self, make: Callable[[], Commit], conflicts: int) -> float | None:
        """Make a commit and write it.

        :param conflicts: how often another writer was first.
        :returns: the seconds that the database took; None if there was nothing to write.
        :raises HeadMoved, EntitiesLeased, RowRefused, DatabaseUnavailable: nothing was written.
        """
        commit = make()
        if commit.is_empty():
            return None
        began = self._monotonic()
        self.store.commit(commit)
        return self._monotonic() - began

    def _pending(
        self,
        batch: Batch,
        transaction: Transaction,
        dispatch: Dispatch,
        on: Pending | None = None,
    ) -> Pending:
        began = self._monotonic()
        work = dispatch(transaction, batch)
        evaluated = self.evaluation.evaluate_into(transaction, on.evaluated if on is not None else None)
        epoch, mark = self._base() if on is None else (on.commit.epoch, on.commit.mark_after)
        commit = commit_of(batch, work, epoch=epoch, mark=mark, fence=self._fence())
        if written := evaluated.written():
            commit.unleased = {self.evaluation.kind: written}
        return Pending(batch, work, commit, evaluated, began)

    # What a pipeline needs (watcher_sync.commit.pipeline)

    def dispatch(self, batch: Batch, *, on: Pending | None = None) -> Pending:
        """Dispatch a batch. This writes nothing.

        :param on: a batch under way to the database. The result is valid only if that batch is committed and published
            and makes no parked event ready.
        """
        base = on.work.transaction if on is not None else None
        transaction = Transaction(self.model, on=base, now=self._now, sites=self.store.sites.sources)
        return self._pending(batch, transaction, self._dispatch, on)

    def _base(self) -> tuple[str | None, int | None]:
        """The epoch and the mark that a commit is based on; None: the journal's head is locked."""
        return None, None

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
        self.model.publish(work.transaction, pending.commit.mark_after)
        self.evaluation.published(pending.evaluated)
        if pending.batch.unparked:
            self.stats.count_unparked(pending.batch.events, work.outcomes)
        else:
            self.stats.count(pending.batch.events, work.outcomes)
            self.stats.observe_delays(pending.batch.events, self._now())
        if work.unauthorised:
            self.stats.unauthorised.update([event.source for event in work.unauthorised])
        if work.quarantined:
            self._failures.log_quarantined(work.quarantined)
        if self._suspects.ends:
            self._suspects.passed(pending.batch.events)
        self._awaited.add([(parked.kind, parked.entity_id) for parked in work.parked])
        self._awaited.add_tried(work.waiting)
        self._mark_appeared(work.transaction.written())
        if self._doubts is not None:
            for kind, entity_id in work.transaction.doubtful:
                self._doubts.add(kind, entity_id)
        if self._tracer is not None:
            self._tracer.committed(pending, seconds, self._monotonic() - pending.began)

    def observe(self, batch: Batch, began: float) -> None:
        """Measure a batch that is done.

        :param began: when its dispatch began, by the cycle's monotonic clock.
        """
        self.stats.batch_events.observe(len(batch.events))
        self.stats.batch_seconds.observe(self._monotonic() - began)

    @property
    def has_ready(self) -> bool:
        """Whether parked events are ready for :meth:`catch_up` or :meth:`run`."""
        return bool(self._awaited.ready)

    def _mark_appeared(self, written: Iterable[Written]) -> None:
        """Mark those of these entities that exist and have parked events as ready."""
        self._awaited.mark_appeared(written)
