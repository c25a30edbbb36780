# SPDX-License-Identifier: Apache-2.0
"""How a person names a place in the history of a transport: in the options and in ``source rewind``."""

from __future__ import annotations

import datetime
from typing import Final

FIRST: Final = "first"
"""The oldest that is stored."""

_LIMIT: Final = 2**63


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
    except ValueError:
        raise ValueError(f"{text!r} is neither {FIRST}, nor {number}, nor an ISO 8601 time") from None
    return time.replace(tzinfo=datetime.UTC) if time.tzinfo is None else time.astimezone(datetime.UTC)
