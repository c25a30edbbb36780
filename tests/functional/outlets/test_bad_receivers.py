# SPDX-License-Identifier: Apache-2.0
"""A bad receiver costs the others nothing: neither their deliveries nor their time.

The strict figure is asserted by tests/faults, where nothing else runs.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable

import pytest

from tests.functional.outlets.bad_receivers import KINDS, BadReceiver, receiving_apart
from tests.functional.outlets.receivers import Receiver, answering, eventually, receiving, status
from tests.functional.outlets.subscribing import Instances, subscribe
from tests.functional.outlets.working import working
from tests.functional.storage.conftest import opened
from watcher_sync.model.entities import builtin_kinds
from watcher_sync.storage.store import Store

GOOD = 20
BAD = 20
ROUNDS = 4

MARGIN = 0.15
"""Seconds that a busy machine may add to a 99th percentile."""


@pytest.fixture
def store(migrated_sqlite_url: str) -> Store:
    """One kind of database is enough."""
    return opened(migrated_sqlite_url, builtin_kinds())


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", KINDS)
def test_a_bad_receiver_delays_no_other(store: Store, kind: str, figure: Callable[[str], None]) -> None:
    pairs, total = asyncio.run(measured(store, kind, ROUNDS))
    alone, beside = (statistics.median(side) for side in zip(*pairs, strict=True))
    figure(f"{kind}: p99 {alone * 1000:.0f} ms without, {beside * 1000:.0f} ms with it")
    assert total >= GOOD * 2 * ROUNDS
    assert beside < alone * 1.1 + MARGIN


async def measured(store: Store, kind: str, rounds: int) -> tuple[list[tuple[float, float]], int]:
    """The 99th percentiles of the good receiver (without, with) the bad one, and how many requests it got."""
    instances = Instances(store)
    instances.write(range(GOOD + BAD))
    with receiving_apart(kind) as bad:
        async with receiving(answering(status(200))) as good:
            return await _pairs(store, instances, good, bad, rounds)


async def _pairs(
    store: Store, instances: Instances, good: Receiver, bad: BadReceiver, rounds: int
) -> tuple[list[tuple[float, float]], int]:
    for number in range(GOOD + BAD):
        subscribe(store, number, (good if number < GOOD else bad).url)
    async with working(store, GOOD + BAD, total_timeout=2.0):
        pairs = [
            (
                await percentile(instances, good, range(GOOD)),
                await percentile(instances, good, [*range(GOOD, GOOD + BAD), *range(GOOD)]),
            )
            for _ in range(rounds)
        ]
    assert bad.connections()
    return pairs, len(good.requests)


async def percentile(instances: Instances, good: Receiver, numbers: range | list[int]) -> float:
    """Change these instances one after the other. Return the 99th percentile of the good receiver's times."""
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

    await asyncio.to_thread(instances.write, [number for number in numbers if number >= GOOD] or [])
    for number in range(GOOD):
        await asyncio.to_thread(instances.write, [number])
        sent[instances.committed[f"i{number}"]] = time.monotonic()
    await eventually(all_came, 20)
    return sorted(seconds.values())[int(len(seconds) * 0.99)]
