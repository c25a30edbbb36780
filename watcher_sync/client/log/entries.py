# SPDX-License-Identifier: Apache-2.0
"""What the reader of a log yields.

A position is ``{partition: (epoch, seq, sequence)}``: the last change, and the sequence of its message in the stream.
It is JSON, and positions of several partitions fit into one object.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec

from watcher_sync.client.log.messages import (
    SNAPSHOT,
    SNAPSHOT_BEGIN,
    SNAPSHOT_END,
    UNREADABLE,
    PublishedChange,
    UnknownMessage,
    decoded,
)
from watcher_sync.client.log.received import LogMessage, ModelBegins, ModelEnds, Received

LogPlaces = Mapping[str, Sequence[Any]]
"""Partition -> (epoch, seq, sequence in the stream)."""
_Sequence = Annotated[int, msgspec.Meta(ge=1)]


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
    omitted: tuple[str, ...] = ()
    """What is missing because it is too large for the log: ``old`` and ``new``, which are then empty, and ``entity``,
    which then has the id alone, and the project. The REST API has the entity."""
    reason: str = ""
    """Why the reader begins a snapshot: ``no_position``, ``purged`` or ``replaced``. Empty: the publisher did."""
    position: dict[str, tuple[str, int, int]] = {}
    """Where to go on after this entry. Within a snapshot it is the position before, so half of one is read again."""


_decode_fields = msgspec.json.Decoder(dict[str, Any]).decode
_decode_fields_or_none = msgspec.json.Decoder(dict[str, Any] | None).decode
_NO_FIELDS = msgspec.Raw(b"{}")
_decode_versions = msgspec.json.Decoder(dict[str, str]).decode


class LogReading:
    """Makes entries of what was received, in its order, and knows the position after each. For one thread."""

    def __init__(self, position: LogPlaces | None = None) -> None:
        """:param position: where the reading begins; None: with the current model.

        :raises ValueError: it is no position.
        """
        try:
            self.position = msgspec.convert(position or {}, dict[str, tuple[str, int, _Sequence]])
        except msgspec.ValidationError as exc:
            raise ValueError(f"position: it is not that of an entry: {exc}") from None
        self._is_whole: bool | None = None
        """Whether all of a snapshot was read so far; None: none is being read, or its begin was not read."""
        self._last: PublishedChange | None = None
        """What was received last: it is the position when a snapshot of the reader ends."""
        self._last_sequence = 0

    def entry(self, received: Received) -> LogEntry | None:
        """The entry of what was received; None: it has none.

        A snapshot of which something is unknown has no end.

        :raises UnknownMessage: a message is no change. What follows can be read.
        """
        try:
            return self._entry(received)
        except UnknownMessage:
            is_marker = not isinstance(received, ModelEnds) and received.marker
            self._is_whole = None if is_marker or self._is_whole is None else False
            raise

    def _entry(self, received: Received) -> LogEntry | None:
        if isinstance(received, LogMessage):
            published = decoded(received.data, received.sequence, received.marker)
            self._last, self._last_sequence = published, received.sequence
            return self._entity(published) if received.of_model else self._change(published)
        if isinstance(received, ModelBegins):
            published = decoded(received.data, received.sequence, received.marker)
            self._is_whole, self._last, self._last_sequence = True, published, received.sequence
            self.position = {name: place for name, place in self.position.items() if name == published.partition}
            return self._marker(published, SNAPSHOT_BEGIN, published.time, received.reason)
        return self._end(self._last, None) if self._last is not None else None

    def _end(self, published: PublishedChange, time: datetime.datetime | None) -> LogEntry | None:
        """The end of a snapshot; None: something of it is unknown."""
        is_whole, self._is_whole = self._is_whole, None
        self._move(published)
        return self._marker(published, SNAPSHOT_END, time) if is_whole else None

    def _move(self, published: PublishedChange) -> None:
        self.position = {published.partition: (published.epoch, published.seq, self._last_sequence)}

    def _entity(self, published: PublishedChange) -> LogEntry | None:
        """An entity of the current model; None: the message is a marker, or the entity is gone."""
        if not published.exists:
            return None
        return self._made(published, SNAPSHOT, _NO_FIELDS, _NO_FIELDS)

    def _change(self, published: PublishedChange) -> LogEntry | None:
        if published.change == SNAPSHOT_END:
            return self._end(published, published.time)
        if published.change == SNAPSHOT_BEGIN:
            self._is_whole = True
        elif self._is_whole is None:
            self._move(published)
        return self._made(published, published.change, published.old, published.new)

    def _made(self, published: PublishedChange, change: str, old: msgspec.Raw, new: msgspec.Raw) -> LogEntry:
        try:
            return LogEntry(
                partition=published.partition,
                epoch=published.epoch,
                seq=published.seq,
                change=change,
                kind=published.kind,
                id=published.id,
                time=published.time,
                entity=_decode_fields_or_none(published.entity),
                old=_decode_fields(old),
                new=_decode_fields(new),
                previous_seq=published.previous_seq,
                versions=_decode_versions(published.versions),
                cause=_decode_fields_or_none(published.cause),
                actor=_decode_fields_or_none(published.actor),
                project_id=published.project_id,
                omitted=published.omitted,
                position=self.position,
            )
        except UNREADABLE as exc:
            raise UnknownMessage(self._last_sequence, exc) from None

    def _marker(
        self, published: PublishedChange, change: str, time: datetime.datetime | None, reason: str = ""
    ) -> LogEntry:
        return LogEntry(
            partition=published.partition,
            epoch=published.epoch,
            seq=published.seq,
            change=change,
            time=time,
            reason=reason,
            position=self.position,
        )
