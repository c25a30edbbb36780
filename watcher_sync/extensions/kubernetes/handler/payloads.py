# SPDX-License-Identifier: Apache-2.0
"""Payloads of Kubernetes events: objects, listings and states of clusters. Pure functions, for any thread."""

from __future__ import annotations

import datetime
from typing import Any, TypeVar

import msgspec

from watcher_sync.decoding import UNDECODABLE
from watcher_sync.events import Event, PartialPayload
from watcher_sync.exceptions import InvalidEvent
from watcher_sync.extensions.kubernetes.wire.kubernetes import (
    DaemonSetObject,
    Object,
    PodObject,
    TypedObject,
    WorkloadObject,
)
from watcher_sync.wire.limits import Text

T = TypeVar("T")


class Listed(msgspec.Struct):
    """All that exists of one kind, in one namespace or in all."""

    kind: Text
    uids: set[str]
    namespace: Text | None = None
    resource_version: str | None = None
    """Of the collection as it was listed."""
    restored: bool = False
    """Whether the resourceVersion is below one that the source had seen: etcd was restored from a snapshot."""


class ClusterState(msgspec.Struct):
    """The state of a source's connection and of its listings."""

    state: str | None = None
    detail: str | None = None
    version: Text | None = None
    has_synced: bool | None = None
    unlisted: dict[str, dict[str, str]] | None = None
    last_sync_at: datetime.datetime | None = None
    counts: dict[str, int] | None = None


_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {
    type_: msgspec.json.Decoder(type_)
    for type_ in (Object, TypedObject, PodObject, WorkloadObject, DaemonSetObject, Listed, ClusterState)
}


def read(event: Event, type_: type[T]) -> T:
    """The payload.

    :param type_: an object of Kubernetes, or one of this module.
    :raises InvalidEvent: it is no such thing; says which field is wrong.
    """
    data = event.data
    if data.__class__ is PartialPayload and data.decoded.__class__ is type_:
        whole: T = data.decoded
        return whole
    if data.__class__ is not bytes:
        return event.read(type_)
    try:
        found: T = _DECODERS[type_].decode(data)
        return found
    except UNDECODABLE as exc:
        raise InvalidEvent(f"object: {exc}") from None
