# SPDX-License-Identifier: Apache-2.0
"""Changes in words for people. What a cloud's users name things must not move the reader's cursor."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any


def delta_text(delta: Mapping[str, Sequence[Any]]) -> str:
    """``field: old -> new`` of every field."""
    return ", ".join(f"{field}: {_brief(old)} -> {_brief(new)}" for field, (old, new) in delta.items())


def plain(text: str) -> str:
    """The text without control characters: a name with an escape sequence stays a name."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _brief(value: Any) -> str:
    if value is None:
        return "-"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else str(value)
