# SPDX-License-Identifier: Apache-2.0
"""The outlet of NATS JetStream: the rate of a real process, how late a change is, and what it costs an engine."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import statistics
import threading
import time
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import nats

from tests.benchmarks.beside import Outlet, replay_beside
from tests.benchmarks.figures import Budget, Figure
from tests.benchmarks.places import Bench, Place
from tests.benchmarks.running import running_program, until
from tests.functional.log.memory_log import NAME, Cloud, instance
from tests.services.ensure import url_of
from watcher_sync.client.log import LogReader
from watcher_sync.extensions.log.cursors import PUBLISHING, read_outlet

RATE: Final = 200
"""Changes a second while the lateness is measured."""
_FIRST: Final = 3
"""The sequence of the first change after the snapshot of an empty model."""


def logs(bench: Bench) -> list[Figure]:
    """The rate of a process that catches up, and the lateness of a change at a reader."""
    return [*_catching_up(bench), *_lateness(bench)]


def cost(bench: Bench) -> list[Figure]:
    """What an outlet that publishes everything costs an engine."""

    @contextlib.contextmanager
    def arrange() -> Iterator[tuple[Place, Outlet]]:
        with _place(bench) as (place, _):
            yield place, lambda: running_outlet(place)

    return replay_beside(bench, "log", "an outlet on JetStream", arrange)


def _catching_up(bench: Bench) -> list[Figure]:
    """The log has the snapshot of an empty model, and then a whole cloud comes up while no outlet runs."""
    rates, reads = [], []
    for _ in range(bench.scale.pairs):
        with _place(bench) as (place, stream):
            with running_outlet(place):
                pass
            place.replay(bench.history())
            head = place.store.head()
            with running_outlet(place) as published:
                until(lambda published=published, head=head: published() >= head)
            rates.append(asyncio.run(_rate(stream)))
            reads.append(_read_all(stream, head))
    note = "from the journal in SQLite to a stream with one replica"
    return [
        _figure("changes that an outlet on JetStream publishes", statistics.median(rates), "changes/s", note),
        _figure("entries of the model and changes that a client reads", statistics.median(reads), "entries/s", ""),
    ]


def _read_all(stream: str, head: int) -> float:
    """Entries a second."""
    with LogReader([url_of("nats")], stream=stream) as log:
        began, count = time.monotonic(), 0
        for entry in log.read(timeout=60):
            count += 1
            if entry.change == "snapshot_end" or entry.seq >= head:
                break
        return count / (time.monotonic() - began)


def _lateness(bench: Bench) -> list[Figure]:
    count = bench.scale.lone * 10
    with _place(bench) as (place, stream), running_outlet(place), LogReader([url_of("nats")], stream=stream) as log:
        cloud, sent, arrived = Cloud(place.store), dict[int, float](), dict[int, float]()

        def follow() -> None:
            for entry in log.read():
                arrived[entry.seq] = time.monotonic()

        threading.Thread(target=follow, daemon=True).start()
        until(lambda: arrived, pause=0.01)
        began = time.monotonic()
        for number in range(count):
            time.sleep(max(0.0, began + number / RATE - time.monotonic()))
            sequence = cloud.write(instance(number % 100, state=f"s{number}"))
            sent[sequence] = time.monotonic()
        until(lambda: sent.keys() <= arrived.keys(), pause=0.05)
    late = sorted(arrived[sequence] - when for sequence, when in sent.items())
    note = f"{RATE} changes/s, SQLite"
    return [
        _figure(f"from a commit to a reader of the log, {name}", late[int(count * part)] * 1000, "ms", note, limit)
        for name, part, limit in (("median", 0.5, None), ("99th percentile", 0.99, 300.0))
    ]


def outlet_sections(servers: str, stream: str, replicas: int = 1) -> dict[str, dict[str, object]]:
    """The configuration of an outlet on JetStream, whose partition has the name of its stream."""
    return {
        "outlet_webhook": {"enabled": "false"},
        "outlets": {"enabled": NAME},
        f"outlet_{NAME}": {
            "driver": "nats_jetstream",
            "servers": servers,
            "stream": stream,
            "subject_prefix": stream,
            "partition": stream,
            "stream_mode": "create",
            "replicas": replicas,
        },
    }


@contextlib.contextmanager
def _place(bench: Bench) -> Iterator[tuple[Place, str]]:
    """A fresh database, and the name of its stream, which is deleted afterwards."""
    stream = f"watcher-sync-bench-{time.time_ns():x}"
    place = bench.place(**outlet_sections(url_of("nats"), stream))
    try:
        yield place, stream
    finally:
        place.store.close()
        place.store.database.dispose()
        asyncio.run(_delete(stream))


async def _rate(stream: str) -> float:
    """Changes a second, by the times of the first and the last one in the stream."""
    client = await nats.connect(url_of("nats"))

    async def ask(subject: str, **request: int) -> dict[str, Any]:
        answer = await client.request(f"$JS.API.STREAM.{subject}.{stream}", msgspec.json.encode(request), timeout=10)
        return dict(msgspec.json.decode(answer.data))

    last = (await ask("INFO"))["state"]["last_seq"]
    times = [
        msgspec.convert((await ask("MSG.GET", seq=each))["message"]["time"], datetime.datetime)
        for each in (_FIRST, last)
    ]
    await client.close()
    return float(last - _FIRST) / (times[1] - times[0]).total_seconds()


async def _delete(stream: str) -> None:
    client = await nats.connect(url_of("nats"))
    for name in (f"{stream}-model", stream):
        with contextlib.suppress(nats.js.errors.NotFoundError):
            await client.jetstream().delete_stream(name)
    await client.close()


@contextlib.contextmanager
def running_outlet(place: Place) -> Iterator[Any]:
    """A process that publishes changes; inside, the seq that the log has, as it last wrote it."""
    database = place.store.database

    def published() -> int:
        cursor = read_outlet(database, NAME)
        return cursor.published_seq if cursor is not None and cursor.state == PUBLISHING else -1

    with running_program(place, "watcher-sync-outlet"):
        until(lambda: published() >= 0, pause=0.05)
        yield published


def _figure(what: str, measured: float, unit: str, note: str, limit: float | None = None) -> Figure:
    budget = Budget("<=", limit, unit) if limit is not None else None
    return Figure(benchmark="log", what=what, measured=measured, unit=unit, budget=budget, note=note)
