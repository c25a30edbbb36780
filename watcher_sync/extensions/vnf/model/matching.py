# SPDX-License-Identifier: Apache-2.0
"""Which pods belong to a VDU: those whose controller is the registered workload, by uid and never by name.

The workload itself is registered by its name, or by labels that it alone has, such as those of a release of Helm.

The chains are pod -> ReplicaSet -> Deployment, pod -> StatefulSet and pod -> DaemonSet. A pod of a Job, of a Deployment
with a similar name, or without a controller has another uid above it. It does not match.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

import msgspec

from watcher_sync.extensions.kubernetes.kinds import Pod, Workload, full_name
from watcher_sync.model.kinds import Entity
from watcher_sync.model.view import View

KINDS = ("Pod", "Deployment", "ReplicaSet", "DaemonSet", "StatefulSet")
"""Kinds of workload that a VDU can have."""

_NO_TIME = datetime.datetime.min.replace(tzinfo=datetime.UTC)


class VduInput(msgspec.Struct, frozen=True, kw_only=True):
    """The workload and the pods of one VDU, where the listings that it needs were complete."""

    kind: str
    """Kind of the workload."""
    name: str
    """Its name, or what it is to be found by."""
    resolved: bool
    """Whether exactly one such workload exists; always true for a VDU that is a single pod."""
    pods: tuple[Pod, ...] = ()
    """All its pods, counted or not, in the order of their creation."""
    wanted: int | None = None
    """Pods that the workload's own specification asks for."""
    uids: tuple[str, ...] = ()
    """Of the workload; of the pods, if the VDU is a single pod."""
    behind: bool = False
    """Whether the workload's controller has not seen its newest specification yet; unknown is not behind."""
    deleting: bool = False
    """Whether the workload is being deleted, so its pods go without being a scale-in."""

    def counted(self) -> tuple[Pod, ...]:
        """Return the pods that count."""
        # The same rule as counts(), without a call per pod.
        return tuple([pod for pod in self.pods if pod.phase == "Running" and pod.deleted_at is None])


def counts(pod: Pod) -> bool:
    """Whether a pod counts: it runs, and its deletion was not requested. A pod in a crash loop counts."""
    return pod.phase == "Running" and pod.deleted_at is None


def is_settling(vdu: VduInput) -> bool:
    """Whether the number of pods says nothing about the level, because the workload wants another number.

    That is a rollout, a scaling, or a pod whose replacement does not run yet. A rollout that waits for an operator
    (OnDelete, a partition) and has all its pods is not on its way. A single pod settles only until it runs: nothing
    replaces it.
    """
    if vdu.behind:
        return True
    if vdu.kind == "Pod":
        return any(pod.phase == "Pending" and pod.deleted_at is None for pod in vdu.pods)
    return vdu.wanted is not None and len(vdu.counted()) != vdu.wanted


def read_vdu(view: View, *, cluster: str, namespace: str, workload: Mapping[str, Any]) -> VduInput:
    """Read a VDU's workload and pods from a view.

    :param workload: ``kind`` with ``name`` or ``labels``, as registered.
    """
    kind = str(workload["kind"])
    if (labels := workload.get("labels")) is not None:
        all_found = [w for w in view.by("workload", "namespace", namespace) if _has(w, cluster, kind, labels)]
        names = {getattr(w, "name", None) for w in all_found}
        wanted = ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))
        if len(names) != 1:
            several = f" alone ({', '.join(sorted(map(str, names)))} have)" if names else ""
            return VduInput(kind=kind, name=f"with {wanted}{several}", resolved=False)
        name = str(names.pop())
    else:
        name = str(workload["name"])
    path = full_name(cluster, namespace, kind, name)
    if kind == "Pod":
        named = [pod for pod in view.by("pod", "full_name", path) if isinstance(pod, Pod)]
        uids = tuple(pod.id for pod in named)
        return VduInput(kind=kind, name=name, resolved=True, pods=_in_order(named), wanted=1, uids=uids)
    found = [w for w in view.by("workload", "full_name", path) if isinstance(w, Workload)]
    if not found:
        return VduInput(kind=kind, name=name, resolved=False)
    # The workload was created again under its name, and the event of the old one's deletion is still to come.
    newest = found[0] if len(found) == 1 else max(found, key=lambda w: (w.created_at or _NO_TIME, w.id))
    return VduInput(
        kind=kind,
        name=name,
        resolved=True,
        pods=_in_order(pods_of(view, newest)),
        wanted=newest.replicas,
        uids=(newest.id,),
        behind=newest.generation is not None
        and newest.observed_generation is not None
        and newest.observed_generation < newest.generation,
        deleting=newest.deleted_at is not None,
    )


def _has(entity: Entity, cluster: str, kind: str, labels: Mapping[str, str]) -> bool:
    """Whether an entity is a workload of this kind in the cluster with at least these labels."""
    if not isinstance(entity, Workload) or entity.cluster != cluster or entity.title != kind:
        return False
    return labels.items() <= (entity.labels or {}).items()


def pods_of(view: View, workload: Workload) -> list[Pod]:
    """The pods below a workload, over its ReplicaSets where it is a Deployment."""
    owners = [workload.id]
    if workload.title == "Deployment":
        sets = view.by("workload", "owner_uid", workload.id)
        owners = [w.id for w in sets if isinstance(w, Workload) and w.title == "ReplicaSet"]
    pods = [pod for uid in owners for pod in view.by("pod", "owner_uid", uid) if isinstance(pod, Pod)]
    # Clusters that were restored from one snapshot have workloads with equal uids.
    return [pod for pod in pods if pod.cluster == workload.cluster]


def _in_order(pods: list[Pod]) -> tuple[Pod, ...]:
    """Sort by creation. Kubernetes gives it in seconds, so the name and then the uid decide between equals."""
    if len(pods) < 2:
        return tuple(pods)
    keyed = sorted([(pod.created_at or _NO_TIME, pod.name or "", pod.id, pod) for pod in pods])
    return tuple([pod for _, _, _, pod in keyed])
