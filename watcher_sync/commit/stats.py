# SPDX-License-Identifier: Apache-2.0
"""What became of the events: the counts that every surface shows.

Written by the engine's thread; reading needs no lock, a figure may be one batch old. What is measured is
measured once a batch: nothing here is paid for by the event but one addition.
"""

from __future__ import annotations

import bisect
import collections
from collections.abc import Sequence

from watcher_sync.events import Event
from watcher_sync.model.changes import Outcome

EVENTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
"""Upper bounds for sizes of batches."""
SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""Upper bounds for durations."""


class Distribution:
    """How often a measured value was up to each of some bounds. One thread observes, any thread reads."""

    def __init__(self, bounds: Sequence[float]) -> None:
        """:param bounds: upper bounds, growing; what is above the last is counted beside them."""
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """One value was measured."""
        self.counts[bisect.bisect_left(self.bounds, value)] += 1
        self.sum += value


class CommitStats:
    """Counts since the start."""

    def __init__(self) -> None:
        self.outcomes: collections.Counter[tuple[str, Outcome]] = collections.Counter()
        """(source, outcome) -> events."""
        self.ignored_types: collections.Counter[str] = collections.Counter()
        """Event type -> events that no handler wanted; at most ``MAX_TYPES`` types, then ``(others)``."""
        self.expired = 0
        """Parked events whose entity never came."""
        self.commits = 0
        self.conflicts = 0
        """Commits that another writer forestalled."""
        self.refused = 0
        """Batches that the database refused and that were bisected."""
        self.changes = 0
        """Journal rows written."""
        self.batch_events = Distribution(EVENTS)
        """Events of each commit: of one batch, or of several that were joined."""
        self.batch_seconds = Distribution(SECONDS)
        """From a batch's first dispatch to its commit, conflicts and parked events that it set free included."""
        self.commit_seconds = Distribution(SECONDS)
        """The database transactions alone."""

    MAX_TYPES = 500

    def count(self, events: Sequence[Event], outcomes: Sequence[Outcome]) -> None:
        """Each event had the outcome at its place."""
        self.outcomes.update(zip([event.source for event in events], outcomes, strict=True))
        if Outcome.IGNORED in outcomes:
            for event, outcome in zip(events, outcomes, strict=True):
                if outcome is Outcome.IGNORED:
                    self._count_ignored(event.type)

    def _count_ignored(self, event_type: str) -> None:
        """An event that no handler wanted."""
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
