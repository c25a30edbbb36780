# SPDX-License-Identifier: Apache-2.0
"""The documents of the API as typed structs.

The client ignores members that a later API adds. The fields of an entity depend on its kind, so an entity is a mapping.
Times are aware.
"""

from __future__ import annotations

import datetime
from typing import Any, Literal

import msgspec

Entity = dict[str, Any]
"""Field -> JSON value; times are ISO 8601 text."""


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """The base of the structs."""


class EntityPage(Document, frozen=True):
    """One page of a list."""

    entities: list[Entity]
    next_marker: str | None
    """The marker of the next page; None on the last."""
    seq: int
    """The journal's seq at which the page was read."""


class Moment(Document, frozen=True):
    """A state of the model."""

    seq: int
    """The last change of it."""
    time: datetime.datetime | None
    """When that change was committed; None: the journal no longer has it."""


class Difference(Document, frozen=True):
    """How an entity differs at two moments."""

    kind: str
    id: str
    name: str | None
    change: str
    """created, updated or deleted."""
    fields: dict[str, tuple[Any, Any]]
    """Field -> (old, new)."""
    seq: int
    """Its last change between the moments."""


class DifferencePage(Document, frozen=True):
    """One page of what changed between two moments."""

    differences: list[Difference]
    next_marker: str | None
    since: Moment = msgspec.field(name="from")
    upto: Moment = msgspec.field(name="to")


class Stored(Document, frozen=True):
    """One entity and its version."""

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
    """How many events were merged into this change."""
    actor: dict[str, Any] | None = None
    """Who caused it: id, project_id and request_id. None: unknown, or of a project that the caller does not see."""
    project_id: str | None = None
    """The project that the entity belongs to; None: to none."""


class EventPage(Document, frozen=True):
    """One page of the journal."""

    events: list[Change]
    next_since: int
    """The ``since`` of the next request."""
    head: int
    """The seq of the last change in the journal."""
    epoch: str = ""
    """The epoch of these positions, for the next request; empty: the server is older than epochs."""


class SearchResult(Document, frozen=True):
    """An entity that a search found."""

    kind: str
    id: str
    name: str | None = None
    project_id: str | None = None


class SearchResults(Document, frozen=True):
    """The results of a search: whole names and ids first, then beginnings, then other parts."""

    results: list[SearchResult]
    more: bool = False
    """Whether there are further ones."""


class RelatedEntity(Document, frozen=True):
    """A node of a graph."""

    kind: str
    id: str
    name: str | None
    state: str | None
    health: str
    """error, warning, changing, off, unknown or ok."""
    depth: int
    """Edges from the root, on the shortest way."""
    direction: str
    """root, needs (the root needs it) or dependents (it depends on the root)."""


class EntityRelation(Document, frozen=True, rename={"source": "from", "target": "to"}):
    """An edge of a graph, between two entities that are named ``KIND/ID``."""

    source: str
    """The dependent one."""
    target: str
    """The one that it needs."""
    relation: str
    field: str


class EntityGraph(Document, frozen=True):
    """The entities around one, and the edges between them."""

    root: str
    """``KIND/ID``."""
    nodes: list[RelatedEntity]
    """By depth, then the worst health, name and id."""
    edges: list[EntityRelation]
    more: dict[str, int]
    """Kind -> how many further entities at least the limit left out."""
    seq: int
    as_of: Moment | None = None
    """What it shows, if it is of the past."""


class EntityImpact(Document, frozen=True):
    """How many entities depend on one."""

    root: str
    """``KIND/ID``."""
    members: dict[str, dict[str, int]]
    """Kind -> state (empty: unknown) -> number."""
    health: dict[str, dict[str, int]]
    """Kind -> health -> number."""
    seq: int
    as_of: Moment | None = None
    """What it shows, if it is of the past."""


