# SPDX-License-Identifier: Apache-2.0
"""What the model must contain of a fake cluster, computed from the server's store.

The objects are read from the store under its lock, not through a list, a watch or a handler. The rules are those of
:mod:`watcher_sync.extensions.kubernetes.kinds`, written a second time. All pods of a ReplicaSet have its one template.

The truth about a VNF instance holds for a cluster *at rest*: the controllers have no work, and no rollout is stuck.
During a change the level is undefined.
"""

from __future__ import annotations

import collections
import datetime
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from watcher_sync.demo.network_functions import Function
from watcher_sync.model.model import Snapshot
from watcher_sync.testing.comparison import ModelDifference
from watcher_sync.testing.kubernetes import KubernetesServer
from watcher_sync.testing.kubernetes.resources import VERSION
from watcher_sync.testing.kubernetes.store import Object
from watcher_sync.testing.ledger import Truth

OBSERVED: Final = frozenset(
    f"vnf_instance.{name}"
    for name in (
        "state", "scale_level", "nearest_level", "observed", "vdu_results", "vnfc_resource_info", "vnfc_info",
        "vacant", "workload_uids", "pod_uids", "observed_at",
    )
)  # fmt: skip
"""Fields that have ids and a history of their own: :func:`observed_differences` compares them."""

UNTOLD: Final = OBSERVED | {
    "cluster.counts", "cluster.last_sync_at", "vnf_instance.created_at", "vnf_instance.registered_at",
    "vnf_instance.updated_at",
}  # fmt: skip
"""Fields that the truth does not know: when something was listed or written, and what is observed."""

_NOT_GIVEN: Final = {"sync_after_failure": True} | dict.fromkeys((
    "project_id", "vnf_provider", "vnf_product_name", "vnf_software_version", "vnfd_version", "ext_cp_info",
    "failed_operation",
))  # fmt: skip
"""Fields of a VNF instance that the registrations leave out."""

_KINDS: Final = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")


def cluster_truth(server: KubernetesServer, cluster: str, functions: Iterable[Function]) -> Truth:
    """kind -> id -> field -> value, without the fields of :data:`UNTOLD`.

    :param cluster: the name that the source gives it.
    :param functions: those that are registered.
    """
    with server.store.changed:
        workloads = {obj["metadata"]["uid"]: obj for kind in _KINDS for obj in server.objects(kind)}
        pods = server.pods()
    return {
        "cluster": {cluster: _cluster(cluster)},
        "workload": {uid: _workload(obj, cluster) for uid, obj in workloads.items()},
        "pod": {pod["metadata"]["uid"]: _pod(pod, cluster, workloads) for pod in pods},
        "vnf_instance": {each.id: {**_NOT_GIVEN, **each.registration(cluster)} for each in functions},
    }


def is_incomplete(server: KubernetesServer, cluster: str, snapshot: Snapshot) -> bool:
    """Whether the model lacks pods or workloads that the store has, or has other versions of them."""
    stored, known = _versions(server, cluster, snapshot)
    return any(known.get(uid) != version for uid, version in stored.items())


def differs_from_truth(server: KubernetesServer, cluster: str, snapshot: Snapshot) -> bool:
    """Whether pods or workloads of the model are others, or other versions, than the store has.

    Much cheaper than a comparison; for a caller that waits until the model has everything.
    """
    stored, known = _versions(server, cluster, snapshot)
    return stored != known


def _versions(server: KubernetesServer, cluster: str, snapshot: Snapshot) -> tuple[dict[str, Any], dict[str, Any]]:
    """Uid -> version, of the pods and workloads of the store and of the model."""
    with server.store.changed:
        stored = {obj["metadata"]["uid"]: obj["metadata"]["resourceVersion"] for obj in _followed(server)}
    known: dict[str, Any] = {
        entity.id: getattr(entity, "resource_version", None)
        for kind in ("workload", "pod")
        for entity in snapshot.by(kind, "cluster", cluster)
    }
    return stored, known


# VNF instances


class Observed(NamedTuple):
    """What has to be seen of one VNF instance."""

    state: str
    levels: Mapping[str, int]
    """Aspect -> level, of those whose pods match one."""
    nearest: Mapping[str, int | None]
    """Aspect -> the nearest lower level, of the others."""
    pods: Mapping[str, frozenset[tuple[str, str]]]
    """VDU -> (name, uid) of the pods that count; without those whose workload is missing, which retain what was."""
    workloads: list[str]
    """The uids of the workloads of its VDUs, sorted."""


