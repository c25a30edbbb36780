# SPDX-License-Identifier: Apache-2.0
"""Changes as text for people. Names that the users of a cloud chose must not control the reader's terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any


def delta_text(delta: Mapping[str, Sequence[Any]]) -> str:
    """``field: old -> new`` for every field, separated by commas."""
    return ", ".join(f"{field}: {_brief(old)} -> {_brief(new)}" for field, (old, new) in delta.items())


def plain(text: str) -> str:
    """Replaces each character that is not printable by U+FFFD, so that a name has no escape sequence."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _brief(value: Any) -> str:
    if value is None:
        return "-"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else str(value)
