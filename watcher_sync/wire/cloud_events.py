# SPDX-License-Identifier: Apache-2.0
"""CloudEvents 1.0, in structured and in binary mode.

The module is strict about the four attributes that the specification requires. Names of attributes and headers may
have any case, and the other attributes may be missing or null. Two names that differ by case only are refused. The
zero value of Go's ``time.Time`` is no time.

Guaranteed: the data is the JSON text of the message, unchanged. Pure functions, for any thread.

Source: CloudEvents 1.0.2 with its JSON format, its NATS protocol binding and the extension for authentication contexts.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from watcher_sync.events import CLOUD_EVENTS, Actor, Event, TraceContext
from watcher_sync.wire import json as wire_json
from watcher_sync.wire.fields import (
    BadEnvelope,
    EventDelivery,
    is_name,
    is_zero_time,
    name_of,
    parse_time,
    short_text_of,
    show,
    text_of_member,
)
from watcher_sync.wire.json import BadJson, HalfPair

_LOWER_CASE_NAMES: Final = frozenset(
    ["specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema", "data"]
)
"""Names that need not be taken in lower case."""

_MAX_HEADER_LENGTH: Final = 4096
"""Characters of a header that is decoded. A longer one is too long for every attribute that the model uses."""

_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
"""W3C Trace Context, without what later versions may append."""
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPED: Final = re.compile(r"\\(.)")
"""A quoted string, and a quoted pair in it (RFC 7230, section 3.2.6)."""


class BinaryHeaders(msgspec.Struct, frozen=True):
    """The attributes of a CloudEvent in binary mode."""

    attributes: dict[str, str]
    """Their names in lower case. A value that is no UTF-8 has its bytes as surrogates."""
    wrong: str | None = None
    """The name of an attribute whose percent-encoding is no UTF-8."""

    def check(self) -> None:
        """:raises BadEnvelope: naming the header that cannot be decoded."""
        if self.wrong is not None:
            raise BadEnvelope(f"the header ce-{self.wrong} is percent-encoded, and no UTF-8")

    @property
    def readable(self) -> dict[str, str]:
        """The attributes that could be decoded."""
        return {name: value for name, value in self.attributes.items() if not _has_surrogate(value)}


def read_structured(document: dict[str, Any], delivery: EventDelivery, body: bytes | None) -> Event:
    """The event of a decoded document.

    :param body: its text; None where the transport had decoded it already.
    :raises BadEnvelope: naming the attribute that is wrong.
    """
    if _LOWER_CASE_NAMES.issuperset(document):
        return _cloud_event_of(document, _cloud_event_data(document, body), delivery)
    attributes = {name.lower(): value for name, value in document.items()}
    if len(attributes) != len(document):
        raise BadEnvelope("two attributes have names that differ by case only")
    return _traced(_cloud_event_of(attributes, _cloud_event_data(attributes, body), delivery), attributes)


def read_binary(headers: BinaryHeaders, body: bytes, delivery: EventDelivery, *, max_size: int) -> Event:
    """The event of a message with attributes in its headers.

    :param headers: as :func:`binary_headers` gives them.
    :raises BadEnvelope: naming the attribute that is wrong.
    :raises BadJson: when the body is none.
    """
    headers.check()
    attributes = headers.attributes
    if body:
        if not _is_json(attributes.get("datacontenttype", "application/json")):
            raise BadEnvelope(f"content-type is {show(attributes['datacontenttype'])}, not JSON")
        try:
            wire_json.decode(body, max_size=max_size)
        except HalfPair:
            wire_json.decode(body := wire_json.with_whole_pairs(body), max_size=max_size)
    return _traced(_cloud_event_of(attributes, body or None, delivery), attributes)


def binary_headers(headers: Mapping[str, str]) -> BinaryHeaders | None:
    """The attributes of a CloudEvent in binary mode, or None where the headers make none.

    A value is unquoted, and then percent-decoded once (HTTP binding, section 3.1.3.2).
    """
    attributes: dict[str, str] = {}
    wrong = content_type = None
    for header, value in headers.items():
        name = header.lower()
        if name.startswith("ce-"):
            name = name[3:]
            try:
                attributes[name] = _header_value(value)
            except UnicodeDecodeError:
                attributes[name], wrong = unquote(value, errors="surrogateescape"), name
        elif name == "content-type":
            content_type = value
    if "specversion" not in attributes:
        return None
    if content_type is not None:
        if content_type.lower().startswith("application/cloudevents"):
            return None  # structured mode, whose envelope is in the body, whatever the headers repeat
        attributes["datacontenttype"] = content_type
    return BinaryHeaders(attributes, wrong)


def structured(attributes: Mapping[str, str], body: bytes) -> bytes:
    """A CloudEvent of binary mode as it is in structured mode.

    A value that is no UTF-8 makes a text that is none, so that a later reader refuses it as well.

    :param attributes: their names in lower case.
    """
    document: dict[str, Any] = {name: value for name, value in attributes.items() if not name.startswith("data_")}
    bad = {name: document.pop(name) for name, value in attributes.items() if _has_surrogate(value)}
    try:
        wire_json.decode(body)
        document["data"] = msgspec.Raw(body)
    except BadJson:
        document["data_base64"] = base64.b64encode(body).decode()
    text = msgspec.json.encode(document)
    if bad:
        text = json.dumps(bad, ensure_ascii=False).encode(errors="surrogateescape")[:-1] + b"," + text[1:]
    return text


def _header_value(value: str) -> str:
    """:raises UnicodeDecodeError: what it percent-encodes is no UTF-8."""
    if len(value) > _MAX_HEADER_LENGTH:
        return value
    value = value.strip(" \t")
    if value[:1] == '"' and (quoted := _QUOTED.fullmatch(value)) is not None:
        value = _ESCAPED.sub(r"\1", quoted[1])
    return unquote(value, errors="strict") if "%" in value else value


def _has_surrogate(value: str) -> bool:
    return not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value)


def _is_json(content_type: str) -> bool:
    """Whether a content type is JSON: ``application/json``, or any that ends with ``+json``."""
    if len(content_type) > _MAX_HEADER_LENGTH:
        return False
    kind, _, subtype = content_type.partition(";")[0].strip().lower().partition("/")
    if kind not in ("application", "text"):
        return False
    prefix = subtype.removesuffix("+json")
    return subtype == "json" or (0 < len(prefix) < len(subtype) and all(c.isalnum() or c in "_.+-" for c in prefix))


def _cloud_event_of(attributes: Mapping[str, Any], data: Any, delivery: EventDelivery) -> Event:
    """The event of these attributes, their names in lower case."""
    if attributes["specversion"] != "1.0":
        raise BadEnvelope(f"specversion is {show(attributes['specversion'])}, not 1.0")
    event_id, origin, event_type = (name_of(attributes, name) for name in ("id", "source", "type"))
    subject = short_text_of(attributes, "subject")
    time = attributes.get("time")
    if time is not None and is_zero_time(time := parse_time(time, "time")):
        time = None
    return Event(
        id=event_id,
        type=event_type,
        source=delivery.source,
        origin=origin,
        subject=subject,
        time=time,
        data=data,
        channel=delivery.channel,
        sequence=delivery.sequence,
        position=delivery.position,
        deliveries=delivery.deliveries,
        envelope=CLOUD_EVENTS,
        size=delivery.size,
        actor=Actor(user if is_name(user := attributes.get("authid")) else origin),
    )


def _traced(event: Event, attributes: Mapping[str, Any]) -> Event:
    """The event with its trace context (distributed tracing extension). A malformed one is none."""
    text = attributes.get("traceparent")
    if type(text) is not str or _TRACEPARENT.fullmatch(text) is None:
        return event
    return msgspec.structs.replace(event, trace=TraceContext(traceparent=text))


def _cloud_event_data(attributes: dict[str, Any], body: bytes | None) -> Any:
    text, data = attributes.get("data_base64"), attributes.get("data")
    if text is None:
        return data if data is None or body is None else text_of_member(body, "data", data)
    if data is not None:
        raise BadEnvelope("data and data_base64 are both there")
    if type(text) is not str:
        raise BadEnvelope(f"data_base64 is {show(text)}, not a string")
    try:
        inner = base64.b64decode(text, validate=True)
        wire_json.decode(inner)
        return inner
    except (binascii.Error, ValueError):
        raise BadEnvelope("data_base64 is no base64") from None
    except BadJson as exc:
        raise BadEnvelope(f"data_base64: {exc}") from None
