# SPDX-License-Identifier: Apache-2.0
"""The watch stream: how late a change arrives, at how many streams, and what a stream costs in memory.

The server is the real executable. The client is a process of its own with all streams on a few connections, so each of
the two has a core. It notes when each event arrives, and reads the messages later.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import multiprocessing
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

from tests.benchmarks.beside import Outlet, consumed, replay_beside
from tests.benchmarks.catching_up import catch_up
from tests.benchmarks.federation import federation
from tests.benchmarks.figures import Budget, Figure
from tests.benchmarks.places import Bench, Place
from tests.benchmarks.running import Broken, until
from tests.functional.api.conftest import free_port
from tests.functional.webhooks.subscribing import Instances
from watcher_sync.extensions.watch.model.topics import parse, self_link
from watcher_sync.extensions.watch.topic_rows import WatchTopics

_STREAMS_PER_CONNECTION = 100
_RATE = 100
"""Changes a second while the latency is measured."""
_TOPICS = 100
_ALL = "all"
_OPEN_SECONDS = 300.0
_SETTLE_SECONDS = 2.0
_AT_A_TIME = 500


def _follow(pipe: Connection, port: int) -> None:
    """The client's process. A command opens streams, counts the arrivals, or takes them."""
    # Imported here: the parent forks for the server, and must not have used gRPC then.
    from grpc import aio

    from watcher_sync.extensions.watch.wire import events_pb2

    gc.disable()  # The client must not be what is measured.
    arrivals: list[tuple[float, bytes]] = []
    tasks: list[asyncio.Task[None]] = []

    async def follow(channel: Any, link: str) -> None:
        call = channel.stream_stream("/central.events.v1.watch/subscribe")(wait_for_ready=True)
        await call.write(events_pb2.Request(selfLink=link, token="x").SerializeToString())
        while True:
            message = await call.read()
            arrivals.append((time.monotonic(), message))

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        channels: list[Any] = []

        def open_streams(links: Sequence[str]) -> None:
            for number, link in enumerate(links):
                if number % _STREAMS_PER_CONNECTION == 0:
                    options = [("grpc.use_local_subchannel_pool", 1)]
                    channels.append(aio.insecure_channel(f"127.0.0.1:{port}", options=options))
                tasks.append(loop.create_task(follow(channels[-1], link)))

        def answer() -> None:
            try:
                command, argument = pipe.recv()
            except EOFError:
                ended.set()
                return
            if command == "open":
                open_streams(argument)
                pipe.send(None)
            elif command == "count":
                pipe.send(len(arrivals))
            else:
                found = [(when, events_pb2.Event.FromString(message).metadata.sequenceID) for when, message in arrivals]
                arrivals.clear()
                pipe.send(found)

        loop.add_reader(pipe.fileno(), answer)
        await ended.wait()
        for task in tasks:
            task.cancel()

    asyncio.run(serve())


