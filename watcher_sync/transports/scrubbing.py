# SPDX-License-Identifier: Apache-2.0
"""Removes passwords from the errors of libraries, which the status, the log and the Guru Meditation Report show.

A library may show a password as it is, percent-encoded in full or in part, or escaped. One that divides a URL at a
wrong delimiter shows a part of it, such as the "port" of ``user:a/b@host``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Final

_DELIMITERS: Final = re.compile(r"[/@:?#,;&=%+\[\]\s]+")
"""Where a wrong reading of a URL divides a password."""

_SHORT: Final = 4
"""Below this length a text is removed only where no letter or digit is next to it, so that words remain legible."""


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """The text with ``***`` for each of the secrets, in every spelling, and for each part of one."""
    wanted: set[str] = set()
    for secret in secrets:
        wanted |= {secret, *(part for part in _DELIMITERS.split(secret) if len(part) > 1)}
    wanted.discard("")
    if not wanted:
        return text
    return re.compile("|".join(map(_pattern, sorted(wanted, key=len, reverse=True)))).sub("***", text)


def _pattern(secret: str) -> str:
    spelled = "".join(map(_spellings, secret))
    return spelled if len(secret) >= _SHORT else rf"(?<!\w){spelled}(?!\w)"


def _spellings(character: str) -> str:
    """A pattern of all spellings of one character."""
    encoded = "".join(rf"(?i:%(?:25)*{byte:02x})" for byte in character.encode(errors="surrogatepass"))
    escaped = {character, repr(character)[1:-1], json.dumps(character)[1:-1], f"\\{character}"}
    escaped |= {"+"} if character == " " else set()
    return f"(?:{'|'.join([encoded, *map(re.escape, sorted(escaped, key=len, reverse=True))])})"
