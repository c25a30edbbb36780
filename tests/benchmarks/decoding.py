# SPDX-License-Identifier: Apache-2.0
"""The strict decoding of oslo envelopes, against ``json.loads`` of the wrapper and then of the message.

Both decode the same bodies in one thread, so processor time is measured and not the clock. Each of the two goes
first in every second pair.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence

from tests.benchmarks.figures import Budget, Figure, against
from tests.benchmarks.places import Bench
from watcher_sync.testing.nova import notifications
from watcher_sync.testing.nova.cloud import CloudSimulator
from watcher_sync.wire import json as wire_json

_BODIES = 400
_LEAST_SIZE = 3_000
"""Bytes: smaller envelopes are not of instances."""
_PAIRS = 9
_ROUNDS = 5


def decode(bench: Bench) -> list[Figure]:
    """Envelopes a second, wrapper and message, of both."""
    bodies = _bodies()
    pairs = []
    for turn in range(max(_PAIRS, bench.scale.pairs)):
        ways = [_strict, _standard] if turn % 2 else [_standard, _strict]
        rates = {way: _rate(way, bodies) for way in ways}
        pairs.append((rates[_strict], rates[_standard]))
    size = sum(map(len, bodies)) / len(bodies)
    return [
        against(
            pairs,
            benchmark="decode",
            what="strict decoding of an oslo envelope",
            unit="envelopes/s",
            reference_unit="envelopes/s",
            budget=Budget(">=", 0.8),
            note=f"against json.loads twice; {size / 1000:.1f} kB an envelope",
        )
    ]


def _bodies() -> list[bytes]:
    """Envelopes of instances as oslo.messaging writes them."""
    cloud = CloudSimulator(seed=1, hosts=20, instances=_BODIES)
    texts = (json.dumps(notifications.oslo_envelope(event)).encode() for event in cloud.events())
    return [body for body, _ in zip((text for text in texts if len(text) >= _LEAST_SIZE), range(_BODIES), strict=False)]


def _strict(body: bytes) -> None:
    wire_json.decode(wire_json.decode(body)["oslo.message"].encode())


def _standard(body: bytes) -> None:
    json.loads(json.loads(body)["oslo.message"])


def _rate(way: Callable[[bytes], None], bodies: Sequence[bytes]) -> float:
    began = time.process_time()
    for _ in range(_ROUNDS):
        for body in bodies:
            way(body)
    return _ROUNDS * len(bodies) / (time.process_time() - began)
