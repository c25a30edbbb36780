# SPDX-License-Identifier: Apache-2.0
"""The JSON of a catch-up, as the protobuf messages of the stream.

A page is an array of events. ``sequenceID`` is a JSON number. Unknown members are ignored, because other services of
the dialect have more.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from watcher_sync.decoding import UNDECODABLE
from watcher_sync.extensions.watch.wire import datamodel_pb2, events_pb2

_TYPES: Mapping[str, events_pb2.Event.Type] = {
    "ResourceCreated": events_pb2.Event.CREATED,
    "ResourceUpdated": events_pb2.Event.UPDATED,
    "ResourceDeleted": events_pb2.Event.DELETED,
    "ResourceSubResourceUpdated": events_pb2.Event.SUBRESOURCEUPDATED,
    "TriggerAction": events_pb2.Event.TRIGGERACTION,
}
_UNKNOWN_TYPE = 1000
"""An open enum accepts it. The consumer gets the event, as it would from a stream of a later version."""


class _Organization(msgspec.Struct):
    id: str | int | None = None


class _Scope(msgspec.Struct):
    id: str | None = None
    kind: str | None = None
    name: str | None = None
    selfLink: str | None = None  # noqa: N815 - the name of the dialect


class _Reference(_Scope):
    scopeKind: str | None = None  # noqa: N815 - the name of the dialect
    scopeName: str | None = None  # noqa: N815 - the name of the dialect
    type: str | None = None


class _ResourceMetadata(msgspec.Struct):
    id: str | None = None
    scope: _Scope | None = None
    selfLink: str | None = None  # noqa: N815 - the name of the dialect
    references: list[_Reference] | None = None


class _Payload(msgspec.Struct):
    group: str | None = None
    kind: str | None = None
    name: str | None = None
    metadata: _ResourceMetadata | None = None
    attributes: dict[str, str] | None = None


class _Meta(msgspec.Struct):
    sequenceID: int  # noqa: N815 - the name of the dialect
    watchTopicID: str | None = None  # noqa: N815 - the name of the dialect
    watchTopicSelfLink: str | None = None  # noqa: N815 - the name of the dialect
    subresource: str | None = None
    prevSequenceID: int | None = None  # noqa: N815 - the name of the dialect
    versions: dict[str, str] | None = None
    unset: list[str] | None = None


class _Document(msgspec.Struct):
    metadata: _Meta
    type: str
    id: str | None = None
    time: str | None = None
    version: str | None = None
    product: str | None = None
    correlationId: str | None = None  # noqa: N815 - the name of the dialect
    organization: _Organization | None = None
    payload: _Payload | None = None


_PAGE = msgspec.json.Decoder(list[_Document])


def messages_of_page(body: bytes) -> list[events_pb2.Event]:
    """Decodes a page of the catch-up.

    :raises ValueError: when the body is no such page.
    """
    try:
        return [_message(each) for each in _PAGE.decode(body)]
    except UNDECODABLE as exc:
        raise ValueError(str(exc)) from None


def _message(document: _Document) -> events_pb2.Event:
    meta = document.metadata
    return events_pb2.Event(
        id=document.id or "",
        time=document.time or "",
        version=document.version or "",
        product=document.product or "",
        correlationId=document.correlationId or "",
        organization=events_pb2.Organization(id=_text(document.organization)),
        type=_TYPES.get(document.type, _UNKNOWN_TYPE),  # type: ignore[arg-type]
        payload=_resource(document.payload or _Payload()),
        metadata=events_pb2.EventMeta(
            watchTopicID=meta.watchTopicID or "",
            watchTopicSelfLink=meta.watchTopicSelfLink or "",
            sequenceID=meta.sequenceID,
            subresource=meta.subresource or "",
            prevSequenceID=meta.prevSequenceID,
            versions=meta.versions or {},
            unset=meta.unset or [],
        ),
    )


def _text(organization: _Organization | None) -> str:
    return "" if organization is None or organization.id is None else str(organization.id)


def _resource(payload: _Payload) -> datamodel_pb2.ResourceInstance:
    found = payload.metadata or _ResourceMetadata()
    scope = found.scope
    return datamodel_pb2.ResourceInstance(
        group=payload.group or "",
        kind=payload.kind or "",
        name=payload.name or "",
        metadata=datamodel_pb2.Metadata(
            id=found.id or "",
            selfLink=found.selfLink or "",
            scope=(
                datamodel_pb2.Metadata.ScopeKind(
                    id=scope.id or "", kind=scope.kind or "", name=scope.name or "", selfLink=scope.selfLink or ""
                )
                if scope is not None
                else None
            ),
            references=[_reference(each) for each in found.references or ()],
        ),
        attributes=payload.attributes or {},
    )


def _reference(each: _Reference) -> datamodel_pb2.Reference:
    is_hard = (each.type or "").upper() == "HARD"
    return datamodel_pb2.Reference(
        id=each.id or "",
        kind=each.kind or "",
        name=each.name or "",
        scopeKind=each.scopeKind or "",
        scopeName=each.scopeName or "",
        selfLink=each.selfLink or "",
        type=datamodel_pb2.Reference.HARD if is_hard else datamodel_pb2.Reference.SOFT,
    )
