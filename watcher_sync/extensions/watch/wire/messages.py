# SPDX-License-Identifier: Apache-2.0
"""Writes a change as the message of the watch stream, and as the JSON element of its REST twin.

Both forms come from one description, so that they agree. Everything but the topic is equal for all streams, so
:func:`body` serialises it once; :func:`addressed` adds the topic. In protobuf the concatenation of two serialised
messages is their merge (Protocol Buffers encoding, "Last One Wins").

Pure functions, for any thread.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Mapping
from typing import Any, Final

from watcher_sync.extensions.watch.wire import datamodel_pb2, events_pb2
from watcher_sync.extensions.watch.wire.descriptions import (
    ChangeDescription,
    ChangeType,
    ReferenceDescription,
    ResourceDescription,
    ScopeDescription,
    TopicRef,
)

VERSION: Final = "v1"
"""The version of the events' form, and of our kinds."""
PRODUCT: Final = "watcher_sync"
NO_ORGANIZATION: Final = "watcher_sync"
"""The organization of events of entities without a project."""

REST_TYPES: Final[Mapping[ChangeType, str]] = {
    ChangeType.CREATED: "ResourceCreated",
    ChangeType.UPDATED: "ResourceUpdated",
    ChangeType.DELETED: "ResourceDeleted",
    ChangeType.SUBRESOURCE_UPDATED: "ResourceSubResourceUpdated",
}
"""The type of a change in the REST twin."""

_STREAM_TYPES: Final[Mapping[ChangeType, events_pb2.Event.Type]] = {
    ChangeType.CREATED: events_pb2.Event.CREATED,
    ChangeType.UPDATED: events_pb2.Event.UPDATED,
    ChangeType.DELETED: events_pb2.Event.DELETED,
    ChangeType.SUBRESOURCE_UPDATED: events_pb2.Event.SUBRESOURCEUPDATED,
}
_NO_SCOPE: Final = ScopeDescription(id="", kind="", name="", self_link="")
_IDS: Final = uuid.UUID("6d0a8f2e-5f4c-4c39-9d0e-0b7a5d3d1f10")
"""The namespace of the events' ids."""


def event(change: ChangeDescription, topic: TopicRef, previous: int | None = None) -> events_pb2.Event:
    """The message of a change on a topic.

    :param previous: the sequence of the event before it on the same topic; None: it is not known.
    """
    message = _message(change)
    _address(message.metadata, topic, previous)
    return message


def encoded(change: ChangeDescription, topic: TopicRef, previous: int | None = None) -> bytes:
    """The bytes of :func:`event`."""
    return addressed(body(change), topic, previous)


def body(change: ChangeDescription) -> bytes:
    """The bytes of a change that are equal on every topic."""
    return bytes(_message(change).SerializeToString())


def addressed(body: bytes, topic: TopicRef, previous: int | None = None) -> bytes:
    """The bytes of an event: the body of a change, and the topic that it is sent on.

    :param previous: the sequence of the event before it on the same topic; None: it is not known.
    """
    message = events_pb2.Event()
    _address(message.metadata, topic, previous)
    return body + bytes(message.SerializeToString())


def element(change: ChangeDescription, topic: TopicRef) -> dict[str, Any]:
    """The element of the REST twin, ready to be encoded as JSON."""
    resource = change.resource
    return {
        "id": event_id(change),
        "time": time_text(change.time),
        "version": VERSION,
        "product": PRODUCT,
        "correlationId": change.correlation_id,
        "organization": {"id": change.organization_id or NO_ORGANIZATION},
        "type": REST_TYPES[change.type],
        "payload": {
            "group": resource.group,
            "kind": resource.kind,
            "name": resource.name,
            "metadata": metadata_document(resource),
            "attributes": dict(resource.attributes),
        },
        "metadata": {
            "watchTopicID": topic.id,
            "watchTopicSelfLink": topic.self_link,
            "sequenceID": change.seq,
            "subresource": change.subresource,
            "versions": dict(change.versions),
            "unset": list(change.unset),
        },
    }


