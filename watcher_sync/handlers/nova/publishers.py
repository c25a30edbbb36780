# SPDX-License-Identifier: Apache-2.0
"""The publisher of an event: which compute it is, and the sign of life that its event is.

Pure functions, for any thread.
"""

from __future__ import annotations

import sys
from typing import Final

from watcher_sync.events import Event
from watcher_sync.handlers import sortable
from watcher_sync.handlers.nova import ownership
from watcher_sync.model.changes import Change, Seen

API: Final = "nova-api:"
_COMPUTE: Final = "nova-compute:"


def publishing_host(event: Event) -> str | None:
    """The host of the compute that published the event, or None."""
    origin = event.origin
    if not origin.startswith(_COMPUTE) or not 0 < len(host := origin[len(_COMPUTE) :]) <= 255:
        return None
    return sys.intern(host)


def with_seen(event: Event, *changes: Change) -> tuple[Change, ...]:
    """The changes, and the sign of life of the compute that published the event itself."""
    time = event.time
    if time is None or event.type in ownership.PUBLISHED_BY_OTHERS or (host := publishing_host(event)) is None:
        return changes
    if time.tzinfo is not sortable.UTC:
        time = sortable.utc(time, "timestamp")
    return (*changes, Seen("compute_node", host, time))
