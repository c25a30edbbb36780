# SPDX-License-Identifier: Apache-2.0
"""The entities that parked events wait for, as one commit cycle knows them.

Other processes park events, too. So the retention worker counts the table every 15 seconds, and the cycle takes over
the count. For the thread of the cycle.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Sequence

import msgspec

from watcher_sync.model.model import Key, Written
from watcher_sync.storage.stored.parking import Awaited, Portion


class Taken(msgspec.Struct, frozen=True):
    """What a portion of events changed, for :meth:`AwaitedEntities.give_back`."""

    counts: dict[Key, int]
    """Entity for which no further event waits -> how many waited."""
    ready: dict[Key, int]


class AwaitedEntities:
    """Counts the events that wait for each entity, and knows which of the entities are ready.

    :param exists: whether the model has an entity.
    """

    def __init__(self, exists: Callable[[Key], bool]) -> None:
        self.ready: dict[Key, int] = {}
        """Entity -> the row after which its events are to be tried."""
        self._exists = exists
        self._counts: Awaited = collections.Counter()
        self._tried: set[Key] = set()
        """Entities that existed at the latest count, and whose events wait all the same."""
        self._lately: tuple[set[Key], set[Key]] = (set(), set())
        """Entities that the cycle parked events for, since the latest count and in the time before it."""

    def __len__(self) -> int:
        return len(self._counts)

    def count(self, key: Key) -> int:
        """How many events wait for an entity, as far as the cycle knows."""
        return self._counts[key]

    def reset(self, counted: Awaited) -> None:
        """Begin with a count of the table. It is not copied, and not to be changed afterwards."""
        self._counts, self._lately = counted, (set(), set())
        self._tried = {key for key in counted if self._exists(key)}
        self.mark_ready(self._tried)

    def replace_with(self, counted: Awaited) -> None:
        """Take over a count, and what the cycle parked since that count began.

        It began after the one before it was handed over, maybe before that one was taken over. So what was parked since
        the one before the latest stays. Events of an existing entity are tried once: later writes of it are noticed.

        :param counted: not copied, and not to be changed afterwards.
        """
        existing = {key for key in counted if self._exists(key)}
        self.mark_ready(existing - self._tried)
        since, earlier = self._lately
        for key in since | earlier:
            counted.setdefault(key, 1)
        self._counts, self._tried, self._lately = counted, existing, (set(), since)

    def add(self, keys: Sequence[Key]) -> None:
        """Events of the cycle wait for these entities."""
        if keys:
            self._counts.update(keys)
            self._lately[0].update(keys)

    def add_tried(self, keys: Sequence[Key]) -> None:
        """Events still wait for these entities although they were tried."""
        self.add(keys)
        self._tried.update(keys)

    def take(self, portion: Portion) -> Taken:
        """A portion of the events that are ready is tried now."""
        ready = {key: self.ready[key] for key in (*portion.complete, *portion.last)}
        counts = {key: self._counts.pop(key, 0) for key in portion.complete}
        for key in portion.complete:
            del self.ready[key]
            self._tried.discard(key)
            for keys in self._lately:
                keys.discard(key)
        self.ready.update(portion.last)
        return Taken(counts, ready)

    def give_back(self, taken: Taken) -> None:
        """The commit of a portion failed."""
        self._counts.update(taken.counts)
        self.ready.update(taken.ready)

    def mark_ready(self, keys: Iterable[Key]) -> None:
        """All events of these entities are to be tried."""
        self.ready.update(dict.fromkeys(keys, 0))

    def mark_appeared(self, written: Iterable[Written]) -> None:
        """Mark those of these entities that exist and have parked events as ready."""
        if self._counts:
            self.mark_ready(
                (item.kind, item.id)
                for item in written
                if item.entity is not None and (item.kind, item.id) in self._counts
            )

    def mark_all_appeared(self) -> None:
        """Mark all entities that exist as ready: the model was loaded from the tables."""
        self.mark_ready(key for key in self._counts if self._exists(key))

    def unknown(self, written: Iterable[Written]) -> list[Key]:
        """Those of these entities for which no event waits, as far as the cycle knows."""
        return [(item.kind, item.id) for item in written if (item.kind, item.id) not in self._counts]
