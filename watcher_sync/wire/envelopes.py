# SPDX-License-Identifier: Apache-2.0
"""One document of a transport or a recording becomes one event.

Each envelope has fields of its own:

* oslo: ``{event_type, publisher_id, payload, message_id?, timestamp?, _context_*?}``, bare or in messagingv2's
  ``{"oslo.version": "2.0", "oslo.message": "<text>"}``;
* CloudEvents 1.0: ``{specversion, id, source, type, subject?, time?, data}``, or the same as ``ce-*`` headers;
* a Kubernetes watch event: ``{type: ADDED|..., object: {kind, metadata}}``. Its type is
  ``kubernetes.<kind>[.<group>].<what happened>``.

Guaranteed: every document becomes exactly one event, and no function raises. An unknown envelope becomes an event
whose ``undecodable`` names the wrong field. Of a body above ``max_size`` the event has an excerpt. An envelope without
an id gets the caller's number, or a digest.

The data of a text is JSON text: the handler decodes what it needs. The data of a decoded document is a tree. Pure
functions, for any thread.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from watcher_sync.events import CLOUD_EVENTS, KUBERNETES_WATCH, OSLO, Event, excerpt
from watcher_sync.wire import cloud_events, request_contexts
from watcher_sync.wire import json as wire_json
from watcher_sync.wire.fields import (
    BadEnvelope,
    EventDelivery,
    absent_or,
    check_delivery,
    is_name,
    name_of,
    parse_time,
    show,
    text_of_member,
    title_of,
)
from watcher_sync.wire.json import BadJson, HalfPair

UNDECODABLE_TYPE: Final = "undecodable"
"""The type of an event whose envelope has no readable type."""

_WATCH_TYPES: Final = {"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"}


def read_body(
    body: bytes,
    *,
    source: str,
    number: int | str | None = None,
    position: Any = None,
    deliveries: int = 1,
    channel: str = "",
    sequence: tuple[int, int] | None = None,
    max_size: int = wire_json.MAX_SIZE,
) -> Event:
    """The event of a text.

    :param body: one JSON document.
    :param source: name of the source that received it.
    :param number: the id of an envelope that has none: a number, or the whole id as text. None: a digest of the
        text. A recorded watch event has the sequence (0, number).
    :param position: see :class:`~watcher_sync.events.Event`.
    :param deliveries: see :class:`~watcher_sync.events.Event`.
    :param channel: see :class:`~watcher_sync.events.Event`.
    :param sequence: see :class:`~watcher_sync.events.Event`.
    :param max_size: bytes that the text may have, by default 512 KiB. A larger one is not decoded: the event has an
        excerpt and a digest.
    """
    return _read_body(body, EventDelivery(source, number, position, deliveries, channel, sequence, len(body)), max_size)


def _read_body(body: bytes, delivery: EventDelivery, max_size: int) -> Event:
    if len(body) > max_size:
        return _oversized(body, max_size, delivery, None)
    document: Any = None
    try:
        text = body
        check_delivery(delivery)
        try:
            document = wire_json.decode(text, max_size=max_size)
        except HalfPair:
            document = wire_json.decode(text := wire_json.with_whole_pairs(body), max_size=max_size)
        if type(document) is dict and "oslo.message" in document:
            document, text = _unwrap(document, max_size)
        return _build(document, delivery, text)
    except (BadJson, BadEnvelope) as exc:
        return _undecodable(body, str(exc), delivery, document)


def read_message(
    body: bytes,
    headers: Mapping[str, str] | None,
    *,
    source: str,
    number: int | str | None = None,
    position: Any = None,
    deliveries: int = 1,
    channel: str = "",
    sequence: tuple[int, int] | None = None,
    max_size: int = wire_json.MAX_SIZE,
) -> Event:
    """The event of a message with headers: of a CloudEvent in binary mode, or of its body.

    A CloudEvent in binary mode that cannot be decoded is converted to structured mode, so that :func:`read_body`
    can read it later.

    :param headers: of the message; None where it has none. For the rest see :func:`read_body`.
    """
    binary = cloud_events.binary_headers(headers) if headers else None
    delivery = EventDelivery(source, number, position, deliveries, channel, sequence, len(body))
    if binary is None:
        return _read_body(body, delivery, max_size)
    if len(body) > max_size:
        return _oversized(body, max_size, delivery, binary.readable)
    try:
        check_delivery(delivery)
        return cloud_events.read_binary(binary, body, delivery, max_size=max_size)
    except (BadJson, BadEnvelope) as exc:
        return _undecodable(cloud_events.structured(binary.attributes, body), str(exc), delivery, binary.readable)


def unread(body: bytes, headers: Mapping[str, str] | None, event: Event, reason: str) -> Event:
    """A decoded event as an undecodable one, so that it goes to quarantine with its raw text.

    :param body: the message that it was read from.
    :param reason: why it shall not be applied now.
    """
    binary = cloud_events.binary_headers(headers) if headers else None
    raw = body if binary is None else cloud_events.structured(binary.attributes, body)
    return msgspec.structs.replace(event, data=raw, undecodable=reason)


def text_of(event: Event) -> bytes | None:
    """The envelope of a decoded event as text, from which :func:`read_body` makes the same event again.

    Channel, sequence, position and deliveries are no part of an envelope. None: the event has no envelope.
    """
    data = event.data if isinstance(event.data, bytes) else _text_of(event.data)
    time = None if event.time is None else event.time.isoformat()
    document: dict[str, Any]
    if event.envelope == OSLO:
        document = {"message_id": event.id, "event_type": event.type, "publisher_id": event.origin}
        document |= {"timestamp": time} if time is not None else {}
        document |= request_contexts.members_of(event)
        document["payload"] = msgspec.Raw(data)
    elif event.envelope == CLOUD_EVENTS:
        document = {"specversion": "1.0", "id": event.id, "source": event.origin, "type": event.type}
        document |= {"subject": event.subject} if event.subject else {}
        document |= {"time": time} if time is not None else {}
        document |= {"authid": event.actor.id} if event.actor is not None and event.actor.id != event.origin else {}
        document |= {"data": msgspec.Raw(data)} if event.data is not None else {}
    elif event.envelope == KUBERNETES_WATCH:
        document = {"type": event.type.rpartition(".")[2].upper(), "object": msgspec.Raw(data)}
    else:
        return None
    return msgspec.json.encode(document)


def read_document(
    document: Any,
    *,
    source: str,
    number: int | None = None,
    position: Any = None,
    deliveries: int = 1,
) -> Event:
    """The same for a document that a transport hands over already decoded.

    What the decoding has lost, a duplicate key above all, cannot be seen any more. The transport limits the size.

    :param document: objects as dict, lists as list, texts as str. For the rest see :func:`read_body`.
    """
    delivery = EventDelivery(source, number, position, deliveries)
    try:
        try:
            wire_json.check_tree(document)
        except HalfPair:
            text = wire_json.with_whole_pairs(_text_of(document))
            document = wire_json.decode(text, max_size=len(text))
        if type(document) is dict and "oslo.message" in document:
            document, text = _unwrap(document, wire_json.MAX_SIZE)
            return _build(document, delivery, text)
        return _build(document, delivery, None)
    except (BadJson, BadEnvelope) as exc:
        return _undecodable(_text_of(document), str(exc), delivery, document)


def read_cloud_event(document: Any, *, source: str) -> Event:
    """The event of a decoded document that is a CloudEvent and has no other envelope's meaning.

    :param document: an object with ``specversion``.
    """
    delivery = EventDelivery(source)
    try:
        wire_json.check_tree(document)
        return cloud_events.read_structured(document, delivery, None)
    except (BadJson, BadEnvelope) as exc:
        return _undecodable(_text_of(document), str(exc), delivery, document)


def undecodable(
    body: bytes,
    reason: str,
    *,
    source: str,
    number: int | None = None,
    position: Any = None,
    deliveries: int = 1,
    document: Any = None,
) -> Event:
    """The event of an undecodable document, with every field that its envelope still has.

    :param body: the raw text, whole.
    :param reason: what is wrong, naming the field.
    :param source: name of the source that received it.
    :param number: the id of an envelope that has none; None: a digest of the text.
    :param position: see :class:`~watcher_sync.events.Event`.
    :param deliveries: see :class:`~watcher_sync.events.Event`.
    :param document: the envelope as far as it could be decoded, or None.
    """
    return _undecodable(body, reason, EventDelivery(source, number, position, deliveries), document)


def _oversized(body: bytes, max_size: int, delivery: EventDelivery, document: Any) -> Event:
    """The event of a body that is too large: it is not decoded, and only an excerpt of it is retained."""
    head, digest = excerpt(body)
    reason = f"{len(body)} bytes are more than the {max_size} allowed"
    if delivery.number is None:
        delivery.number = digest[:32]
    event = _undecodable(head, reason, delivery, document)
    return msgspec.structs.replace(event, size=len(head), whole_size=len(body), digest=digest)


def _undecodable(body: bytes, reason: str, delivery: EventDelivery, document: Any) -> Event:
    fields = document if type(document) is dict else {}
    message_id = fields.get("message_id")
    if not is_name(message_id):
        message_id = fields.get("id")
    event_type = fields.get("event_type")
    if not is_name(event_type):
        event_type = fields.get("type") if "specversion" in fields else None
    origin = fields.get("source" if "specversion" in fields else "publisher_id")
    return Event(
        id=message_id if is_name(message_id) else _generated_id(delivery.number, body),
        type=event_type if is_name(event_type) else UNDECODABLE_TYPE,
        source=delivery.source,
        origin=origin if is_name(origin) else "",
        data=body,
        channel=delivery.channel,
        sequence=delivery.sequence,
        position=delivery.position,
        deliveries=delivery.deliveries,
        undecodable=reason,
        size=delivery.size,
    )


def _unwrap(document: dict[str, Any], max_size: int) -> tuple[Any, bytes]:
    """What messagingv2's wrapper holds, decoded and as text."""
    version = document.get("oslo.version")
    if type(version) is not str or version.partition(".")[0] != "2":
        raise BadEnvelope(f"oslo.version is {show(version)}, not 2.0")
    text = document["oslo.message"]
    if type(text) is not str:
        raise BadEnvelope(f"oslo.message is {show(text)}, not a string")
    body = text.encode()
    try:
        try:
            return wire_json.decode(body, max_size=max_size), body
        except HalfPair:
            return wire_json.decode(body := wire_json.with_whole_pairs(body), max_size=max_size), body
    except BadJson as exc:
        raise BadEnvelope(f"oslo.message: {exc}") from None


