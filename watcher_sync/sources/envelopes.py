# SPDX-License-Identifier: Apache-2.0
"""One document, as a wire or a recording carries it, made into one event.

Four envelopes are known, told apart by the fields that only they have:

* oslo: ``{event_type, publisher_id, payload, message_id?, timestamp?}``, bare or wrapped in messagingv2's
  ``{"oslo.version": "2.0", "oslo.message": "<text>"}``; the data is the payload;
* CloudEvents 1.0 in structured JSON: ``{specversion, id, source, type, subject?, time?, data}``, its
  attribute names in any case; the data is ``data``;
* a Kubernetes watch event: ``{type: ADDED|MODIFIED|DELETED|..., object: {kind, metadata, ...}}``; the type
  is ``kubernetes.<kind>.<what happened>``, the origin is the source's name, the data is the object.

Guaranteed: every document becomes exactly one event, and nothing raises. What is no such envelope becomes
an event whose ``undecodable`` names the field that is wrong and whose ``data`` is the raw text. An envelope
without an id is numbered by the caller, or, where the caller cannot count (a broker redelivers), gets a
digest of its text, so that the same message has the same id every time.

Not promised: that the data means anything. It is the decoded tree as it stands in the document, not
copied, not encoded again; what it says is the handler's concern. Pure functions: any thread.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import hashlib
import json
from typing import Any, Final, TypeGuard

from watcher_sync import strictjson
from watcher_sync.events import Event
from watcher_sync.strictjson import BadJson

UNDECODABLE_TYPE: Final = "undecodable"
"""The type of an event whose envelope does not even tell its type."""

_WATCH_TYPES: Final = {"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"}
_MAX_NAME: Final = 255
_DATE: Final = len("2026-01-02T03:04:05")


class _BadEnvelope(Exception):
    """The document is no known envelope; the message names the field."""


def read_body(
    body: bytes,
    *,
    source: str,
    number: int | None = None,
    position: Any = None,
    deliveries: int = 1,
    max_size: int = strictjson.MAX_SIZE,
) -> Event:
    """The event that a text stands for.

    :param body: one JSON document.
    :param source: name of the source that brought it.
    :param number: what an envelope without an id is numbered by; None takes a digest of the text.
    :param position: see :class:`~watcher_sync.events.Event`.
    :param deliveries: see :class:`~watcher_sync.events.Event`.
    :param max_size: bytes that the text may have.
    """
    document: Any = None
    try:
        document = strictjson.decode(body, max_size=max_size)
        if type(document) is dict and "oslo.message" in document:
            document = _unwrap(document, max_size)
        return _build(document, source, number, position, deliveries, body)
    except (BadJson, _BadEnvelope) as exc:
        return undecodable(
            body,
            str(exc),
            source=source,
            number=number,
            position=position,
            deliveries=deliveries,
            document=document,
        )


def read_document(
    document: Any,
    *,
    source: str,
    number: int | None = None,
    position: Any = None,
    deliveries: int = 1,
) -> Event:
    """The same for a document that a transport hands over already decoded.

    What the decoding has lost, a duplicate key above all, cannot be seen any more.
    """
    try:
        strictjson.check_tree(document)
        if type(document) is dict and "oslo.message" in document:
            document = _unwrap(document, strictjson.MAX_SIZE)
        return _build(document, source, number, position, deliveries, None)
    except (BadJson, _BadEnvelope) as exc:
        return undecodable(
            _text_of(document),
            str(exc),
            source=source,
            number=number,
            position=position,
            deliveries=deliveries,
            document=document,
        )


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
    """The event that stands for what could not be decoded, with whatever its envelope still tells.

    :param body: the raw text, kept whole.
    :param reason: what is wrong, naming the field.
    :param document: the envelope as far as it could be decoded, or None.
    """
    fields = document if type(document) is dict else {}
    message_id = fields.get("message_id")
    if not _is_name(message_id):
        message_id = fields.get("id")
    event_type = fields.get("event_type")
    if not _is_name(event_type):
        event_type = fields.get("type") if "specversion" in fields else None
    origin = fields.get("publisher_id")
    return Event(
        id=message_id if _is_name(message_id) else _number(number, body),
        type=event_type if _is_name(event_type) else UNDECODABLE_TYPE,
        source=source,
        origin=origin if _is_name(origin) else "",
        data=body,
        position=position,
        deliveries=deliveries,
        undecodable=reason,
    )


def parse_time(text: Any, field: str) -> datetime.datetime:
    """An ISO 8601 date and time of day, aware UTC; one without an offset is UTC, as oslo writes it.

    :raises _BadEnvelope: naming the field.
    """
    if type(text) is str and len(text) >= _DATE and text[4] == "-" and text[10] in "T ":
        try:
            if text[-1] == "Z" or text[-1] == "z":
                return datetime.datetime.fromisoformat(text[:-1] + "+00:00")
            if "+" not in text and text.count("-") == 2:
                return datetime.datetime.fromisoformat(text + "+00:00")
            return datetime.datetime.fromisoformat(text).astimezone(datetime.UTC)
        except (ValueError, OverflowError):
            pass
    raise _BadEnvelope(f"{field} is {_show(text)}, not a date and time")


def _unwrap(document: dict[str, Any], max_size: int) -> Any:
    """What messagingv2's wrapper holds."""
    version = document.get("oslo.version")
    if type(version) is not str or version.partition(".")[0] != "2":
        raise _BadEnvelope(f"oslo.version is {_show(version)}, not 2.0")
    text = document["oslo.message"]
    if type(text) is not str:
        raise _BadEnvelope(f"oslo.message is {_show(text)}, not a string")
    try:
        return strictjson.decode(text.encode(), max_size=max_size)
    except BadJson as exc:
        raise _BadEnvelope(f"oslo.message: {exc}") from None


