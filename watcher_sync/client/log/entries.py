# SPDX-License-Identifier: Apache-2.0
"""What the reader of a log yields, and the decoding of messages in both formats.

A position is ``{partition: (epoch, seq, sequence)}``: the last change, and the sequence of its message in the stream.
It is JSON, and positions of several partitions fit into one object.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from watcher_sync.client.errors import ClientError
from watcher_sync.client.log.follower import LogMessage, ModelBegins, ModelEnds, Received

CREATED: Final = "created"
UPDATED: Final = "updated"
DELETED: Final = "deleted"
SNAPSHOT: Final = "snapshot"
SNAPSHOT_BEGIN: Final = "snapshot_begin"
SNAPSHOT_END: Final = "snapshot_end"

LogPlaces = Mapping[str, Sequence[Any]]
"""Partition -> (epoch, seq, sequence in the stream)."""

_CHANGES: Final = {"c": CREATED, "u": UPDATED, "d": DELETED, "r": SNAPSHOT}


class UnknownMessage(ClientError):
    """A message of the stream is no change of watcher_sync, or is damaged. Its sequence is in the error."""


class LogEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One change of an entity, or a part of a snapshot."""

    partition: str
    epoch: str
    seq: int
    """Of the change in the journal of the partition. An entity of a snapshot may have a lower one than its begin."""
    change: str
    """``created``, ``updated``, ``deleted``, ``snapshot``, ``snapshot_begin`` or ``snapshot_end``."""
    kind: str = ""
    """Empty at the begin and the end of a snapshot, as is the id."""
    id: str = ""
    time: datetime.datetime | None = None
    """When the change was committed; aware UTC."""
    entity: dict[str, Any] | None = None
    """All fields and the id after the change; None: the entity does not exist."""
    old: dict[str, Any] = {}
    """The fields that changed, with their values before. Empty in a snapshot."""
    new: dict[str, Any] = {}
    """The fields that changed, with their values after. Empty in a snapshot."""
    previous_seq: int | None = None
    """The seq of the change of this entity before; None: there was none, or it is unknown."""
    versions: dict[str, str] = {}
    cause: dict[str, Any] | None = None
    """The event that caused the change: ``event_id``, ``event_type``, ``source`` and ``merged``."""
    actor: dict[str, Any] | None = None
    project_id: str | None = None
    reason: str = ""
    """Why the reader begins a snapshot: ``no_position``, ``purged`` or ``replaced``. Empty: the publisher did."""
    position: dict[str, tuple[str, int, int]] = {}
    """Where to go on after this entry. Within a snapshot it is the position before, so half of one is read again."""


class _Data(msgspec.Struct, gc=False):
    partition: str
    epoch: str
    seq: int
    change: str
    kind: str = ""
    id: str = ""
    previous_seq: int | None = None
    old: dict[str, Any] = {}
    new: dict[str, Any] = {}
    entity: dict[str, Any] | None = None
    versions: dict[str, str] = {}
    cause: dict[str, Any] | None = None
    actor: dict[str, Any] | None = None
    project_id: str | None = None


class _Source(msgspec.Struct, gc=False):
    name: str
    epoch: str
    seq: int
    table: str | None = None
    previous_seq: int | None = None
    versions: dict[str, str] = {}
    cause: dict[str, Any] | None = None
    actor: dict[str, Any] | None = None


class _Published(msgspec.Struct, gc=False):
    """A message of either format: CloudEvents have ``data``, and an envelope of Debezium has ``op``."""

    time: datetime.datetime | None = None
    data: _Data | None = None
    op: str = ""
    ts_ms: int = 0
    source: _Source | str | None = None
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    message: dict[str, str] = {}


_decode = msgspec.json.Decoder(_Published).decode