def _build(document: Any, delivery: EventDelivery, body: bytes | None) -> Event:
    if type(document) is not dict:
        raise BadEnvelope(f"the document is {show(document)}, not an envelope")
    if "event_type" not in document:
        if "specversion" in document or any(name.lower() == "specversion" for name in document):
            return cloud_events.read_structured(document, delivery, body)
        if "object" in document and "type" in document:
            return _watch_event(document, delivery, body)
        raise BadEnvelope("event_type is missing")

    event_type = document["event_type"]
    if not is_name(event_type):
        raise BadEnvelope(f"event_type is {show(event_type)}, not a name")
    publisher_id = name_of(document, "publisher_id")
    payload = document.get("payload")
    if type(payload) is not dict:
        raise BadEnvelope(f"payload is {absent_or(document, 'payload', 'an object')}")
    message_id = document.get("message_id")
    if not is_name(message_id):
        if "message_id" in document:
            raise BadEnvelope(f"message_id is {show(message_id)}, not a name")
        message_id = _generated_id(delivery.number, body if body is not None else _text_of(document))
    return Event(
        id=message_id,
        type=event_type,
        source=delivery.source,
        origin=publisher_id,
        time=parse_time(document["timestamp"], "timestamp") if "timestamp" in document else None,
        data=payload if body is None else text_of_member(body, "payload", payload),
        channel=delivery.channel,
        sequence=delivery.sequence,
        position=delivery.position,
        deliveries=delivery.deliveries,
        envelope=OSLO,
        size=delivery.size,
        trace=request_contexts.trace_of(document),
        actor=request_contexts.actor_of(document, payload),
    )