class Source(Document, frozen=True):
    """The state of one source, as its engine last reported it."""

    source: str
    state: str
    """starting, connected, disconnected, stopped, failed or removed."""
    fresh: bool
    """Whether the data of the source is up to date."""
    updated_at: datetime.datetime
    """When its engine reported this."""
    problem: str = ""
    """Why the source is not fresh; empty if it is."""
    detail: str = ""
    """Why the source is not connected, or what is wrong although it is."""
    lag: int | None = None
    """Events that wait in the transport; None if the transport does not report it."""
    behind_seconds: float | None = None
    """Seconds by which the model is behind the source; None: unknown."""
    current_until: datetime.datetime | None = None
    """The model has all events that were published until then."""
    notes: str | None = None
    """What its engine holds back, such as deletions that wait for a confirmation."""
    last_event_age: float | None = None
    """Seconds since the last event."""
    last_event_at: datetime.datetime | None = None
    last_full_sync_at: datetime.datetime | None = None
    since: datetime.datetime | None = None
    """When the present state began."""
    reconnects: int = 0
    restarts: int = 0
    entities: int | None = None
    """Entities of a removed source that remain; None: it is not removed."""
    engine_group: str = ""
    host: str = ""
    """The machine on which its engine runs."""
    pid: int = 0


class Engine(Document, frozen=True):
    """One engine process, as it last reported itself."""

    group: str
    host: str
    state: str
    """leading, standby, gone or stopped."""
    since: datetime.datetime
    """When the state began; of an engine that is gone, its last heartbeat."""
    heartbeat_at: datetime.datetime
    pid: int | None = None
    release: str | None = None
    """None for a release that does not report it."""
    seq: int | None = None
    """The journal seq of its model."""
    lag_seconds: float | None = None
    """Seconds that its model is behind the journal; None if it is gone or stopped."""
    sources: list[str] = []
    """Its enabled sources. It reads them while it leads."""


class LogOutlet(Document, frozen=True):
    """How far one outlet has published on its log."""

    outlet: str
    driver: str
    partition: str
    state: str
    """snapshot, publishing, failed, stopped or gone."""
    since: datetime.datetime
    """When the state began."""
    updated_at: datetime.datetime
    epoch: str = ""
    """Empty: the log needs a snapshot."""
    seq: int = 0
    """The journal was read up to here."""
    published_seq: int = 0
    """The last change that the log has."""
    lag: int = 0
    """Rows of the journal that were not read yet."""
    lag_seconds: float = 0.0
    """Seconds since the first of them."""
    host: str = ""
    pid: int = 0
    detail: str = ""
    """Why it failed."""


class Inventory(Document, frozen=True):
    """Whether the model has everything that one live system has."""

    source: str
    """The scope of the comparison, such as nova."""
    complete: bool
    complete_since: datetime.datetime | None = None
    """When it became complete."""
    last_complete_at: datetime.datetime | None = None
    """When everything was last compared with the live system."""
    problem: str = ""
    """Why the last comparison was not complete, and what is hidden; else empty."""


class Drift(Document, frozen=True):
    """One difference between the model and the live system, or a VNF instance that is at no level."""

    id: int | None
    """None: a VNF instance that is at no level."""
    kind: str
    entity_id: str
    field: str
    """Empty if the whole entity is missing on one side."""
    model_value: Any
    live_value: Any
    policy: str
    """heal or observe."""
    source: str
    since: datetime.datetime
    cause: str = "live"
    """live: a difference; level: a VNF instance that is at no level."""
    name: str | None = None
    summary: str = ""
    """What differs, in words."""
    remedy: str = ""
    """What an operator can do."""


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


class ParkedEvent(Document, frozen=True):
    """One event that waits for an entity which does not exist yet."""

    id: int
    event_id: str
    event_type: str
    source: str
    kind: str
    """The kind of the entity that it waits for."""
    entity_id: str
    parked_at: datetime.datetime
    expires_at: datetime.datetime
    """When it is dropped, unless the entity exists by then."""
    origin: str = ""
    subject: str = ""
    time: datetime.datetime | None = None
    deliveries: int = 1


class QuarantinedWhole(Quarantined, frozen=True):
    """A quarantined event with its body, in one of three forms."""

    detail: str
    """The traceback, if a handler failed."""
    data: Any = None
    """The body, if it is JSON."""
    text: str | None = None
    """The body, if it is text but not JSON."""
    base64: str | None = None
    """The body, if it is neither."""


