# SPDX-License-Identifier: Apache-2.0
"""Limits a batch to the events that the engine commits in 0.1 seconds.

An event waits for at most two batches before its own: one in the commit and one dispatched. Some events are slow to
apply, such as bodies of some hundred kilobytes, or a flood that goes to quarantine. A backlog of them in batches of a
fixed number would delay the events of every other source by seconds.

For the engine's thread.
"""

from __future__ import annotations

_TARGET_SECONDS = 0.1
_MIN_EVENTS = 20
_WEIGHT = 0.5
"""Of the last batch in the moving average."""


class BatchPace:
    """A moving average of the seconds that an event takes."""

    def __init__(self) -> None:
        self._seconds_per_event = 0.0

    def observe(self, events: int, seconds: float) -> None:
        """Add a batch that is done.

        :param seconds: from the end of the batch before it, or from its own beginning.
        """
        if events:
            self._seconds_per_event += _WEIGHT * (seconds / events - self._seconds_per_event)

    def most(self, limit: int) -> int:
        """Return the number of events for the next batch.

        :param limit: the maximum; it is reached while events are fast.
        """
        if self._seconds_per_event * limit <= _TARGET_SECONDS:
            return limit
        return min(limit, max(_MIN_EVENTS, int(_TARGET_SECONDS / self._seconds_per_event)))
