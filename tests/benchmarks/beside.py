# SPDX-License-Identifier: Apache-2.0
"""A replay beside the real process of an outlet, against the same without it, in turn, on SQLite.

One in 200 instances of the history has a consumer. So about 100 changes a second are delivered meanwhile. The clock
shows what the outlet takes from the disk and from the processors. The processor time is that of the replay alone.
"""

from __future__ import annotations

import contextlib
import gc
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import msgspec

from tests.benchmarks.figures import Budget, Figure, against
from tests.benchmarks.places import Bench, Place
from tests.benchmarks.running import Pace

_SHARE = 200
"""One in so many instances of a history has a consumer."""

Outlet = Callable[[], AbstractContextManager[Callable[[], int]]]
"""Runs an outlet; inside, what it delivered can be asked for."""


def consumed(bench: Bench) -> dict[str, str]:
    """The instances that have a consumer: id -> name."""
    found: dict[str, str] = {}
    with bench.history().open("rb") as lines:
        for line in lines:
            payload = msgspec.json.decode(line)["payload"]["nova_object.data"]
            if "uuid" in payload and "flavor" in payload:
                found.setdefault(payload["uuid"], payload["display_name"])
    return dict(list(found.items())[::_SHARE])


def replay_beside(
    bench: Bench, benchmark: str, what: str, arrange: Callable[[], AbstractContextManager[tuple[Place, Outlet]]]
) -> list[Figure]:
    """The rate, and the processor time of an event.

    :param what: the outlet and its consumers.
    :param arrange: makes a fresh database with the consumers.
    """
    pairs: list[Sequence[Pace]] = []
    delivered: list[int] = []
    for turn in range(max(11, bench.scale.pairs) if bench.scale.pairs > 1 else 1):
        paces = {}
        for is_beside in (True, False) if turn % 2 else (False, True):
            gc.collect()
            with arrange() as (place, outlet), outlet() if is_beside else contextlib.nullcontext() as count:
                began = time.process_time()
                read, rate = place.replay(bench.history())
                paces[is_beside] = Pace(rate, (time.process_time() - began) * 1e6 / read)
                if count is not None:
                    delivered.append(count())
        pairs.append((paces[True], paces[False]))
    note = f"SQLite, which both processes use; {statistics.median(delivered):,.0f} deliveries meanwhile"
    return [
        against(
            [(beside.rate, alone.rate) for beside, alone in pairs],
            benchmark=benchmark,
            what=f"replay beside {what}, against the same without it",
            unit="events/s",
            reference_unit="events/s",
            budget=Budget(">=", 0.95),
            note=note,
        ),
        against(
            [(beside.processor, alone.processor) for beside, alone in pairs],
            benchmark=benchmark,
            what="... processor time of the replay for an event",
            unit="us",
            reference_unit="us",
            budget=Budget("<=", 1.03),
        ),
    ]
