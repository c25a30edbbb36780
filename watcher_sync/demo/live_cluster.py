# SPDX-License-Identifier: Apache-2.0
"""Runs a fake API server with network functions, and causes accidents in it, in real time.

Pods are killed, evicted or crash. Workloads are scaled past the life-cycle managers, also to numbers that are no
level. Images are rolled out and back. The controllers of the server repair what they can.

Guarantee: after :meth:`LiveCluster.stop` has returned True, the cluster is at rest, and the server's store is the
truth. No pod crashes then, because a rollout would wait for it without limit. Evicted pods remain.

One thread causes accidents; the server has its own. Any thread may call :meth:`LiveCluster.scale` and
:meth:`LiveCluster.heal` and read the counts.
"""

from __future__ import annotations

import collections
import itertools
import pathlib
import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from watcher_sync.demo.cluster_truth import cluster_truth
from watcher_sync.demo.network_functions import FUNCTIONS, Function, strangers
from watcher_sync.testing.kubernetes import KubernetesServer
from watcher_sync.testing.kubernetes.store import Object
from watcher_sync.testing.ledger import Truth
from watcher_sync.testing.nova.cloud import pace

IMAGES: Final = ("registry.example/app:1", "registry.example/app:2")
"""Two, so that a rollout finds the ReplicaSet of the time before last, and their number is bounded."""

_WEIGHTS: Final = {"killed": 40, "scaled": 22, "crashed": 12, "recovered": 10, "evicted": 6, "swept": 4, "rolled": 6}
_MOST_SICK: Final = 3
"""Pods that crash, and evicted ones, at the same time."""
_INTERVAL: Final = 0.1
"""Seconds between two turns of the controllers."""
_LOOP: Final = "CrashLoopBackOff"


