# SPDX-License-Identifier: Apache-2.0
"""What the API answers, typed.

Members that a later API adds are ignored; what an entity has depends on its kind, so it is a mapping of field to JSON
value. Times are aware.
"""

from __future__ import annotations

import datetime
from typing import Any, Literal

import msgspec

Entity = dict[str, Any]
"""Field -> JSON value; times are ISO 8601 text."""


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all."""


class EntityPage(Document, frozen=True):
    """One page of a list."""

    entities: list[Entity]
    next_marker: str | None
    """The marker of the next page; None on the last."""
    seq: int
    """The journal's seq that the page belongs to."""


class Stored(Document, frozen=True):
    """One entity and the version that it has."""

    entity: Entity
    etag: str
    """For ``if_match``."""


class Change(Document, frozen=True):
    """One change of the model, from the journal."""

    seq: int
    time: datetime.datetime
    kind: str
    id: str
    change: Literal["created", "updated", "deleted"]
    delta: dict[str, tuple[Any, Any]]
    """Field -> (old, new)."""
    event_id: str
    event_type: str
    source: str
    merged: int = 1
    """How many events this change sums up."""


class EventPage(Document, frozen=True):
    """One page of the journal."""

    events: list[Change]
    next_since: int
    """Ask on with this ``since``."""
    head: int
    """The seq of the last change of all."""


class Source(Document, frozen=True):
    """One source, as its engine last told."""

    source: str
    state: str
    """starting, connected, disconnected, stopped or failed."""
    fresh: bool
    """Whether it can be relied on."""
    updated_at: datetime.datetime
    """When its engine told this."""
    trouble: str = ""
    """Why it cannot be relied on."""
    detail: str = ""
    """Why it is not connected."""
    lag: int | None = None
    """Events that wait in the transport; None where it cannot be told."""
    last_event_age: float | None = None
    """Seconds since the last event."""
    last_event_at: datetime.datetime | None = None
    last_full_sync_at: datetime.datetime | None = None
    since: datetime.datetime | None = None
    """When it came into this state."""
    reconnects: int = 0
    restarts: int = 0
    engine_group: str = ""
    host: str = ""
    """The machine on which its engine runs."""
    pid: int = 0


class Drift(Document, frozen=True):
    """One difference between the model and the live system."""

    id: int
    kind: str
    entity_id: str
    field: str
    """Empty where the entity as a whole is missing on one side."""
    model_value: Any
    live_value: Any
    policy: str
    """heal or observe."""
    source: str
    since: datetime.datetime


class Quarantined(Document, frozen=True):
    """One event that could not be decoded or applied."""

    id: int
    event_id: str
    event_type: str
    source: str
    reason: str
    origin: str
    subject: str
    time: datetime.datetime | None
    deliveries: int
    received_at: datetime.datetime


class QuarantinedWhole(Quarantined, frozen=True):
    """The same with its body, in one of three forms."""

    detail: str
    """The traceback, where a handler failed."""
    data: Any = None
    """The body, where it could be decoded."""
    text: str | None = None
    """The body, where it is only text."""
    base64: str | None = None
    """The body, where it is not even that."""


class Replayed(Document, frozen=True):
    """What became of a quarantined event that was tried again."""

    outcome: str
    """applied, stale, duplicate, ignored, parked or quarantined."""
    seq: int
    """The journal's seq afterwards."""