class _Client:
    """The client as the benchmark sees it."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def ask(self, command: str, argument: object = None) -> Any:
        self._pipe.send((command, argument))
        return self._pipe.recv()

    def take(self, count: int) -> list[tuple[float, int]]:
        """Wait for so many events, and return when each arrived, with its sequence."""
        until(lambda: self.ask("count") >= count, pause=0.1)
        found: list[tuple[float, int]] = self.ask("take")
        return found


@contextlib.contextmanager
def _client(port: int) -> Iterator[_Client]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_follow, args=(theirs, port), daemon=True)
    process.start()
    theirs.close()
    try:
        yield _Client(ours)
    finally:
        ours.close()
        process.join(10)
        process.kill()


class _Server:
    """The executable."""

    def __init__(self, process: subprocess.Popen[bytes], monitoring_port: int) -> None:
        self._process = process
        self._metrics = f"http://127.0.0.1:{monitoring_port}/metrics"

    def streams(self) -> int:
        """The open streams that have a topic."""
        with urllib.request.urlopen(self._metrics, timeout=30) as answer:
            text = answer.read().decode()
        _, _, rest = text.partition("\nwatcher_sync_watch_streams_subscribed ")
        return int(float(rest.partition("\n")[0] or 0))

    def memory(self) -> int:
        """Bytes of the process that serves the streams."""
        (worker,) = psutil.Process(self._process.pid).children()
        return int(worker.memory_full_info().uss)


@contextlib.contextmanager
def _server(place: Place) -> Iterator[_Server]:
    program = Path(sys.executable).with_name("watcher-sync-outlet")
    log = place.file.with_name("outlet.log")
    with log.open("wb") as out:
        process = subprocess.Popen([str(program), "--config-file", str(place.file)], stdout=out, stderr=out)
    try:
        until(lambda: "watch: listening on" in log.read_text(), pause=0.05)
        yield _Server(process, place.conf.outlet_watch.monitoring_port)
    finally:
        process.terminate()
        process.wait(30)


@contextlib.contextmanager
def _place(
    bench: Bench, url: str | None = None, names: Iterable[str] = [f"n{number}" for number in range(_TOPICS)]
) -> Iterator[tuple[Place, int]]:
    """:param names: of instances that have a topic each."""
    port = free_port()
    options: dict[str, object] = {
        "port": port,
        "auth_strategy": "noauth",
        "monitoring_port": free_port(),
        "max_streams": 20_000,
        "max_streams_per_identity": 20_000,
    }
    place = bench.place(connection=url, outlet_watch=options, outlet_webhook={"enabled": "false"})
    topics = WatchTopics(place.store.database, place.store.tables)
    for name, filters in _topics(names):
        topics.create(parse({"name": name, "spec": {"filters": [filters]}}, str(uuid.uuid4())))
    yield place, port
    place.store.close()
    place.store.database.dispose()


def _topics(names: Iterable[str]) -> Iterator[tuple[str, dict[str, str]]]:
    yield _ALL, {"group": "compute", "kind": "Instance"}
    for number, name in enumerate(names):
        yield f"t{number}", {"group": "compute", "kind": "Instance", "name": name}


def watch(bench: Bench) -> list[Figure]:
    """Latency, fan-out, memory, catch-up, federation."""
    is_full = bench.scale.pairs > 1
    figures: list[Figure] = []
    for service in ("sqlite", "postgresql"):
        with bench.database(service) as url, _place(bench, url) as (place, port):
            figures += _latency(place, port, service, bench.scale.lone * 5)
    with _place(bench) as (place, port):
        figures += _fan_out(place, port, 10_000 if is_full else 1_000)
    return figures + catch_up(bench) + federation(bench)


def cost(bench: Bench) -> list[Figure]:
    """What 100 streams cost an engine."""
    names = list(consumed(bench).values())
    links = [self_link(f"t{number % len(names)}") for number in range(100)]

    @contextlib.contextmanager
    def streams(place: Place, port: int) -> Iterator[Callable[[], int]]:
        with _server(place) as server, _client(port) as client:
            _open(client, server, links, len(links))
            yield lambda: int(client.ask("count"))

    @contextlib.contextmanager
    def arrange() -> Iterator[tuple[Place, Outlet]]:
        with _place(bench, names=names) as (place, port):
            yield place, lambda: streams(place, port)

    return replay_beside(bench, "watch", "100 streams", arrange)


def _latency(place: Place, port: int, service: str, changes: int) -> list[Figure]:
    """1,000 streams on 100 topics: each change arrives at ten streams."""
    instances = Instances(place.store)
    instances.write(range(_TOPICS))
    sent: dict[int, float] = {}
    links = [self_link(f"t{number % _TOPICS}") for number in range(1_000)]
    with _server(place) as server, _client(port) as client:
        _open(client, server, links, len(links))
        began = time.monotonic()
        for number in range(changes):
            time.sleep(max(0.0, began + number / _RATE - time.monotonic()))
            sequence = instances.write([number % _TOPICS])
            sent[sequence] = time.monotonic()
        latencies = sorted(when - sent[sequence] for when, sequence in client.take(changes * 10))
    title = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}[service]
    note = f"1,000 streams on {_TOPICS} topics, {_RATE} changes/s, each at 10 streams, {title}"
    return [
        _figure(f"from a commit to the arrival, {name}", _part(latencies, part) * 1000, "ms", limit, note)
        for name, part, limit in (("median", 0.5, None), ("99th percentile", 0.99, 150.0))
    ]


def _fan_out(place: Place, port: int, count: int) -> list[Figure]:
    """One change that arrives at all streams, and the memory of a stream."""
    instances = Instances(place.store)
    instances.write([0])
    with _server(place) as server, _client(port) as client:
        figures = _one_change(instances, client, server, 1_000, 1_000)
        before = server.memory()
        if count > 1_000:
            figures += _one_change(instances, client, server, count - 1_000, count)
            each = (server.memory() - before) / (count - 1_000) / 1024
            note = f"private memory, {count:,} against 1,000 streams"
            figures.append(_figure("memory of the server for a stream", each, "KiB", 64.0, note))
    return figures


def _one_change(instances: Instances, client: _Client, server: _Server, more: int, total: int) -> list[Figure]:
    _open(client, server, [self_link(_ALL)] * more, total)
    slowest, all_of = [], []
    for _ in range(5):
        instances.write([0])
        sent = time.monotonic()
        latencies = sorted(when - sent for when, _ in client.take(total))
        slowest.append(latencies[-1])
        all_of += latencies
    note = f"{total:,} streams on one topic, SQLite"
    return [
        _figure("from a commit to the arrival at the last stream", sorted(slowest)[2], "s", 2.0, note),
        _figure("from a commit to the arrival, median", _part(sorted(all_of), 0.5), "s", None, note),
    ]


def _open(client: _Client, server: _Server, links: Sequence[str], total: int) -> None:
    """Open streams, some at a time, and wait until there are so many in the server."""
    deadline = time.monotonic() + _OPEN_SECONDS
    for start in range(0, len(links), _AT_A_TIME):
        part = links[start : start + _AT_A_TIME]
        client.ask("open", part)
        while server.streams() < total - len(links) + start + len(part):
            if time.monotonic() > deadline:
                raise Broken("the streams did not open")
            time.sleep(0.2)
    time.sleep(_SETTLE_SECONDS)
    client.ask("take")


def _part(values: Sequence[float], part: float) -> float:
    return values[min(len(values) - 1, int(len(values) * part))]


def _figure(what: str, measured: float, unit: str, limit: float | None, note: str) -> Figure:
    budget = None if limit is None else Budget("<=", limit, unit)
    return Figure(benchmark="watch", what=what, measured=measured, unit=unit, budget=budget, note=note)
