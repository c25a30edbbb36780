# SPDX-License-Identifier: Apache-2.0
"""Commits recorded or quarantined events outside a running engine.

The process is one more writer of the database. The compare-and-swap on the journal's head keeps it coherent with the
engines that run meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from watcher_sync.commit.authorisation import Authority, Grants, recording, with_own_sources
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.batch_dispatch import CommitLimits, CommitOptions
from watcher_sync.commit.cycle import CommitCycle, LastSeenWriter
from watcher_sync.commit.pipeline import Pipeline
from watcher_sync.commit.stats import CommitStats
from watcher_sync.dispatch import Dispatcher
from watcher_sync.events import KNOWN_BEFORE, MAX_PORTION_BYTES, Event, portions
from watcher_sync.model.changes import Outcome
from watcher_sync.storage.writing.store import Store
from watcher_sync.wire.envelopes import read_body


class ReplayStats(CommitStats):
    """Counts the outcomes of the events of one replay.

    The cycle also applies parked events of others, if it is faster than the engine. They are not counted.
    """

    def __init__(self) -> None:
        super().__init__()
        self._parked: set[tuple[str, str]] = set()
        """Source and id of the events that this replay parked."""

    def count(self, events: Sequence[Event], outcomes: Sequence[Outcome]) -> None:
        """Count the outcomes, and remember the parked events."""
        super().count(events, outcomes)
        if Outcome.PARKED in outcomes:
            found = zip(events, outcomes, strict=True)
            self._parked.update((event.source, event.id) for event, outcome in found if outcome is Outcome.PARKED)

    def count_unparked(self, events: Sequence[Event], outcomes: Sequence[Outcome]) -> None:
        """Count the outcomes of those that this replay parked."""
        found = zip(events, outcomes, strict=True)
        own = [(event, outcome) for event, outcome in found if (event.source, event.id) in self._parked]
        super().count_unparked([event for event, _ in own], [outcome for _, outcome in own])

    def as_dict(self) -> dict[str, int]:
        """``read`` and each outcome. An event that was parked and applied is read once and has both outcomes."""
        return {**super().as_dict(), "read": self.through()}


def replay(
    store: Store,
    dispatcher: Dispatcher,
    events: Iterable[Event],
    *,
    batch_size: int,
    limits: CommitLimits = CommitLimits(),  # noqa: B008 - frozen
    authority: Authority | None = None,
) -> dict[str, float]:
    """Commit the events in order, in batches; each is dispatched while the database writes the one before it.

    A commit without an answer is repeated once. If the database has it, its events are counted as duplicates or stale.

    :param authority: decides which events may come; None: that of recordings.
    :param limits: what ``[engine]`` limits.
    :returns: ``read``, each outcome, and ``seconds``; without the parked events of others.
    :raises DatabaseUnavailable: the database is unavailable. Run it again: committed events are recognised.
    """
    began = time.monotonic()
    cycle = _begin(store, dispatcher, authority or Authority(dispatcher, recording), limits)

    def commit_again(batch: Batch | None) -> bool:
        cycle.catch_up()
        if batch is not None:
            cycle.run(batch)
        return True

    pipeline: Pipeline[None] = Pipeline(cycle, again=commit_again, settle=lambda _owner, _committed: None)
    try:
        for chunk in portions(events, batch_size):
            pipeline.add(None, Batch(events=chunk))
    except Exception:  # of the events: what is under way to the database is theirs, too
        pipeline.end()
        raise
    pipeline.end()
    return _finish(store, cycle, began)


def replay_quarantined(
    store: Store,
    dispatcher: Dispatcher,
    events: Iterable[tuple[int, Event]],
    *,
    grants: Grants | None = None,
    batch_size: int,
    limits: CommitLimits = CommitLimits(),  # noqa: B008 - frozen
) -> dict[str, float]:
    """Dispatch quarantined events again; those that are refused again stay, with the new reason.

    A body that could not be decoded is decoded again, unless only an excerpt of it is stored. An event that its source
    may not bring is refused again.

    :param grants: name of a source -> what it may bring; None: no source is known.
    :param events: (row id, event), as :meth:`Quarantine.events` gives them.
    :param limits: what ``[engine]`` limits.
    :returns: ``read``, each outcome, and ``seconds``; without the parked events of others.
    :raises DatabaseUnavailable: the database is unavailable. Run it again: committed events are recognised.
    """
    began = time.monotonic()
    cycle = _begin(store, dispatcher, Authority(dispatcher, with_own_sources(grants)), limits)
    for chunk in _chunks(events, batch_size):
        released = [row_id for row_id, _ in chunk]
        cycle.run(Batch(events=[decoded_again(row_id, event) for row_id, event in chunk], released=released))
    return _finish(store, cycle, began)


def decoded_again(row_id: int, event: Event) -> Event:
    """A quarantined event for dispatch; a body that could not be decoded is decoded again."""
    if event.undecodable is None:
        return msgspec.structs.replace(event, envelope=KNOWN_BEFORE)
    if event.digest:
        return event
    decoded = read_body(event.data, source=event.source, number=row_id, deliveries=event.deliveries)
    if decoded.undecodable is not None:
        return msgspec.structs.replace(event, undecodable=decoded.undecodable)
    return msgspec.structs.replace(decoded, channel=event.channel, sequence=event.sequence)


def _begin(store: Store, dispatcher: Dispatcher, authority: Authority, limits: CommitLimits) -> CommitCycle:
    store.time.refresh()
    store.sites.refresh()
    options = CommitOptions(stats=ReplayStats(), authority=authority, limits=limits, now=store.time.now)
    return CommitCycle(store, store.load(), dispatcher, options)


def _finish(store: Store, cycle: CommitCycle, began: float) -> dict[str, float]:
    while cycle.has_ready:
        cycle.catch_up()
    LastSeenWriter(store, cycle.model, CommitLimits()).persist()
    store.close()
    return {**cycle.stats.as_dict(), "seconds": round(time.monotonic() - began, 3)}


def _chunks(items: Iterable[tuple[int, Event]], size: int) -> Iterator[list[tuple[int, Event]]]:
    chunk: list[tuple[int, Event]] = []
    taken = 0
    for item in items:
        chunk.append(item)
        taken += item[1].size
        if len(chunk) >= size or taken >= MAX_PORTION_BYTES:
            yield chunk
            chunk, taken = [], 0
    if chunk:
        yield chunk
