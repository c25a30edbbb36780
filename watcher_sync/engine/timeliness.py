# SPDX-License-Identifier: Apache-2.0
"""Up to which moment the model has the events of each source.

While a source is connected, nothing waits in its transport and nothing is in hand, the model has everything until now.
Otherwise it has everything up to the publication of the last committed event, or up to the last moment without waiting
events, whichever is later. A source that catches up is behind by the age of its last committed event. A disconnected
source falls behind by a second each second.

The moments, and the time of the last event, are stored with the state of the source. They survive a restart.
"""

from __future__ import annotations

import datetime
import threading
from collections.abc import Iterable

import msgspec

from watcher_sync.sources.base import SourceState, SourceStatus
from watcher_sync.storage.groups.source_status import SourceRow


class Moments(msgspec.Struct, frozen=True):
    """What is known of one source. Times are aware UTC."""

    current_until: datetime.datetime | None = None
    """The model has all events that were published until then; None: unknown."""
    last_event_at: datetime.datetime | None = None


class Timeliness:
    """The moments of each source of one engine. For any thread."""

    def __init__(self) -> None:
        # Guards _moments.
        self._lock = threading.Lock()
        self._moments: dict[str, Moments] = {}
        self._last: dict[str, SourceStatus] = {}
        """The last status of each source before it stopped."""

    def restore(self, rows: Iterable[SourceRow]) -> None:
        """Continue from what an engine stored before."""
        with self._lock:
            for row in rows:
                known = self._moments.get(row.source, Moments())
                self._moments[row.source] = Moments(
                    _latest(known.current_until, row.current_until), _latest(known.last_event_at, row.last_event_at)
                )

    def observe(
        self,
        source: str,
        status: SourceStatus,
        *,
        in_hand: int,
        published_at: datetime.datetime | None,
        now: datetime.datetime,
    ) -> Moments:
        """Note the state of a source at this moment, and return what is known of it.

        :param in_hand: its events that the engine has accepted and not acknowledged.
        :param published_at: when the last committed event was published; None: none was, or its time is unknown.
        """
        with self._lock:
            is_complete = not in_hand and self._has_nothing_waiting(source, status)
            until = now if is_complete else min(published_at, now) if published_at is not None else None
            known = self._moments.get(source, Moments())
            found = self._moments[source] = Moments(
                _latest(known.current_until, until), _latest(known.last_event_at, status.last_event_at)
            )
        return found

    def _has_nothing_waiting(self, source: str, status: SourceStatus) -> bool:
        """Whether a source is connected, or stopped while it was, and nothing waits in its transport."""
        if status.state is not SourceState.STOPPED:
            self._last[source] = status
            return status.state is SourceState.CONNECTED and not status.lag
        before = self._last.get(source)
        if before is None or before.state is not SourceState.CONNECTED:
            return False
        return not (before.lag if status.lag is None else status.lag)


def _latest(*times: datetime.datetime | None) -> datetime.datetime | None:
    return max((time for time in times if time is not None), default=None)
