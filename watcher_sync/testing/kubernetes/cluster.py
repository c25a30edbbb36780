# SPDX-License-Identifier: Apache-2.0
"""The controllers and kubelets behind the API, and the accidents that a test can cause.

Nothing happens without a call. A test takes steps (:meth:`Cluster.step`, :meth:`Cluster.settle`) and so can check
each intermediate state. The demo and kubectl use a thread instead (:meth:`Cluster.run`).
"""

from __future__ import annotations

import collections
import itertools
import threading
from typing import Any

from watcher_sync.testing.kubernetes.api import KubernetesApi
from watcher_sync.testing.kubernetes.builders import node, pod_status
from watcher_sync.testing.kubernetes.resources import NAMESPACES, NODES, PODS
from watcher_sync.testing.kubernetes.store import Item, Object, Store
from watcher_sync.testing.kubernetes.workloads import Workloads
from watcher_sync.testing.kubernetes.writes import FOREGROUND, ORPHAN, Writes


class Collector:
    """The garbage collector: deletes or releases the objects of a deleted owner. Runs under the store's lock.

    Background: objects are deleted after their owner. Foreground: they are deleted first, each in the foreground too,
    and the owner after the last of them. Orphan: they lose the reference and remain. A deleted namespace deletes its
    pods first, and its other objects after the last of them, as since Kubernetes 1.33.
    """

    def __init__(self, store: Store, writes: Writes) -> None:
        self._store = store
        self._writes = writes
        self._seen = -1

    def turn(self) -> None:
        everything = self._store.everything()
        dying = [item for item in everything if item.deleting]
        if not dying and self._seen == self._store.removals:
            return
        self._seen = self._store.removals
        dependents: dict[str, list[Item]] = collections.defaultdict(list)
        for item in everything:
            if item.owner:
                dependents[item.owner].append(item)
        for owner in dying:
            self._release(owner, dependents[owner.uid], everything)
        alive = {item.uid for item in everything}
        self._writes.delete_all(
            item for owner, items in dependents.items() if owner not in alive for item in items if not item.deleting
        )

    def _release(self, owner: Item, dependents: list[Item], everything: list[Item]) -> None:
        """The next step towards the end of an object that waits for others."""
        finalizers = owner.decoded()["metadata"].get("finalizers") or ()
        if ORPHAN in finalizers:
            for item in dependents:
                self._orphan(item)
            self._take_off(owner, ORPHAN)
        elif FOREGROUND in finalizers:
            for item in dependents:
                if not item.deleting:
                    self._writes.delete(item, None if item.resource == PODS else {"propagationPolicy": "Foreground"})
            if not dependents:
                self._take_off(owner, FOREGROUND)
        elif owner.resource == NAMESPACES and "kubernetes" in finalizers:
            inside = [item for item in everything if item.namespace == owner.name]
            pods = [item for item in inside if item.resource == PODS]
            self._writes.delete_all(item for item in pods or inside if not item.deleting)
            if not inside:
                self._take_off(owner, "kubernetes")

    def _orphan(self, item: Item) -> None:
        obj = item.decoded()
        references = obj["metadata"]["ownerReferences"]
        obj["metadata"]["ownerReferences"] = [each for each in references if each["uid"] != item.owner]
        self._writes.update(item.resource, item.namespace, item.name, obj)

    def _take_off(self, owner: Item, finalizer: str) -> None:
        obj = owner.decoded()
        obj["metadata"]["finalizers"] = [each for each in obj["metadata"]["finalizers"] if each != finalizer]
        self._writes.update(owner.resource, owner.namespace, owner.name, obj)


FIRST_NODES = 3


class Kubelets:
    """The scheduler and the kubelets: they assign pods to nodes, run them and remove deleted ones.

    One turn moves each pod one step: from no node to a node, then to Running and ready, or from a deletionTimestamp to
    removal. A turn does not change a running pod, whatever state a test gave it. Every method runs under the store's
    lock.
    """

    def __init__(self, store: Store, writes: Writes) -> None:
        self._store = store
        self._writes = writes
        self._placed = itertools.count()
        self.working = True
        """When they do not work, new pods stay Pending and old ones Terminating."""

    def turn(self) -> None:
        if not self.working:
            return
        nodes = [item.name for item in self._store.items(NODES)] or self._first_nodes()
        for pod in self._store.items(PODS):
            if pod.deleting:
                self._finish(pod)
            elif not pod.node:
                obj = pod.decoded()
                obj["spec"]["nodeName"] = nodes[next(self._placed) % len(nodes)]
                self._writes.update(PODS, pod.namespace, pod.name, obj)
            elif pod.phase == "Pending":
                self._run(pod)

    def _first_nodes(self) -> list[str]:
        names = [f"node-{number}" for number in range(FIRST_NODES)]
        for name in names:
            self._writes.create(NODES, "", node(name), keep_status=True)
        return names

    def _run(self, pod: Item) -> None:
        obj = pod.decoded()
        number = next(self._placed) + 1
        status = pod_status(obj, "Running", ready=True)
        status["podIP"] = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
        self._writes.update(PODS, pod.namespace, pod.name, {"status": status}, subresource="status")

    def _finish(self, pod: Item) -> None:
        """The grace period is over."""
        if not pod.decoded()["metadata"].get("finalizers"):
            self._store.remove(pod)


