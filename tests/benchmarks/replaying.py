# SPDX-License-Identifier: Apache-2.0
"""The replay of recorded Nova notifications into SQLite, held against the database alone, the shortest pipeline,
a naive one, and itself with bad input. One thread."""

from __future__ import annotations

import gc
import statistics

from tests.benchmarks.figures import Budget, Figure, against
from tests.benchmarks.places import Bench
from tests.benchmarks.references import bare_upsert, naive_pipeline, shortest_pipeline


def replay(bench: Bench) -> list[Figure]:
    """Rate of the whole cloud's history, and its ratio to the references."""
    history = bench.history()
    rates: list[float] = []
    bare: list[tuple[float, float]] = []
    shortest: list[tuple[float, float]] = []
    naive: list[tuple[float, float]] = []
    events = 0
    for _ in range(bench.scale.pairs):
        gc.collect()
        place = bench.place()
        events, rate = place.replay(history)
        rates.append(rate)
        target = place.database.with_name("bare.sqlite")
        bare.append((rate, bare_upsert(place.database, target, rows=events)))
        target = place.database.with_name("shortest.sqlite")
        shortest.append((rate, shortest_pipeline(history, target)))
        target = place.database.with_name("naive.sqlite")
        naive.append((rate, naive_pipeline(history, target, events=bench.scale.naive)))
    size = f"{bench.scale.hosts:,} hosts, {bench.scale.instances:,} instances, {events:,} events"
    return [
        Figure(
            benchmark="replay",
            what="replay of Nova notifications into SQLite",
            measured=statistics.median(rates),
            unit="events/s",
            budget=Budget(">=", 22_000, "events/s"),
            samples=rates,
            note=size,
        ),
        against(
            bare,
            benchmark="replay",
            what="... against a bare sqlite3 upsert of the same rows",
            unit="events/s",
            reference_unit="rows/s",
            budget=Budget(">=", 0.55),
        ),
        against(
            shortest,
            benchmark="replay",
            what="... against the shortest pipeline",
            unit="events/s",
            reference_unit="events/s",
            budget=Budget(">=", 0.75),
            note="json.loads, executemany of rows and journal, a commit per 500; no order, guard or deltas",
        ),
        against(
            naive,
            benchmark="replay",
            what="... against the naive pipeline",
            unit="events/s",
            reference_unit="events/s",
            budget=Budget(">=", 12),
            note=f"json.loads, ORM session, commit per event; {bench.scale.naive:,} events",
        ),
    ]


def poison(bench: Bench) -> list[Figure]:
    """Good events a second when one in a hundred of what comes is bad, held against the same without."""
    clean, poisoned = bench.part(), bench.poisoned()
    pairs: list[tuple[float, float]] = []
    for turn in range(bench.scale.pairs):
        # Each comes first in every second pair: what warms up or wears out does not count for one side.
        first, second = (clean, poisoned) if turn % 2 else (poisoned, clean)
        rates: list[float] = []
        for recording in (first, second):
            gc.collect()
            read, rate = bench.place().replay(recording)
            rates.append(rate * bench.scale.slice / read)
        pairs.append((rates[1], rates[0]) if turn % 2 else (rates[0], rates[1]))
    return [
        against(
            pairs,
            benchmark="poison",
            what="replay with 1 % of the events poisoned",
            unit="good events/s",
            reference_unit="events/s",
            budget=Budget(">=", 0.9),
            note=f"{bench.scale.slice:,} good events; bad bodies of up to 64 KiB",
        )
    ]
