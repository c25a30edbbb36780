# SPDX-License-Identifier: Apache-2.0
"""Kubernetes: pods from the bytes of a list to the model, against the official client's typed objects.

Both get the same bytes, in pages as an API server sends them, with pods of realistic size. Ours is the whole way: the
reflector's listing, handler, ordering guard and model, without network and database. Theirs only deserialises the first
pages, because it takes long. Rates and bytes are per pod.

One thread works without waiting. So the processor's time counts, not the clock's, and other load on the machine does
not matter. Memory is what remains allocated, in separate runs.

The large cluster consists of the pages of the small one, with other names and uids. Their creation does not count.
"""

from __future__ import annotations

import gc
import inspect
import itertools
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import msgspec

from tests.benchmarks.figures import Budget, Figure, against
from tests.benchmarks.places import Bench
from watcher_sync.dispatch import Dispatcher
from watcher_sync.events import Event
from watcher_sync.extensions.kubernetes.handler.handler import KubernetesHandler
from watcher_sync.extensions.kubernetes.source.options import ReflectorSettings
from watcher_sync.extensions.kubernetes.source.reflector import Reflector
from watcher_sync.extensions.kubernetes.source.resources import KNOWN
from watcher_sync.model.model import Model
from watcher_sync.model.transaction import Transaction
from watcher_sync.testing.kinds import builtin_kinds
from watcher_sync.testing.kubernetes import builders

_PAGE = 500
_PODS = 10_000
_THEIRS = 4
"""Pages that the official client gets for a measurement of time."""
_WEIGHED = 2
"""Pages that both get for a measurement of memory."""