def resource_document(
    resource: ResourceDescription,
    spec: Mapping[str, Any],
    created: datetime.datetime | None,
    modified: datetime.datetime | None,
    *,
    version: str = VERSION,
    title: str | None = None,
) -> dict[str, Any]:
    """A resource as the REST API shows it, ready to be encoded as JSON.

    :param created: when it was created; None: it is not known.
    :param modified: when it changed last; None: it is not known.
    :param version: of its kind.
    :param title: by default its name.
    """
    times = {"createTimestamp": created, "modifyTimestamp": modified}
    audit = {name: offset_time_text(time) for name, time in times.items() if time is not None}
    return {
        "group": resource.group,
        "apiVersion": version,
        "kind": resource.kind,
        "name": resource.name,
        "title": resource.name if title is None else title,
        "metadata": {**metadata_document(resource), "audit": audit},
        "attributes": dict(resource.attributes),
        "tags": [],
        "spec": spec,
    }


def event_id(change: ChangeDescription) -> str:
    """The id of an event: the same whenever the same change is read, on every topic."""
    return str(uuid.uuid5(_IDS, f"{change.time.isoformat()} {change.seq}"))


def time_text(time: datetime.datetime) -> str:
    """A time in UTC with milliseconds, the only fraction that the dialect's clients read."""
    return f"{time.astimezone(datetime.UTC):%Y-%m-%dT%H:%M:%S}.{time.microsecond // 1000:03d}Z"


def offset_time_text(time: datetime.datetime) -> str:
    """As :func:`time_text`, with the offset in digits: the dialect's clients refuse ``Z`` in a resource."""
    return f"{time_text(time)[:-1]}+00:00"


def _address(metadata: events_pb2.EventMeta, topic: TopicRef, previous: int | None) -> None:
    metadata.watchTopicID = topic.id
    metadata.watchTopicSelfLink = topic.self_link
    if previous is not None:
        metadata.prevSequenceID = previous


def _message(change: ChangeDescription) -> events_pb2.Event:
    resource = change.resource
    return events_pb2.Event(
        id=event_id(change),
        time=time_text(change.time),
        version=VERSION,
        product=PRODUCT,
        correlationId=change.correlation_id,
        organization=events_pb2.Organization(id=change.organization_id or NO_ORGANIZATION),
        type=_STREAM_TYPES[change.type],
        payload=datamodel_pb2.ResourceInstance(
            group=resource.group,
            kind=resource.kind,
            name=resource.name,
            metadata=_metadata(resource),
            attributes=resource.attributes,
        ),
        metadata=events_pb2.EventMeta(
            sequenceID=change.seq, subresource=change.subresource, versions=change.versions, unset=change.unset
        ),
    )


def _metadata(resource: ResourceDescription) -> datamodel_pb2.Metadata:
    return datamodel_pb2.Metadata(
        id=resource.id,
        scope=datamodel_pb2.Metadata.ScopeKind(**_scope_document(resource.scope)),
        selfLink=resource.self_link,
        references=[
            datamodel_pb2.Reference(
                id=each.id,
                kind=each.kind,
                name=each.name,
                scopeKind=each.scope_kind,
                scopeName=each.scope_name,
                selfLink=each.self_link,
                type=datamodel_pb2.Reference.HARD if each.is_hard else datamodel_pb2.Reference.SOFT,
            )
            for each in resource.references
        ],
    )


def metadata_document(resource: ResourceDescription) -> dict[str, Any]:
    """The member ``metadata`` of a resource as JSON."""
    return {
        "id": resource.id,
        "scope": _scope_document(resource.scope),
        "selfLink": resource.self_link,
        "references": [_reference_document(each) for each in resource.references],
    }


def _scope_document(scope: ScopeDescription | None) -> dict[str, str]:
    """The scope, empty where there is none: clients of the dialect read its members unchecked."""
    scope = scope or _NO_SCOPE
    return {"id": scope.id, "kind": scope.kind, "name": scope.name, "selfLink": scope.self_link}


def _reference_document(reference: ReferenceDescription) -> dict[str, str]:
    return {
        "id": reference.id,
        "kind": reference.kind,
        "name": reference.name,
        "scopeKind": reference.scope_kind,
        "scopeName": reference.scope_name,
        "selfLink": reference.self_link,
        "type": "HARD" if reference.is_hard else "SOFT",
    }
