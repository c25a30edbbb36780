# SPDX-License-Identifier: Apache-2.0
"""Brings the values that a plugin hands over to their declared types, at the edge of the model.

A replica that wrote a value and one that read it from its row must have the same one. Otherwise a tuple and its list
differ each time, and the journal gets rows that change nothing. So the model has only what JSON gives back, and times.
"""

from __future__ import annotations

import datetime
import enum
import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from watcher_sync.exceptions import InvalidEvent
from watcher_sync.model.texts import for_people
from watcher_sync.wire.limits import MAX_MESSAGE_CHARS


class ForPeople:
    """The declared type of a text that is a message for people."""


_SIMPLE: Final = frozenset({str, int, bool})
_Time: Final = datetime.datetime
_UTC: Final = datetime.UTC
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def declare_values(values: dict[str, Any], types: Mapping[str, type], kind: str) -> None:
    """Bring field values to their declared types, in place. A value that has its type already is not copied.

    :param values: field -> its value; one that has nothing to do with its type is for the validation to refuse.
    :param types: field -> its type, as :class:`~watcher_sync.model.declarations.Field` has it, or :class:`ForPeople`.
    :param kind: for the messages.
    :raises InvalidEvent: naming the field whose value has no such form.
    """
    for name, value in values.items():
        cls, declared = value.__class__, types[name]
        if value is None or (cls is declared and (cls in _SIMPLE or (cls is _Time and value.tzinfo is _UTC))):
            continue
        if declared is ForPeople and cls is str:
            if len(value) > MAX_MESSAGE_CHARS or not value.isprintable():
                values[name] = for_people(value)
            continue
        try:
            if cls is declared and cls is not _Time and _decode(_encode(value)) == value:
                continue  # a row gives back the same
        except (TypeError, ValueError, RecursionError):
            pass  # JSON has no such value
        try:
            values[name] = _declared(declared, value)
        except RecursionError:
            raise InvalidEvent(f"{kind}: {name}: it is nested too deeply") from None
        except (ValueError, OverflowError) as exc:
            raise InvalidEvent(f"{kind}: {name}: {exc}") from None


def _declared(declared: type, value: Any) -> Any:
    if declared is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if declared is not datetime.datetime:
        plain = _plain(value)
        return for_people(plain) if declared is ForPeople and isinstance(plain, str) else plain
    if isinstance(value, str):
        value = msgspec.convert(value, datetime.datetime)
    if not isinstance(value, datetime.datetime):
        return value
    if value.tzinfo is None:
        raise ValueError("a time without a zone")
    return value.astimezone(datetime.UTC)


def _plain(value: Any) -> Any:
    """The value as JSON would give it back."""
    if isinstance(value, enum.Enum):
        return _plain(value.value)
    if isinstance(value, str):
        return str.__str__(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            raise ValueError("an integer of more than 64 bits")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} is no number")
        return float(value)
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {_name(name): _plain(each) for name, each in value.items()}
    if isinstance(value, set | frozenset):
        raise ValueError(f"a {type(value).__name__} has no order")
    return _text(value)


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise ValueError(f"a name of the type {type(name).__name__}")
    return str.__str__(name)


def _text(value: Any) -> str:
    """What JSON has as a text, such as times and UUIDs."""
    try:
        text = msgspec.to_builtins(value)
    except TypeError:
        text = None
    if not isinstance(text, str) or isinstance(value, bytes | bytearray | memoryview):
        raise ValueError(f"a value of the type {type(value).__name__}")
    return text
