# SPDX-License-Identifier: Apache-2.0
"""What the containers of a pod say of it: why it is in its phase, and how often they restarted.

The rules are those of ``kubectl get pods``, so an operator reads the same in both. Init containers that are done say
nothing any more. A sidecar (an init container that is always restarted) counts until the pod ends.

Source: ``printPod`` in pkg/printers/internalversion/printers.go of Kubernetes 1.35.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from watcher_sync.extensions.kubernetes.wire.kubernetes import ContainerStatus, PodObject, PodStatus, Terminated

_CRASH_LOOP = "CrashLoopBackOff"


class ContainersState(msgspec.Struct, gc=False):
    """The state of a pod, as its containers and its scheduler have it."""

    reason: str | None = None
    """None: its phase says all."""
    restarts: int = 0
    crash_looping: bool = False
    """Whether a container waits because it crashes again and again."""


def read_containers(pod: PodObject, status: PodStatus) -> ContainersState:
    """Return what the containers of a pod say."""
    found = ContainersState()
    sidecar_restarts = _read_init_containers(found, pod, status) if status.init_container_statuses else 0
    if found.reason is None or has_condition(status, "Initialized"):
        found.restarts = sidecar_restarts
        if status.container_statuses:
            _read_main_containers(found, status.container_statuses, is_ready=has_condition(status, "Ready"))
    for condition in status.conditions or () if status.phase == "Pending" else ():
        if condition.type == "PodScheduled" and condition.status == "False":
            found.reason = condition.reason
    # The pod's own reason, such as Evicted, outlasts its containers.
    found.reason = status.reason or found.reason
    return found


def has_condition(status: PodStatus, name: str) -> bool:
    """Whether a condition of a pod is true."""
    for condition in status.conditions or ():
        if condition.type == name:
            return condition.status == "True"
    return False


def _read_init_containers(found: ContainersState, pod: PodObject, status: PodStatus) -> int:
    """Read them up to the first that is not done, which gives the reason. Return the restarts of the sidecars."""
    declared = (pod.spec.init_containers if pod.spec is not None else None) or ()
    sidecars = {container.name for container in declared if container.restart_policy == "Always"}
    sidecar_restarts = 0
    for number, container in enumerate(status.init_container_statuses or ()):
        found.restarts += container.restart_count
        if container.name in sidecars:
            sidecar_restarts += container.restart_count
        waits_for, ended = _state_of(container)
        if ended is not None:
            if ended.exit_code == 0:
                continue
            found.reason = f"Init:{_why_ended(ended)}"
        elif container.name in sidecars and container.started:
            continue
        elif waits_for is not None and waits_for != "PodInitializing":
            found.reason = f"Init:{waits_for}"
            found.crash_looping = waits_for == _CRASH_LOOP
        else:
            found.reason = f"Init:{number}/{len(declared)}"
        break
    return sidecar_restarts


def _read_main_containers(found: ContainersState, containers: Iterable[ContainerStatus], *, is_ready: bool) -> None:
    """The first that waits or ended gives the reason; one that ended well gives way to what the others do."""
    reason = error = None
    runs = False
    for container in containers:
        found.restarts += container.restart_count
        waits_for, ended = _state_of(container)
        if waits_for is not None:
            reason = reason or waits_for
            found.crash_looping |= waits_for == _CRASH_LOOP
        elif ended is not None:
            why = _why_ended(ended)
            reason = reason or why
            if ended.exit_code != 0:
                error = error or why
        else:
            runs |= container.ready
    if reason == "Completed":
        if runs and is_ready:
            reason = None
        elif error is not None or runs:
            reason = error or "NotReady"
    found.reason = reason or found.reason


def _state_of(container: ContainerStatus) -> tuple[str | None, Terminated | None]:
    """Return why a container waits, or how it ended."""
    state = container.state
    if state is None:
        return None, None
    return (state.waiting.reason or None) if state.waiting is not None else None, state.terminated


def _why_ended(ended: Terminated) -> str:
    return ended.reason or (f"Signal:{ended.signal}" if ended.signal else f"ExitCode:{ended.exit_code}")
