# SPDX-License-Identifier: Apache-2.0
"""The one form in which everything that happened outside travels through the engine.

A source makes an :class:`Event` from what its transport brought, and nothing after the source knows
the transport any more. What a source cannot decode it still emits, with :attr:`Event.undecodable`
saying why: the engine puts it into quarantine, so that nothing is dropped silently.
"""

from __future__ import annotations

import datetime
from typing import Any

import msgspec


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One notification, watch event or CloudEvent.

    Immutable and cheap. Two events with the same id from one source are the same event, delivered twice.
    """

    id: str
    """Unique in its source: message id, CloudEvents id. Breaks ties between versions."""
    type: str
    """Dotted name that dispatch goes by, such as ``instance.power_off.end``."""
    source: str
    """Name of our source that brought it."""
    origin: str = ""
    """Who published it: publisher_id, CloudEvents source, cluster."""
    subject: str = ""
    """What it is about, where the transport says so."""
    time: datetime.datetime | None = None
    """When it was published, aware UTC; None where the envelope does not say."""
    data: Any = None
    """The payload: a decoded JSON document, or the raw bytes of an undecodable body."""
    position: Any = None
    """Where it stands in its transport; opaque to all but its source."""
    deliveries: int = 1
    """How often the transport has delivered it, this time included."""
    undecodable: str | None = None
    """Why the source could not decode it; None for a good event."""
