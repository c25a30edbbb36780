# SPDX-License-Identifier: Apache-2.0
"""Batches one after the other, each dispatched while the database works at the one before it.

The order is that of the commit cycle: a batch is committed, then published, then settled, and only then is the next
one handed to the database. What is dispatched meanwhile lies on what is under way, and nobody else sees it. If that
does not land as it was meant to (another writer was first, a row is refused, the database is away), or if it sets
parked events free, then what lies on it is thrown away and dispatched again, by the plain way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from watcher_sync.commit.cycle import Batch, CommitCycle, Step
from watcher_sync.exceptions import StorageError

T = TypeVar("T")


class _UnderWay(msgspec.Struct, Generic[T], frozen=True):
    owner: T
    step: Step


class Pipeline(Generic[T]):
    """At most one batch under way, and one that is dispatched on top of it. For the cycle's thread."""

    def __init__(
        self, cycle: CommitCycle, *, again: Callable[[Batch | None], bool], settle: Callable[[T, bool], None]
    ) -> None:
        """:param again: catches up with the journal and commits a batch, if there is one, by the plain way; whether
        it did.

        :param settle: told of the owner of each batch, in their order, and whether the batch is committed.
        """
        self._cycle = cycle
        self._again = again
        self._settle = settle
        self._under_way: _UnderWay[T] | None = None

    def add(self, owner: T, batch: Batch) -> None:
        """Dispatch a batch, and when the one before it has landed, hand it to the database.

        What ``again`` raises is raised.
        """
        before = self._under_way
        try:
            step = self._cycle.stage(batch, on=before.step if before is not None else None)
        except StorageError:
            step = None
        self._under_way = None
        if before is not None and not self._has_landed(before):
            step = None
        if step is None:
            self._settle(owner, self._again(batch))
            return
        self._cycle.launch(step)
        self._under_way = _UnderWay(owner, step)
        if before is not None:
            self._settle(before.owner, True)  # the database is at work at the next one already

    def end(self) -> None:
        """Wait for what is under way, and settle it. What ``again`` raises is raised."""
        before, self._under_way = self._under_way, None
        if before is not None:
            if self._has_landed(before):
                self._settle(before.owner, True)
            elif self._cycle.has_due:
                self._again(None)

    def _has_landed(self, before: _UnderWay[T]) -> bool:
        """Whether it has, and what was dispatched on top of it holds. If not, it is settled by then."""
        try:
            self._cycle.land(before.step)
        except StorageError:
            self._settle(before.owner, self._again(before.step.batch))
            return False
        if self._cycle.has_due:
            self._settle(before.owner, True)
            return False
        return True