def _build(document: Any, source: str, number: int | None, position: Any, deliveries: int, body: bytes | None) -> Event:
    if type(document) is not dict:
        raise _BadEnvelope(f"the document is {_show(document)}, not an envelope")
    if "event_type" not in document:
        if "specversion" in document or any(name.lower() == "specversion" for name in document):
            return _cloud_event(document, source, position, deliveries)
        if "object" in document and "type" in document:
            return _watch_event(document, source, position, deliveries)
        raise _BadEnvelope("event_type is missing")

    event_type = document["event_type"]
    if not _is_name(event_type):
        raise _BadEnvelope(f"event_type is {_show(event_type)}, not a name")
    publisher_id = _name_of(document, "publisher_id")
    payload = document.get("payload")
    if type(payload) is not dict:
        raise _BadEnvelope(f"payload is {_absent_or(document, 'payload', 'an object')}")
    message_id = document.get("message_id")
    if not _is_name(message_id):
        if "message_id" in document:
            raise _BadEnvelope(f"message_id is {_show(message_id)}, not a name")
        message_id = _number(number, body if body is not None else _text_of(document))
    return Event(
        id=message_id,
        type=event_type,
        source=source,
        origin=publisher_id,
        time=parse_time(document["timestamp"], "timestamp") if "timestamp" in document else None,
        data=payload,
        position=position,
        deliveries=deliveries,
    )


def _cloud_event(document: dict[str, Any], source: str, position: Any, deliveries: int) -> Event:
    attributes = {name.lower(): value for name, value in document.items()}
    if attributes["specversion"] != "1.0":
        raise _BadEnvelope(f"specversion is {_show(attributes['specversion'])}, not 1.0")
    event_id, origin, event_type = (_name_of(attributes, name) for name in ("id", "source", "type"))
    subject = attributes.get("subject")
    if subject is not None and type(subject) is not str:
        raise _BadEnvelope(f"subject is {_show(subject)}, not a string")
    time = attributes.get("time")
    return Event(
        id=event_id,
        type=event_type,
        source=source,
        origin=origin,
        subject=subject or "",
        time=None if time is None else parse_time(time, "time"),
        data=_cloud_event_data(attributes),
        position=position,
        deliveries=deliveries,
    )


def _cloud_event_data(attributes: dict[str, Any]) -> Any:
    if "data_base64" not in attributes:
        return attributes.get("data")
    text = attributes["data_base64"]
    if type(text) is not str:
        raise _BadEnvelope(f"data_base64 is {_show(text)}, not a string")
    try:
        return strictjson.decode(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        raise _BadEnvelope("data_base64 is no base64") from None
    except BadJson as exc:
        raise _BadEnvelope(f"data_base64: {exc}") from None


def _watch_event(document: dict[str, Any], source: str, position: Any, deliveries: int) -> Event:
    what = document["type"]
    if type(what) is not str or what not in _WATCH_TYPES:
        raise _BadEnvelope(f"type is {_show(what)}, not one of {', '.join(sorted(_WATCH_TYPES))}")
    item = document["object"]
    if type(item) is not dict:
        raise _BadEnvelope(f"object is {_show(item)}, not an object")
    kind = _name_of(item, "kind", "object.")
    metadata = item.get("metadata", {})
    if type(metadata) is not dict:
        raise _BadEnvelope(f"object.metadata is {_show(metadata)}, not an object")
    uid, version, name = (metadata.get(field) for field in ("uid", "resourceVersion", "name"))
    if what in ("ADDED", "MODIFIED", "DELETED"):
        uid = _name_of(metadata, "uid", "object.metadata.")
        version = _name_of(metadata, "resourceVersion", "object.metadata.")
    return Event(
        id=f"{uid or ''}/{version or ''}",
        type=f"kubernetes.{kind.lower()}.{what.lower()}",
        source=source,
        origin=source,
        subject=name if type(name) is str else "",
        data=item,
        position=position,
        deliveries=deliveries,
    )


def _name_of(fields: dict[str, Any], name: str, path: str = "") -> str:
    value = fields.get(name)
    if not _is_name(value):
        raise _BadEnvelope(f"{path}{name} is {_absent_or(fields, name)}")
    return value


def _is_name(value: Any) -> TypeGuard[str]:
    return type(value) is str and 0 < len(value) <= _MAX_NAME


def _number(number: int | None, body: bytes) -> str:
    """The id of an envelope that has none."""
    if number is not None:
        return f"{number:012d}"
    return hashlib.blake2b(body, digest_size=16).hexdigest()


def _absent_or(fields: dict[str, Any], name: str, expected: str = "a name") -> str:
    return f"{_show(fields[name])}, not {expected}" if name in fields else "missing"


def _show(value: Any) -> str:
    """A value in a reason: scalars short, the rest by its form only, so that no payload gets into a log."""
    if type(value) is dict:
        return "an object"
    if type(value) is list or type(value) is tuple:
        return "a list"
    if type(value) is str:
        if len(value) > _MAX_NAME:
            return f"a string of {len(value)} characters"
        return json.dumps(value if len(value) <= 64 else value[:61] + "...")
    return "null" if value is None else json.dumps(value, default=lambda _: type(value).__name__)


def _text_of(document: Any) -> bytes:
    """The nearest text to a document that has been decoded elsewhere."""
    try:
        return json.dumps(document, default=repr, skipkeys=True).encode()
    except (ValueError, RecursionError):
        return repr(type(document)).encode()
