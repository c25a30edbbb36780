# SPDX-License-Identifier: Apache-2.0
"""The workload controllers: they create and delete the pods of Deployments, ReplicaSets and the other kinds.

Each function is one turn of one controller over all objects of its type. It takes the next step, as a real controller
does. So a client sees a rollout as in a cluster: surge pods, a late observedGeneration, two ReplicaSets of one
Deployment. A turn without work writes nothing.

Not simulated: deadlines, the back-off of crashing pods, pausing, partitions of StatefulSets.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from watcher_sync.testing.kubernetes.builders import owner_reference
from watcher_sync.testing.kubernetes.resources import (
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
)
from watcher_sync.testing.kubernetes.store import Item, Object, Store
from watcher_sync.testing.kubernetes.writes import LETTERS, Writes

HASH = "pod-template-hash"
REVISION = "controller-revision-hash"
NAME_LIMIT = 63
SUFFIX = 5

Owned = Mapping[str, Sequence[Item]]
"""Items by the uid of their controller."""


def template_hash(template: Object) -> str:
    """The same for the same template, in letters that names may have."""
    digest = hashlib.sha256(msgspec.json.encode(template, order="deterministic")).digest()
    return "".join(LETTERS[byte % len(LETTERS)] for byte in digest[:10])


class Workloads:
    """The controllers. Every method runs under the store's lock."""

    def __init__(self, store: Store, writes: Writes) -> None:
        self._store = store
        self._writes = writes

    def turn(self) -> None:
        """One turn of each; the ones that make pods first, so that a step goes one link down the chain."""
        pods = self._store.owned(PODS)
        for resource, turn in (
            (REPLICA_SETS, self._replica_set),
            (STATEFUL_SETS, self._stateful_set),
            (DAEMON_SETS, self._daemon_set),
            (JOBS, self._job),
        ):
            for item in self._store.items(resource):
                if not item.deleting:
                    turn(item, item.decoded(), pods.get(item.uid, ()))
        sets = self._store.owned(REPLICA_SETS)
        for item in self._store.items(DEPLOYMENTS):
            if not item.deleting:
                owned = [each for each in sets.get(item.uid, ()) if not each.deleting]
                self._deployment(item, item.decoded(), owned, pods)

    def _replica_set(self, item: Item, obj: Object, pods: Sequence[Item]) -> None:
        active = [pod for pod in pods if _active(pod)]
        wanted = obj["spec"].get("replicas", 1)
        for _ in range(wanted - len(active)):
            self._make_pod(obj, _generated(item.name, self._writes.suffix(SUFFIX)))
        if len(active) > wanted:
            # Those that are not ready go first, then the youngest.
            youngest_first = active[::-1]
            doomed = sorted(youngest_first, key=lambda pod: pod.ready)[: len(active) - wanted]
            self._writes.delete_all(doomed)
        ready = sum(pod.ready for pod in active)
        self._status(item, obj, replicas=len(active), readyReplicas=ready, availableReplicas=ready)

    def _stateful_set(self, item: Item, obj: Object, pods: Sequence[Item]) -> None:
        wanted, spec = obj["spec"].get("replicas", 1), obj["spec"]
        revision = f"{item.name}-{template_hash(spec['template'])}"
        parallel = spec.get("podManagementPolicy") == "Parallel"
        by_ordinal = {int(pod.name.rpartition("-")[2]): pod for pod in pods}
        for ordinal in range(wanted):
            pod = by_ordinal.get(ordinal)
            if pod is None:
                name = f"{item.name}-{ordinal}"
                labels = {
                    REVISION: revision,
                    "statefulset.kubernetes.io/pod-name": name,
                    "apps.kubernetes.io/pod-index": str(ordinal),
                }
                self._make_pod(obj, name, labels)
            elif not _active(pod) and not pod.deleting:
                self._writes.delete(pod)
            elif pod.ready and not pod.deleting:
                continue
            if not parallel:
                break
        else:
            self._shrink_or_roll(by_ordinal, wanted, revision, parallel=parallel)
        active = [pod for pod in pods if _active(pod)]
        ready = sum(pod.ready for pod in active)
        updated = sum(pod.labels.get(REVISION) == revision for pod in active)
        current = revision if updated == len(active) else (obj.get("status") or {}).get("currentRevision", revision)
        self._status(
            item, obj, replicas=len(active), readyReplicas=ready, availableReplicas=ready, updatedReplicas=updated,
            currentRevision=current, updateRevision=revision,
        )  # fmt: skip

    def _shrink_or_roll(self, by_ordinal: Mapping[int, Item], wanted: int, revision: str, *, parallel: bool) -> None:
        """From the highest ordinal down, one at a time."""
        if any(pod.deleting for pod in by_ordinal.values()):
            return
        surplus = sorted((ordinal for ordinal in by_ordinal if ordinal >= wanted), reverse=True)
        if surplus:
            self._writes.delete_all(by_ordinal[ordinal] for ordinal in (surplus if parallel else surplus[:1]))
            return
        old = [ordinal for ordinal, pod in by_ordinal.items() if pod.labels.get(REVISION) != revision]
        if old:
            self._writes.delete(by_ordinal[max(old)])

    def _daemon_set(self, item: Item, obj: Object, pods: Sequence[Item]) -> None:
        revision = template_hash(obj["spec"]["template"])
        nodes = {node.name for node in self._store.items(NODES)}
        active = {pod.node: pod for pod in pods if _active(pod)}
        for pod in pods:
            if not pod.deleting and (pod.node not in nodes or not _active(pod)):
                self._writes.delete(pod)
        for node in sorted(nodes - {pod.node for pod in pods}):
            self._make_pod(obj, _generated(item.name, self._writes.suffix(SUFFIX)), {REVISION: revision}, node=node)
        old = [pod for pod in active.values() if pod.labels.get(REVISION) != revision]
        if old and len(active) == len(nodes) and all(pod.ready for pod in active.values()):
            self._writes.delete(old[0])
        ready = sum(pod.ready for pod in active.values())
        self._status(
            item, obj, desiredNumberScheduled=len(nodes), currentNumberScheduled=len(active), numberReady=ready,
            numberAvailable=ready, updatedNumberScheduled=len(active) - len(old), numberMisscheduled=0,
        )  # fmt: skip

    def _job(self, item: Item, obj: Object, pods: Sequence[Item]) -> None:
        done = sum(pod.phase == "Succeeded" for pod in pods)
        active = sum(_active(pod) for pod in pods)
        for _ in range(obj["spec"].get("completions", 1) - done - active):
            labels = {"job-name": item.name, "batch.kubernetes.io/job-name": item.name}
            self._make_pod(obj, _generated(item.name, self._writes.suffix(SUFFIX)), labels)
        self._status(item, obj, active=active, succeeded=done)

    def _deployment(self, item: Item, obj: Object, sets: Sequence[Item], pods: Owned) -> None:
        wanted, hashed = obj["spec"].get("replicas", 1), template_hash(obj["spec"]["template"])
        new = next((each for each in sets if each.labels.get(HASH) == hashed), None)
        if new is None:
            new = self._make_set(obj, hashed)
        others = [each for each in sets if each is not new and each.uid != new.uid]
        self._roll(obj, wanted, new, others, pods)
        active = [pod for each in (*others, new) for pod in pods.get(each.uid, ()) if _active(pod)]
        ready = sum(pod.ready for pod in active)
        self._status(
            item, obj, replicas=len(active), readyReplicas=ready, availableReplicas=ready,
            unavailableReplicas=max(0, wanted - ready), updatedReplicas=sum(pod.owner == new.uid for pod in active),
        )  # fmt: skip

    def _roll(self, obj: Object, wanted: int, new: Item, others: Sequence[Item], pods: Owned) -> None:
        """The next step from the old ReplicaSets to the new one."""
        sizes = {each.uid: _replicas(each) for each in (*others, new)}
        old = [each for each in others if sizes[each.uid]]
        if not old:
            left = any(pods.get(each.uid) for each in others)
            if not left or _strategy(obj)["type"] != "Recreate":
                self._resize(new, wanted)
            return
        if _strategy(obj)["type"] == "Recreate":
            for each in old:
                self._resize(each, 0)
            return
        surge, unavailable = _limits(obj, wanted)
        total = sum(sizes.values())
        room = wanted + surge - total
        if sizes[new.uid] > wanted:
            self._resize(new, wanted)
        elif room > 0 and sizes[new.uid] < wanted:
            self._resize(new, min(wanted, sizes[new.uid] + room))
        not_ready = sizes[new.uid] - sum(pod.ready and _active(pod) for pod in pods.get(new.uid, ()))
        spare = total - (wanted - unavailable) - max(0, not_ready)
        for each in old:
            less = min(sizes[each.uid], max(0, spare))
            spare -= less
            self._resize(each, sizes[each.uid] - less)

    def _resize(self, item: Item, replicas: int) -> None:
        obj = self._store.get(item.resource, item.namespace, item.name).decoded()
        if obj["spec"].get("replicas") != replicas:
            obj["spec"]["replicas"] = replicas
            self._writes.update(item.resource, item.namespace, item.name, obj)

    def _make_set(self, deployment: Object, hashed: str) -> Item:
        return self._writes.create(
            REPLICA_SETS, deployment["metadata"]["namespace"], replica_set_of(deployment, hashed, replicas=0)
        )

    def _make_pod(self, owner: Object, name: str, labels: Mapping[str, str] | None = None, *, node: str = "") -> None:
        namespace = owner["metadata"]["namespace"]
        if self._store.find(PODS, namespace, name) is None and not self._store.get(NAMESPACES, "", namespace).deleting:
            self._writes.create(PODS, namespace, pod_of(owner, name, labels, node=node))

    def _status(self, item: Item, obj: Object, **status: Any) -> None:
        """Write it, if it is news."""
        status["observedGeneration"] = obj["metadata"]["generation"]
        old = obj.get("status") or {}
        if {**old, **status} != old:
            change = {"status": {**old, **status}}
            self._writes.update(item.resource, item.namespace, item.name, change, subresource="status")