class LiveCluster:
    """A fake API server with a thread that brings about accidents.

    :param cluster: its name in the model.
    :param rate: accidents a second.
    :param seed: decides which.
    """

    def __init__(self, cluster: str, *, rate: float, seed: int = 0) -> None:
        self.cluster = cluster
        self.server = KubernetesServer(seed=seed)
        self.functions = FUNCTIONS
        self.counts: collections.Counter[str] = collections.Counter()
        """What happened -> how often."""
        self.failure: Exception | None = None
        """What ended it before its time."""
        self._rate = rate
        self._rng = random.Random(seed)
        self._accidents: Mapping[str, Callable[[], bool]] = {
            "killed": self._kill,
            "scaled": self._scale_anything,
            "crashed": self._crash,
            "recovered": self._recover,
            "evicted": self._evict,
            "swept": self._sweep,
            "rolled": self._roll_out,
        }
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="simulated-cluster", daemon=True)
        for function in self.functions:
            self.server.load(function.objects())
        self.server.load(strangers())
        self.server.cluster.settle()

    def listen(self, kubeconfig: pathlib.Path) -> None:
        """Answer requests, and write the kubeconfig for that; nothing happens yet."""
        self.server.start()
        self.server.kubeconfig(kubeconfig)

    def start(self) -> None:
        """Let things happen; returns at once."""
        self.server.cluster.run(_INTERVAL)
        self._thread.start()

    def stop(self, timeout: float) -> bool:
        """Begin nothing more and bring the cluster to rest; whether that was done in ``timeout`` seconds.

        The server goes on answering.
        """
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        self.server.cluster.stop()
        if self._thread.is_alive():
            return False
        while self._recover():
            pass
        self.server.cluster.settle()
        return True

    def close(self) -> None:
        """Answer no more."""
        self._stopping.set()
        self.server.cluster.stop()
        self.server.stop()

    def truth(self) -> Truth:
        """What the model has to hold; only after :meth:`stop`."""
        return cluster_truth(self.server, self.cluster, self.functions)

    def scale(self, function: Function, aspect: str, level: int) -> None:
        """As a life-cycle manager does it: all workloads of the aspect to the level."""
        for vdu, replicas in function.levels(aspect)[level].items():
            workload = function.vdus[vdu]["workload"]
            self._set_replicas(workload["kind"], workload["name"], function.namespace, replicas)
        self.counts["scaled by a manager"] += 1

    def heal(self, function: Function) -> bool:
        """Replace a crashing pod of the function's namespace; return whether there was one."""
        with self.server.store.changed:
            sick = [pod for pod in self._pods(_crashes) if pod["metadata"]["namespace"] == function.namespace]
            for pod in sick[:1]:
                self.server.cluster.kill(pod["metadata"]["name"], namespace=function.namespace)
        return bool(sick)

    # Accidents. Each says whether it found something to happen to.

    def accident(self) -> str:
        """One more. :returns: the name that it is counted under."""
        with self.server.store.changed:
            (name,) = self._rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))
            if not self._accidents[name]():
                name = "killed" if self._kill() else ""
        if name:
            self.counts[name] += 1
        return name

    def _kill(self) -> bool:
        return self._happens_to(self._pods(_runs), self.server.cluster.kill)

    def _crash(self) -> bool:
        if len(self._pods(_crashes)) >= _MOST_SICK:
            return False
        return self._happens_to(self._pods(_runs), self.server.cluster.crash_loop)

    def _recover(self) -> bool:
        return self._happens_to(self._pods(_crashes), self.server.cluster.restart)

    def _evict(self) -> bool:
        if len(self._pods(_failed)) >= _MOST_SICK:
            return False
        return self._happens_to(self._pods(_runs), self.server.cluster.evict)

    def _sweep(self) -> bool:
        return self._happens_to(self._pods(_failed), self.server.cluster.kill)

    def _scale_anything(self) -> bool:
        """Also to one more than is allowed."""
        function = self._rng.choice([each for each in self.functions if each.aspects])
        vdu = self._rng.choice(list(function.vdus.values()))
        replicas = self._rng.randint(vdu["min"], vdu["max"] + 1)
        return self._set_replicas(vdu["workload"]["kind"], vdu["workload"]["name"], function.namespace, replicas)

    def _roll_out(self) -> bool:
        function = self._rng.choice(self.functions)
        workload = self._rng.choice(list(function.vdus.values()))["workload"]
        kind, name = workload["kind"], workload["name"]
        spec = self.server.get(kind, name, namespace=function.namespace)["spec"]
        running = spec["template"]["spec"]["containers"][0]["image"]
        image = IMAGES[1 - IMAGES.index(running)]
        self.server.cluster.rollout(kind, name, image, namespace=function.namespace)
        return True

    def _set_replicas(self, kind: str, name: str, namespace: str, replicas: int) -> bool:
        with self.server.store.changed:
            if self.server.get(kind, name, namespace=namespace)["spec"]["replicas"] == replicas:
                return False
            self.server.cluster.scale(kind, name, replicas, namespace=namespace)
            return True

    def _happens_to(self, pods: list[Object], what: Callable[..., Any]) -> bool:
        if pods:
            metadata = self._rng.choice(pods)["metadata"]
            what(metadata["name"], namespace=metadata["namespace"])
        return bool(pods)

    def _pods(self, wanted: Callable[[Object], bool]) -> list[Object]:
        """Those that are not on their way out."""
        return [pod for pod in self.server.pods() if "deletionTimestamp" not in pod["metadata"] and wanted(pod)]

    def _run(self) -> None:
        try:
            for _ in pace(itertools.count(), self._rate, clock=time.monotonic, sleep=self._stopping.wait):
                if self._stopping.is_set():
                    return
                self.accident()
        except Exception as exc:  # noqa: BLE001 - the edge of our thread: the demo reports it
            self.failure = exc


def _runs(pod: Object) -> bool:
    return pod["status"]["phase"] == "Running" and not _crashes(pod)


def _failed(pod: Object) -> bool:
    return bool(pod["status"]["phase"] == "Failed")


def _crashes(pod: Object) -> bool:
    containers = pod["status"].get("containerStatuses") or []
    return any((each["state"].get("waiting") or {}).get("reason") == _LOOP for each in containers)
