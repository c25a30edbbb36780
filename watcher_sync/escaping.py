# SPDX-License-Identifier: Apache-2.0
"""Text of others for a log or a terminal: without control characters, and without characters that reorder a line.

An escaped character is written as in JSON, so JSON text stays valid.
"""

from __future__ import annotations

import re
from typing import Final

UNSAFE: Final = "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff"
"""The characters, for a set of a regular expression."""

_ALL: Final = re.compile(f"[{UNSAFE}]")
_ALL_BUT_LINES: Final = re.compile(f"(?![\n\t])[{UNSAFE}]")
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def escaped(text: str) -> str:
    """The text on one line."""
    return _ALL.sub(_escape, text)


def escaped_lines(text: str) -> str:
    """The text with its line feeds and tabs."""
    return _ALL_BUT_LINES.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return _SHORT.get(match[0]) or f"\\u{ord(match[0]):04x}"
