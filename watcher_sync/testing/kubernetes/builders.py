# SPDX-License-Identifier: Apache-2.0
"""Builders of Kubernetes objects as people write them, and of pods as a cluster makes them. Plain dictionaries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from watcher_sync.testing.kubernetes.store import Object


def pod(
    name: str,
    *,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    owner: Object | None = None,
    node: str = "",
    phase: str = "Pending",
    ready: bool | None = None,
    image: str = "registry.example/app:1",
) -> Object:
    """A pod with one container.

    :param owner: the object that controls it.
    :param ready: None: when it is Running.
    """
    metadata: Object = {"name": name, "namespace": namespace, "labels": dict(labels or {})}
    if owner is not None:
        metadata["ownerReferences"] = [owner_reference(owner)]
    spec: Object = {"containers": [container(image)], "restartPolicy": "Always", "serviceAccountName": "default"}
    if node:
        spec["nodeName"] = node
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return {**obj, "status": pod_status(obj, phase, ready=phase == "Running" if ready is None else ready)}


def container(image: str) -> Object:
    return {
        "name": "main",
        "image": image,
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
        "imagePullPolicy": "IfNotPresent",
    }


def pod_status(obj: Object, phase: str, *, ready: bool, restarts: int = 0, waiting: str = "") -> Object:
    """The status of a pod.

    :param waiting: the reason why its containers wait, such as CrashLoopBackOff.
    """
    if phase == "Pending":
        return {"phase": phase, "qosClass": "Burstable"}
    started = obj["metadata"].get("creationTimestamp", "2026-01-01T00:00:00Z")
    state: Object = {"running": {"startedAt": started}}
    if waiting:
        state = {"waiting": {"reason": waiting, "message": "back-off 10s restarting failed container"}}
    elif phase in ("Succeeded", "Failed"):
        failed = phase == "Failed"
        state = {"terminated": {"exitCode": int(failed), "reason": "Error" if failed else "Completed"}}
    status = "True" if ready else "False"
    return {
        "phase": phase,
        "conditions": [
            {"type": kind, "status": status, "lastTransitionTime": started}
            for kind, status in (
                ("Initialized", "True"), ("Ready", status), ("ContainersReady", status), ("PodScheduled", "True"),
            )
        ],
        "hostIP": "192.0.2.10",
        "podIP": "10.0.0.1",
        "startTime": started,
        "containerStatuses": [
            {  # all that the API's schema requires: the official client's typed models insist on it
                "name": each["name"],
                "image": each["image"],
                "imageID": f"{each['image']}@sha256:0",
                "ready": ready,
                "started": not waiting,
                "restartCount": restarts,
                "state": state,
            }
            for each in obj["spec"]["containers"]
        ],
        "qosClass": "Burstable",
    }  # fmt: skip


def owner_reference(owner: Object) -> Object:
    """To the object that controls."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def node(name: str) -> Object:
    status = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "capacity": {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110"},
        "allocatable": {"cpu": "7500m", "memory": "31Gi", "ephemeral-storage": "95551679124", "pods": "110"},
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def deployment(name: str, *, replicas: int = 1, namespace: str = "default", **spec: Any) -> Object:
    """With the label ``app`` of its name. Further fields of the spec by name, such as ``strategy``."""
    return _workload("Deployment", name, namespace, {"replicas": replicas, **spec})


def replica_set(name: str, *, replicas: int = 1, namespace: str = "default", **spec: Any) -> Object:
    return _workload("ReplicaSet", name, namespace, {"replicas": replicas, **spec})


def stateful_set(name: str, *, replicas: int = 1, namespace: str = "default", **spec: Any) -> Object:
    return _workload("StatefulSet", name, namespace, {"replicas": replicas, "serviceName": name, **spec})


def daemon_set(name: str, *, namespace: str = "default", **spec: Any) -> Object:
    return _workload("DaemonSet", name, namespace, spec)


def job(name: str, *, namespace: str = "default") -> Object:
    """A Job; its pods belong to no VDU."""
    return _workload("Job", name, namespace, {"completions": 1}, api_version="batch/v1")


def _workload(kind: str, name: str, namespace: str, spec: Object, *, api_version: str = "apps/v1") -> Object:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container("registry.example/app:1")]}}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }


def bare_pods(count: int, *, namespace: str = "default", nodes: int = 10) -> Iterator[Object]:
    """So many running pods that nothing controls."""
    for number in range(count):
        yield pod(
            f"pod-{number:06d}",
            namespace=namespace,
            labels={"app": f"app-{number % 100}"},
            node=f"node-{number % nodes}",
            phase="Running",
        )
