# SPDX-License-Identifier: Apache-2.0
"""A batch of events on its way through a commit cycle: as it comes, dispatched, and pending."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from watcher_sync.commit.evaluation import Evaluated
from watcher_sync.events import Event
from watcher_sync.model.changes import Outcome
from watcher_sync.model.model import Key
from watcher_sync.model.transaction import Transaction
from watcher_sync.storage.stored.stored_events import Parked, RefusedEvent
from watcher_sync.storage.writing.commits import Commit, Fence


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
    """The row of each of these events, if they were quarantined; else empty."""
    authorised: bool = False
    """Whether their sources were found to be allowed to bring them before, as with parked events."""


class Dispatched(msgspec.Struct):
    """The result of the dispatch of a batch, before its commit."""

    transaction: Transaction
    outcomes: list[Outcome]
    quarantined: list[RefusedEvent]
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


def commit_of(batch: Batch, work: Dispatched, *, epoch: str | None, mark: int | None, fence: Fence | None) -> Commit:
    """The commit of a dispatched batch.

    :param epoch: what it is based on, with ``mark``; None: the journal's head is locked.
    """
    quarantined, released = work.quarantined, batch.released
    if released:
        quarantined, released = _keep_rows(batch, work)
    unparked = [row for row in batch.unparked if row not in work.kept] if work.kept else batch.unparked
    return Commit(
        generation=work.transaction.base_generation,
        epoch=epoch,
        mark=mark,
        staged=work.transaction.staged(),
        cursors=batch.cursors,
        quarantined=quarantined,
        parked=work.parked,
        unparked=unparked,
        released=released,
        fence=fence,
    )


def _keep_rows(batch: Batch, work: Dispatched) -> tuple[list[RefusedEvent], list[int]]:
    """The events that are refused again, with their rows, and the rows of the others."""
    refused = iter(work.quarantined)
    again: list[RefusedEvent] = []
    done: list[int] = []
    for row, outcome in zip(batch.released, work.outcomes, strict=True):
        if outcome is Outcome.QUARANTINED:
            again.append(msgspec.structs.replace(next(refused), row=row))
        else:
            done.append(row)
    return again, done


def halves(batch: Batch) -> list[Batch]:
    """A batch in two parts, the last one first.

    Cursors go with the last part: before it, the batch is not done.
    """
    middle = len(batch.events) // 2
    first = Batch(
        events=batch.events[:middle],
        unparked=batch.unparked[:middle],
        waited=batch.waited[:middle],
        released=batch.released[:middle],
        authorised=batch.authorised,
    )
    last = msgspec.structs.replace(
        batch,
        events=batch.events[middle:],
        unparked=batch.unparked[middle:],
        waited=batch.waited[middle:],
        released=batch.released[middle:],
    )
    return [last, first]


def refusing(reason: str, reduce: Callable[[Event], Event] = lambda event: event) -> Dispatch:
    """A dispatch that quarantines every event.

    :param reduce: returns what is stored of an event.
    """

    def dispatch(transaction: Transaction, batch: Batch) -> Dispatched:
        kept = [RefusedEvent(reduce(event), reason) for event in batch.events]
        return Dispatched(transaction, [Outcome.QUARANTINED] * len(kept), kept, [])

    return dispatch