def pods(bench: Bench) -> list[Figure]:
    """Pods a second, and bytes a pod, of both; of a small cluster and of a large one."""
    bodies = _pages(_PODS)
    theirs = _deserializer()
    small, large = _Cluster(bodies, 1), _Cluster(bodies, max(1, bench.scale.many // _PODS))
    weight_of_theirs = _weight(theirs, bodies[:_WEIGHED], _WEIGHED * _PAGE)
    figures = []
    for cluster in (small, large):
        pairs = []
        for turn in range(bench.scale.pairs):
            # Each comes first in every second pair: what warms up or wears out does not count for one side.
            ways = [(_rate_of_ours, cluster), (_rate_of_theirs(theirs), cluster)]
            rates = [(way, way(pods)) for way, pods in (ways if turn % 2 else reversed(ways))]
            found = {way is _rate_of_ours: rate for way, rate in rates}
            pairs.append((found[True], found[False]))
        figures.append(
            against(
                pairs,
                benchmark="pods",
                what=f"Kubernetes: {cluster.pods:,} pods decoded and applied",
                unit="pods/s",
                reference_unit="pods/s",
                budget=Budget(">=", 24.0) if cluster is small else None,
                note=f"processor time; against V1PodList of the official client, which gets {_THEIRS * _PAGE:,} of "
                f"them; {len(bodies[0]) / _PAGE:,.0f} bytes of JSON a pod",
            )
        )
    for cluster, count in ((small, _WEIGHED * _PAGE), (large, large.pods)):
        weight = _weight(_Following, cluster.first(count // _PAGE), count)
        figures.append(
            against(
                [(weight, weight_of_theirs)],
                benchmark="pods",
                what=f"Kubernetes: memory of a pod of {count:,}, in the model and in the reflector",
                unit="bytes",
                reference_unit="bytes",
                budget=Budget("<=", 1 / 8),
                note=f"against a V1Pod of {_WEIGHED * _PAGE:,}",
            )
        )
    return figures


class _Cluster:
    """The pages of a list of so many pods, made when they are asked for."""

    def __init__(self, bodies: Sequence[bytes], times: int) -> None:
        """:param times: how often the pods are there, each time with other names and uids; at most 26."""
        self._bodies = bodies
        self._pages = len(bodies) * times
        self.pods = self._pages * _PAGE

    def first(self, pages: int) -> _Cluster:
        """A cluster that ends after so many pages."""
        part = _Cluster(self._bodies, 1)
        part._pages, part.pods = pages, pages * _PAGE
        return part

    def __iter__(self) -> Iterator[bytes]:
        """The pages, the last one saying that it is."""
        for number in range(self._pages):
            turn, place = divmod(number, len(self._bodies))
            body = self._bodies[place]
            if turn:
                letter = bytes([ord("a") + turn])
                body = body.replace(b'"vdu-', b'"v%bu-' % letter).replace(b"-1111-4222-", b"-111%b-4222-" % letter)
            yield body if number < self._pages - 1 else body.replace(b'"continue":"more"', b'"continue":""    ', 1)


class _Following:
    """A reflector, a handler and a model, and pages instead of a cluster."""

    def __init__(self, bodies: Iterable[bytes]) -> None:
        self.waited = 0.0
        """Seconds of the processor that the pages took to be made."""
        self.model = Model(builtin_kinds())
        self._bodies = iter(bodies)
        self._numbers = itertools.count(1)
        self._find = Dispatcher([("kubernetes", KubernetesHandler())]).find
        settings = ReflectorSettings(source="edge", cluster="edge", page_size=_PAGE)
        self.reflector = Reflector(KNOWN["pods"], None, self, settings, self)  # type: ignore[arg-type]
        self.reflector.list_pages()

    def read(
        self, path: str, query: Mapping[str, str], *, accept: str, read_timeout: float | None = None, max_bytes: int = 0
    ) -> bytes:
        began = time.thread_time()
        body = next(self._bodies)
        self.waited += time.thread_time() - began
        return body

    def sequence(self) -> tuple[int, int]:
        return 1, next(self._numbers)

    def changed(self) -> None:
        pass

    def emit(self, events: Sequence[Event]) -> None:
        transaction = Transaction(self.model)
        for event in events:
            entry = self._find(event.type)
            assert entry is not None
            assert entry.call is not None
            transaction.apply(event, entry.call(event, transaction) or ())
        self.model.publish(transaction)


def _rate_of_ours(cluster: _Cluster) -> float:
    gc.collect()
    began = time.thread_time()
    following = _Following(cluster)
    rate = cluster.pods / (time.thread_time() - began - following.waited)
    assert following.model.snapshot().count("pod") == cluster.pods
    return rate


def _rate_of_theirs(deserialize: Callable[[Iterable[bytes]], list[Any]]) -> Callable[[_Cluster], float]:
    def rate(cluster: _Cluster) -> float:
        bodies = list(cluster.first(_THEIRS))
        gc.collect()
        began = time.thread_time()
        lists = deserialize(bodies)
        rate = len(bodies) * _PAGE / (time.thread_time() - began)
        assert sum(len(each.items) for each in lists) == len(bodies) * _PAGE
        return rate

    return rate


def _weight(make: Callable[[Iterable[bytes]], Any], pages: Iterable[bytes], count: int) -> float:
    """Bytes a pod that are still allocated when it is done.

    :param pages: of so many pods.
    """
    make([next(iter(pages)).replace(b'"continue":"more"', b'"continue":""    ', 1)])
    # What is imported, compiled and cached once does not belong to a pod.
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    kept = make(pages)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept is not None
    return (after - before) / count


def _deserializer() -> Callable[[Iterable[bytes]], list[Any]]:
    """The official client's way from a body to typed objects."""
    from kubernetes import client  # not at the top: it costs the other benchmarks a second

    api = client.ApiClient()
    if "response_text" in inspect.signature(api.deserialize).parameters:
        return lambda bodies: [api.deserialize(body.decode(), "V1PodList", "application/json") for body in bodies]
    return lambda bodies: [api.deserialize(SimpleNamespace(data=body.decode()), "V1PodList") for body in bodies]


def _pages(count: int) -> list[bytes]:
    encode = msgspec.json.encode
    found = []
    for first in range(0, count, _PAGE):
        items = [_ordered(_pod(number)) for number in range(first, first + _PAGE)]
        metadata = {"resourceVersion": "4711", "continue": "more"}
        found.append(encode({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items}))
    return found


def _ordered(obj: dict[str, Any]) -> dict[str, Any]:
    """An object with its fields in the order in which API servers write them; in a list it has no kind of its own."""
    names = dict.fromkeys([*_METADATA, *obj["metadata"]])
    metadata = {name: obj["metadata"][name] for name in names if name in obj["metadata"]}
    return {"metadata": metadata, "spec": obj["spec"], "status": obj["status"]}


_METADATA = (
    *("name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp"),
    *("labels", "annotations", "ownerReferences", "managedFields"),
)


def _pod(number: int) -> dict[str, Any]:
    """A pod of a network function with its sidecar, and all that API servers, controllers and kubelets add to it."""
    name, function = f"vdu-{number // 10}-7d9c5b6f4-{number:05d}", f"vdu-{number // 10}"
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": f"{function}-7d9c5b6f4", "uid": "rs"}}
    labels = {"app": function, "pod-template-hash": "7d9c5b6f4", "tier": "vnf"}
    obj = builders.pod(name, labels=labels, owner=owner, node=f"node-{number % 100}", phase="Running")
    obj["spec"] |= {
        "containers": [_container("main"), _container("sidecar")],
        "initContainers": [_container("prepare")],
        "volumes": [
            *({"name": f"volume-{n}", "configMap": {"name": f"config-{n}", "defaultMode": 420}} for n in range(2)),
            {"name": "kube-api-access", "projected": {"defaultMode": 420, "sources": _TOKEN_SOURCES}},
        ],
        "tolerations": [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
        ],
        "schedulerName": "default-scheduler",
        "securityContext": {"runAsUser": 1000, "fsGroup": 1000},
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    obj["status"] = builders.pod_status(obj, "Running", ready=True)
    obj["status"] |= {"podIPs": [{"ip": "10.0.0.1"}], "hostIPs": [{"ip": "192.0.2.10"}]}
    obj["status"]["initContainerStatuses"] = obj["status"]["containerStatuses"][:1]
    obj["metadata"] |= {
        "uid": f"{number:08x}-1111-4222-8333-444455556666",
        "resourceVersion": str(100_000 + number),
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "generateName": f"{function}-7d9c5b6f4-",
        "annotations": {"k8s.v1.cni.cncf.io/networks": "sriov-left,sriov-right", "kubectl/restartedAt": "2026-01-02"},
        "managedFields": [
            {
                "manager": manager,
                "operation": "Update",
                "apiVersion": "v1",
                "time": "2026-01-02T03:04:05Z",
                "fieldsType": "FieldsV1",
                "fieldsV1": _MANAGED,
            }
            for manager in ("kube-controller-manager", "multus", "kubelet")
        ],
    }
    return obj


_TOKEN_SOURCES = [
    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    {
        "downwardAPI": {
            "items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]
        }
    },
]

_OWNED: dict[str, Any] = {name: {} for name in (".", "f:name", "f:image", "f:env", "f:ports", "f:resources")}
_MANAGED = {
    "f:metadata": {"f:labels": {".": {}, "f:app": {}}, "f:ownerReferences": {".": {}}},
    "f:spec": {"f:containers": {f'k:{{"name":"{name}"}}': _OWNED for name in ("main", "sidecar")}},
}


def _container(name: str) -> dict[str, Any]:
    probe = {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10}
    field = {"apiVersion": "v1", "fieldPath": "metadata.name"}
    return {
        **builders.container("registry.example/app:1"),
        "name": name,
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": field}},
            *({"name": f"SETTING_{n}", "value": f"value-{n}"} for n in range(6)),
        ],
        "ports": [{"containerPort": 8080 + n, "name": f"port-{n}", "protocol": "TCP"} for n in range(2)],
        "livenessProbe": probe,
        "readinessProbe": probe,
        "securityContext": {"capabilities": {"add": ["NET_ADMIN"]}, "allowPrivilegeEscalation": False},
        "volumeMounts": [{"mountPath": f"/data/{n}", "name": f"volume-{n}"} for n in range(3)],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
