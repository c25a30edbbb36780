# SPDX-License-Identifier: Apache-2.0
"""What the durable positions in streams share: a JSON form, and a place to begin at that an operator may have set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import msgspec


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
    except (msgspec.MsgspecError, ValueError):
        return None
    return found
