# SPDX-License-Identifier: Apache-2.0
"""The representations of objects: complete, metadata only, or rows of a table.

The Accept header chooses (``application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1``); the server uses the first
entry that it supports. kubectl requests tables. A client that needs only owners requests metadata.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from watcher_sync.testing.kubernetes.resources import (
    DAEMON_SETS,
    DEPLOYMENTS,
    NAMESPACES,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    ResourceType,
)
from watcher_sync.testing.kubernetes.store import Item, Object

Cell = Callable[[Object], Any]


class View(Protocol):
    """The encoding of one object, and of a list of them."""

    def one(self, item: Item) -> bytes: ...

    def many(self, resource: ResourceType, items: Sequence[Item], metadata: Object) -> bytes: ...


def view(accept: str) -> View:
    """The view that the Accept header asks for."""
    for entry in accept.split(","):
        media_type, _, rest = entry.strip().partition(";")
        parameters = dict(part.strip().partition("=")[::2] for part in rest.split(";"))
        if media_type == "application/json" and parameters.get("v", "v1") == "v1":
            match parameters.get("as"):
                case "Table":
                    return Table()
                case "PartialObjectMetadata" | "PartialObjectMetadataList":
                    return Metadata()
                case None:
                    return Whole()
    return Whole()


class Whole:
    """As they are. In a list they do not repeat their kind, as the API does it."""

    def one(self, item: Item) -> bytes:
        return item.encoded()

    def many(self, resource: ResourceType, items: Sequence[Item], metadata: Object) -> bytes:
        head = b'{"kind":"%bList","apiVersion":"%b","metadata":%b,"items":[' % (
            resource.kind.encode(),
            resource.api_version.encode(),
            msgspec.json.encode(metadata),
        )
        if not items:
            return head + b"]}\n"
        return b"".join((head, b"{", b",{".join([item.body for item in items]), b"]}\n"))


class _MetadataOnly(msgspec.Struct):
    metadata: msgspec.Raw


_decode_metadata = msgspec.json.Decoder(_MetadataOnly).decode


class Metadata:
    """PartialObjectMetadata."""

    def one(self, item: Item) -> bytes:
        return b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":%b}' % bytes(
            _decode_metadata(b"{" + item.body).metadata
        )

    def many(self, resource: ResourceType, items: Sequence[Item], metadata: Object) -> bytes:
        head = b'{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":%b,"items":['
        return head % msgspec.json.encode(metadata) + b",".join([self.one(item) for item in items]) + b"]}\n"


class Table:
    """What ``kubectl get`` prints."""

    def one(self, item: Item) -> bytes:
        return self.many(item.resource, [item], {"resourceVersion": str(item.version)}).rstrip()

    def many(self, resource: ResourceType, items: Sequence[Item], metadata: Object) -> bytes:
        columns = (("Name", _name), *COLUMNS.get(resource, ()), ("Age", _age))
        rows = []
        for item in items:
            obj = item.decoded()
            partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}
            rows.append({"cells": [cell(obj) for _, cell in columns], "object": partial})
        definitions = [
            {
                "name": name,
                "type": "string",
                "format": "name" if name == "Name" else "",
                "description": "",
                "priority": 0,
            }
            for name, _ in columns
        ]
        table = {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            "columnDefinitions": definitions,
            "rows": rows,
        }
        return msgspec.json.encode(table) + b"\n"


def _name(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def _age(obj: Object) -> str:
    created = datetime.datetime.fromisoformat(obj["metadata"]["creationTimestamp"])
    seconds = int((datetime.datetime.now(datetime.UTC) - created).total_seconds())
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 120)):
        if seconds >= size:
            return f"{seconds // (60 if unit == 'm' else size)}{unit}"
    return f"{max(seconds, 0)}s"


def _of(*path: str, default: Any = 0) -> Cell:
    def cell(obj: Object) -> Any:
        for key in path:
            obj = obj.get(key) or {}
        return obj or default

    return cell


def _containers(obj: Object) -> list[Object]:
    return list((obj.get("status") or {}).get("containerStatuses") or ())


def _pod_ready(obj: Object) -> str:
    ready = sum(bool(status.get("ready")) for status in _containers(obj))
    return f"{ready}/{len((obj.get('spec') or {}).get('containers') or ())}"


def _pod_status(obj: Object) -> str:
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    for status in _containers(obj):
        waiting = (status.get("state") or {}).get("waiting")
        if waiting:
            return str(waiting.get("reason"))
    return str(obj["status"].get("reason") or obj["status"].get("phase"))


def _restarts(obj: Object) -> str:
    return str(sum(int(status.get("restartCount", 0)) for status in _containers(obj)))


def _ready_of_replicas(obj: Object) -> str:
    return f"{_of('status', 'readyReplicas')(obj)}/{_of('spec', 'replicas')(obj)}"


COLUMNS: dict[ResourceType, tuple[tuple[str, Cell], ...]] = {
    PODS: (("Ready", _pod_ready), ("Status", _pod_status), ("Restarts", _restarts)),
    DEPLOYMENTS: (
        ("Ready", _ready_of_replicas),
        ("Up-to-date", _of("status", "updatedReplicas")),
        ("Available", _of("status", "availableReplicas")),
    ),
    REPLICA_SETS: (
        ("Desired", _of("spec", "replicas")),
        ("Current", _of("status", "replicas")),
        ("Ready", _of("status", "readyReplicas")),
    ),
    STATEFUL_SETS: (("Ready", _ready_of_replicas),),
    DAEMON_SETS: (
        ("Desired", _of("status", "desiredNumberScheduled")),
        ("Current", _of("status", "currentNumberScheduled")),
        ("Ready", _of("status", "numberReady")),
    ),
    NAMESPACES: (("Status", _of("status", "phase", default="")),),
}
