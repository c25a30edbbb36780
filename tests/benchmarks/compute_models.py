# SPDX-License-Identifier: Apache-2.0
"""The compute model of 20,000 servers, against the deep copy of an equal graph, which Watcher makes for each audit.

The API's WSGI application answers in this process over SQLite, so no network counts for either side. Before each answer
but the first, a commit changes 50 servers. So the answer is never that of the request before. The graph has a node for
each host and server with the attributes of the document. An edge goes from each server to its host. One thread.
"""

from __future__ import annotations

import copy
import datetime
import random
import statistics
import time
from collections.abc import Iterator
from typing import Any
from wsgiref.util import setup_testing_defaults

import msgspec
import networkx

from tests.benchmarks.figures import Budget, Figure, against
from tests.benchmarks.places import Bench, Place
from tests.simulated import by_facet, telling, told
from watcher_sync.assembly.api import make_application
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.model.changes import Upsert

_LOT = 500
_CHANGED = 50
_NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


def compute_model(bench: Bench) -> list[Figure]:
    """First byte, whole answer, and how much faster than the copy."""
    place = bench.place(api={"auth_strategy": "noauth"})
    cloud = _Cloud(place, bench.scale.hosts, bench.scale.instances)
    cloud.fill()
    application = make_application(place.conf, place.store)
    cold = _ask(application)
    pairs, firsts, wholes = [], [], []
    graph = _graph(msgspec.json.decode(cold.body))
    for _ in range(max(3, bench.scale.pairs)):
        answers = []
        for _ in range(5):
            cloud.change()
            answers.append(_ask(application))
        firsts += [answer.first for answer in answers]
        wholes += [answer.whole for answer in answers]
        began = time.perf_counter()
        copy.deepcopy(graph)
        copied = time.perf_counter() - began
        pairs.append((1 / statistics.median(answer.whole for answer in answers), 1 / copied))
    place.store.close()
    size = f"{bench.scale.instances:,} servers on {bench.scale.hosts:,} hosts"
    note = f"{len(cold.body) / 2**20:.1f} MiB; {_CHANGED} servers change between two requests"
    return [
        Figure(
            benchmark="compute-model",
            what=f"compute model of {size}: first byte",
            measured=max(firsts) * 1000,
            unit="ms",
            budget=Budget("<=", 50, "ms"),
            samples=[first * 1000 for first in firsts],
            note="the longest",
        ),
        Figure(
            benchmark="compute-model",
            what=f"compute model of {size}: whole answer, the first of a process",
            measured=cold.whole,
            unit="s",
            budget=Budget("<=", 1.0, "s"),
            samples=[cold.whole],
        ),
        Figure(
            benchmark="compute-model",
            what=f"compute model of {size}: whole answer, further ones",
            measured=statistics.median(wholes) * 1000,
            unit="ms",
            budget=Budget("<=", 1000, "ms"),
            samples=[whole * 1000 for whole in wholes],
            note=note,
        ),
        against(
            pairs,
            benchmark="compute-model",
            what="compute model against copy.deepcopy of an equal networkx graph",
            unit="models/s",
            reference_unit="copies/s",
            # A request has a constant cost, which few servers do not outweigh.
            budget=Budget(">=", 20, "x") if bench.scale.instances >= 20_000 else None,
        ),
    ]


class _Answer(msgspec.Struct):
    first: float
    """Seconds until the first bytes."""
    whole: float
    body: bytes


def _ask(application: Any) -> _Answer:
    environ = {"PATH_INFO": "/v1/compute_model", "REMOTE_ADDR": "127.0.0.1", "HTTP_HOST": "localhost"}
    setup_testing_defaults(environ)
    began = time.perf_counter()
    answer = application(environ, lambda *_: None)
    pieces = iter(answer)
    body = [next(pieces)]
    first = time.perf_counter() - began
    body += pieces
    whole = time.perf_counter() - began
    answer.close()
    return _Answer(first, whole, b"".join(body))


def _graph(document: dict[str, Any]) -> networkx.DiGraph:
    graph = networkx.DiGraph()
    for node in document["compute_nodes"]:
        graph.add_node(node["id"], **node)
    for instance in document["instances"]:
        graph.add_node(instance["id"], **instance)
        graph.add_edge(instance["id"], instance["host"])
    return graph


class _Cloud:
    """Hosts and servers of the size of real ones, written as an engine does."""

    def __init__(self, place: Place, hosts: int, instances: int) -> None:
        self._cycle = CommitCycle(place.store, place.store.load(), telling())
        self._hosts = hosts
        self._instances = instances
        self._commits = 0
        self._random = random.Random(1)

    def fill(self) -> None:
        """Everything once."""
        changes = [*self._all_hosts(), *(self._server(n) for n in range(self._instances))]
        for start in range(0, len(changes), _LOT):
            self._commit(changes[start : start + _LOT])

    def change(self) -> None:
        """Some servers."""
        self._commit([self._server(n) for n in self._random.sample(range(self._instances), _CHANGED)])

    def _commit(self, changes: list[Upsert]) -> None:
        self._commits += 1
        self._cycle.run(Batch(events=[told(self._commits, *changes)]))

    def _all_hosts(self) -> Iterator[Upsert]:
        inventory = {"total": 64, "reserved": 0, "allocation_ratio": 4.0}
        for number in range(self._hosts):
            facets = by_facet(
                "compute_node", status="enabled", service_zone="nova", liveness="up", uuid=f"{number:032x}",
                hypervisor_hostname=f"host-{number}.example.com", vcpus=64, reserved_vcpus=0, vcpu_ratio=4.0,
                memory_mb=262144, reserved_memory_mb=512, memory_ratio=1.5, disk_gb=4000, reserved_disk_gb=0,
                disk_ratio=1.0, inventories=dict.fromkeys(("VCPU", "MEMORY_MB", "DISK_GB"), inventory),
            )  # fmt: skip
            yield Upsert("compute_node", f"host-{number}", "1", facets)

    def _server(self, number: int) -> Upsert:
        host = f"host-{number % self._hosts}"
        time_ = _NOON + datetime.timedelta(seconds=number + self._commits)
        facets = by_facet(
            "instance", name=f"server-{number}", state="active", power_state="running", locked=False, host=host,
            node=f"{host}.example.com", project_id=f"{number % 50:032x}", vcpus=4, memory_mb=8192, disk_gb=40,
            root_gb=40, ephemeral_gb=0, swap_mb=0, flavor_id="7d1", flavor_name="m1.large", availability_zone="nova",
            extra_specs={"hw:cpu_policy": "dedicated"}, metadata={"group": str(number % 9)}, created_at=time_,
            updated_at=time_, launched_at=time_,
        )  # fmt: skip
        return Upsert("instance", f"{number:032x}", f"{self._commits:09d}", facets)
