# SPDX-License-Identifier: Apache-2.0
"""Counts the outcomes of events and measures commits, for every surface that shows them.

The engine's thread writes. Other threads read without a lock: a count may be one batch old. Durations and sizes are
measured once a batch, so an event costs one addition.
"""

from __future__ import annotations

import bisect
import collections
import datetime
from collections.abc import Sequence

from watcher_sync.events import Event
from watcher_sync.model.changes import Outcome

EVENTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
"""Upper bounds of batch sizes, in events."""
SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""Upper bounds of durations, in seconds."""
DELAYS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
"""Upper bounds of the time from the publication of an event to its commit, in seconds."""


class Distribution:
    """A histogram of measured values. One thread observes, any thread reads."""

    def __init__(self, bounds: Sequence[float]) -> None:
        """:param bounds: upper bounds, ascending; greater values have a count of their own."""
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count a measured value."""
        self.counts[bisect.bisect_left(self.bounds, value)] += 1
        self.sum += value


class CommitStats:
    """Counts since the start."""

    def __init__(self) -> None:
        self.outcomes: collections.Counter[tuple[str, Outcome]] = collections.Counter()
        """(source, outcome) -> events."""
        self.ignored_types: collections.Counter[str] = collections.Counter()
        """Event type -> events that no handler declares; at most ``MAX_TYPES`` types, then ``(others)``."""
        self.unauthorised: collections.Counter[str] = collections.Counter()
        """Source -> quarantined events that it may not bring."""
        self.unparked: collections.Counter[str] = collections.Counter()
        """Source -> parked events that were dispatched again; each of them has two or more outcomes."""
        self.expired = 0
        """Parked events whose entity did not appear in time."""
        self.commits = 0
        self.conflicts = 0
        """Commits that failed because another writer was first."""
        self.restorations = 0
        """How often the database went back in time, or was replaced."""
        self.refused = 0
        """Batches that were bisected because the database refused a row."""
        self.changes = 0
        """Journal rows written."""
        self.batch_events = Distribution(EVENTS)
        """Events of each batch; an engine with a backlog joins several batches."""
        self.batch_seconds = Distribution(SECONDS)
        """From a batch's first dispatch to its commit, including conflicts and parked events that it made ready."""
        self.commit_seconds = Distribution(SECONDS)
        """The database transactions alone."""
        self.delays: dict[str, Distribution] = {}
        """Source -> seconds from the publication of its events to their commit, where the publication has a time."""
        self.published: dict[str, datetime.datetime] = {}
        """Source -> when the latest of its committed events was published."""

    MAX_TYPES = 500

    def count(self, events: Sequence[Event], outcomes: Sequence[Outcome]) -> None:
        """Count the outcomes of these events; both are in the same order."""
        self.outcomes.update(zip([event.source for event in events], outcomes, strict=True))
        if Outcome.IGNORED in outcomes:
            for event, outcome in zip(events, outcomes, strict=True):
                if outcome is Outcome.IGNORED:
                    self._count_ignored(event.type)

    def observe_delays(self, events: Sequence[Event], now: datetime.datetime) -> None:
        """Measure how long after their publication these events are committed.

        :param now: the time of the commit, aware UTC. A time of an event that is later counts as no delay,
            and one without a zone is UTC.
        """
        for event in events:
            published, source = event.time, event.source
            if published is None:
                continue
            if published.tzinfo is None:
                published = published.replace(tzinfo=datetime.UTC)
            delays = self.delays.get(source)
            if delays is None:
                delays = self.delays[source] = Distribution(DELAYS)
                self.published[source] = published
            elif published > self.published[source]:
                self.published[source] = published
            delays.observe(max((now - published).total_seconds(), 0.0))

    def count_unparked(self, events: Sequence[Event], outcomes: Sequence[Outcome]) -> None:
        """Count the outcomes of parked events that were dispatched again; both are in the same order."""
        self.count(events, outcomes)
        self.unparked.update([event.source for event in events])

    def through(self, source: str | None = None) -> int:
        """Events that have an outcome, each counted once: applied, parked, in quarantine, or known before.

        :param source: None: of all sources.
        """
        outcomes = sum(n for (name, _), n in list(self.outcomes.items()) if source in (None, name))
        return outcomes - sum(n for name, n in list(self.unparked.items()) if source in (None, name))

    def _count_ignored(self, event_type: str) -> None:
        """Count an event that no handler declares."""
        if event_type not in self.ignored_types and len(self.ignored_types) >= self.MAX_TYPES:
            event_type = "(others)"
        self.ignored_types[event_type] += 1

    def total(self, outcome: Outcome) -> int:
        """Events with this outcome, over all sources."""
        return sum(n for (_, o), n in list(self.outcomes.items()) if o is outcome)

    def as_dict(self) -> dict[str, int]:
        """``read`` and each outcome."""
        totals = {outcome.value: self.total(outcome) for outcome in Outcome}
        return {"read": sum(totals.values()), **totals}
