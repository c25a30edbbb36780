# SPDX-License-Identifier: Apache-2.0
"""What a pod's containers say of it: reason, restarts and crash loop, as ``kubectl get pods`` shows them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from watcher_sync.events import Event
from watcher_sync.extensions.kubernetes.handler.handler import KubernetesHandler
from watcher_sync.model.changes import Upsert
from watcher_sync.model.model import Model
from watcher_sync.testing.kinds import builtin_kinds

INITIALIZED = {"type": "Initialized", "status": "True"}
READY = {"type": "Ready", "status": "True"}
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
GATED = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}

RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
DONE = {"terminated": {"exitCode": 0, "reason": "Completed"}}
ERROR = {"terminated": {"exitCode": 1, "reason": "Error"}}


def waiting(reason: str) -> dict[str, Any]:
    return {"waiting": {"reason": reason}}


def status(name: str, state: Any, restarts: int = 0, **more: Any) -> dict[str, Any]:
    is_running = state is RUNNING
    return {
        "name": name, "state": state, "restartCount": restarts, "ready": is_running, "started": is_running, **more,
    }  # fmt: skip


def pod(phase: str, *containers: Any, init: Any = (), conditions: Any = (), **more: Any) -> dict[str, Any]:
    """:param init: statuses of init containers; those whose name begins with ``side`` are sidecars."""
    declared = [
        {"name": each["name"], **({"restartPolicy": "Always"} if each["name"].startswith("side") else {})}
        for each in init
    ]
    return {
        "metadata": {"uid": "u", "name": "p", "resourceVersion": "1"},
        "spec": {"containers": [{"name": each["name"]} for each in containers], "initContainers": declared},
        "status": {
            "phase": phase,
            "conditions": list(conditions),
            "containerStatuses": list(containers),
            "initContainerStatuses": list(init),
            **more,
        },
    }


def state_of(obj: dict[str, Any]) -> dict[str, Any]:
    event = Event(
        id="1", type="kubernetes.pod.added", source="edge", origin="edge", data=json.dumps(obj).encode(),
        sequence=(1, 1),
    )  # fmt: skip
    first = next(iter(KubernetesHandler().on_pod(event, Model(builtin_kinds()))))
    assert isinstance(first, Upsert)
    return dict(first.facets["state"])


SIDE = status("side", RUNNING, 2)

TABLE: dict[str, tuple[dict[str, Any], str | None, int, bool]] = {
    "runs": (pod("Running", status("a", RUNNING), conditions=[READY]), None, 0, False),
    "restarts of all containers": (pod("Running", status("a", RUNNING, 1), status("b", RUNNING, 2)), None, 3, False),
    "crash loop": (
        pod("Running", status("a", waiting("CrashLoopBackOff"), 4), status("b", RUNNING, 1)),
        "CrashLoopBackOff", 5, True,
    ),
    "between two crashes": (pod("Running", status("a", ERROR, 4)), "Error", 4, False),
    "completed": (pod("Succeeded", status("a", DONE)), "Completed", 0, False),
    "failed": (pod("Failed", status("a", DONE), status("b", ERROR)), "Error", 0, False),
    "out of memory": (
        pod("Failed", status("a", {"terminated": {"exitCode": 137, "reason": "OOMKilled"}})), "OOMKilled", 0, False,
    ),
    "ended by a signal": (pod("Failed", status("a", {"terminated": {"exitCode": 137, "signal": 9}})), "Signal:9", 0,
                          False),
    "ended without a reason": (pod("Failed", status("a", {"terminated": {"exitCode": 3}})), "ExitCode:3", 0, False),
    "one of two is done, and it is ready": (
        pod("Running", status("a", DONE), status("b", RUNNING), conditions=[READY]), None, 0, False,
    ),
    "one of two is done, and it is not ready": (
        pod("Running", status("a", DONE), status("b", RUNNING)), "NotReady", 0, False,
    ),
    "evicted": (pod("Failed", status("a", ERROR), reason="Evicted"), "Evicted", 0, False),
    "node lost": (pod("Running", status("a", RUNNING), reason="NodeLost"), "NodeLost", 0, False),
    "unschedulable": (pod("Pending", conditions=[UNSCHEDULABLE]), "Unschedulable", 0, False),
    "held by a scheduling gate": (pod("Pending", conditions=[GATED]), "SchedulingGated", 0, False),
    "containers are made": (pod("Pending", status("a", waiting("ContainerCreating"))), "ContainerCreating", 0, False),
    "no image": (pod("Pending", status("a", waiting("ImagePullBackOff"))), "ImagePullBackOff", 0, False),
    "first init container runs": (
        pod("Pending", status("a", waiting("PodInitializing")), init=[status("i", RUNNING), status("j", {})]),
        "Init:0/2", 0, False,
    ),
    "init containers restart": (
        pod("Pending", status("a", waiting("PodInitializing"), 7), init=[status("i", DONE, 3), status("j", ERROR, 2)]),
        "Init:Error", 5, False,
    ),
    "init container in a crash loop": (
        pod("Pending", status("a", waiting("PodInitializing")), init=[status("i", waiting("CrashLoopBackOff"), 3)]),
        "Init:CrashLoopBackOff", 3, True,
    ),
    "init container ended by a signal": (
        pod("Pending", init=[status("i", {"terminated": {"exitCode": 137, "signal": 9}})]), "Init:Signal:9", 0, False,
    ),
    "initialized, containers are made": (
        pod("Pending", status("a", waiting("PodInitializing")), init=[status("i", DONE, 3)]),
        "PodInitializing", 0, False,
    ),
    "finished init containers restarted once": (
        pod("Running", status("a", RUNNING, 1), init=[status("i", DONE, 3)], conditions=[INITIALIZED, READY]),
        None, 1, False,
    ),
    "sidecar restarts count always": (
        pod("Running", status("a", RUNNING, 1), init=[status("i", DONE, 3), SIDE], conditions=[INITIALIZED, READY]),
        None, 3, False,
    ),
    "sidecar runs, and the next init container too": (
        pod("Pending", status("a", waiting("PodInitializing")), init=[SIDE, status("i", RUNNING, 1)]),
        "Init:1/2", 3, False,
    ),
    "sidecar in a crash loop beside a container that runs": (
        pod("Running", status("a", RUNNING, 1), init=[status("side", waiting("CrashLoopBackOff"), 4),
                                                       status("i", DONE, 3)], conditions=[INITIALIZED]),
        "Init:CrashLoopBackOff", 5, True,
    ),
    "ephemeral containers say nothing": (
        pod("Running", status("a", RUNNING), ephemeralContainerStatuses=[status("debug", ERROR, 9)]), None, 0, False,
    ),
    "nothing is known of its containers": (pod("Unknown"), None, 0, False),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLE)
def test_reason_and_restarts_of_a_pod_are_those_that_kubectl_shows(case: str) -> None:
    obj, reason, restarts, looping = TABLE[case]
    found = state_of(obj)
    assert (found["reason"], found["restarts"], found["crash_looping"]) == (reason, restarts, looping)


def test_a_running_pod_that_is_being_deleted_says_so_in_deleted_at_alone() -> None:
    obj = pod("Running", status("a", RUNNING), conditions=[READY])
    obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    found = state_of(obj)
    assert (found["phase"], found["ready"], found["reason"], found["deleted_at"].year) == ("Running", True, None, 2026)
