# SPDX-License-Identifier: Apache-2.0
"""The durable position in a stream: what the engine stores with the rows.

The server remembers what was acknowledged, so a source needs no position to continue. The position says what the rows
come from. With it a source notices that the stream is not the one that it has read, or lost what it has not read.
"""

from __future__ import annotations

import datetime

import msgspec

from watcher_sync.sources.cursors import decode_cursor, read_place


class Place(msgspec.Struct, frozen=True, order=True, array_like=True):
    """A message in a stream."""

    sequence: int = 0
    time: int = 0
    """When the server stored it, in nanoseconds since 1970; 0: unknown."""


class Restoration(msgspec.Struct, frozen=True, array_like=True):
    """The end of what a stream retained when an older copy of it was put in its place.

    A message is of the time after it if its sequence or its time is greater.
    """

    sequence: int
    """The greatest sequence that the copy can have had."""
    time: int
    """When the server stored the last message that was known, in nanoseconds since 1970."""


class Loss(msgspec.Struct, frozen=True, array_like=True):
    """The last time that messages were found to be lost."""

    at: datetime.datetime
    """When it was found, aware UTC."""
    note: str
    """What is lost, in one line."""


class StreamCursor(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How much of one stream is committed, and what is known of the stream."""

    stream: str
    """Of :func:`stream_id`. A position in another stream is not used."""
    created: int = 0
    """When the stream was created, in microseconds since 1970; 0 before the first connection."""
    seen: Place = Place()
    """The last message that was committed. No message of ours before it is uncommitted, except those in flight."""
    end: Place = Place()
    """The last message that the stream is known to have had."""
    floor: int = 0
    """Every message of ours up to this sequence is committed."""
    restored: tuple[Restoration, ...] = ()
    """Each time that an older copy of the stream was noticed."""
    start: str = ""
    """Where the next consumer begins, as :func:`read_start` reads it; empty: where the server has it."""
    lost: Loss | None = None
    """What no reconciliation repairs; None: nothing is known to be lost."""

    def text(self) -> str:
        """The form in which it is stored."""
        return msgspec.json.encode(self).decode()

    def starting_at(self, to: str) -> StreamCursor:
        """The position of a consumer that an operator has begin elsewhere. What was lost before is forgotten.

        :param to: as :func:`read_start` reads it.
        """
        return msgspec.structs.replace(self, start=to, lost=None)


def stream_id(stream: str, domain: str | None) -> str:
    """The name of a stream together with its domain."""
    return f"{domain} {stream}" if domain else stream


def read_cursor(text: str | None, stream: str) -> StreamCursor | None:
    """A stored position, if it is one in this stream; else None."""
    found = decode_cursor(text, StreamCursor, read_start)
    return found if found is not None and found.stream == stream else None


def read_start(text: str) -> dict[str, object]:
    """The fields of a consumer's configuration that have it begin there.

    :param text: ``first``, a sequence, or an ISO 8601 time, which is UTC unless it says otherwise.
    :raises ValueError: it is none of these.
    """
    place = read_place(text, "a sequence")
    if isinstance(place, datetime.datetime):
        return {"deliver_policy": "by_start_time", "opt_start_time": place.isoformat().replace("+00:00", "Z")}
    if isinstance(place, str):
        return {"deliver_policy": "all"}
    if place == 0:
        raise ValueError("0 is no sequence of a stream")
    return {"deliver_policy": "by_start_sequence", "opt_start_seq": place}
