# SPDX-License-Identifier: Apache-2.0
"""What the durable positions in streams share: a JSON form, and a place to begin at that an operator may have set.

An operator names a place in the options and in ``source rewind``.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

import msgspec

FIRST: Final = "first"
"""The oldest that is stored."""

_LIMIT: Final = 2**63


class Rewindable(Protocol):
    """A position that an operator may have set."""

    @property
    def start(self) -> str:
        """Where reading begins; empty: not set."""


C = TypeVar("C", bound=Rewindable)


def decode_cursor(text: str | None, form: type[C], read_start: Callable[[str], object]) -> C | None:
    """A stored position; None if there is none, or it is not of this form.

    :param read_start: reads :attr:`Rewindable.start`; raises ValueError if it names no place.
    """
    if text is None:
        return None
    try:
        found = msgspec.json.decode(text, type=form)
        if found.start:
            read_start(found.start)
    except (ValueError, RecursionError):
        return None
    return found


def read_place(text: str, number: str) -> str | int | datetime.datetime:
    """``first``, a number, or an aware time.

    :param text: an ISO 8601 time is UTC unless it says otherwise.
    :param number: what the number is, with its article, such as "an offset".
    :raises ValueError: it is none of these, or the number is 2**63 or more.
    """
    if text == FIRST:
        return FIRST
    if text.isascii() and text.isdecimal():
        value = int(text)
        if value >= _LIMIT:
            raise ValueError(f"{text} is too large for {number}")
        return value
    try:
        time = datetime.datetime.fromisoformat(text)
        return time.replace(tzinfo=datetime.UTC) if time.tzinfo is None else time.astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is neither {FIRST}, nor {number}, nor an ISO 8601 time") from None
