# SPDX-License-Identifier: Apache-2.0
"""The one form in which everything that happened outside travels through the engine.

A source makes an :class:`Event` from what its transport brought, and nothing after the source knows
the transport any more. What a source cannot decode it still emits, with :attr:`Event.undecodable`
saying why: the engine puts it into quarantine, so that nothing is dropped silently.
"""

from __future__ import annotations

import builtins
import datetime
from collections.abc import Callable
from typing import Any, TypeVar, overload

import msgspec

from watcher_sync.exceptions import InvalidEvent

T = TypeVar("T")


class PartialPayload(msgspec.Struct, frozen=True, gc=False):
    """A payload of which its source has decoded what the handler needs, with the way back to its text."""

    decoded: Any
    text_of: Callable[[int], bytes]
    """Finds the JSON text again, among those that came with it. Slow: for what goes wrong."""
    place: int
    """Which of them it is."""

    @property
    def text(self) -> bytes:
        """All of it, as it came."""
        return self.text_of(self.place)


class Event(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One notification, watch event or CloudEvent.

    Immutable and cheap. Two events with the same id from one source are the same event, delivered twice.
    """

    id: str
    """Unique in its source: message id, CloudEvents id. Breaks ties between versions."""
    type: str
    """Dotted name that dispatch goes by, such as ``instance.power_off.end``."""
    source: str
    """Name of our source that brought it."""
    origin: str = ""
    """Who published it: publisher_id, CloudEvents source, cluster."""
    subject: str = ""
    """What it is about, where the transport says so."""
    time: datetime.datetime | None = None
    """When it was published, aware UTC; None where the envelope does not say."""
    data: Any = None
    """The payload: JSON text as bytes, the document where the transport had decoded it already, or an
    :class:`PartialPayload`; the whole raw body of an event that is undecodable. :meth:`read` does not care which."""
    channel: str = ""
    """The address that its transport carried it under, such as the NATS subject; empty where there is none."""
    sequence: tuple[int, int] | None = None
    """Where its transport numbers what it carries: (epoch of the numbering in microseconds since 1970, number).
    The numbers of one epoch are the order; a greater epoch comes after all of a smaller one."""
    position: Any = None
    """Where it stands in its transport; opaque to all but its source."""
    deliveries: int = 1
    """How often the transport has delivered it, this time included."""
    undecodable: str | None = None
    """Why the source could not decode it; None for a good event."""

    @overload
    def read(self) -> Any: ...

    @overload
    def read(self, type_: builtins.type[T]) -> T: ...

    def read(self, type_: Any = Any) -> Any:
        """The payload, decoded now; a handler that names a partial struct pays for the fields of it only.

        :param type_: what msgspec shall decode it to: a Struct, a TypedDict, ... ; left out: whatever it is.
        :raises InvalidEvent: it is no such thing; says which field is wrong.
        """
        data = self.data
        if isinstance(data, PartialPayload):
            if data.decoded.__class__ is type_:
                return data.decoded
            data = data.text
        try:
            if isinstance(data, (bytes, bytearray, memoryview, msgspec.Raw)):
                return msgspec.json.decode(data, type=type_)
            return msgspec.convert(data, type_)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
            raise InvalidEvent(f"data: {exc}") from None
