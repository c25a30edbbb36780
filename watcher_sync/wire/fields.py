# SPDX-License-Identifier: Apache-2.0
"""Names, times and data in the fields of envelopes, for all dialects.

A reason names the field. It shows a short scalar, and of other values only the type, so that no payload gets into a
log. Pure functions, for any thread.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from typing import Any, Final, TypeGuard

import msgspec
from msgspec import UNSET, UnsetType

_MAX_NAME_LENGTH: Final = 255
_MAX_TIME_LENGTH: Final = 64
_MIN_TIME_LENGTH: Final = len("2026-01-02T03:04:05")
_SECOND: Final = slice(17, 19)
_ONE_SECOND: Final = datetime.timedelta(seconds=1)
_ZERO_TIME: Final = datetime.datetime(1, 1, 1, tzinfo=datetime.UTC)


class BadEnvelope(Exception):
    """The document is no known envelope; the message names the field."""


class EventDelivery(msgspec.Struct, gc=False):
    """The metadata that the transport gives to a document: fields of an event that no envelope has."""

    source: str
    number: int | str | None = None
    position: Any = None
    deliveries: int = 1
    channel: str = ""
    sequence: tuple[int, int] | None = None
    size: int = 0


def parse_time(text: Any, field: str) -> datetime.datetime:
    """An ISO 8601 date and time of day, aware UTC; one without an offset is UTC, as oslo writes it.

    RFC 3339 allows lower-case letters and the second 60 of a leap second, which becomes the first second after it.

    :raises BadEnvelope: naming the field.
    """
    if type(text) is str and _MIN_TIME_LENGTH <= len(text) <= _MAX_TIME_LENGTH and text[4] == "-" and text[10] in "Tt ":
        try:
            if text[_SECOND] == "60" and text[16] == ":":
                return parse_time(f"{text[:17]}59{text[19:]}", field) + _ONE_SECOND
            if text[-1] == "Z" or text[-1] == "z":
                return datetime.datetime.fromisoformat(text[:-1] + "+00:00")
            if "+" not in text and text.count("-") == 2:
                return datetime.datetime.fromisoformat(text + "+00:00")
            return datetime.datetime.fromisoformat(text).astimezone(datetime.UTC)
        except (ValueError, OverflowError):
            pass
    raise BadEnvelope(f"{field} is {show(text)}, not a date and time")


def is_zero_time(time: datetime.datetime) -> bool:
    """Whether it is the zero value of Go's ``time.Time``, 0001-01-01T00:00:00Z: a field that nothing was written to."""
    return time.year == 1 and time.replace(tzinfo=datetime.UTC) == _ZERO_TIME and not time.utcoffset()


def name_of(fields: Mapping[str, Any], name: str, path: str = "") -> str:
    """The field, which has to be a name.

    :param path: of the object that it is in, for the reason.
    :raises BadEnvelope: naming the field.
    """
    value = fields.get(name)
    if not is_name(value):
        raise BadEnvelope(f"{path}{name} is {absent_or(fields, name)}")
    return value


def short_text_of(fields: Mapping[str, Any], name: str) -> str:
    """The field, which may be missing or null; a text that is not too long for a column. Missing: an empty text.

    :raises BadEnvelope: naming the field.
    """
    value = fields.get(name)
    if value is None:
        return ""
    if type(value) is not str:
        raise BadEnvelope(f"{name} is {show(value)}, not a string")
    if len(value) > _MAX_NAME_LENGTH:
        raise BadEnvelope(f"{name} is {show(value)}, more than {_MAX_NAME_LENGTH}")
    return value


def check_delivery(delivery: EventDelivery) -> None:
    """Check the names that the transport gives.

    :raises BadEnvelope: naming the one that is too long.
    """
    if len(delivery.channel) > _MAX_NAME_LENGTH:
        raise BadEnvelope(f"channel is {show(delivery.channel)}, more than {_MAX_NAME_LENGTH}")


def is_name(value: Any) -> TypeGuard[str]:
    """Whether it is a text that is neither empty nor too long for a column."""
    return type(value) is str and 0 < len(value) <= _MAX_NAME_LENGTH


def absent_or(fields: Mapping[str, Any], name: str, expected: str = "a name") -> str:
    """What is wrong with a field: it is missing, or it is not what was expected."""
    return f"{show(fields[name])}, not {expected}" if name in fields else "missing"


def title_of(group: str, kind: str) -> str:
    """``Kind.group``; of the core group and ``apps``, whose kinds people know by one word, ``Kind``."""
    return kind if group in ("", "apps") else f"{kind}.{group}"


def show(value: Any) -> str:
    """A value in a reason: a short scalar, or only the type, so that no payload gets into a log."""
    if type(value) is dict:
        return "an object"
    if type(value) is list or type(value) is tuple:
        return "a list"
    if type(value) is str:
        if len(value) > _MAX_NAME_LENGTH:
            return f"a string of {len(value)} characters"
        return json.dumps(value if len(value) <= 64 else value[:61] + "...")
    return "null" if value is None else json.dumps(value, default=lambda _: type(value).__name__)


class _Members(msgspec.Struct, gc=False):
    """The members of envelopes that become an event's data, undecoded."""

    payload: msgspec.Raw | UnsetType = UNSET
    data: msgspec.Raw | UnsetType = UNSET
    object: msgspec.Raw | UnsetType = UNSET


_members: Final = msgspec.json.Decoder(_Members).decode


def text_of_member(body: bytes, name: str, member: Any) -> bytes:
    """The text of one member of an envelope that has been decoded and found good.

    :param member: what it was decoded to.
    """
    raw = getattr(_members(body), name)
    return msgspec.json.encode(member) if raw is UNSET else bytes(raw)
