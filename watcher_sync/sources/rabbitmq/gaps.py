# SPDX-License-Identifier: Apache-2.0
"""What a source found to be missing in its queue."""

from __future__ import annotations

import datetime

import msgspec


class Gaps(msgspec.Struct):
    """What was missing since the start of the source. Written by one thread, read by any."""

    count: int = 0
    lost: int = 0
    """Messages, as far as their number is known. In a stream, offsets that are not delivered are among them."""
    last_at: datetime.datetime | None = None
    note: str = ""
    """The last one, in one line."""

    def add(self, note: str, lost: int = 0) -> None:
        """Events are missing. The engine then runs all reconcilers."""
        self.count += 1
        self.lost += lost
        self.note = note
        self.last_at = datetime.datetime.now(datetime.UTC)
