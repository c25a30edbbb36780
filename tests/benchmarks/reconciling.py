# SPDX-License-Identifier: Apache-2.0
"""Reconciliation: a cluster of a thousand VNF instances with ten pods each, without drift and with some.

The cluster is the fake API server in a process of its own, over HTTP on loopback; its pods have the size of real
ones. The model is an engine's replica over SQLite. Without drift nothing may be written, and the number of requests
must be the same for one instance as for a thousand. With drift one instance in ten has lost a pod and got another,
without an event.
"""

from __future__ import annotations

import contextlib
import itertools
import pathlib
import statistics
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

import msgspec

from tests.benchmarks.figures import Budget, Figure
from tests.benchmarks.places import Bench
from tests.benchmarks.pods import _pod as real_pod
from tests.benchmarks.serving import serving
from tests.clusters import Installation
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.events import Event
from watcher_sync.extensions.kubernetes.source.source import cluster_targets
from watcher_sync.extensions.vnf.api.registration import registration
from watcher_sync.extensions.vnf.handler import VnfHandler
from watcher_sync.extensions.vnf.kinds import VnfInstance
from watcher_sync.extensions.vnf.reconcile import VnfClusterReconciler
from watcher_sync.model.changes import Upsert
from watcher_sync.reconcile.base import Report
from watcher_sync.testing.kubernetes import KubernetesServer
from watcher_sync.testing.kubernetes.builders import deployment, owner_reference, replica_set

_INSTANCES = 1_000
_PODS = 10
_LOT = 500
_ONE_IN = 10
_MOMENT = 1.0
"""What the reconciler waits for a difference to last; no work."""


def reconcile(bench: Bench) -> list[Figure]:
    """Seconds and requests of a run."""
    instances = max(100, _INSTANCES * bench.scale.instances // 20_000)
    folder = bench.folder / "reconcile"
    folder.mkdir()
    with _cluster(folder, instances) as (told, site):
        engine = CommitCycle(site.store, site.store.load(), site.dispatcher)
        reconciler = VnfClusterReconciler(site.conf, site.context(engine.model.snapshot))
        _fill(site, engine)
        alone = _run(reconciler).requests
        _register(site, engine, instances)
        clean = []
        head = site.head()
        for _ in range(bench.scale.pairs + 2):
            report = _run(reconciler)
            assert not report.differences, report.differences[:3]
            clean.append(report)
        assert site.head() == head, "a run without drift wrote"
        assert all(report.requests == alone for report in clean), "more instances made more requests"
        drifting = []
        for _ in range(bench.scale.pairs):
            told.send("drift")
            told.recv()
            report = _run(reconciler, allow_deletes=True)
            engine.follow()
            assert report.deleted == instances // _ONE_IN, report.deleted
            drifting.append(report)
    pods = instances * _PODS
    seconds = [report.seconds for report in clean]
    work = [report.seconds - _MOMENT for report in drifting]
    return [
        Figure(
            benchmark="reconcile",
            what=f"Reconcile {instances:,} VNF instances / {pods:,} pods without drift",
            measured=statistics.median(seconds),
            unit="s",
            budget=Budget("<=", 1.0, "s"),
            samples=seconds,
            note=f"0 rows written; {alone} requests, as many as without any instance",
        ),
        Figure(
            benchmark="reconcile",
            what=f"Reconcile the same with {instances // _ONE_IN:,} pods replaced unheard",
            measured=statistics.median(work),
            unit="s",
            samples=work,
            note=f"{drifting[0].written:,} entities written and {drifting[0].deleted:,} deleted; "
            f"{drifting[0].requests} requests; without the {_MOMENT:.0f} s that a difference has to last",
        ),
    ]


def _run(reconciler: VnfClusterReconciler, **how: Any) -> Report:
    report = reconciler.run("edge", deadline=time.monotonic() + 60, **how)
    assert report.complete, report.failures
    return report


@contextlib.contextmanager
def _cluster(folder: pathlib.Path, instances: int) -> Iterator[tuple[Connection, Installation]]:
    """A pipe to the process of the API server, and an installation that follows it."""
    with serving(_serve, instances) as told:
        servers = {"edge": _Somewhere(told.recv())}
        with contextlib.closing(Installation(folder, servers)) as site:  # type: ignore[arg-type]
            yield told, site


class _Somewhere:
    """A server of another process."""

    def __init__(self, port: int) -> None:
        self._port = port

    def kubeconfig(self, path: pathlib.Path) -> str:
        cluster = {"server": f"http://127.0.0.1:{self._port}"}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "fake", "cluster": cluster}],
            "users": [{"name": "fake", "user": {}}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
            "current-context": "fake",
        }
        path.write_bytes(msgspec.json.encode(config))
        return str(path)


