# SPDX-License-Identifier: Apache-2.0
"""Writes histories to files, one notification a line, like a recording of the bus.

The writer consumes the events one by one, so its memory does not grow with the history. It writes compact JSON
without the white space that oslo.messaging adds.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from watcher_sync.testing.nova.notifications import oslo_context

Form = Literal["bare", "oslo"]
"""bare: the notification itself; oslo: inside the messagingv2 envelope, with the request context."""


def oslo_body(event: dict[str, Any]) -> bytes:
    """The notification in the messagingv2 envelope, with the request context."""
    message = msgspec.json.encode({**event, **oslo_context(event)}).decode()
    return msgspec.json.encode({"oslo.version": "2.0", "oslo.message": message})


def write_jsonl(path: str | os.PathLike[str], events: Iterable[dict[str, Any]], form: Form = "bare") -> int:
    """Write a recording and return the number of its lines; a file that is there is overwritten.

    :raises ValueError: for an unknown form.
    :raises OSError: when the file cannot be written.
    """
    if form not in ("bare", "oslo"):
        raise ValueError(f"form must be bare or oslo, not {form!r}")
    encode = oslo_body if form == "oslo" else msgspec.json.encode
    lines = 0
    with open(path, "wb", buffering=1 << 20) as out:
        for event in events:
            out.write(encode(event))
            out.write(b"\n")
            lines += 1
    return lines
