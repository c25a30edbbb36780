# SPDX-License-Identifier: Apache-2.0
"""Commits batches one after the other, and dispatches each while the database writes the one before it.

While batch N is written, batch N+1 is dispatched against N's uncommitted result, which no reader of the model sees.
Each batch passes three steps:

#. *prepare*: dispatch the batch and make its SQL statements;
#. *submit*: hand the statements to the database, after batch N-1 was committed and published;
#. *wait*: wait for the commit, then publish it to the model.

Guaranteed: batches are committed, published and settled in their order. If N fails (another writer was first, a row is
refused, the database is unavailable) or makes parked events ready, N+1 is discarded. Both batches are then dispatched
again without overlap.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

import msgspec

from watcher_sync.commit.batch import Batch, Pending
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.exceptions import EntitiesLeased, HeadMoved, StorageError
from watcher_sync.storage.writing.commits import Prepared

T = TypeVar("T")


class _Step(msgspec.Struct, Generic[T], eq=False):
    """One batch between its dispatch and its commit."""

    owner: T
    pending: Pending
    prepared: Prepared | None
    """The SQL statements; None if the batch writes nothing."""
    future: Future[float] | None = None
    """The running commit; its result is its seconds. None before submit, and if there is nothing to write."""


class Pipeline(Generic[T]):
    """At most one batch under way to the database, and one dispatched on top of it.

    It belongs to the thread of its cycle. The owner of a batch is any object that the caller wants back.
    """

    def __init__(
        self, cycle: CommitCycle, *, again: Callable[[Batch | None], bool], settle: Callable[[T, bool], None]
    ) -> None:
        """:param again: catches up with the journal and commits the batch, if one is given, without overlap; it
        returns whether the batch is committed.

        :param settle: called with the owner of each batch, in their order, and whether the batch is committed.
        """
        self._cycle = cycle
        self._again = again
        self._settle = settle
        self._under_way: _Step[T] | None = None

    def add(self, owner: T, batch: Batch) -> None:
        """Dispatch a batch, wait for the one before it, and hand this one to the database.

        An exception of ``again`` is passed on.
        """
        before = self._under_way
        try:
            step = self._prepare(owner, batch, before)
        except StorageError:
            step = None
        self._under_way = None
        if before is not None:
            if not self._finish(before):
                step = None
            elif step is None:
                self._settle(before.owner, True)
        if step is None:
            self._settle(owner, self._again(batch))
            return
        self._submit(step)
        if before is not None:
            # After the submit: the database works at this batch while the one before it is acknowledged.
            self._settle(before.owner, True)

    def end(self) -> None:
        """Wait for the batch under way and settle it. An exception of ``again`` is passed on."""
        before, self._under_way = self._under_way, None
        if before is not None:
            if self._finish(before):
                self._settle(before.owner, True)
            elif self._cycle.has_ready:
                self._again(None)

    def _prepare(self, owner: T, batch: Batch, before: _Step[T] | None) -> _Step[T]:
        """Dispatch a batch and make its statements. This writes nothing.

        :param before: the step under way, which the batch is dispatched on.
        :raises RowRefused: a value can never be written.
        """
        pending = self._cycle.dispatch(batch, on=before.pending if before is not None else None)
        prepared = None if pending.commit.is_empty() else self._cycle.store.prepare(pending.commit)
        return _Step(owner, pending, prepared)

    def _submit(self, step: _Step[T]) -> None:
        """Hand a step to the database. The step that it was dispatched on is published."""
        step.pending.work.transaction.published()
        if step.prepared is not None:
            step.future = self._cycle.store.begin(step.prepared)
        self._under_way = step

    def _wait(self, step: _Step[T]) -> None:
        """Wait until the step is committed, and publish it.

        :raises HeadMoved: another writer was first; nothing was written.
        :raises StorageError: as :meth:`~watcher_sync.storage.writing.store.Store.commit` does.
        """
        try:
            seconds = step.future.result() if step.future is not None else None
        except HeadMoved:
            self._cycle.stats.conflicts += 1
            raise
        except EntitiesLeased as exc:
            self._cycle.evaluation.held(exc.leases)
            raise
        self._cycle.publish(step.pending, seconds)
        self._cycle.observe(step.pending.batch, step.pending.began)

    def _finish(self, step: _Step[T]) -> bool:
        """Wait for a step. Return whether a batch that was dispatched on it is valid; if not, settle the step."""
        try:
            self._wait(step)
        except StorageError:
            self._settle(step.owner, self._again(step.pending.batch))
            return False
        if self._cycle.has_ready:
            self._settle(step.owner, True)
            return False
        return True