class Unsettled(Exception):
    """The controllers still found something to do after so many steps."""


class Cluster:
    """The controllers of one server, and what tests do to its pods. Thread-safe."""

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api
        self._store = api.store
        self.kubelets = Kubelets(api.store, api.writes)
        self._workloads = Workloads(api.store, api.writes)
        self._collector = Collector(api.store, api.writes)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def step(self) -> bool:
        """One turn of everything. :returns: whether anything changed."""
        with self._store.changed:
            before = self._store.version
            self.kubelets.turn()
            self._collector.turn()
            self._workloads.turn()
            return self._store.version != before

    def settle(self, *, steps: int = 1000) -> int:
        """Step until nothing changes. :returns: the steps that it took. :raises Unsettled: after too many."""
        for taken in range(steps):
            if not self.step():
                return taken
        raise Unsettled(f"not settled after {steps} steps")

    def run(self, interval: float = 0.1) -> None:
        """Step every so many seconds, in a thread, until :meth:`stop`."""
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, args=(interval,), name="kubernetes-controllers", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self, interval: float) -> None:
        settled: tuple[int, bool] | None = None
        while not self._stop.wait(interval):
            # A look at 100,000 pods takes a while: only when there is something to see.
            now = (self._store.version, self.kubelets.working)
            if now != settled:
                settled = None if self.step() else now

    def add_nodes(self, count: int) -> None:
        """More nodes, named on from those that are there."""
        with self._store.changed:
            first = len(self._api.objects("Node"))
            for number in range(first, first + count):
                self._api.create(node(f"node-{number}"))

    def scale(self, kind: str, name: str, replicas: int, *, namespace: str = "default") -> None:
        """Behind everybody's back."""
        self._api.patch(kind, name, {"spec": {"replicas": replicas}}, namespace=namespace)

    def rollout(self, kind: str, name: str, image: str, *, namespace: str = "default") -> None:
        """Another image in the template of the workload."""
        with self._store.changed:
            obj = self._api.get(kind, name, namespace=namespace)
            for container in obj["spec"]["template"]["spec"]["containers"]:
                container["image"] = image
            self._api.update(obj)

    def kill(self, name: str, *, namespace: str = "default") -> None:
        """The pod is gone at once; its controller makes another."""
        self._api.delete("Pod", name, namespace=namespace, gracePeriodSeconds=0)

    def evict(self, name: str, *, namespace: str = "default") -> None:
        """By its node: Failed with the reason Evicted, and left lying about."""
        status = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
        self._set_status(name, namespace, {**self._status(name, namespace, "Failed", ready=False), **status})

    def restart(self, name: str, *, namespace: str = "default") -> None:
        """Its containers have started once more."""
        self._set_status(name, namespace, self._status(name, namespace, "Running", ready=True, more_restarts=1))

    def crash_loop(self, name: str, *, namespace: str = "default") -> None:
        """Running, not ready, waiting to be started again."""
        status = self._status(name, namespace, "Running", ready=False, more_restarts=1, waiting="CrashLoopBackOff")
        self._set_status(name, namespace, status)

    def finish(self, name: str, *, namespace: str = "default", phase: str = "Succeeded") -> None:
        """Its containers have ended: Succeeded or Failed. Or any other phase, such as Unknown."""
        self._set_status(name, namespace, self._status(name, namespace, phase, ready=False))

    def _status(self, name: str, namespace: str, phase: str, *, more_restarts: int = 0, **more: Any) -> Object:
        obj = self._api.get("Pod", name, namespace=namespace)
        before = [each["restartCount"] for each in obj["status"].get("containerStatuses") or ()]
        status = pod_status(obj, phase, restarts=max(before, default=0) + more_restarts, **more)
        status["podIP"] = obj["status"].get("podIP", status.get("podIP"))
        return status

    def _set_status(self, name: str, namespace: str, status: Object) -> None:
        self._api.writes.update(PODS, namespace, name, {"status": status}, subresource="status")