def observed_truth(server: KubernetesServer, function: Function) -> Observed:
    """What has to be seen of a function in a cluster at rest."""
    with server.store.changed:
        workloads = {obj["metadata"]["uid"]: obj for kind in _KINDS for obj in server.objects(kind)}
        pods = server.pods(function.namespace)
    inside = {(o["kind"], o["metadata"]["name"]): o["metadata"] for o in workloads.values() if _is_in(o, function)}
    there = {key: metadata["uid"] for key, metadata in inside.items()}
    found: dict[str, set[tuple[str, str]]] = {vdu: set() for vdu in function.vdus}
    names = {(v["workload"]["kind"], v["workload"]["name"]): vdu for vdu, v in function.vdus.items()}
    for pod in pods:
        top = workloads.get(_top(pod, workloads) or "")
        if top is not None and _counts(pod):
            vdu = names.get((top["kind"], top["metadata"]["name"]))
            if vdu is not None:
                found[vdu].add((pod["metadata"]["name"], pod["metadata"]["uid"]))
    missing = {vdu for key, vdu in names.items() if key not in there or "deletionTimestamp" in inside[key]}
    uids = sorted(there[key] for key in names if key in there)
    numbers = {vdu: len(named) for vdu, named in found.items()}
    levels, nearest = _levels(function, numbers, missing)
    state = _state(function, numbers, missing, nearest)
    resolved = {vdu: frozenset(named) for vdu, named in found.items() if vdu not in missing}
    return Observed(state, levels, nearest, resolved, uids)


def observed_differences(
    server: KubernetesServer, functions: Iterable[Function], snapshot: Snapshot
) -> Iterator[ModelDifference]:
    """Where the model sees a VNF instance otherwise than it is; none when it is right.

    If no level of an aspect matches, the model has the last one that it saw. That depends on the time of evaluation,
    so any existing level is right.
    """
    rows = {row["id"]: row for row in snapshot.dump("vnf_instance")}
    for function in functions:
        row = rows.get(function.id)
        if row is not None:
            truth = observed_truth(server, function)
            for field, expected, found in _compared(function, truth, row):
                if expected != found:
                    yield ModelDifference("vnf_instance", function.id, field, expected, found)


