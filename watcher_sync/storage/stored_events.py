# SPDX-License-Identifier: Apache-2.0
"""Converts events to and from rows of quarantined and parked events.

An event that is delivered again is stored once: its digest (source, id, body) is unique, and a second delivery only
increments a count.
"""

from __future__ import annotations

import datetime
import hashlib
from typing import Any

import msgspec

from watcher_sync.events import Event, PartialPayload

_MAX_BODY_BYTES = 16_000_000


class Quarantined(msgspec.Struct, frozen=True):
    """An event that cannot be applied, and why."""

    event: Event
    reason: str
    detail: str = ""
    """A traceback, where a handler failed."""


class Parked(msgspec.Struct, frozen=True):
    """An event that waits for an entity."""

    event: Event
    kind: str
    entity_id: str
    expires_at: datetime.datetime


def columns_of(event: Event) -> dict[str, Any]:
    """The event as a row of the tables that keep events."""
    body, decoded = _body_of(event)
    epoch, number = event.sequence if event.sequence is not None else (None, None)
    digest = hashlib.sha256(b"\0".join((event.source.encode(), event.id.encode("utf-8", "replace"), body)))
    return {
        "digest": digest.hexdigest(),
        "event_id": _short(event.id),
        "event_type": _short(event.type),
        "source": _short(event.source),
        "origin": _short(event.origin),
        "subject": _short(event.subject),
        "time": event.time,
        "decoded": decoded,
        "body": body[:_MAX_BODY_BYTES],
        "deliveries": event.deliveries,
        "channel": _short(event.channel),
        "stream_epoch": epoch,
        "stream_sequence": number,
    }


def event_of(row: Any) -> Event:
    """The stored event: its data as JSON text, or its undecodable body with ``undecodable`` set."""
    return Event(
        id=row.event_id,
        type=row.event_type,
        source=row.source,
        origin=row.origin,
        subject=row.subject,
        time=row.time,
        data=bytes(row.body),
        channel=row.channel or "",
        sequence=None if row.stream_epoch is None else (row.stream_epoch, row.stream_sequence),
        deliveries=row.deliveries,
        undecodable=None if row.decoded else "not decoded",
    )


def _body_of(event: Event) -> tuple[bytes, bool]:
    """The data as bytes, and whether they are JSON; what JSON cannot express is stored as its repr."""
    data = event.data.text if isinstance(event.data, PartialPayload) else event.data
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data), event.undecodable is None and len(data) <= _MAX_BODY_BYTES
    try:
        body = msgspec.json.encode(data)
    except (TypeError, ValueError, RecursionError):
        return repr(data).encode("utf-8", "backslashreplace"), False
    return body, len(body) <= _MAX_BODY_BYTES


def _short(text: str) -> str:
    """Fit for a VARCHAR(255) of every database."""
    return text.encode("utf-8", "replace").decode().replace("\0", "")[:255]