def replica_set_of(deployment: Object, hashed: str, *, replicas: int) -> Object:
    """The ReplicaSet of a Deployment for the hash of its template."""
    spec, metadata = deployment["spec"], deployment["metadata"]
    template = spec["template"]
    labels = {**((template.get("metadata") or {}).get("labels") or {}), HASH: hashed}
    return {
        "metadata": {
            "name": f"{metadata['name']}-{hashed}",
            "labels": labels,
            "ownerReferences": [owner_reference(deployment)],
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}},
        },
    }


def pod_of(owner: Object, name: str, labels: Mapping[str, str] | None = None, *, node: str = "") -> Object:
    """A pod from the template of what controls it."""
    template = owner["spec"]["template"]
    metadata = dict(template.get("metadata") or {})
    metadata["labels"] = {**(metadata.get("labels") or {}), **(labels or {})}
    spec = {**template.get("spec", {}), **({"nodeName": node} if node else {})}
    return {"metadata": {**metadata, "name": name, "ownerReferences": [owner_reference(owner)]}, "spec": spec}


def _generated(base: str, suffix: str) -> str:
    """A generated name; long bases are cut, as the API cuts them."""
    return f"{base}-"[: NAME_LIMIT - SUFFIX] + suffix


def _active(pod: Item) -> bool:
    return not pod.deleting and pod.phase not in ("Succeeded", "Failed")


def _replicas(item: Item) -> int:
    return int(item.decoded()["spec"].get("replicas", 1))


def _strategy(obj: Object) -> Object:
    strategy: Object = obj["spec"].get("strategy") or {}
    return {"type": "RollingUpdate", **strategy}


def _limits(obj: Object, wanted: int) -> tuple[int, int]:
    """maxSurge and maxUnavailable in pods."""
    rolling = _strategy(obj).get("rollingUpdate") or {}
    surge = _share(rolling.get("maxSurge", "25%"), wanted, math.ceil)
    unavailable = _share(rolling.get("maxUnavailable", "25%"), wanted, math.floor)
    return (surge, unavailable) if surge or unavailable else (0, 1)


def _share(value: int | str, wanted: int, rounded: Any) -> int:
    if isinstance(value, str):
        return int(rounded(int(value.rstrip("%")) * wanted / 100))
    return value
