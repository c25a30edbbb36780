# SPDX-License-Identifier: Apache-2.0
"""A bad receiver costs the others nothing: neither their deliveries nor their time.

The strict figure is asserted by tests/faults, where nothing else runs. Both sides of a comparison have the same number
of changes. Those of the receiver beside the good one go to a healthy receiver on one side, to a bad one on the other.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable

import pytest

from tests.functional.storage.conftest import opened
from tests.functional.webhooks.bad_receivers import HEALTHY, KINDS, ReceiverApart, processors_apart, receiving_apart
from tests.functional.webhooks.receivers import Receiver, answering, receiving, status
from tests.functional.webhooks.subscribing import Instances, subscribe
from tests.functional.webhooks.working import working
from tests.waiting import eventually
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds

GOOD = 20
"""Subscriptions whose deliveries are measured."""
BESIDE = 20
"""Subscriptions of the bad receiver, and as many of a healthy one in its place."""
ROUNDS = 4
USUAL = ("never answers", "has an endless body")
"""The others are rare: tests/faults compares each kind, and more strictly."""

MARGIN = 10.0
"""Seconds that a busy machine may add to a 99th percentile: less than a request to a bad receiver takes."""
TOTAL_TIMEOUT = 30.0


@pytest.fixture
def store(migrated_sqlite_url: str) -> Store:
    """One kind of database is enough."""
    return opened(migrated_sqlite_url, builtin_kinds())


@pytest.mark.parametrize(
    "kind", [kind if kind in USUAL else pytest.param(kind, marks=pytest.mark.rare) for kind in KINDS]
)
def test_a_bad_receiver_delays_no_other(store: Store, kind: str, figure: Callable[[str], None]) -> None:
    pairs, total = asyncio.run(measured(store, kind, ROUNDS, total_timeout=TOTAL_TIMEOUT))
    healthy, bad = (statistics.median(side) for side in zip(*pairs, strict=True))
    figure(f"{kind}: p99 {healthy * 1000:.0f} ms beside a healthy one, {bad * 1000:.0f} ms beside it")
    assert total >= GOOD * 2 * ROUNDS
    assert bad < healthy * 1.1 + MARGIN


async def measured(
    store: Store, kind: str, rounds: int, *, total_timeout: float = 2.0
) -> tuple[list[tuple[float, float]], int]:
    """99th percentiles of the good receiver, beside a healthy and beside the bad one, and how many requests it got."""
    instances = Instances(store)
    instances.write(range(GOOD + 2 * BESIDE))
    with receiving_apart(HEALTHY) as healthy, receiving_apart(kind) as bad, processors_apart():
        async with receiving(answering(status(200))) as good:
            return await _pairs(store, instances, good, (healthy, bad), rounds, total_timeout)


async def _pairs(
    store: Store,
    instances: Instances,
    good: Receiver,
    others: tuple[ReceiverApart, ReceiverApart],
    rounds: int,
    total_timeout: float,
) -> tuple[list[tuple[float, float]], int]:
    for number in range(GOOD + 2 * BESIDE):
        receiver = good if number < GOOD else others[(number - GOOD) // BESIDE]
        subscribe(store, number, receiver.url)
    async with working(store, GOOD + 2 * BESIDE, total_timeout=total_timeout):
        pairs = []
        for round_ in range(rounds):
            seconds = [0.0, 0.0]
            for side in (0, 1) if round_ % 2 else (1, 0):
                first = GOOD + side * BESIDE
                seconds[side] = await percentile(instances, good, range(first, first + BESIDE))
            pairs.append((seconds[0], seconds[1]))
    assert all(other.connections() for other in others)
    return pairs, len(good.requests)


async def percentile(instances: Instances, good: Receiver, beside: range) -> float:
    """Change the instances of another receiver, then those of the good one. Return the 99th percentile of its times."""
    sent: dict[str, float] = {}
    seconds: dict[str, float] = {}
    known = len(good.requests)

    def all_came() -> bool:
        nonlocal known
        now = time.monotonic()
        for _, _, body in good.requests[known:]:
            for value, began in sent.items():
                if value not in seconds and f'"{value}"'.encode() in body:
                    seconds[value] = now - began
        known = len(good.requests)
        return len(seconds) == len(sent)

    await asyncio.to_thread(instances.write, beside)
    for number in range(GOOD):
        await asyncio.to_thread(instances.write, [number])
        sent[instances.committed[f"i{number}"]] = time.monotonic()
    await eventually(all_came)
    return sorted(seconds.values())[int(len(seconds) * 0.99)]
