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


class VnfOperation(Document, frozen=True):
    """An operation on a VNF instance, whatever became of it."""

    id: str
    operation: str
    """What is done, such as SCALE."""
    holder: str
    token: int
    """The fencing token."""
    state: str
    """RUNNING, COMPLETED, FAILED or EXPIRED."""
    since: datetime.datetime
    expires_at: datetime.datetime | None = None
    """When another may take over unless a heartbeat comes; None when it runs no more."""
    ended_at: datetime.datetime | None = None


class SyncDifference(Document, frozen=True):
    """One field of a VNF instance that is not what the cluster shows."""

    field: str
    model_value: Any
    live_value: Any


class SyncedPod(Document, frozen=True):
    """One entry of vnfcResourceInfo that got another pod, is new, or is gone."""

    vdu: str
    vnfc_id: str
    old: str | None
    """Name of the pod before; None: the entry is new."""
    new: str | None
    """Name of the pod now; None: the entry is gone."""


class SyncReport(Document, frozen=True):
    """What a sync of one VNF instance found."""

    vnf_instance_id: str
    dry_run: bool
    """Whether nothing was written."""
    state: str
    """Of the instance as a whole: SYNCED, DRIFTED, SETTLING, OUT_OF_RANGE, UNRESOLVED or UNKNOWN."""
    changed: bool
    """Whether there was something to write; in a dry run, whether there would have been."""
    vdu_results: dict[str, dict[str, Any]]
    """VDU -> ``result`` and what else was seen of it."""
    differences: list[SyncDifference]
    pods: list[SyncedPod]