def _watch_event(document: dict[str, Any], delivery: EventDelivery, body: bytes | None) -> Event:
    what = document["type"]
    if type(what) is not str or what not in _WATCH_TYPES:
        raise BadEnvelope(f"type is {show(what)}, not one of {', '.join(sorted(_WATCH_TYPES))}")
    item = document["object"]
    if type(item) is not dict:
        raise BadEnvelope(f"object is {show(item)}, not an object")
    kind, api_version = name_of(item, "kind", "object."), item.get("apiVersion")
    group = api_version.rpartition("/")[0] if is_name(api_version) else ""
    metadata = item.get("metadata", {})
    if type(metadata) is not dict:
        raise BadEnvelope(f"object.metadata is {show(metadata)}, not an object")
    uid, version, name = (metadata.get(field) for field in ("uid", "resourceVersion", "name"))
    if what in ("ADDED", "MODIFIED", "DELETED"):
        uid = name_of(metadata, "uid", "object.metadata.")
        version = name_of(metadata, "resourceVersion", "object.metadata.")
    return Event(
        id=f"{uid or ''}/{version or ''}",
        type=f"kubernetes.{title_of(group, kind).lower()}.{what.lower()}",
        source=delivery.source,
        origin=delivery.source,
        subject=name if is_name(name) else "",
        data=item if body is None else text_of_member(body, "object", item),
        channel=delivery.channel,
        sequence=delivery.sequence or _recorded_sequence(delivery.number),
        position=delivery.position,
        deliveries=delivery.deliveries,
        envelope=KUBERNETES_WATCH,
        size=delivery.size,
    )


def _recorded_sequence(number: int | str | None) -> tuple[int, int] | None:
    """The sequence of a recorded watch event: before all live ones, in the order of the recording."""
    return (0, number) if isinstance(number, int) else None


def _generated_id(number: int | str | None, body: bytes) -> str:
    """The id of an envelope that has none."""
    if isinstance(number, str):
        return number
    if number is not None:
        return f"{number:012d}"
    return hashlib.blake2b(body, digest_size=16).hexdigest()


def _text_of(document: Any) -> bytes:
    """The nearest text to a document that has been decoded elsewhere."""
    try:
        return json.dumps(document, default=repr, skipkeys=True).encode()
    except (ValueError, RecursionError):
        return repr(type(document)).encode()
