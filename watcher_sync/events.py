# SPDX-License-Identifier: Apache-2.0
"""The event: one immutable form for the messages of every transport.

A source makes an :class:`Event` from each message, and no code after the source knows the transport. A source also
emits a message that it cannot decode, with the reason in :attr:`Event.undecodable`. The engine puts such an event into
quarantine, so that no message is lost silently.
"""

from __future__ import annotations

import builtins
import datetime
import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeVar, overload

import msgspec

from watcher_sync.decoding import UNDECODABLE
from watcher_sync.exceptions import InvalidEvent

T = TypeVar("T")

OSLO: Final = "oslo"
"""The envelope of a notification of oslo.messaging."""
CLOUD_EVENTS: Final = "cloudevents"
"""The envelope of a CloudEvent."""
KUBERNETES_WATCH: Final = "kubernetes-watch"
"""The envelope of a recorded watch event of Kubernetes."""
NATIVE: Final = "native"
"""No envelope: the driver made the event from its own protocol."""

KNOWN_BEFORE: Final = ""
"""The envelope of an event that is replayed from quarantine: it was authorised when it arrived."""

EXCERPT_BYTES = 65_536
"""Bytes that are retained of a body that is too large to be decoded or stored."""

MAX_PORTION_BYTES = 4_194_304
"""Bytes of events that sources and replays pass on at once, unless one event alone has more."""


class PartialPayload(msgspec.Struct, frozen=True, gc=False):
    """A payload that its source has decoded in part, for its handler, with access to its text."""

    decoded: Any
    text_of: Callable[[int], bytes]
    """Finds the JSON text by its index in the page that it came with. Slow: for the error path."""
    place: int
    """The index."""
    size: int = 0
    """Bytes of the text, as an average over the page."""

    @property
    def text(self) -> bytes:
        """The whole JSON text, unchanged."""
        return self.text_of(self.place)


class Actor(msgspec.Struct, frozen=True, gc=False):
    """Who caused an event: an authenticated caller of our API, or whom a message names; the latter is not verified."""

    id: str | None
    """A user of Keystone, the authid or else the source of a CloudEvent, or a field manager of Kubernetes. None: a
    service acted by itself, such as in a periodic task."""
    project_id: str | None = None
    """Its project; None: it has none, or acts for the whole system."""
    request_id: str | None = None
    """That of the request, as in its answer and in the logs of the service."""


class TraceContext(msgspec.Struct, frozen=True, gc=False):
    """The trace that an event is part of."""

    traceparent: str = ""
    """W3C Trace Context, as the extension attribute of a CloudEvent; empty: none."""
    global_request_id: str = ""
    """The one of OpenStack, as the request context of a notification; empty: none."""


class Event(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One notification, watch event or CloudEvent.

    Immutable and cheap. Two events with the same id from one source are the same event, delivered twice.
    """

    id: str
    """Unique in its source: message id, CloudEvents id. Breaks ties between versions."""
    type: str
    """Dotted name that dispatch goes by, such as ``instance.power_off.end``."""
    source: str
    """Name of our source that received it."""
    origin: str = ""
    """Its publisher: publisher_id, CloudEvents source, cluster."""
    subject: str = ""
    """Its subject, where the transport has one."""
    time: datetime.datetime | None = None
    """When it was published, aware UTC; None where the envelope does not say."""
    data: Any = None
    """The payload: JSON text as bytes, the document where the transport had decoded it already, or an
    :class:`PartialPayload`; the whole raw body of an event that is undecodable. :meth:`read` does not care which."""
    channel: str = ""
    """The address that its transport carried it under, such as the NATS subject; empty where there is none."""
    sequence: tuple[int, int] | None = None
    """Where its transport numbers what it carries: (epoch of the numbering, number). The epoch is a time in
    microseconds since 1970, or a count where the driver makes the event itself. The numbers of one epoch are the order;
    a greater epoch comes after all of a smaller one."""
    position: Any = None
    """Its position in the transport; opaque to all but its source."""
    deliveries: int = 1
    """How often the transport has delivered it, this time included."""
    undecodable: str | None = None
    """Why the source could not decode it; None for a good event."""
    envelope: str = NATIVE
    """The form in which it arrived: :data:`OSLO`, :data:`CLOUD_EVENTS`, :data:`KUBERNETES_WATCH` or :data:`NATIVE`."""
    size: int = 0
    """Bytes of its message, as far as it is retained; 0 where that is unknown."""
    whole_size: int = 0
    """Bytes of the whole body, if ``data`` is only an excerpt of it; else 0."""
    digest: str = ""
    """SHA-256 of the whole body, in hexadecimal, if ``data`` is only an excerpt of it; else empty."""
    actor: Actor | None = None
    """Who caused it, as its envelope says; the caller of the API, where one sent it. None: unknown."""
    trace: TraceContext | None = None
    """The trace that it is part of; None if its envelope has none, and for an event that was stored."""

    @overload
    def read(self) -> Any: ...

    @overload
    def read(self, type_: builtins.type[T]) -> T: ...

    def read(self, type_: Any = Any) -> Any:
        """The payload, decoded now. For a partial struct, only its fields become Python objects.

        :param type_: the type for msgspec: a Struct, a TypedDict, ...; left out: plain objects.
        :raises InvalidEvent: naming the field that does not fit the type.
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
        except UNDECODABLE as exc:
            raise InvalidEvent(f"data: {exc}") from None


def excerpt(body: bytes) -> tuple[bytes, str]:
    """The beginning of a body that is too large, and the SHA-256 of the whole in hexadecimal."""
    return bytes(memoryview(body)[:EXCERPT_BYTES]), hashlib.sha256(body).hexdigest()


def portions(events: Iterable[Event], most: int, most_bytes: int = MAX_PORTION_BYTES) -> Iterator[list[Event]]:
    """The events in order, in lists of at most ``most`` events and about ``most_bytes`` bytes, at least one each."""
    portion: list[Event] = []
    size = 0
    for event in events:
        portion.append(event)
        size += event.size
        if len(portion) >= most or size >= most_bytes:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion
