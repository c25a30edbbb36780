# SPDX-License-Identifier: Apache-2.0
"""JSON as the services of OpenStack write it: that of Python, which is more than the standard allows."""

from __future__ import annotations

import json
import math
from typing import TypeVar

import msgspec

from watcher_sync.decoding import UNDECODABLE

T = TypeVar("T")


def decode(decoder: msgspec.json.Decoder[T], body: bytes | msgspec.Raw) -> T:
    """Decode JSON as the services write it, which is Python's.

    It may have ``NaN`` and ``Infinity``, which are unknown numbers, and texts that are no Unicode, which are cleaned.

    :raises UNDECODABLE: it is no JSON, or a field has the wrong type.
    """
    try:
        return decoder.decode(body)
    except UNDECODABLE as exc:
        try:
            text = bytes(body).decode(errors="replace")
            found = json.loads(text, parse_constant=lambda _: None, parse_float=_finite)
        except ValueError:
            raise exc from None
        return decoder.decode(json.dumps(found, ensure_ascii=False).encode(errors="replace"))


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None
