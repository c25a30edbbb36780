# SPDX-License-Identifier: Apache-2.0
"""Texts that people read, such as the message of a fault, as every database stores them.

An event or a listing is not worth less because its message is odd or long: the identity and the state that it reports
decide. So such a text is cut and cleaned, and never refused. A text that names something is not cleaned: two names
could become one.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Final

from watcher_sync.wire.limits import MAX_MESSAGE_CHARS

_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")
"""NUL, which PostgreSQL refuses, and halves of surrogate pairs, which no database stores."""

_CUT: Final = "…"


storable: Final[Callable[[str], str]] = functools.partial(_UNSTORABLE.sub, "\ufffd")
"""Returns a text with U+FFFD for each character that some database refuses."""


def for_people(text: str, most: int = MAX_MESSAGE_CHARS) -> str:
    """A message as the model has it: storable, and of at most so many characters."""
    if len(text) > most:
        text = text[: most - len(_CUT)] + _CUT
    return storable(text)
