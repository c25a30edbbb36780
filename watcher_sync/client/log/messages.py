# SPDX-License-Identifier: Apache-2.0
"""The decoding of a message of the log, in both formats.

The values of fields remain JSON text, so that a reader decodes only what it wants.
"""

from __future__ import annotations

import datetime
import re
from typing import Annotated, Any, Final, Literal

import msgspec

from watcher_sync.client.errors import ClientError
from watcher_sync.wire.limits import Seq, is_epoch

CREATED: Final = "created"
UPDATED: Final = "updated"
DELETED: Final = "deleted"
SNAPSHOT: Final = "snapshot"
SNAPSHOT_BEGIN: Final = "snapshot_begin"
SNAPSHOT_END: Final = "snapshot_end"

_MARKERS: Final = (SNAPSHOT_BEGIN, SNAPSHOT_END)
_NULL: Final = msgspec.Raw(b"null")
_NOTHING: Final = msgspec.Raw(b"{}")
_MAX_REASON: Final = 300
"""Characters of a reason, which may quote the message."""

UNREADABLE: Final = (ValueError, OverflowError, RecursionError)
"""What the decoding of JSON raises, with msgspec's errors, for a text of any content."""

# The forms of what positions, event types and columns are made of.
_Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=253_402_300_799_999)]
_Name = Annotated[str, msgspec.Meta(max_length=255)]
_Change = Literal["created", "updated", "deleted", "snapshot", "snapshot_begin", "snapshot_end"]
_CHANGES: Final[dict[str, _Change]] = {"c": CREATED, "u": UPDATED, "d": DELETED, "r": SNAPSHOT}
_KIND: Final = re.compile("[a-z][a-z0-9_]{0,62}")
_Time = Annotated[datetime.datetime, msgspec.Meta(tz=True)]


class UnknownMessage(ClientError):
    """A message of the stream is no change of watcher_sync, or is damaged.

    :ivar sequence: of the message in the stream.
    """

    def __init__(self, sequence: int, why: Exception) -> None:
        super().__init__(f"the message {sequence} of the stream is no change: {str(why)[:_MAX_REASON]}")
        self.sequence = sequence


class PublishedChange(msgspec.Struct, gc=False):
    """One change as it was published, or a part of a snapshot."""

    partition: _Name
    epoch: _Name
    seq: Seq
    change: _Change
    """created, updated, deleted, snapshot, snapshot_begin or snapshot_end."""
    kind: _Name = ""
    id: _Name = ""
    previous_seq: Seq | None = None
    old: msgspec.Raw = _NOTHING
    new: msgspec.Raw = _NOTHING
    entity: msgspec.Raw = _NULL
    """All fields and the id; null: the entity does not exist."""
    versions: msgspec.Raw = _NOTHING
    cause: msgspec.Raw = _NULL
    actor: msgspec.Raw = _NULL
    project_id: _Name | None = None
    time: _Time | None = None
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
    name: _Name
    epoch: _Name
    seq: Seq
    table: _Name | None = None
    previous_seq: Seq | None = None
    versions: msgspec.Raw = _NOTHING
    cause: msgspec.Raw = _NULL
    actor: msgspec.Raw = _NULL
    omitted: tuple[str, ...] = ()


class _Marker(msgspec.Struct, gc=False):
    content: _Change


class _Published(msgspec.Struct, gc=False):
    """A message of either format: CloudEvents have ``data``, and an envelope of Debezium has ``op``."""

    time: _Time | None = None
    data: PublishedChange | None = None
    op: str = ""
    ts_ms: _Milliseconds = 0
    source: _Source | str | None = None
    before: msgspec.Raw = _NULL
    after: msgspec.Raw = _NULL
    message: _Marker | None = None


class _Entity(msgspec.Struct, gc=False):
    id: _Name
    project_id: _Name | None = None


_decode = msgspec.json.Decoder(_Published).decode
_decode_entity = msgspec.json.Decoder(_Entity | None).decode
_decode_fields = msgspec.json.Decoder(dict[str, Any] | None).decode


def decoded(message: bytes, sequence: int, marker: str = "") -> PublishedChange:
    """What a message has. All of it but the values of fields has the form that positions and columns need.

    :param sequence: in the stream, for the error.
    :param marker: the begin or the end of a snapshot, if its subject names that.
    :raises UnknownMessage: it is in neither format, or is not what its subject names.
    """
    try:
        change = _read(message)
        if marker != (change.change if change.change in _MARKERS else ""):
            raise ValueError(f"the subject does not name {change.change}")
    except UNREADABLE as exc:
        raise UnknownMessage(sequence, exc) from None
    return change


def _read(message: bytes) -> PublishedChange:
    message.decode()  # the decoder does not read the strings that remain undecoded
    document = _decode(message)
    if document.data is not None:
        return _from_cloud_event(document.data, document.time)
    if isinstance(document.source, _Source):
        return _from_envelope(document, document.source)
    raise ValueError("neither a CloudEvent of ours nor an envelope")


def _from_cloud_event(change: PublishedChange, time: datetime.datetime | None) -> PublishedChange:
    entity = _decode_entity(change.entity)
    _check_entity(change, change.id if entity is None else entity.id)
    change.time = None if time is None else time.astimezone(datetime.UTC)
    return change


def _check_entity(change: PublishedChange, entity_id: str) -> None:
    """:raises ValueError: a name has no form, or the entity is missing, another one, or of a part that has none."""
    if not is_epoch(change.epoch) or (change.kind and not _KIND.fullmatch(change.kind)):
        raise ValueError("the epoch or the kind has not the form of one")
    if "\0" in change.partition or "\0" in change.id or "\0" in (change.project_id or ""):
        raise ValueError("a name has the character NUL")
    if change.change in _MARKERS:
        if change.kind or change.id or change.exists:
            raise ValueError("the begin or the end of a snapshot has an entity")
    elif not change.kind or not change.id or change.id != entity_id:
        raise ValueError("the kind and the id are not those of an entity")


def _from_envelope(document: _Published, source: _Source) -> PublishedChange:
    change = _CHANGES.get(document.op) or (document.message.content if document.message is not None else None)
    if change is None:
        raise ValueError("the op is unknown")
    before, after = _decode_fields(document.before) or {}, _decode_fields(document.after) or {}
    names = [name for name in before | after if name != "id" and before.get(name) != after.get(name)]
    if change not in (CREATED, UPDATED, DELETED) or source.omitted:
        names = []
    entity = _decode_entity(document.after) or _decode_entity(document.before)
    found = PublishedChange(
        partition=source.name,
        epoch=source.epoch,
        seq=source.seq,
        change=change,
        kind=source.table or "",
        id=entity.id if entity is not None else "",
        previous_seq=source.previous_seq,
        old=_json_of({name: before.get(name) for name in names}),
        new=_json_of({name: after.get(name) for name in names}),
        entity=document.after,
        versions=source.versions,
        cause=source.cause,
        actor=source.actor,
        project_id=entity.project_id if entity is not None else None,
        time=datetime.datetime.fromtimestamp(document.ts_ms / 1000, datetime.UTC),
        omitted=source.omitted,
    )
    _check_entity(found, found.id)
    return found


def _json_of(fields: dict[str, Any]) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(fields))
