# SPDX-License-Identifier: Apache-2.0
"""What the model costs: bytes per instance, the time of a snapshot, and that of a load from the tables.

The bytes are counted object by object: everything that is reachable from the model, each object once,
with the size that the interpreter gives it. The objects that are values of fields (shared ones once) are
what any program would have to keep; the rest is ours. One thread.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import time
from collections.abc import Iterable
from typing import Any

import msgspec

from tests.benchmarks.figures import Budget, Figure
from tests.benchmarks.places import Bench
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.extensions.openstack.kinds import Instance
from watcher_sync.model.changes import Version
from watcher_sync.model.kinds import Kind, Kinds
from watcher_sync.model.model import Model, Written
from watcher_sync.sources.replay import read_events
from watcher_sync.testing.kinds import builtin_kinds


def memory(bench: Bench) -> list[Figure]:
    """Bytes of a model that the history was played into, and of one that was loaded from its tables."""
    place = bench.place()
    cycle = CommitCycle(place.store, place.store.load(), place.dispatcher)
    events = read_events([str(bench.history())], "nova")
    while chunk := list(itertools.islice(events, place.conf.engine.batch_size)):
        cycle.run(Batch(events=chunk))
    figures = _weigh(cycle.model, "model memory, live")
    began = time.process_time()
    loaded = place.store.load()
    seconds = time.process_time() - began
    entities = sum(map(loaded.snapshot().count, loaded.kinds))
    figures.append(
        Figure(
            benchmark="memory",
            what=f"load of {entities:,} entities from the tables, processor time",
            measured=entities / seconds,
            unit="entities/s",
            budget=Budget(">=", 40_000, "entities/s"),
            note=f"{seconds / entities * 1e6:.1f} us for each",
        )
    )
    figures += _weigh(loaded, "model memory, loaded from the tables")
    figures.append(_snapshot_time(cycle.model, f"{len(_instances(cycle.model)):,} instances"))
    place.store.close()
    return figures


def snapshots(bench: Bench) -> list[Figure]:
    """The time of a snapshot of a large model."""
    kinds = builtin_kinds()
    model = Model(kinds)
    versions = (Version("1"),) * len(kinds["instance"].facets)
    model.write(
        (
            Written("instance", f"i-{n:07d}", Instance(id=f"i-{n:07d}", host=f"h-{n % 2000}", versions=versions), None)
            for n in range(bench.scale.many)
        ),
        1,
    )
    return [_snapshot_time(model, f"{bench.scale.many:,} instances")]


def _snapshot_time(model: Model, size: str) -> Figure:
    """A snapshot after a commit that wrote one instance, as it is taken while events flow."""
    one = _instances(model)[0]
    samples: list[float] = []
    for turn in range(200):
        model.write([Written("instance", one.id, one, None)], model.generation + 1)
        began = time.perf_counter()
        snapshot = model.snapshot()
        samples.append((time.perf_counter() - began) * 1000)
        assert snapshot.generation == model.generation, turn
    return Figure(
        benchmark="snapshots",
        what=f"consistent snapshot, {size}",
        measured=statistics.median(samples),
        unit="ms",
        budget=Budget("<=", 5, "ms"),
        samples=[min(samples), max(samples)],
        note=f"median of {len(samples)}, longest {max(samples):.2f} ms",
    )


def _weigh(model: Model, what: str) -> list[Figure]:
    instances = _instances(model)
    seen: set[int] = set()
    raw = sum(_size(_values(model.kinds, instance), seen) for instance in instances)
    total = raw + _size([model], seen)
    return [
        Figure(
            benchmark="memory",
            what=f"{what}: per instance, beyond the field values",
            measured=(total - raw) / len(instances),
            unit="bytes",
            budget=Budget("<=", 1024, "bytes"),
            note=f"{len(instances):,} instances; the field values: {raw / len(instances):,.0f} bytes each",
        ),
        Figure(
            benchmark="memory",
            what=f"{what}: in all",
            measured=total / 1e6 * 20_000 / len(instances),
            unit="MB",
            budget=Budget("<=", 28, "MB"),
            note="scaled to 20,000 instances",
        ),
    ]


def _instances(model: Model) -> list[Any]:
    return list(model.snapshot().all("instance"))


def _values(kinds: Kinds, instance: Any) -> list[Any]:
    return [getattr(instance, name) for name in kinds["instance"].public]


def _size(roots: Iterable[Any], seen: set[int]) -> int:
    """Bytes of everything reachable that was not seen before; declarations, code and locks not counted."""
    total = 0
    pending = list(roots)
    while pending:
        thing = pending.pop()
        if thing is None or id(thing) in seen or isinstance(thing, (type, Kind, Kinds, bool)) or callable(thing):
            continue
        seen.add(id(thing))
        total += sys.getsizeof(thing)
        if isinstance(thing, dict):
            pending += thing.keys()
            pending += thing.values()
        elif isinstance(thing, (list, tuple, set, frozenset)):
            pending += thing
        elif isinstance(thing, msgspec.Struct):
            pending += (getattr(thing, name) for name in thing.__struct_fields__)
        else:
            pending += _attributes(thing)
    return total


def _attributes(thing: Any) -> list[Any]:
    slots = [name for cls in type(thing).__mro__ for name in getattr(cls, "__slots__", ())]
    held = [getattr(thing, name) for name in slots if name != "__weakref__" and hasattr(thing, name)]
    return held + ([thing.__dict__] if hasattr(thing, "__dict__") else [])
