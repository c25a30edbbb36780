# SPDX-License-Identifier: Apache-2.0
"""The durable position in a region: the sequence, and the epoch of the region's database.

A region whose database went back in time has another epoch. The source counts the epochs that it has seen. Versions of
a later epoch are newer than all of an earlier one (:mod:`watcher_sync.handlers.federation.leading`).
"""

from __future__ import annotations

import datetime

import msgspec

_SEPARATOR = "@"


class RegionCursor(msgspec.Struct, frozen=True):
    """A position in a region."""

    sequence: int | None = None
    """Follow after this one; None: begin with a listing."""
    epoch: str = ""
    """Of the region's database; empty: not known."""
    number: int = 0
    """How many times the region went back in time."""
    since: int = 0
    """When it did so last, in seconds since 1970."""

    def text(self) -> str:
        """The form in which it is stored. It begins with the sequence."""
        sequence = "" if self.sequence is None else str(self.sequence)
        if not self.epoch:
            return sequence
        return _SEPARATOR.join([sequence, self.epoch, *([str(self.number), str(self.since)] if self.number else [])])

    def at_epoch(self, epoch: str, now: datetime.datetime) -> RegionCursor:
        """The same in the epoch that the region has now; counts another one."""
        if not epoch or epoch == self.epoch:
            return self
        if not self.epoch:
            return msgspec.structs.replace(self, epoch=epoch)
        return RegionCursor(None, epoch, self.number + 1, int(now.timestamp()))


def read_cursor(text: str | None) -> RegionCursor:
    """A stored position. A part that is no number begins with a listing."""
    parts = (text or "").split(_SEPARATOR)
    sequence, epoch, number, since = [*parts, "", "", ""][:4]
    return RegionCursor(
        int(sequence) if sequence.isdecimal() else None,
        epoch,
        int(number) if number.isdecimal() else 0,
        int(since) if since.isdecimal() else 0,
    )
