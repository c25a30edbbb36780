# SPDX-License-Identifier: Apache-2.0
"""The two formats of a published change: a CloudEvents 1.0 document, and an envelope as Debezium writes it.

Both contain the whole entity after the change, so the last message of an entity is its present state. A consumer
orders and deduplicates by (epoch, seq) within a partition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from watcher_sync.exceptions import ConfigError

if TYPE_CHECKING:
    from watcher_sync.extensions.log.base import LogChange

CLOUDEVENTS: Final = "cloudevents"
"""CloudEvents 1.0 in structured mode."""
DEBEZIUM: Final = "debezium"
"""The change events of Debezium."""

TYPE_PREFIX: Final = "watcher_sync"
"""The first word of the type of each CloudEvent."""
CONTENT_TYPES: Final = {CLOUDEVENTS: "application/cloudevents+json", DEBEZIUM: "application/json"}
"""Format -> media type."""

Encode = Callable[["LogChange"], bytes]
"""Makes the body of a change."""

_OPS: Final = {"created": "c", "updated": "u", "deleted": "d", "snapshot": "r"}
_encode = msgspec.json.Encoder().encode


def encoder_of(name: str) -> Encode:
    """The function that encodes changes in a format.

    :raises ConfigError: there is no such format.
    """
    if name not in _ENCODERS:
        raise ConfigError(f"format {name!r} is none of {', '.join(_ENCODERS)}")
    return _ENCODERS[name]


def type_of(change: LogChange) -> str:
    """``watcher_sync.<kind>.<change>``; of the begin or the end of a snapshot, ``watcher_sync.snapshot_begin``."""
    return ".".join(part for part in (TYPE_PREFIX, change.kind, change.change) if part)


def cloud_event(change: LogChange) -> bytes:
    """A structured CloudEvents document (https://github.com/cloudevents/spec, JSON event format 1.0)."""
    document: dict[str, Any] = {
        "specversion": "1.0",
        "id": f"{change.epoch}:{change.seq}",
        "source": f"/watcher-sync/{change.partition}",
        "type": type_of(change),
        "time": change.time,
    }
    data: dict[str, Any] = {
        "partition": change.partition,
        "epoch": change.epoch,
        "seq": change.seq,
        "change": change.change,
    }
    if change.kind:
        if change.change == "snapshot":
            document["id"] += f":{change.key}"
        document["subject"] = change.key
        document["dataschema"] = f"/v1/schemas/{CLOUDEVENTS}/{change.kind}"
        data |= {
            "kind": change.kind,
            "id": change.id,
            "previous_seq": change.previous_seq,
            "old": {name: old for name, (old, _) in change.delta.items()},
            "new": {name: new for name, (_, new) in change.delta.items()},
            "entity": change.after,
            "versions": change.versions,
            "cause": cause_of(change),
            "actor": change.actor,
            "project_id": change.project_id,
        } | omitted_of(change)
    else:
        document["id"] += f":{change.change}"
    document["datacontenttype"] = "application/json"
    document["data"] = data
    return _encode(document)


def debezium(change: LogChange) -> bytes:
    """The payload of a Debezium change event without its schema (https://debezium.io, "Change event values").

    The begin and the end of a snapshot are messages with ``op`` = m, as Debezium's logical decoding messages.
    """
    milliseconds = int(change.time.timestamp() * 1000)
    source: dict[str, Any] = {
        "connector": TYPE_PREFIX,
        "name": change.partition,
        "table": change.kind or None,
        "epoch": change.epoch,
        "seq": change.seq,
        "previous_seq": change.previous_seq,
        "ts_ms": milliseconds,
        "snapshot": "true" if change.change.startswith("snapshot") else "false",
        "versions": change.versions,
        "cause": cause_of(change),
        "actor": change.actor,
    } | omitted_of(change)
    document: dict[str, Any] = {
        "op": _OPS.get(change.change, "m"),
        "before": change.before,
        "after": change.after,
        "source": source,
        "ts_ms": milliseconds,
    }
    if not change.kind:
        document["message"] = {"prefix": TYPE_PREFIX, "content": change.change}
    return _encode(document)


def omitted_of(change: LogChange) -> dict[str, Any]:
    """The member that says what the message lacks; none if it is whole."""
    return {"omitted": change.omitted} if change.omitted else {}


def cause_of(change: LogChange) -> dict[str, Any] | None:
    """The event that caused the change, as all formats have it; None: unknown."""
    if not change.event_type and not change.event_id and not change.source:
        return None
    return {
        "event_id": change.event_id,
        "event_type": change.event_type,
        "source": change.source,
        "merged": change.merged,
    }


_ENCODERS: Final[dict[str, Encode]] = {CLOUDEVENTS: cloud_event, DEBEZIUM: debezium}
