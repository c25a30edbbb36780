# SPDX-License-Identifier: Apache-2.0
"""Filtered lists of 100,000 servers: one page of 100 through the API's WSGI application, over SQLite and PostgreSQL.

Each filter is asked for with values that are rare, common, and in no server, and with a marker in the middle of the
list. The application answers in this process, so no network counts. One thread.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final
from wsgiref.util import setup_testing_defaults

import msgspec
import sqlalchemy as sa

from tests.benchmarks.figures import Budget, Figure
from tests.benchmarks.places import Bench, Place
from tests.simulated import by_facet, telling, told
from watcher_sync.assembly.api import make_application
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.model.changes import Upsert

LOT: Final = 500
_ROUNDS: Final = 200
"""With fewer, the 99th percentile is the longest of all."""
_FEW_ROUNDS: Final = 5
"""Of filters that read a whole table."""
_MIDDLE: Final = "&marker=80000000-0000-4000-8000-000000000000"

_INDEXED: Final = (
    "name=server-000123", "name=prefix:server-0001", "name=prefix:server", "name=prefix:zz",
    "host=compute-7", "host=in:compute-1,compute-2,compute-3", "project_id=project-3", "project_id=rare",
    "state=error&project_id=project-3", "state=active&host=compute-9",
)  # fmt: skip
_UNINDEXED: Final = (
    "state=error", "state=active", "state=in:error,building", "state=prefix:act", "state=nowhere",
    "availability_zone=az-1", "flavor_name=m1.large", "flavor_name=none", "vcpus=gt:4", "vcpus=gt:64",
    "power_state=neq:running", "locked=true", "created_at=lt:2000-01-01T00:00:00Z", "metadata[app]=web",
    "metadata[app]=none", "metadata[app]=prefix:x", "ip_addresses=10.0.0.7", "image_id=in:a,b,c", "sort=-vcpus",
    "sort=name",
)  # fmt: skip
_SEARCHES: Final = ("q=server-000123", "q=server", "q=nowhere", "q=00123")


def filters(bench: Bench) -> list[Figure]:
    """The slowest percent of each group of filters, on both databases."""
    figures: list[Figure] = []
    for service in ("sqlite", "postgresql"):
        with bench.database(service) as url:
            figures += _measured(bench, service, bench.place(connection=url, api={"auth_strategy": "noauth"}))
    return figures


def _measured(bench: Bench, service: str, place: Place) -> Iterator[Figure]:
    _fill(place, bench.scale.many)
    application = make_application(place.conf, place.store)
    groups = {
        "indexed filter": ("/v1/instances", _INDEXED, _ROUNDS, 30.0),
        "unindexed filter": ("/v1/instances", _UNINDEXED, _FEW_ROUNDS, 500.0),
        "search": ("/v1/search", _SEARCHES, _FEW_ROUNDS, 500.0),
    }
    for what, (path, queries, rounds, limit) in groups.items():
        times = _times(application, path, queries, rounds)
        slowest = max(times, key=lambda query: _p99(times[query]))
        yield Figure(
            benchmark="filters",
            what=f"{what}, {bench.scale.many:,} servers, {service}: p99 of each",
            measured=_p99(times[slowest]),
            unit="ms",
            budget=Budget("<=", limit, "ms"),
            samples=[statistics.median(each) for each in times.values()],
            note=f"the slowest: {slowest}; medians {', '.join(f'{statistics.median(t):.1f}' for t in times.values())}",
        )
    place.store.close()
    place.store.database.dispose()


def _times(application: Any, path: str, queries: tuple[str, ...], rounds: int) -> Mapping[str, list[float]]:
    """Query -> milliseconds of its requests."""
    asked = [*queries, *(query + _MIDDLE for query in queries if path != "/v1/search" and "sort=" not in query)]
    times: dict[str, list[float]] = {query: [] for query in asked}
    for number in range(rounds + 1):
        for query in asked:
            began = time.perf_counter()
            ask(application, path, query)
            if number:  # the first round fills the caches
                times[query].append((time.perf_counter() - began) * 1000)
    return times


def ask(application: Any, path: str, query: str) -> Any:
    """The decoded answer to a request."""
    environ = {"PATH_INFO": path, "QUERY_STRING": query, "REMOTE_ADDR": "127.0.0.1", "HTTP_HOST": "localhost"}
    setup_testing_defaults(environ)
    answer = application(environ, lambda status, *_: _require_success(status))
    return msgspec.json.decode(b"".join(answer))


def _require_success(status: str) -> None:
    if not status.startswith("200"):
        raise RuntimeError(status)


def _p99(times: list[float]) -> float:
    return sorted(times)[max(0, round(len(times) * 0.99) - 1)]


def _fill(place: Place, count: int) -> None:
    """Servers of 1,000 hosts and 50 projects, written as an engine does; PostgreSQL then knows how many there are."""
    chance = random.Random(3)
    cycle = CommitCycle(place.store, place.store.load(), telling())
    for start in range(0, count, LOT):
        changes = [server(n, chance) for n in range(start, min(count, start + LOT))]
        cycle.run(Batch(events=[told(start, *changes)]))
    if place.store.database.dialect.name == "postgresql":
        with place.store.database.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(sa.text("ANALYZE"))


def server(number: int, chance: random.Random) -> Upsert:
    """A server of 1,000 hosts and 50 projects."""
    entity_id = f"{chance.getrandbits(32):08x}-0000-4000-8000-{number:012x}"
    values = {
        "name": f"server-{number:06}",
        "project_id": "rare" if number % 10_000 == 0 else f"project-{chance.randrange(50)}",
        "host": f"compute-{number % 1000}",
        "node": f"compute-{number % 1000}",
        "state": chance.choices(("active", "stopped", "building", "error"), (900, 95, 4, 1))[0],
        "power_state": chance.choice(("running", "shutdown")),
        "availability_zone": f"az-{number % 3}",
        "vcpus": chance.choice((1, 2, 4, 8, 16)),
        "memory_mb": 4096,
        "locked": number % 5000 == 0,
        "flavor_name": chance.choice(("m1.small", "m1.large")),
        "metadata": {"app": chance.choice(("web", "db")), "number": str(number), "tier": "1"},
        "ip_addresses": [f"10.0.{number % 256}.{number % 199}"],
        "image_id": f"image-{number % 20}",
    }
    return Upsert("instance", entity_id, "1", by_facet("instance", **values))
