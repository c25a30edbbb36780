# SPDX-License-Identifier: Apache-2.0
"""An event of a watch topic as a typed, frozen struct, made from the protobuf message of the stream.

A catch-up brings JSON, which :mod:`~watcher_sync.client.watch.documents` converts to the same message. So an event
has the same value on both ways.
"""

from __future__ import annotations

import datetime
import enum
from collections.abc import Mapping
from typing import Any

import msgspec

from watcher_sync.extensions.watch.wire import events_pb2


class EventType(enum.StrEnum):
    """What happened to the resource."""

    CREATED = "created"
    UPDATED = "updated"
    DELETED = "deleted"
    SUBRESOURCE_UPDATED = "subresource_updated"
    TRIGGER_ACTION = "trigger_action"
    UNKNOWN = "unknown"
    """A type of a later version of the protocol; see :attr:`WatchEvent.message`."""


class Scope(msgspec.Struct, frozen=True):
    """What a resource belongs to, such as the compute node of an instance."""

    kind: str
    name: str
    id: str = ""
    self_link: str = ""


class Reference(msgspec.Struct, frozen=True):
    """Another resource that a resource refers to."""

    kind: str
    name: str
    id: str = ""
    scope_kind: str = ""
    scope_name: str = ""
    self_link: str = ""
    is_hard: bool = False


class WatchEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event. Texts that the service left out are empty.

    :ivar sequence: the place of the event in its topic; 0 if the service gave none.
    :ivar previous: the sequence of the topic's event before this one; None if the service does not say.
    :ivar time: aware; None if the service gave no time in RFC 3339.
    :ivar topic: the self link of the topic.
    :ivar entity_id: ``metadata.id`` of the resource.
    :ivar attributes: the resource's attributes after the change, as texts.
    :ivar versions: facet -> the version of the entity after the change. Only watcher_sync sends it.
    :ivar unset: names of fields that the change set to null. Only watcher_sync sends it.
    :ivar message: the protobuf message, which has everything else.
    """

    id: str
    sequence: int
    previous: int | None
    type: EventType
    time: datetime.datetime | None
    topic: str
    group: str
    kind: str
    name: str
    entity_id: str
    self_link: str
    subresource: str
    scope: Scope | None
    references: tuple[Reference, ...]
    attributes: Mapping[str, str]
    versions: Mapping[str, str]
    unset: tuple[str, ...]
    correlation_id: str
    organization: str
    message: events_pb2.Event

    def to_dict(self) -> dict[str, Any]:
        """The event for JSON or YAML, without :attr:`message`."""
        values = {name: getattr(self, name) for name in self.__struct_fields__ if name != "message"}
        found: dict[str, Any] = msgspec.to_builtins(values)
        return found


_TYPES: Mapping[int, EventType] = {
    events_pb2.Event.CREATED: EventType.CREATED,
    events_pb2.Event.UPDATED: EventType.UPDATED,
    events_pb2.Event.DELETED: EventType.DELETED,
    events_pb2.Event.SUBRESOURCEUPDATED: EventType.SUBRESOURCE_UPDATED,
    events_pb2.Event.TRIGGERACTION: EventType.TRIGGER_ACTION,
}


def sequence_of(message: events_pb2.Event) -> tuple[int, int | None]:
    """The sequence of a message, and of the event before it, if the service says it."""
    meta = message.metadata
    return meta.sequenceID, meta.prevSequenceID if meta.HasField("prevSequenceID") else None


def event_of(message: events_pb2.Event) -> WatchEvent:
    """Decodes a message."""
    sequence, previous = sequence_of(message)
    meta, payload = message.metadata, message.payload
    resource = payload.metadata
    return WatchEvent(
        id=message.id,
        sequence=sequence,
        previous=previous,
        type=_TYPES.get(int(message.type), EventType.UNKNOWN),
        time=_time(message.time),
        topic=meta.watchTopicSelfLink,
        group=payload.group,
        kind=payload.kind,
        name=payload.name,
        entity_id=resource.id,
        self_link=resource.selfLink,
        subresource=meta.subresource,
        scope=(
            Scope(resource.scope.kind, resource.scope.name, resource.scope.id, resource.scope.selfLink)
            if resource.scope.kind
            else None
        ),
        references=tuple(
            Reference(
                each.kind, each.name, each.id, each.scopeKind, each.scopeName, each.selfLink, is_hard=bool(each.type)
            )
            for each in resource.references
        ),
        attributes=dict(payload.attributes),
        versions=dict(meta.versions),
        unset=tuple(meta.unset),
        correlation_id=message.correlationId,
        organization=message.organization.id,
        message=message,
    )


def _time(text: str) -> datetime.datetime | None:
    try:
        found = msgspec.convert(text, datetime.datetime, strict=False)
    except (msgspec.ValidationError, ValueError):
        return None
    return found if found.tzinfo is not None else None
