# SPDX-License-Identifier: Apache-2.0
"""Webhooks: how fast one worker delivers, how late a change arrives, and what the outlet costs an engine.

The receiver is a process of its own with several ports on the loopback interface. It answers 200 at once, and tells
how many requests came and when. The worker runs in this process, as ``watcher-sync-outlet`` assembles it, except for
the cost to the engine: there it is the real executable.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import multiprocessing
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

from tests.benchmarks.beside import Outlet, consumed, replay_beside
from tests.benchmarks.figures import Budget, Figure
from tests.benchmarks.places import Bench, Place
from tests.benchmarks.running import until
from tests.functional.webhooks.subscribing import Instances, subscribe_all
from watcher_sync.extensions.webhooks.assembly import WebhookOutlet, assemble
from watcher_sync.extensions.webhooks.secrets import SecretBox, new_key

_PORTS = 10
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
_RATE = 100
"""Changes a second while the latency is measured."""


class _Receiver(asyncio.Protocol):
    """Answers each request of a connection at once."""

    def __init__(self, arrivals: list[tuple[float, bytes]]) -> None:
        self._arrivals = arrivals
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        while (end := self._data.find(b"\r\n\r\n")) >= 0:
            head = self._data[:end].lower()
            length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
            whole = end + 4 + length
            if len(self._data) < whole:
                return
            self._arrivals.append((time.monotonic(), self._data[end + 4 : whole]))
            self._data = self._data[whole:]
            self._transport.write(_HEAD)  # type: ignore[attr-defined]


def _receive(pipe: Connection) -> None:
    """The receiver's process: a ``count`` or ``take`` from the pipe is answered."""

    async def serve() -> None:
        arrivals: list[tuple[float, bytes]] = []
        loop = asyncio.get_running_loop()
        servers = [await loop.create_server(lambda: _Receiver(arrivals), "127.0.0.1", 0) for _ in range(_PORTS)]
        ended = asyncio.Event()

        def answer() -> None:
            try:
                question = pipe.recv()
            except EOFError:
                ended.set()
                return
            if question == "count":
                pipe.send(len(arrivals))
            else:
                pipe.send(list(arrivals))
                arrivals.clear()

        pipe.send([server.sockets[0].getsockname()[1] for server in servers])
        loop.add_reader(pipe.fileno(), answer)
        await ended.wait()

    asyncio.run(serve())


