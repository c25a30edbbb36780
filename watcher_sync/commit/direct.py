# SPDX-License-Identifier: Apache-2.0
"""The commit cycle of a process without a replica, such as an API worker, inside one short transaction.

It shares dispatch, quarantine and bisecting with the engine's cycle. It reads the tables while the journal's head is
locked (:mod:`watcher_sync.storage.writing.locked`). Comparing the head at the commit, as engines do, would
starve: a busy engine moves the head fifty times a second. Reading the tables takes longer. The price is
that handlers run while the head is locked, so the size of a request's batch is limited.

When a method returns, everything is committed; if it raises, nothing is. The engine that leads applies the parked
events whose entity the change created: it finds the entity in the journal.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from watcher_sync.commit.authorisation import Authority
from watcher_sync.commit.batch import Batch, Dispatched, Pending
from watcher_sync.commit.batch_committer import BatchCommitter
from watcher_sync.commit.batch_dispatch import CommitLimits, CommitOptions
from watcher_sync.commit.stats import CommitStats
from watcher_sync.dispatch import Dispatcher
from watcher_sync.events import Actor, Event
from watcher_sync.model.changes import WRITTEN_HERE, Change, Outcome, Version
from watcher_sync.model.model import Staged, Written
from watcher_sync.model.transaction import Transaction
from watcher_sync.model.view import View
from watcher_sync.storage.database.database import retried
from watcher_sync.storage.table_model import TableModel
from watcher_sync.storage.writing.locked import LockedStore, lock_head
from watcher_sync.storage.writing.store import Store


class RecordingStats(CommitStats):
    """Records the outcome of each event of a batch in order."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Outcome] = []

    def count(self, events: Sequence[Event], outcomes: Sequence[Outcome]) -> None:
        """Record the outcomes of these events."""
        super().count(events, outcomes)
        self.events += outcomes


class DirectCommitCycle(BatchCommitter):
    """A commit cycle inside a transaction that locks the journal's head."""

    store: LockedStore
    model: TableModel
    stats: RecordingStats

    def __init__(
        self,
        store: LockedStore,
        model: TableModel,
        dispatcher: Dispatcher,
        options: CommitOptions,
        actor: Actor | None,
    ) -> None:
        self.staged: list[Staged] = []
        """What this transaction wrote so far, with what it was before."""
        self._actor = actor
        self.view: View = model
        """The tables, including what was written so far."""
        super().__init__(store, model, dispatcher, options)

    @property
    def generation(self) -> int:
        """The journal's seq, including what was written so far."""
        return self.model.generation

    def write(self, event: Event, changes: Iterable[Change]) -> Outcome:
        """Commit changes that no handler made.

        :param event: recorded as the cause.
        :raises InvalidEvent: a change violates the declaration of its kind.
        :raises RowRefused: the database refuses a value.
        """
        event = _by(self._actor, event)

        def dispatch(transaction: Transaction, _batch: Batch) -> Dispatched:
            return Dispatched(transaction, [transaction.apply(event, changes)], [], [])

        self._commit(Batch(events=[event]), dispatch)
        return self.stats.events[0]

    def write_all(self, writes: Sequence[tuple[Event, Callable[[View], Iterable[Change]]]]) -> list[Outcome]:
        """Commit several writes in one commit; each sees the changes of those before it.

        :param writes: (cause, function that makes the changes from the view).
        :returns: the outcome of each.
        :raises InvalidEvent, RowRefused: as :meth:`write`; nothing is written.
        """
        writes = [(_by(self._actor, event), make) for event, make in writes]
        events = [event for event, _ in writes]
        before = len(self.stats.events)

        def dispatch(transaction: Transaction, _batch: Batch) -> Dispatched:
            outcomes = [transaction.apply(event, make(transaction)) for event, make in writes]
            return Dispatched(transaction, outcomes, [], [])

        self._commit(Batch(events=events), dispatch)
        return self.stats.events[before : before + len(events)]

    def repair(
        self,
        event: Event,
        kind: str,
        entity_id: str,
        values: Mapping[str, Any] | None,
        versions: tuple[Version, ...],
    ) -> None:
        """Commit what an administrator wants; see :meth:`Transaction.repair`.

        :raises RowRefused: the database refuses a value.
        """

        def dispatch(transaction: Transaction, _batch: Batch) -> Dispatched:
            return Dispatched(transaction, [transaction.repair(event, kind, entity_id, values, versions)], [], [])

        self._commit(Batch(events=[event]), dispatch)

    def next_version(self) -> Version:
        """Newer than every version before: of events, and of earlier writes."""
        return Version(f"{WRITTEN_HERE}{self.generation + 1:020d}")

    def follow(self) -> None:
        """:raises RuntimeError: always. While the head is locked, no other writer can move it."""
        raise RuntimeError("the journal's head moved while it was locked")

    def read_parked(self) -> None:
        """Does nothing: an engine applies parked events."""

    def publish(self, pending: Pending, seconds: float | None) -> None:
        """Publish a commit, and record what it wrote."""
        super().publish(pending, seconds)
        self.staged += pending.commit.staged

    def _mark_appeared(self, written: Iterable[Written]) -> None:
        """Does nothing: an engine applies parked events."""


class DirectWriter:
    """Writes for an API worker. For any thread; writes to one database wait for each other."""

    def __init__(
        self,
        store: Store,
        dispatcher: Dispatcher,
        *,
        limits: CommitLimits = CommitLimits(),  # noqa: B008 - frozen
        authority: Authority | None = None,
    ) -> None:
        """:param limits: what ``[engine]`` limits.

        :param authority: decides which events may come; None: all events are the caller's own.
        """
        self._store = store
        self._dispatcher = dispatcher
        self._limits = limits
        self._authority = authority

    @contextlib.contextmanager
    def begin(self, actor: Actor | None = None) -> Iterator[DirectCommitCycle]:
        """The block is one transaction. Its end commits it; an exception rolls it back.

        :param actor: recorded as the writer of what :meth:`DirectCommitCycle.write` writes.
        :raises DatabaseUnavailable: the database is unavailable.
        """
        self._store.time.refresh()  # before the lock
        self._store.sites.refresh()
        with lock_head(self._store) as (store, model):
            options = CommitOptions(
                stats=RecordingStats(), authority=self._authority, limits=self._limits, now=self._store.time.now
            )
            yield DirectCommitCycle(store, model, self._dispatcher, options, actor)
            if model.last_seen:
                store.persist_last_seen(model.last_seen)

    @retried
    def run(
        self, events: Sequence[Event], *, released: Sequence[int] = (), actor: Actor | None = None
    ) -> tuple[list[Outcome], int]:
        """Commit events in order.

        :param released: the row of each, if they were quarantined.
        :param actor: recorded as the writer of their changes.
        :returns: the outcome of each, and the journal's seq afterwards.
        :raises DatabaseUnavailable: the database is unavailable; nothing is committed.
        """
        with self.begin() as cycle:
            cycle.run(Batch(events=[_by(actor, event) for event in events], released=released))
            return cycle.stats.events[: len(events)], cycle.generation


def _by(actor: Actor | None, event: Event) -> Event:
    return event if actor is None else msgspec.structs.replace(event, actor=actor)
