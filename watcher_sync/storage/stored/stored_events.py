# SPDX-License-Identifier: Apache-2.0
"""Converts events to and from rows of quarantined and parked events.

An event that is delivered again is stored once: its digest (source, id, body) is unique, and a second delivery only
increments a count. Of a body that is too large for the database, an excerpt is stored, with the length and the SHA-256
of the whole.
"""

from __future__ import annotations

import datetime
import hashlib
from typing import Any

import msgspec

from watcher_sync.events import Actor, Event, PartialPayload, excerpt
from watcher_sync.exceptions import RowRefused
from watcher_sync.model.texts import storable

MAX_BODY_BYTES = 16_000_000
"""Bytes of a body that any database stores; MariaDB's column ends at 16 MiB."""

_MAX_REASON_LENGTH = 4_000
_MAX_DETAIL_LENGTH = 65_536


class RefusedEvent(msgspec.Struct, frozen=True):
    """An event that cannot be applied, and why."""

    event: Event
    reason: str
    detail: str = ""
    """A traceback, where a handler failed."""
    row: int | None = None
    """Its row, if it was in quarantine before; the row keeps everything but the reason."""


class Parked(msgspec.Struct, frozen=True):
    """An event that waits for an entity."""

    event: Event
    kind: str
    entity_id: str
    expires_at: datetime.datetime
    row: int | None = None
    """Its row, if it waited for another entity before; the row keeps its times."""


def quarantined_columns(quarantined: RefusedEvent, max_body: int = MAX_BODY_BYTES) -> dict[str, Any]:
    """The event and why it was refused, as columns.

    :param max_body: bytes of a body that are stored; of a larger one, an excerpt is.
    """
    reason, detail = reason_columns(quarantined)
    columns = columns_of(quarantined.event, max_body)
    columns["size"] += len(reason) + len(detail)
    return columns | {"reason": reason, "detail": detail}


def reason_columns(quarantined: RefusedEvent) -> tuple[str, str]:
    """Why the event was refused, as the columns ``reason`` and ``detail``."""
    return storable(quarantined.reason[:_MAX_REASON_LENGTH]), storable(quarantined.detail[:_MAX_DETAIL_LENGTH])


def parked_columns(parked: Parked, max_body: int = MAX_BODY_BYTES) -> dict[str, Any]:
    """The event and its entity, as columns.

    :param max_body: bytes of a body that can be stored.
    :raises RowRefused: it has more, so it could not be applied later.
    """
    columns = columns_of(parked.event, max_body)
    if columns["whole_size"] is not None:
        raise RowRefused(f"{columns['whole_size']} bytes cannot be parked, {max_body} are allowed")
    return columns | {"kind": parked.kind, "entity_id": parked.entity_id}


def columns_of(event: Event, max_body: int = MAX_BODY_BYTES) -> dict[str, Any]:
    """The event as columns of the tables of stored events."""
    body, decoded = _body_of(event)
    epoch, number = event.sequence if event.sequence is not None else (None, None)
    digest = hashlib.sha256(b"%b\0%b\0" % (event.source.encode(), event.id.encode("utf-8", "replace")))
    digest.update(event.digest.encode() or body)
    whole_size, whole_digest = event.whole_size or None, event.digest or None
    if len(body) > max_body:
        whole_size, decoded = len(body), False
        body, whole_digest = excerpt(body)
    return {
        "digest": digest.hexdigest(),
        "event_id": _short(event.id),
        "event_type": _short(event.type),
        "source": _short(event.source),
        "origin": _short(event.origin),
        "subject": _short(event.subject),
        "time": _time_of(event),
        "decoded": decoded,
        "body": body,
        "deliveries": event.deliveries,
        "channel": _short(event.channel),
        "stream_epoch": epoch,
        "stream_sequence": number,
        "size": len(body),
        "whole_size": whole_size,
        "whole_digest": whole_digest,
        "actor": event.actor,
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
        undecodable=None if row.decoded else "not decoded" if row.whole_size is None else _reason_of(row),
        size=len(row.body),
        whole_size=row.whole_size or 0,
        digest=row.whole_digest or "",
        actor=None if row.actor is None else Actor(**row.actor),
    )


def _reason_of(row: Any) -> str:
    """Why the whole of an excerpt was refused."""
    reason: str = row.reason
    return reason


def _body_of(event: Event) -> tuple[bytes, bool]:
    """The data as bytes, and whether they are JSON; what JSON cannot express is stored as its repr."""
    data = event.data.text if isinstance(event.data, PartialPayload) else event.data
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data), event.undecodable is None
    try:
        body = msgspec.json.encode(data)
    except (TypeError, ValueError, RecursionError):
        return repr(data).encode("utf-8", "backslashreplace"), False
    return body, event.undecodable is None


def _time_of(event: Event) -> datetime.datetime | None:
    """Its time; None for one that is beyond the years of UTC, which some databases store and no reader could read."""
    try:
        return None if event.time is None else event.time.astimezone(datetime.UTC)
    except OverflowError:
        return None


def _short(text: str) -> str:
    """The name of an event's part, fit for a VARCHAR(255) of every database."""
    return storable(text[:255])


def bare(event: Event) -> Event:
    """What is certain of an event whose row the database refuses, in ASCII and without numbers that it chooses."""
    body, _ = _body_of(event)
    head, digest = excerpt(body)
    names = {
        name: getattr(event, name).encode("ascii", "backslashreplace").decode()
        for name in ("id", "type", "origin", "subject", "channel")
    }
    return Event(source=event.source, data=head, undecodable="", whole_size=len(body), digest=digest, **names)