class Replayed(Document, frozen=True):
    """The outcome of a quarantined event that was applied again."""

    outcome: str
    """applied, stale, duplicate, ignored, parked or quarantined."""
    seq: int
    """The journal's seq after the commit."""
    reason: str | None = None
    """Why it was refused again, if it was."""


class VnfOperation(Document, frozen=True):
    """An operation on a VNF instance, running or ended."""

    id: str
    operation: str
    """The kind of work, such as SCALE."""
    holder: str
    token: int
    """The fencing token."""
    state: str
    """RUNNING, COMPLETED, FAILED or EXPIRED."""
    since: datetime.datetime
    expires_at: datetime.datetime | None = None
    """When the lease expires unless a heartbeat extends it; None after the end of the operation."""
    ended_at: datetime.datetime | None = None
    user_id: str | None = None
    """The user that began it; None for readers of other projects."""
    project_id: str | None = None


class BegunOperation(VnfOperation, frozen=True):
    """A new operation, with what its holder needs for every further request."""

    secret: str = ""
    """Known to the holder only; the API shows it once."""

    def __repr__(self) -> str:
        """Without the secret."""
        return f"BegunOperation({self.operation}, {self.id}, {self.token})"


class SyncDifference(Document, frozen=True):
    """One field of a VNF instance whose value differs between the model and the cluster."""

    field: str
    model_value: Any
    live_value: Any


class SyncedPod(Document, frozen=True):
    """One entry of ``vnfcResourceInfo`` that got another pod, is new, or was removed."""

    vdu: str
    vnfc_id: str
    old: str | None
    """Name of the pod before the sync; None: the entry is new."""
    new: str | None
    """Name of the pod after the sync; None: the entry was removed."""


class SyncReport(Document, frozen=True):
    """What a sync of one VNF instance found."""

    vnf_instance_id: str
    dry_run: bool
    """Whether nothing was written."""
    state: str
    """State of the whole instance: SYNCED, DRIFTED, SETTLING, OUT_OF_RANGE, UNRESOLVED, UNKNOWN or HELD_BACK."""
    changed: bool
    """Whether the sync wrote a change; for a dry run, whether it would have written one."""
    vdu_results: dict[str, dict[str, Any]]
    """VDU -> ``result`` and further observations."""
    differences: list[SyncDifference]
    pods: list[SyncedPod]


class Subscription(Document, frozen=True, rename="kebab"):
    """A subscription to the status of an instance. The API never shows its secret."""

    name: str
    callback_url: str
    """Without its query, if the caller may not change the subscription."""
    min_notify_interval: float
    """Seconds between two deliveries."""
    metadata: dict[str, Any]
    payload: str
    """status or full."""
    format: str
    """onap, cloudevents or cloudevents-batch."""
    last_update_time: datetime.datetime
    last_notify_time: datetime.datetime | None
    last_notify_status: int
    """The HTTP status of the last attempt; 0: no answer."""
    state: str
    """active, suspended or gone."""
    reason: str
    """Why it is not active."""
    id: str
    instance_id: str
    instance_kind: str
    project_id: str | None
    has_secret: bool
    sequence: int
    """The journal seq up to which the last delivery tells."""
    next_attempt_time: datetime.datetime | None
    lag: float
    """Seconds that the oldest undelivered change waits; 0: none."""
    kinds: list[str] | None = None
    """Kinds of the resources that are delivered; None: all."""
    ids: list[str] | None = None
    fields: list[str] | None = None
    labels: dict[str, str] | None = None


class WatchTopic(Document, frozen=True):
    """A watch topic, in the names of the Axway dialect."""

    name: str
    title: str
    metadata: dict[str, Any]
    """id, selfLink and audit."""
    spec: dict[str, Any]
    """description and filters."""


class Delivery(Document, frozen=True, rename="kebab"):
    """One message to a callback, with all its attempts."""

    id: int
    webhook_id: str
    purpose: str
    """changes, test or resync."""
    previous_sequence: int
    sequence: int
    state: str
    """pending, delivered or dead."""
    attempts: list[dict[str, Any]]
    """time, code, detail and seconds of each."""
    next_attempt_time: datetime.datetime | None
    created_time: datetime.datetime
    ended_time: datetime.datetime | None
