# SPDX-License-Identifier: Apache-2.0
"""A change as a versioned notification of OpenStack, in the message format 2.0 of oslo.messaging.

The payload has the shape of those of Nova and Ironic: name, namespace, version and data of an object, and the data may
contain objects. The entity is one object, and in its field ``change`` is a second one that identifies the change.

The version of an object grows with its fields: the minor number if a consumer need not know of it.
"""

from __future__ import annotations

import uuid
from typing import Any, Final

import msgspec

from watcher_sync.extensions.log.base import LogChange
from watcher_sync.extensions.log.formats import TYPE_PREFIX, cause_of, omitted_of, type_of

PRIORITY: Final = "info"
_VERSION: Final = "1.0"
_CHANGE_VERSION: Final = "1.1"
"""1.1: ``omitted``."""
_MESSAGE_IDS: Final = uuid.UUID("0d1f4a0e-6f0a-5f0e-9c55-2b1b9e3a7c41")

_encode = msgspec.json.Encoder().encode


def notification(change: LogChange) -> bytes:
    """The body of the message.

    Its message_id depends on partition, epoch, seq and entity only. A change that is published again has the same one.
    """
    identity = f"{change.partition}:{change.epoch}:{change.seq}:{change.change}:{change.key}"
    message_id = uuid.uuid5(_MESSAGE_IDS, identity)
    message = {
        "message_id": str(message_id),
        "_unique_id": message_id.hex,
        "publisher_id": f"{TYPE_PREFIX}:{change.partition}",
        "event_type": type_of(change),
        "priority": PRIORITY.upper(),
        "timestamp": str(change.time.replace(tzinfo=None)),
        "payload": payload(change),
    }
    return _encode({"oslo.version": "2.0", "oslo.message": _encode(message).decode()})


def payload(change: LogChange) -> dict[str, Any]:
    """The object of the entity, as it is after the change or was before its deletion."""
    name = "".join(word.capitalize() for word in change.kind.split("_")) or "Snapshot"
    entity = change.after or change.before or ({"id": change.id} if change.kind else {})
    fields = {**entity, "change": _object("ChangePayload", _change_fields(change), _CHANGE_VERSION)}
    return _object(f"{name}Payload", fields) | {f"{TYPE_PREFIX}_object.changes": list(change.delta)}


def _object(name: str, data: dict[str, Any], version: str = _VERSION) -> dict[str, Any]:
    return {
        f"{TYPE_PREFIX}_object.name": name,
        f"{TYPE_PREFIX}_object.namespace": TYPE_PREFIX,
        f"{TYPE_PREFIX}_object.version": version,
        f"{TYPE_PREFIX}_object.data": data,
    }


def _change_fields(change: LogChange) -> dict[str, Any]:
    return {
        "partition": change.partition,
        "epoch": change.epoch,
        "seq": change.seq,
        "change": change.change,
        "kind": change.kind or None,
        "id": change.id or None,
        "time": change.time,
        "previous_seq": change.previous_seq,
        "delta": change.delta,
        "versions": change.versions,
        "cause": cause_of(change),
        "actor": change.actor,
        "project_id": change.project_id,
    } | omitted_of(change)
