# SPDX-License-Identifier: Apache-2.0
"""What became of the events: the counts that every surface shows.

Written by the engine's thread; reading needs no lock, a figure may be one batch old.
"""

from __future__ import annotations

import collections

from watcher_sync.model.changes import Outcome


class Tally:
    """Counts since the start."""

    def __init__(self) -> None:
        self.outcomes: collections.Counter[tuple[str, Outcome]] = collections.Counter()
        """(source, outcome) -> events."""
        self.ignored_types: collections.Counter[str] = collections.Counter()
        """Event type -> events that no handler wanted; at most ``MOST_TYPES`` types, then ``(others)``."""
        self.expired = 0
        """Parked events whose entity never came."""
        self.commits = 0
        self.conflicts = 0
        """Commits that another writer forestalled."""
        self.refused = 0
        """Batches that the database refused and that were bisected."""
        self.changes = 0
        """Journal rows written."""

    MOST_TYPES = 500

    def count(self, source: str, outcome: Outcome) -> None:
        """One event of this source had this outcome."""
        self.outcomes[source, outcome] += 1

    def count_ignored(self, event_type: str) -> None:
        """An event that no handler wanted."""
        if event_type not in self.ignored_types and len(self.ignored_types) >= self.MOST_TYPES:
            event_type = "(others)"
        self.ignored_types[event_type] += 1

    def total(self, outcome: Outcome) -> int:
        """Events with this outcome, over all sources."""
        return sum(n for (_, o), n in self.outcomes.items() if o is outcome)

    def as_dict(self) -> dict[str, int]:
        """``read`` and each outcome."""
        totals = {outcome.value: self.total(outcome) for outcome in Outcome}
        return {"read": sum(totals.values()), **totals}
