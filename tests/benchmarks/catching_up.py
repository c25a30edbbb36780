# SPDX-License-Identifier: Apache-2.0
"""The catch-up of a watch client: the past events of a topic over the REST API, as the project's own client reads them.

The API runs under gunicorn with one worker. The client decodes each event as a watch does.
"""

from __future__ import annotations

import itertools
import statistics
import time
import uuid

from tests.benchmarks.figures import Budget, Figure
from tests.benchmarks.places import Bench, Place
from tests.benchmarks.regions import processor, serving
from tests.functional.api.conftest import free_port
from watcher_sync.client.watch.harvester import RestHarvester
from watcher_sync.client.watch.models import event_of
from watcher_sync.commit.replay import replay
from watcher_sync.extensions.watch.model.topics import parse, self_link
from watcher_sync.extensions.watch.topic_rows import WatchTopics
from watcher_sync.sources.replay import read_events
from watcher_sync.testing.nova.cloud import CloudSimulator
from watcher_sync.testing.nova.recording import write_jsonl

_TOPIC = "everything"
_EVENTS_PER_COMMIT = 20
_TURNS = 5


def catch_up(bench: Bench) -> list[Figure]:
    """Events a second by the clock, and for a processor second of the API and of the client."""
    place = bench.place(api={"auth_strategy": "noauth"})
    _fill(bench, place)
    port = free_port()
    rates, servers, clients = [], [], []
    with serving(place, port) as processes:
        harvester = RestHarvester(f"http://127.0.0.1:{port}", "")
        for _ in range(_TURNS):
            began, server, client = time.perf_counter(), processor(processes), time.process_time()
            count = sum(event_of(each).sequence > 0 for each in harvester.harvest(self_link(_TOPIC), 0, "x"))
            rates.append(count / (time.perf_counter() - began))
            servers.append(count / (processor(processes) - server))
            clients.append(count / (time.process_time() - client))
    place.store.close()
    place.store.database.dispose()
    note = f"{count:,} events of a simulated cloud, SQLite, one worker of the API"
    return [
        _figure("events of a catch-up", rates, "events/s", Budget(">=", 5_000, "events/s"), note),
        _figure("events of a catch-up, for a processor second of the API", servers, "events", None, note),
        _figure("events of a catch-up, for a processor second of the client", clients, "events", None, note),
    ]


def _fill(bench: Bench, place: Place) -> None:
    """Write the journal, and the topic of everything."""
    changes = 12_000 if bench.scale.pairs > 1 else 3_000
    cloud = CloudSimulator(seed=7, hosts=100, instances=changes // 10)
    path = bench.folder / "catch-up.jsonl"
    write_jsonl(path, itertools.chain(cloud.populate(), itertools.islice(cloud.events(), changes)))
    events = read_events([str(path)], "nova")
    replay(place.store, place.dispatcher, events, batch_size=_EVENTS_PER_COMMIT)
    topics = WatchTopics(place.store.database, place.store.tables)
    spec = {"filters": [{"group": "*", "kind": "*"}]}
    topics.create(parse({"name": _TOPIC, "spec": spec}, str(uuid.uuid4())))


def _figure(what: str, samples: list[float], unit: str, budget: Budget | None, note: str) -> Figure:
    return Figure(
        benchmark="watch", what=what, measured=statistics.median(samples), unit=unit, budget=budget, samples=samples,
        note=note,
    )  # fmt: skip
