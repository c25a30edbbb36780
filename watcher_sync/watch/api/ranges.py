# SPDX-License-Identifier: Apache-2.0
"""Ranges of the journal in which a scan found no event of a topic.

A scan for one page stops after a number of rows. The next request for this page skips the ranges that the scan before
it read in vain, so it comes further. A range counts only while the journal has its last row: a restored journal has
another one at this sequence.
"""

from __future__ import annotations

import collections
import threading
from collections.abc import Mapping
from typing import Any, Final

import sqlalchemy as sa

from watcher_sync.storage.schema.tables import Tables

_MAX_RANGES: Final = 16_384

End = tuple[int, str]
"""The sequence and the event id of the last row of a range."""


class EmptyRanges:
    """Ranges without an event for a topic and a reader, in ascending order. Used by all threads."""

    def __init__(self, max_ranges: int = _MAX_RANGES) -> None:
        self._max_ranges = max_ranges
        self._lock = threading.Lock()  # guards the ends
        self._ends: collections.OrderedDict[Any, End] = collections.OrderedDict()

    def add(self, key: Any, ranges: Mapping[int | None, End]) -> None:
        """Store ranges.

        :param key: the topic, and what its reader may see.
        :param ranges: the position before the first row -> the last row.
        """
        with self._lock:
            for start, end in ranges.items():
                self._ends[key, start] = end
                self._ends.move_to_end((key, start))
            while len(self._ends) > self._max_ranges:
                self._ends.popitem(last=False)

    def end(self, connection: sa.Connection, tables: Tables, key: Any, position: int | None) -> End | None:
        """The last row of the range that begins after a position; None: there is no such range."""
        with self._lock:
            found = self._ends.get((key, position))
        if found is None:
            return None
        t = tables.journal
        event_id = connection.execute(sa.select(t.c.event_id).where(t.c.seq == found[0])).scalar_one_or_none()
        return found if event_id == found[1] else None