class _Receiving:
    """The receiver as the benchmark sees it."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self.ports: list[int] = pipe.recv()

    def urls(self, count: int, ports: int) -> list[str]:
        """Callback URLs, on so many ports in turn."""
        return [f"http://127.0.0.1:{self.ports[number % ports]}/hook" for number in range(count)]

    def count(self) -> int:
        self._pipe.send("count")
        return int(self._pipe.recv())

    def take(self) -> list[tuple[float, bytes]]:
        self._pipe.send("take")
        return list(self._pipe.recv())


@contextlib.contextmanager
def _receiving() -> Iterator[_Receiving]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_receive, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    try:
        yield _Receiving(ours)
    finally:
        ours.close()
        process.join(10)


def _place(bench: Bench, box_key: str, connection: str | None = None) -> Place:
    options = {"allow_http": "true", "allowed_networks": "127.0.0.0/8", "secret_keys": box_key}
    return bench.place(connection=connection, outlet_webhook=options)


@contextlib.contextmanager
def _outlet(place: Place, subscriptions: int) -> Iterator[tuple[WebhookOutlet, float]]:
    """A worker that has loaded so many subscriptions, and after how many seconds it had."""
    outlet = assemble(place.conf)
    began = time.perf_counter()
    outlet.start()
    try:
        until(lambda: outlet.worker.stats.subscriptions >= subscriptions)
        yield outlet, time.perf_counter() - began
    finally:
        outlet.stop(30)


def webhooks(bench: Bench) -> list[Figure]:
    """Rate, start, latency, and the cost to an engine."""
    key = new_key()
    count = bench.scale.instances // 2
    figures: list[Figure] = []
    with _receiving() as receiver:
        for ports in (_PORTS, 1):
            figures += _rate(bench, receiver, key, count, ports)
        for service in ("sqlite", "postgresql"):
            with bench.database(service) as url:
                figures += _latency(bench, receiver, key, service, url)
    return figures


def _rate(bench: Bench, receiver: _Receiving, key: str, count: int, ports: int) -> list[Figure]:
    place = _place(bench, key)
    instances = Instances(place.store)
    instances.write(range(count))
    subscribe_all(place.store, receiver.urls(count, ports), box=SecretBox([key]))
    seconds, starts = [], []
    for _ in range(bench.scale.pairs):
        gc.collect()
        receiver.take()
        with _outlet(place, count) as (_, start):
            starts.append(start)
            instances.write(range(count))
            committed = time.perf_counter()
            until(lambda: receiver.count() >= count, pause=0.02)
            seconds.append(time.perf_counter() - committed)
    place.store.database.dispose()
    note = f"{count:,} subscriptions, one worker, SQLite, {ports} receiver{'s' if ports > 1 else ''}"
    budget = count / 10_000
    figures = [
        Figure(
            benchmark="webhooks",
            what=f"from the commit of {count:,} changes to the arrival of the last",
            measured=statistics.median(seconds),
            unit="s",
            budget=Budget("<=", 6 * budget, "s"),
            samples=seconds,
            note=note,
        )
    ]
    if ports == _PORTS:
        figures.append(
            Figure(
                benchmark="webhooks",
                what=f"start of a worker until {count:,} subscriptions are live",
                measured=statistics.median(starts),
                unit="s",
                budget=Budget("<=", 5 * budget, "s"),
                samples=starts,
            )
        )
    return figures


def _latency(bench: Bench, receiver: _Receiving, key: str, service: str, url: str) -> list[Figure]:
    count, changes = 1_000, bench.scale.lone * 10
    place = _place(bench, key, url)
    instances = Instances(place.store)
    instances.write(range(count))
    subscribe_all(place.store, receiver.urls(count, _PORTS), box=SecretBox([key]))
    receiver.take()
    sent: dict[str, float] = {}
    with _outlet(place, count):
        began = time.monotonic()
        for number in range(changes):
            time.sleep(max(0.0, began + number / _RATE - time.monotonic()))
            instances.write([number % count])
            sent[instances.committed[f"i{number % count}"]] = time.monotonic()
        until(lambda: receiver.count() >= changes, pause=0.05)
    latencies = sorted(_latencies(receiver.take(), sent))
    place.store.close()
    place.store.database.dispose()
    title = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}[service]
    note = f"{count:,} subscriptions, {_RATE} changes/s, {title}"
    return [
        Figure(
            benchmark="webhooks",
            what=f"from a commit to the arrival, {name}",
            measured=latencies[min(len(latencies) - 1, int(len(latencies) * part))] * 1000,
            unit="ms",
            budget=Budget("<=", limit, "ms"),
            note=note,
        )
        for name, part, limit in (("median", 0.5, 100), ("99th percentile", 0.99, 500))
    ]


def _latencies(arrivals: Sequence[tuple[float, bytes]], sent: dict[str, float]) -> Iterator[float]:
    for when, body in arrivals:
        _, _, rest = body.partition(b"status-")
        value = "status-" + "".join(map(chr, itertools.takewhile(lambda c: chr(c).isdigit(), rest)))
        if value in sent:
            yield when - sent[value]


def cost(bench: Bench) -> list[Figure]:
    """What the outlet costs an engine."""
    key, chosen = new_key(), list(consumed(bench))
    with _receiving() as receiver:

        @contextlib.contextmanager
        def arrange() -> Iterator[tuple[Place, Outlet]]:
            place = _place(bench, key)
            Instances(place.store).write(range(1_000))
            subscribe_all(place.store, receiver.urls(1_000, _PORTS), chosen, box=SecretBox([key]), project_id=None)
            yield place, lambda: _process(place, receiver)
            place.store.database.dispose()

        return replay_beside(bench, "webhooks", "an outlet with 1,000 subscriptions", arrange)


@contextlib.contextmanager
def _process(place: Place, receiver: _Receiving) -> Iterator[Callable[[], int]]:
    program = Path(sys.executable).with_name("watcher-sync-outlet")
    log = place.file.with_name("outlet.log")
    with log.open("wb") as out:
        process = subprocess.Popen([str(program), "--config-file", str(place.file)], stdout=out, stderr=out)
    try:
        until(lambda: "took 32 shards" in log.read_text(), pause=0.05)
        receiver.take()
        yield receiver.count
    finally:
        process.terminate()
        process.wait(30)
