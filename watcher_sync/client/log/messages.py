# SPDX-License-Identifier: Apache-2.0
"""The decoding of a message of the log, in both formats.

The values of fields remain JSON text, so that a reader decodes only what it wants.
"""

from __future__ import annotations

import datetime
from typing import Any, Final

import msgspec

from watcher_sync.client.errors import ClientError

CREATED: Final = "created"
UPDATED: Final = "updated"
DELETED: Final = "deleted"
SNAPSHOT: Final = "snapshot"
SNAPSHOT_BEGIN: Final = "snapshot_begin"
SNAPSHOT_END: Final = "snapshot_end"

_CHANGES: Final = {"c": CREATED, "u": UPDATED, "d": DELETED, "r": SNAPSHOT}
_NULL: Final = msgspec.Raw(b"null")
_NOTHING: Final = msgspec.Raw(b"{}")


class UnknownMessage(ClientError):
    """A message of the stream is no change of watcher_sync, or is damaged. Its sequence is in the error."""


class PublishedChange(msgspec.Struct, gc=False):
    """One change as it was published, or a part of a snapshot."""

    partition: str
    epoch: str
    seq: int
    change: str
    """created, updated, deleted, snapshot, snapshot_begin or snapshot_end."""
    kind: str = ""
    id: str = ""
    previous_seq: int | None = None
    old: msgspec.Raw = _NOTHING
    new: msgspec.Raw = _NOTHING
    entity: msgspec.Raw = _NULL
    """All fields and the id; null: the entity does not exist."""
    versions: msgspec.Raw = _NOTHING
    cause: msgspec.Raw = _NULL
    actor: msgspec.Raw = _NULL
    project_id: str | None = None
    time: datetime.datetime | None = None
    omitted: tuple[str, ...] = ()
    """What the publisher has left out, because the log takes no message of its size: ``old``, ``new``, ``entity``."""

    @property
    def exists(self) -> bool:
        """Whether the entity does."""
        return bytes(self.entity) != b"null"

    @property
    def is_marker(self) -> bool:
        """Whether the entity exists, and the message lacks it."""
        return "entity" in self.omitted


class _Source(msgspec.Struct, gc=False):
    name: str
    epoch: str
    seq: int
    table: str | None = None
    previous_seq: int | None = None
    versions: msgspec.Raw = _NOTHING
    cause: msgspec.Raw = _NULL
    actor: msgspec.Raw = _NULL
    omitted: tuple[str, ...] = ()


class _Published(msgspec.Struct, gc=False):
    """A message of either format: CloudEvents have ``data``, and an envelope of Debezium has ``op``."""

    time: datetime.datetime | None = None
    data: PublishedChange | None = None
    op: str = ""
    ts_ms: int = 0
    source: _Source | str | None = None
    before: msgspec.Raw = _NULL
    after: msgspec.Raw = _NULL
    message: dict[str, str] = {}


_decode = msgspec.json.Decoder(_Published).decode
_decode_fields = msgspec.json.Decoder(dict[str, Any] | None).decode


def decoded(message: bytes, sequence: int) -> PublishedChange:
    """What a message has.

    :param sequence: in the stream, for the error.
    :raises UnknownMessage: it is in neither format.
    """
    try:
        document = _decode(message)
        if document.data is not None:
            if bytes(document.data.entity)[:1] not in (b"{", b"n"):
                raise ValueError("the entity is no object")
            document.data.time = document.time
            return document.data
        if isinstance(document.source, _Source):
            return _from_envelope(document, document.source)
    except (msgspec.DecodeError, KeyError, OverflowError, ValueError) as exc:
        raise UnknownMessage(f"the message {sequence} of the stream is no change: {exc}") from None
    raise UnknownMessage(f"the message {sequence} of the stream is no change")


def _from_envelope(document: _Published, source: _Source) -> PublishedChange:
    change = _CHANGES.get(document.op) or document.message["content"]
    before, after = _decode_fields(document.before) or {}, _decode_fields(document.after) or {}
    names = [name for name in before | after if name != "id" and before.get(name) != after.get(name)]
    if change not in (CREATED, UPDATED, DELETED) or source.omitted:
        names = []
    entity = after or before
    return PublishedChange(
        partition=source.name,
        epoch=source.epoch,
        seq=source.seq,
        change=change,
        kind=source.table or "",
        id=entity.get("id", ""),
        previous_seq=source.previous_seq,
        old=_json_of({name: before.get(name) for name in names}),
        new=_json_of({name: after.get(name) for name in names}),
        entity=document.after,
        versions=source.versions,
        cause=source.cause,
        actor=source.actor,
        project_id=entity.get("project_id"),
        time=datetime.datetime.fromtimestamp(document.ts_ms / 1000, datetime.UTC),
        omitted=source.omitted,
    )


def _json_of(fields: dict[str, Any]) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(fields))
