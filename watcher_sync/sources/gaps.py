# SPDX-License-Identifier: Apache-2.0
"""What a source found to be missing in its transport."""

from __future__ import annotations

import datetime

import msgspec


class GapTotal(msgspec.Struct, frozen=True):
    """What was missing since the start of the source."""

    count: int = 0
    lost: int = 0
    """Messages, as far as their number is known. In a stream of RabbitMQ, offsets that are not delivered are among
    them."""
    last_at: datetime.datetime | None = None
    note: str = ""
    """The last one, in one line."""


class Gaps:
    """Counts the gaps of one source. Written by one thread, read by any."""

    def __init__(self) -> None:
        self.total = GapTotal()
        """Replaced as a whole, so that all fields of what a reader takes are of the same moment."""

    def add(self, note: str, lost: int = 0) -> None:
        """Events are missing. The engine then runs all reconcilers.

        :param note: what is missing, in one line. Its log line is written before, so that it explains the figures.
        :param lost: messages, as far as their number is known.
        """
        total = self.total
        self.total = GapTotal(total.count + 1, total.lost + lost, datetime.datetime.now(datetime.UTC), note)
