# SPDX-License-Identifier: Apache-2.0
"""Graphs of depth 3 and the impact of a host of 20,000 servers, among 100,000 entities, through the WSGI application.

SQLite works in this process, so its figures are processor time, and have the budget. Those of the servers are wall
time. One thread.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import sqlalchemy as sa

from tests.benchmarks.figures import Budget, Figure
from tests.benchmarks.filtering import LOT, ask
from tests.benchmarks.places import Bench, Place
from tests.simulated import by_facet, telling, told
from watcher_sync.assembly.api import make_application
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.model.changes import Upsert

_ROUNDS: Final = 7
_STATES: Final = ("active", "active", "stopped", "error")
_PHASES: Final = ("Running", "Running", "Pending", "Failed")


def graphs(bench: Bench) -> list[Figure]:
    """The slowest graph and the impact, on each database."""
    figures: list[Figure] = []
    for service in ("sqlite", "postgresql", "mariadb"):
        with bench.database(service) as url:
            figures += _measured(bench, service, bench.place(connection=url, api={"auth_strategy": "noauth"}))
    return figures


def _measured(bench: Bench, service: str, place: Place) -> Iterator[Figure]:
    crowded = _fill(place, bench.scale.many)
    application = make_application(place.conf, place.store)
    clock = time.process_time if service == "sqlite" else time.perf_counter
    roots = ("compute_node/compute-0", "compute_node/compute-1", "aggregate/rack-0", "cluster/edge-0", "instance/s0",
             "workload/edge-0/d2", "pod/edge-0/p1", "vnf_instance/vnf-1")  # fmt: skip
    times = {root: _times(application, "/v1/graph", f"root={root}&depth=3", clock) for root in roots}
    slowest = max(times, key=lambda root: statistics.median(times[root]))
    each = ", ".join(f"{root} {statistics.median(of_root):.1f}" for root, of_root in times.items())
    yield Figure(
        benchmark="graph",
        what=f"graph of depth 3 over {bench.scale.many:,} entities, {service}: the slowest root",
        measured=statistics.median(times[slowest]),
        unit="ms",
        budget=Budget("<=", 100.0, "ms") if service == "sqlite" else None,
        samples=times[slowest],
        note=each,
    )
    counted = _times(application, "/v1/impact", "root=compute_node/compute-0", clock)
    whole = _times(application, "/v1/impact", "root=cluster/edge-0", clock)
    yield Figure(
        benchmark="graph",
        what=f"impact of a host of {crowded:,} servers, {service}",
        measured=statistics.median(counted),
        unit="ms",
        budget=Budget("<=", 20.0, "ms") if service == "sqlite" else None,
        samples=counted,
        note=f"of a cluster: {statistics.median(whole):.1f}",
    )
    place.store.close()
    place.store.database.dispose()


def _times(application: Any, path: str, query: str, clock: Callable[[], float]) -> list[float]:
    """Milliseconds of each request."""
    found = []
    for number in range(_ROUNDS + 1):
        began = clock()
        ask(application, path, query)
        if number:  # the first round fills the caches
            found.append((clock() - began) * 1000)
    return found


def _fill(place: Place, count: int) -> int:
    """Six tenths are servers, a third of them on one host; the rest is what two clusters have.

    :returns: the servers of that host.
    """
    servers, hosts = count * 6 // 10, count // 100
    pods, crowded = count * 3 // 10, count // 5
    cycle = CommitCycle(place.store, place.store.load(), telling())
    changes: list[Upsert] = [_upsert("cluster", f"edge-{n}", state="connected") for n in range(2)]
    changes += (_upsert("compute_node", f"compute-{n}", status="enabled") for n in range(hosts))
    for n in range(50):
        members = [f"compute-{m}" for m in range(n, hosts, 50)]
        changes.append(_upsert("aggregate", f"rack-{n}", name=f"rack-{n}", hosts=members))
    for n in range(servers):
        host = "compute-0" if n < crowded else f"compute-{1 + n % (hosts - 1)}"
        changes.append(_upsert("instance", f"s{n}", name=f"server-{n}", host=host, state=_STATES[n % 4]))
    for n in range(pods // 10):
        top = f"edge-{n % 2}/d{n}"
        about = {"cluster": f"edge-{n % 2}", "replicas": 10, "ready_replicas": 9 + n % 2, "updated_replicas": 10}
        changes.append(_upsert("workload", top, kind="Deployment", name=f"d{n}", **about))
        changes.append(_upsert("workload", f"{top}/set", kind="ReplicaSet", name=f"d{n}-s", owner_uid=top, **about))
        vnf = {"registration": {"cluster": f"edge-{n % 2}", "name": f"vnf-{n}"}, "observed": {"workload_uids": [top]}}
        changes.append(Upsert("vnf_instance", f"vnf-{n}", "1", vnf))
        for m in range(10):
            owned = {"owner_uid": f"{top}/set", "workload_uid": top, "phase": _PHASES[m % 4]}
            uid = f"edge-{n % 2}/p{n * 10 + m}"
            changes.append(_upsert("pod", uid, name=f"pod-{n}-{m}", cluster=f"edge-{n % 2}", **owned))
    for start in range(0, len(changes), LOT):
        cycle.run(Batch(events=[told(start, *changes[start : start + LOT])]))
    if place.store.database.dialect.name == "postgresql":
        with place.store.database.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(sa.text("ANALYZE"))
    return crowded


def _upsert(kind_name: str, entity_id: str, /, **values: Any) -> Upsert:
    return Upsert(kind_name, entity_id, "1", by_facet(kind_name, **values))