def _compared(function: Function, truth: Observed, row: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """(field, in truth, in the model)"""
    yield "state", truth.state, row["state"]
    yield "workload_uids", truth.workloads, row["workload_uids"]
    yield "nearest_level", dict(truth.nearest), row["nearest_level"]
    levels = row["scale_level"] or {}
    yield "scale_level", dict(truth.levels), {name: level for name, level in levels.items() if name in truth.levels}
    for name in truth.nearest:
        if name in levels:
            most = function.aspects[name]["max_scale_level"]
            yield f"scale_level of {name}", True, 0 <= levels[name] <= most
    resources = row["vnfc_resource_info"] or []
    seen = collections.defaultdict(list)
    for each in resources:
        seen[each["vduId"]].append((each["computeResource"]["resourceId"], each["pod"]["uid"]))
    for vdu in function.vdus:
        entries = seen.pop(vdu, [])
        if vdu in truth.pods:
            yield f"vnfc_resource_info of {vdu}", sorted(truth.pods[vdu]), sorted(entries)
    yield "vnfc_resource_info of no VDU", {}, dict(seen)
    observed = {vdu: number for vdu, number in (row["observed"] or {}).items() if vdu in truth.pods}
    yield "observed", {vdu: len(pods) for vdu, pods in truth.pods.items()}, observed
    informed = sorted(each["vnfcResourceInfoId"] for each in row["vnfc_info"] or [])
    yield "vnfc_info", sorted(each["id"] for each in resources), informed


def _levels(
    function: Function, numbers: Mapping[str, int], missing: set[str]
) -> tuple[dict[str, int], dict[str, int | None]]:
    levels: dict[str, int] = {}
    nearest: dict[str, int | None] = {}
    for aspect in function.aspects:
        table = function.levels(aspect)
        if missing & set(table[0]):
            continue
        vector = {vdu: numbers[vdu] for vdu in table[0]}
        if vector in table:
            levels[aspect] = table.index(vector)
        else:
            reached = [n for n, wanted in enumerate(table) if all(vector[v] >= wanted[v] for v in wanted)]
            nearest[aspect] = reached[-1] if reached else None
    return levels, nearest


def _state(function: Function, numbers: Mapping[str, int], missing: set[str], nearest: Mapping[str, Any]) -> str:
    """The worst that is to be said of any VDU."""
    ranges = {vdu: (v["min"], v["max"]) for vdu, v in function.vdus.items() if vdu not in missing}
    if any(not least <= numbers[vdu] <= most for vdu, (least, most) in ranges.items()):
        return "OUT_OF_RANGE"
    if missing:
        return "UNRESOLVED"
    scaled = {vdu for aspect in function.aspects.values() for vdu in aspect["deltas"]}
    unscaled = {vdu: v["initial"] for vdu, v in function.vdus.items() if vdu not in scaled}
    if nearest or any(numbers[vdu] != wanted for vdu, wanted in unscaled.items()):
        return "DRIFTED"
    return "SYNCED"


# Objects


def _followed(server: KubernetesServer) -> Iterator[Object]:
    for kind in (*_KINDS, "Pod"):
        yield from server.objects(kind)


def _cluster(name: str) -> dict[str, Any]:
    return {
        "id": name,
        "state": "connected",
        "detail": None,
        "version": VERSION["gitVersion"],
        "has_synced": True,
        "unlisted": None,
    }


def _workload(obj: Object, cluster: str) -> dict[str, Any]:
    kind, spec, status = obj["kind"], obj["spec"], obj.get("status") or {}
    numbers: dict[str, Any]
    if kind == "DaemonSet":
        numbers = {
            "replicas": status.get("desiredNumberScheduled", 0),
            "ready_replicas": status.get("numberReady", 0),
            "updated_replicas": status.get("updatedNumberScheduled", 0),
            "observed_generation": status.get("observedGeneration"),
        }
    else:
        numbers = {
            "replicas": spec["replicas"],
            "ready_replicas": status.get("readyReplicas", 0),
            "updated_replicas": status.get("replicas" if kind == "ReplicaSet" else "updatedReplicas", 0),
            "observed_generation": status.get("observedGeneration"),
        }
    deleted = obj["metadata"].get("deletionTimestamp")
    own = {
        "api_group": "apps",
        "kind": kind,
        "generation": obj["metadata"]["generation"],
        "deleted_at": _time(deleted) if deleted else None,
    }
    return {**_metadata(obj, kind, cluster), **own, **numbers}


def _pod(obj: Object, cluster: str, workloads: Mapping[str, Object]) -> dict[str, Any]:
    status, deleted = obj["status"], obj["metadata"].get("deletionTimestamp")
    containers = status.get("containerStatuses") or []
    reasons = [state.get("reason") for each in containers for state in (each.get("state") or {}).values()]
    return {
        **_metadata(obj, "Pod", cluster),
        "node": obj["spec"].get("nodeName"),
        "phase": status["phase"],
        "reason": status.get("reason") or next(filter(None, reasons), None),
        "ready": {"type": "Ready", "status": "True"}.items()
        <= next((c for c in status.get("conditions") or [] if c["type"] == "Ready"), {}).items(),
        "restarts": sum(each["restartCount"] for each in containers),
        "crash_looping": "CrashLoopBackOff" in reasons,
        "deleted_at": _time(deleted) if deleted else None,
        "ip_address": status.get("podIP"),
        "workload_uid": _top(obj, workloads),
    }


def _metadata(obj: Object, kind: str, cluster: str) -> dict[str, Any]:
    metadata, owner = obj["metadata"], _controller(obj)
    return {
        "id": metadata["uid"],
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "cluster": cluster,
        "project_id": None,
        "full_name": f"{cluster}/{metadata['namespace']}/{kind}/{metadata['name']}",
        "owner_uid": owner.get("uid"),
        "owner_kind": _title(owner) if owner else None,
        "labels": metadata.get("labels"),
        "created_at": _time(metadata["creationTimestamp"]),
        "resource_version": metadata["resourceVersion"],
    }


def _controller(obj: Object) -> dict[str, Any]:
    return next((each for each in obj["metadata"].get("ownerReferences") or [] if each.get("controller")), {})


def _top(pod: Object, workloads: Mapping[str, Object]) -> str | None:
    """The uid at the top of a pod's owners."""
    owner = _controller(pod)
    if owner.get("kind") != "ReplicaSet":
        return owner.get("uid")
    above = workloads.get(owner["uid"])
    return None if above is None else _controller(above).get("uid", owner["uid"])


def _is_in(obj: Object, function: Function) -> bool:
    return bool(obj["metadata"]["namespace"] == function.namespace)


def _counts(pod: Object) -> bool:
    return pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]


def _time(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)


def _title(owner: Object) -> str:
    """The kind of an owner, with its group where people do not know it by one word."""
    group = owner["apiVersion"].rpartition("/")[0]
    return str(owner["kind"] if group in ("", "apps") else f"{owner['kind']}.{group}")
