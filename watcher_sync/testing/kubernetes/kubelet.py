# SPDX-License-Identifier: Apache-2.0
"""The scheduler and the kubelets: they assign pods to nodes, run them and remove deleted ones.

One turn moves each pod one step: from no node to a node, then to Running and ready, or from a deletionTimestamp to
removal. A turn does not change a running pod, whatever state a test gave it.
"""

from __future__ import annotations

import itertools

from watcher_sync.testing.kubernetes.builders import node, pod_status
from watcher_sync.testing.kubernetes.resources import NODES, PODS
from watcher_sync.testing.kubernetes.store import Item, Store
from watcher_sync.testing.kubernetes.writes import Writes

FIRST_NODES = 3


class Kubelets:
    """Every method runs under the store's lock."""

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