def _differences(document: _Published) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields of an envelope of Debezium that changed: their old and their new values."""
    before, after = document.before or {}, document.after or {}
    names = [name for name in before | after if name != "id" and before.get(name) != after.get(name)]
    return {name: before.get(name) for name in names}, {name: after.get(name) for name in names}


def _data_of(document: _Published, source: _Source) -> _Data:
    change = _CHANGES.get(document.op) or document.message["content"]
    old, new = _differences(document) if change in (CREATED, UPDATED, DELETED) else ({}, {})
    entity = document.after or document.before or {}
    return _Data(
        partition=source.name,
        epoch=source.epoch,
        seq=source.seq,
        change=change,
        kind=source.table or "",
        id=entity.get("id", ""),
        previous_seq=source.previous_seq,
        old=old,
        new=new,
        entity=document.after,
        versions=source.versions,
        cause=source.cause,
        actor=source.actor,
        project_id=entity.get("project_id"),
    )


def _decoded(message: bytes, sequence: int) -> tuple[_Data, datetime.datetime | None]:
    """What a message has, and its time.

    :raises UnknownMessage: it is in neither format.
    """
    try:
        document = _decode(message)
        if document.data is not None:
            return document.data, document.time
        if isinstance(document.source, _Source):
            time = datetime.datetime.fromtimestamp(document.ts_ms / 1000, datetime.UTC)
            return _data_of(document, document.source), time
    except (msgspec.DecodeError, KeyError, OverflowError, ValueError) as exc:
        raise UnknownMessage(f"the message {sequence} of the stream is no change: {exc}") from None
    raise UnknownMessage(f"the message {sequence} of the stream is no change")


class LogReading:
    """Makes entries of what was received, in its order, and knows the position after each. For one thread."""

    def __init__(self, position: LogPlaces | None = None) -> None:
        """:param position: where the reading begins; None: with the current model."""
        self.position: dict[str, tuple[str, int, int]] = {
            partition: (place[0], place[1], place[2]) for partition, place in (position or {}).items()
        }
        self._in_snapshot = False
        self._last: _Data | None = None
        """What was received last: it is the position when a snapshot of the reader ends."""
        self._last_sequence = 0

    def entry(self, received: Received) -> LogEntry | None:
        """The entry of what was received; None: it has none.

        :raises UnknownMessage: a message is no change.
        """
        if isinstance(received, LogMessage):
            data, time = _decoded(received.data, received.sequence)
            self._last, self._last_sequence = data, received.sequence
            if received.of_model:
                return self._entity(data, time)
            return self._change(data, time)
        if isinstance(received, ModelBegins):
            data, time = _decoded(received.data, 0)
            self._in_snapshot, self._last = True, data
            self.position = {name: place for name, place in self.position.items() if name == data.partition}
            return self._marker(data, SNAPSHOT_BEGIN, time, received.reason)
        assert isinstance(received, ModelEnds)
        assert self._last is not None
        self._move(self._last)
        return self._marker(self._last, SNAPSHOT_END, None)

    def _move(self, data: _Data) -> None:
        self._in_snapshot = False
        self.position = {data.partition: (data.epoch, data.seq, self._last_sequence)}

    def _entity(self, data: _Data, time: datetime.datetime | None) -> LogEntry | None:
        """An entity of the current model; None: the message is a marker, or the entity is gone."""
        if data.entity is None:
            return None
        data.change, data.old, data.new = SNAPSHOT, {}, {}
        return self._made(data, time)

    def _change(self, data: _Data, time: datetime.datetime | None) -> LogEntry:
        if data.change == SNAPSHOT_BEGIN:
            self._in_snapshot = True
        elif not self._in_snapshot or data.change == SNAPSHOT_END:
            self._move(data)
        return self._made(data, time)

    def _made(self, data: _Data, time: datetime.datetime | None) -> LogEntry:
        return LogEntry(
            partition=data.partition,
            epoch=data.epoch,
            seq=data.seq,
            change=data.change,
            kind=data.kind,
            id=data.id,
            time=time,
            entity=data.entity,
            old=data.old,
            new=data.new,
            previous_seq=data.previous_seq,
            versions=data.versions,
            cause=data.cause,
            actor=data.actor,
            project_id=data.project_id,
            position=self.position,
        )

    def _marker(self, data: _Data, change: str, time: datetime.datetime | None, reason: str = "") -> LogEntry:
        return LogEntry(
            partition=data.partition,
            epoch=data.epoch,
            seq=data.seq,
            change=change,
            time=time,
            reason=reason,
            position=self.position,
        )