def _serve(told: Connection, instances: int) -> None:
    """The process of the API server."""
    with KubernetesServer(history_limit=1_000) as server:
        numbers = itertools.count()
        sets = []
        for number in range(instances):
            top = deployment(f"vdu-{number}", replicas=_PODS)
            counts = {"replicas": _PODS, "readyReplicas": _PODS, "updatedReplicas": _PODS, "observedGeneration": 1}
            top = server.create({**top, "status": counts})
            made = replica_set(f"vdu-{number}-7d9c5b6f4", replicas=_PODS)
            made["metadata"]["ownerReferences"] = [owner_reference(top)]
            sets.append(server.create(made))
        for owner in sets:
            server.load(_pod_of(owner, next(numbers)) for _ in range(_PODS))
        told.send(int(server.url.rpartition(":")[2]))
        while told.recv() != "end":
            for pod in server.pods()[:: _PODS * _ONE_IN]:
                server.cluster.kill(pod["metadata"]["name"])
                (reference,) = pod["metadata"]["ownerReferences"]
                owner = next(s for s in sets if s["metadata"]["uid"] == reference["uid"])
                server.create(_pod_of(owner, next(numbers)))
            told.send("done")


def _pod_of(owner: dict[str, Any], number: int) -> dict[str, Any]:
    obj = real_pod(number)
    obj["metadata"] = {
        key: value for key, value in obj["metadata"].items() if key not in ("uid", "resourceVersion")
    } | {"name": f"{owner['metadata']['name']}-{number:05d}", "ownerReferences": [owner_reference(owner)]}
    return obj


def _fill(site: Installation, engine: CommitCycle) -> None:
    """Everything of the cluster into the model, as a watch would bring it."""
    (target,) = cluster_targets(site.conf).values()
    numbers = itertools.count(1)
    listing = target.list_objects(target.connect(), deadline=time.monotonic() + 60)
    parts = sorted(listing, key=lambda part: part.resource.kind == "Pod")
    for part in parts:
        assert part.failure is None, part.failure
        events = [
            msgspec.structs.replace(
                part.event(data, source="edge", cluster="edge"), id=f"e-{number}", sequence=(1, number)
            )
            for data, number in zip(part.objects, numbers, strict=False)
        ]
        engine.run(Batch(events=events))


def _register(site: Installation, engine: CommitCycle, instances: int) -> None:
    """The instances, as the API writes them and the first sync leaves them."""
    workload = {"kind": "Deployment", "name": ""}
    for begin in range(0, instances, _LOT):
        with site.context().writes.begin() as cycle:
            for number in range(begin, min(begin + _LOT, instances)):
                body = {
                    "cluster": "edge",
                    "namespace": "default",
                    "vnfd_id": "vnfd",
                    "vdus": {
                        "VDU1": {"workload": {**workload, "name": f"vdu-{number}"}, "initial": 1, "max": 2 * _PODS}
                    },
                    "aspects": {"a": {"max_scale_level": 2 * _PODS - 1, "deltas": {"VDU1": 1}}},
                }
                facet = {"registration": registration(body)}
                cause = Event(id=f"v-{number}", type="vnf_instance.created", source="api")
                cycle.write(cause, [Upsert("vnf_instance", f"v-{number}", cycle.next_version(), facet)])
    engine.follow()
    for begin in range(0, instances, _LOT):
        view = engine.model.snapshot()
        with site.context().writes.begin() as cycle:
            for number in range(begin, min(begin + _LOT, instances)):
                vnf = view.get("vnf_instance", f"v-{number}")
                assert isinstance(vnf, VnfInstance)
                facet = {"observed": VnfHandler(site.conf.reconcile).evaluate(view, vnf, {}).values}
                cause = Event(id=f"s-{number}", type="vnf_instance.synced", source="edge")
                cycle.write(cause, [Upsert("vnf_instance", vnf.id, cycle.next_version(), facet)])
        engine.follow()
