# SPDX-License-Identifier: Apache-2.0
"""Messages that no source can decode, each with its reason."""

from __future__ import annotations

import json

from tests.functional.sources.listening import envelope, wrap

BAD = [
    (b"hello", "not JSON at byte 0: Expecting value"),
    (b"\xff\xfe{}", "not UTF-8 at byte 0"),
    (b"", "empty body"),
    (b"[1]", "the document is a list, not an envelope"),
    (b'"text"', 'the document is "text", not an envelope'),
    (b"17", "the document is 17, not an envelope"),
    (
        json.dumps(envelope(1) | {"payload": {"nova_object.data": {"memory_mb": float("nan")}}}).encode(),
        "payload.nova_object.data.memory_mb is NaN, which is no finite number",
    ),
    (
        wrap(envelope(1) | {"payload": {"a": float("inf")}}),
        "oslo.message: payload.a is Infinity, which is no finite number",
    ),
    (
        json.dumps({"oslo.version": "2.0", "oslo.message": '{"payload": {"a": 1, "a": 2}}'}).encode(),
        "oslo.message: duplicate key payload.a",
    ),
    (b'{"oslo.version": "2.0", "oslo.version": "2.0", "oslo.message": "{}"}', "duplicate key oslo.version"),
    (b'{"oslo.version": "9.0", "oslo.message": "{}"}', 'oslo.version is "9.0", not 2.0'),
    (
        b'{"oslo.version": "2.0", "oslo.message": "{"}',
        "oslo.message: not JSON at byte 1: Expecting property name enclosed in double quotes",
    ),
    (wrap({name: value for name, value in envelope(1).items() if name != "payload"}), "payload is missing"),
    (wrap(envelope(1, event_type=None)), "event_type is null, not a name"),
    (wrap(envelope(1, publisher_id=None)), "publisher_id is null, not a name"),
    (wrap(envelope(1, timestamp="soon")), 'timestamp is "soon", not a date and time'),
    (wrap(envelope(1, payload={"pad": "x" * 2000})), "2370 bytes are more than the 2000 allowed"),
]
