# SPDX-License-Identifier: Apache-2.0
"""The feed of the API: how late a lone change arrives at a client that streams, such as the page.

The API is the real executable, and the writer is another process than the API, as an engine is.
"""

from __future__ import annotations

import contextlib
import json
import logging
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx

from tests.benchmarks.figures import Budget, Figure
from tests.benchmarks.places import Bench, Place
from tests.benchmarks.running import Broken, until
from tests.functional.api.conftest import free_port
from tests.functional.webhooks.subscribing import Instances

_FIRST: Final = 5
"""Changes that are not counted: the first ones open connections."""
_PER_SCALE: Final = 3
"""Changes for each lone event of the scale."""


def feed(bench: Bench) -> list[Figure]:
    """From the commit of a change to its arrival in a stream of events, on each kind of database."""
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs each request
    figures: list[Figure] = []
    for service in ("sqlite", "postgresql", "mariadb"):
        with bench.database(service) as url:
            figures += _measured(bench, service, url)
    return figures


def _measured(bench: Bench, service: str, url: str) -> list[Figure]:
    port = free_port()
    api = {"auth_strategy": "noauth", "host": "127.0.0.1", "port": port}
    place = bench.place(connection=url, api=api)
    instances = Instances(place.store)
    arrivals: dict[int, float] = {}
    sent: dict[int, float] = {}
    chance = random.Random(7)
    with _api(place, port) as base, _follower(base, arrivals):
        for turn in range(bench.scale.lone * _PER_SCALE + _FIRST):
            time.sleep(chance.uniform(0.02, 0.15))  # so that it comes alone, and at no fixed time of a poll
            seq = instances.write([turn % 50])
            sent[seq] = time.monotonic()
        until(lambda: sent.keys() <= arrivals.keys())
    place.store.close()
    place.store.database.dispose()
    late = sorted((arrivals[seq] - when) * 1000 for seq, when in list(sent.items())[_FIRST:])
    return [
        Figure(
            benchmark="feed",
            what=f"a commit to its arrival in a stream of the API, {service}: p99",
            measured=late[max(0, round(len(late) * 0.99) - 1)],
            unit="ms",
            budget=Budget("<=", 100, "ms"),
            note=f"{len(late)} changes, median {statistics.median(late):.1f} ms, longest {late[-1]:.1f} ms",
        )
    ]


@contextlib.contextmanager
def _api(place: Place, port: int) -> Iterator[str]:
    """The API in a process of its own; gives its address."""
    command = [str(Path(sys.executable).with_name("watcher-sync-api")), "--config-file", str(place.file)]
    with (place.file.parent / "api.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        base = f"http://127.0.0.1:{port}"
        try:
            until(lambda: _answers(base))
            yield base
        finally:
            process.terminate()
            process.wait(30)


def _answers(base: str) -> bool:
    try:
        return httpx.get(f"{base}/v1").status_code == 200
    except httpx.TransportError:
        return False


@contextlib.contextmanager
def _follower(base: str, arrivals: dict[int, float]) -> Iterator[None]:
    """Notes when each change arrives: seq -> monotonic seconds."""
    opened = threading.Event()
    client = httpx.Client(base_url=base, timeout=60)

    def follow() -> None:
        with (
            contextlib.suppress(httpx.TransportError),
            client.stream("GET", "/v1/events", headers={"Accept": "text/event-stream"}) as response,
        ):
            opened.set()
            for line in response.iter_lines():
                if line.startswith("data: "):
                    arrivals[json.loads(line[6:])["seq"]] = time.monotonic()

    thread = threading.Thread(target=follow, name="follower", daemon=True)
    thread.start()
    if not opened.wait(30):
        raise Broken("the stream did not open")
    try:
        yield
    finally:
        client.close()
