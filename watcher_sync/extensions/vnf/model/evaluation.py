# SPDX-License-Identifier: Apache-2.0
"""Compares one VNF instance with the pods of its VDUs, and returns the facet ``observed``.

Each VDU is evaluated separately. If its pods cannot be listed, the VDU keeps its last values. So it does if its
workload does not exist or is being deleted. While pods are missing that the workload wants, the level is deferred.
After a limit the VDU is DRIFTED.

The level of an aspect is written only if all its VDUs together match one level exactly. Otherwise it stays, and
``nearest_level`` has the nearest lower one. So a level is never below 0 and never above the last one.

The same input gives the same values: a sync that finds no difference writes nothing.
"""

from __future__ import annotations

import collections
import datetime
import enum
import uuid
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import msgspec

from watcher_sync.extensions.kubernetes.kinds import Pod
from watcher_sync.extensions.vnf.kinds import VnfInstance
from watcher_sync.extensions.vnf.model import levels as scaling
from watcher_sync.extensions.vnf.model import vnfcs
from watcher_sync.extensions.vnf.model.matching import VduInput, is_settling, read_vdu
from watcher_sync.model.view import View


class Result(enum.StrEnum):
    """The result of a sync for one VDU."""

    SYNCED = "SYNCED"
    NO_DIFF = "NO_DIFF"
    DRIFTED = "DRIFTED"
    SETTLING = "SETTLING"
    OUT_OF_RANGE = "OUT_OF_RANGE"
    UNRESOLVED = "UNRESOLVED"
    SKIPPED_LCM = "SKIPPED_LCM"
    """An operation holds the instance; the caller that failed to take the lease sets it."""
    UNKNOWN = "UNKNOWN"
    """A listing failed or was cut."""


_WORST_FIRST = (
    Result.OUT_OF_RANGE,
    Result.UNRESOLVED,
    Result.DRIFTED,
    Result.UNKNOWN,
    Result.SETTLING,
    Result.SYNCED,
)


_TIME_FORMAT: Final = "%Y-%m-%dT%H:%M:%SZ"
REQUIRED_KINDS: Final = {
    "Pod": {"Pod"},
    "Deployment": {"Pod", "ReplicaSet", "Deployment"},
    "ReplicaSet": {"Pod", "ReplicaSet"},
    "StatefulSet": {"Pod", "StatefulSet"},
    "DaemonSet": {"Pod", "DaemonSet"},
}
"""Kind of a VDU's workload -> kinds of objects that its evaluation needs."""


class Unlisted(msgspec.Struct, frozen=True):
    """Why the model does not know what a cluster has of one kind of objects."""

    reason: str
    since: str | None = None
    """RFC 3339; None: since the first evaluation with this reason."""


def unknown_in(
    namespace: str | None, unlisted: Mapping[str, Unlisted], unfollowed: Collection[str]
) -> dict[str, Unlisted]:
    """Return kind of objects -> why it is not known which ones exist in a namespace.

    :param unlisted: ``kind`` or ``namespace/kind`` -> why its objects could not be listed.
    :param unfollowed: kinds that no source follows.
    """
    unknown = {kind: Unlisted("the source does not follow it") for kind in unfollowed}
    for key, why in unlisted.items():
        scope, _, kind = key.rpartition("/")
        if scope in ("", namespace):
            unknown[kind] = why
    return unknown


class EvaluationContext(msgspec.Struct, frozen=True):
    """What an evaluation needs beside the instance and its pods."""

    now: datetime.datetime
    settling_limit: float
    """Seconds that a VDU may be SETTLING."""
    new_id: Callable[[], str]
    """Makes a uuid as text, for a new entry of vnfcResourceInfo."""


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome for one instance."""

    values: Mapping[str, Any]
    """Fields of the facet ``observed``, but for ``observed_at``."""
    changes: Mapping[str, Any]
    """The values that differ from the stored ones."""
    changed: bool
    """Whether there are any."""
    results: Mapping[str, Result]
    pods: tuple[vnfcs.PodChange, ...]
    """The vnfcResourceInfo entries that appeared, disappeared or got another pod."""
    due_in: float | None = None
    """Seconds after which another evaluation may differ although nothing has changed; None: none will."""


class _Vdu(msgspec.Struct, kw_only=True):
    """The evaluation of one VDU."""

    result: Result
    old: list[vnfcs.Vnfc]
    new: list[vnfcs.Vnfc]
    was_vacant: list[vnfcs.Vnfc]
    vacant: list[vnfcs.Vnfc]
    number: int | None
    """Pods that count; None where that is not known."""
    report: dict[str, Any]
    decided: bool = True
    """Whether the number of pods says something about the level of its aspect."""
    due_in: float | None = None
    """As of :class:`Observation`."""


def new_uuid() -> str:
    """Return a random id."""
    return str(uuid.uuid4())


def evaluate(view: View, vnf: VnfInstance, unknown: Mapping[str, Unlisted], context: EvaluationContext) -> Observation:
    """Compare an instance with the workloads and pods of a view.

    :param unknown: kind of objects -> why it is not known which ones exist.
    """
    cluster, namespace = vnf.cluster or "", vnf.namespace or ""
    inputs: dict[str, VduInput | Unlisted] = {}
    for name, vdu in (vnf.vdus or {}).items():
        workload = vdu["workload"]
        if missing := sorted(REQUIRED_KINDS[workload["kind"]].intersection(unknown)):
            why = unknown[missing[0]]
            inputs[name] = Unlisted(f"{missing[0]}: {why.reason}", why.since)
        else:
            inputs[name] = read_vdu(view, cluster=cluster, namespace=namespace, workload=workload)
    return evaluate_inputs(vnf, inputs, context)


def evaluate_inputs(
    vnf: VnfInstance, inputs: Mapping[str, VduInput | Unlisted], context: EvaluationContext
) -> Observation:
    """Compare an instance with the inputs of its VDUs.

    :param inputs: VDU -> its workload and pods, or why they are not known.
    """
    registered: Mapping[str, Any] = vnf.vdus or {}
    vdus = {name: _vdu(vnf, name, inputs[name], context) for name in registered}
    levels, nearest = _levels(vnf, vdus)
    _check_fixed_size(vnf, vdus)
    resources = [v for vdu in vdus.values() for v in vdu.new]
    results = {name: _result_of(vnf, name, vdu, levels) for name, vdu in vdus.items()}
    waiting = [v["info"] for v in vnf.vacant or [] if "info" in v]
    worst = min([vdu.result for vdu in vdus.values()], key=_WORST_FIRST.index, default=Result.UNKNOWN)
    values: dict[str, Any] = {
        "state": worst.value,
        "scale_level": levels,
        "nearest_level": nearest,
        "observed": _known(vnf, vdus),
        "vdu_results": {name: {"result": vdu.result.value, **vdu.report} for name, vdu in vdus.items()},
        "vnfc_resource_info": resources,
        "vnfc_info": vnfcs.information(resources, [*waiting, *(vnf.vnfc_info or [])]),
        "vacant": [v for vdu in vdus.values() for v in vdu.vacant],
        **_members(inputs.values()),
    }
    changes = {name: value for name, value in values.items() if getattr(vnf, name) != value}
    return Observation(
        values=values,
        changes=changes,
        changed=bool(changes),
        results=results,
        pods=tuple(
            [change for name, vdu in vdus.items() for change in vnfcs.changes(name, vdu.old, vdu.was_vacant, vdu.new)]
        ),
        due_in=min([vdu.due_in for vdu in vdus.values() if vdu.due_in is not None], default=None),
    )


def _members(inputs: Collection[VduInput | Unlisted]) -> dict[str, list[str]]:
    """Return the uids of the workloads and of the lone pods; nothing while one VDU is not known."""
    listed = [vdu for vdu in inputs if isinstance(vdu, VduInput)]
    if len(listed) < len(inputs):
        return {}
    pods = [vdu for vdu in listed if vdu.kind == "Pod"]
    workloads = [vdu for vdu in listed if vdu.kind != "Pod"]
    return {
        name: sorted({uid for vdu in vdus for uid in vdu.uids})
        for name, vdus in (("workload_uids", workloads), ("pod_uids", pods))
    }


def _vdu(vnf: VnfInstance, name: str, vdu_input: VduInput | Unlisted, context: EvaluationContext) -> _Vdu:
    registered: Mapping[str, Any] = (vnf.vdus or {})[name]
    before: Mapping[str, Any] = (vnf.vdu_results or {}).get(name) or {}
    old = [v for v in vnf.vnfc_resource_info or [] if v["vduId"] == name]
    vacant = [v for v in vnf.vacant or [] if v["vduId"] == name]
    vdu = _Vdu(
        result=Result.UNKNOWN,
        old=old,
        new=old,
        was_vacant=vacant,
        vacant=vacant,
        number=None,
        report={},
        decided=False,
    )
    if isinstance(vdu_input, Unlisted):
        vdu.report = _unknown_report(before, vdu_input, context)
        return vdu
    every = vnfcs.places(old, vacant)
    if not vdu_input.resolved or vdu_input.deleting:
        vdu.result = Result.UNRESOLVED
        named = f"{vdu_input.kind} {vdu_input.name}"
        vdu.report = {
            "detail": f"the {named} is being deleted" if vdu_input.deleting else f"there is no {named}",
        }
        # The pods may go before their workload, and leave their places vacant.
        vdu.new, vdu.vacant = [vnfcs.shown(v) for v in every], []
        return vdu
    pods = vdu_input.counted()
    settling = is_settling(vdu_input)
    place = vnfcs.place_of(vdu_input)
    pairs = vnfcs.pair(every, pods, place=place, limit=vdu_input.wanted if settling else None)
    vdu.new = [
        vnfcs.entry(vnfc, pod, vdu=name, vnfd_id=vnf.vnfd_id, kind=vdu_input.kind, place=place, new_id=context.new_id)
        for vnfc, pod in pairs
    ]
    vdu.vacant = vnfcs.vacated(every, vdu.new, vdu_input.wanted, vnf.vnfc_info or [])
    vdu.number = len(pods)
    vdu.report = _report(vdu_input, pods)
    vdu.decided = not settling
    if settling:
        _settle(vdu, vdu_input, before, context)
    elif (wrong := _out_of_range(len(pods), registered)) is not None:
        vdu.result = Result.OUT_OF_RANGE
        vdu.report["detail"] = wrong
    else:
        vdu.result = Result.SYNCED
    return vdu


def _unknown_report(before: Mapping[str, Any], why: Unlisted, context: EvaluationContext) -> dict[str, Any]:
    """Return the report of a VDU that could not be listed. Without a time of its own, the stored one stays."""
    if why.since is None and before.get("result") == Result.UNKNOWN.value and "since" in before:
        return {"detail": before["detail"], "since": before["since"]}
    return {"detail": why.reason, "since": why.since or _text_of(context.now)}


def _settle(vdu: _Vdu, vdu_input: VduInput, before: Mapping[str, Any], context: EvaluationContext) -> None:
    """Set the result of a VDU whose workload lacks pods, or has too many: SETTLING, and DRIFTED after the limit."""
    since = before.get("since") if before.get("result") in (Result.SETTLING.value, Result.DRIFTED.value) else None
    vdu.report["since"] = since = since or _text_of(context.now)
    left = context.settling_limit - (context.now - _time_of(since)).total_seconds()
    if left > 0:
        vdu.result, vdu.due_in = Result.SETTLING, left
        vdu.report["detail"] = "its controller is at work"
        return
    vdu.result = Result.DRIFTED
    reasons = {pod.reason or pod.phase or "Unknown" for pod in vdu_input.pods if pod.phase != "Running"}
    vdu.report["detail"] = f"{vdu.number} of the {vdu_input.wanted} pods that its {vdu_input.kind} wants run" + (
        f": {', '.join(sorted(reasons))}" if reasons else ""
    )


def _text_of(time: datetime.datetime) -> str:
    return time.astimezone(datetime.UTC).strftime(_TIME_FORMAT)


def _time_of(text: str) -> datetime.datetime:
    return datetime.datetime.strptime(text, _TIME_FORMAT).replace(tzinfo=datetime.UTC)


def _levels(vnf: VnfInstance, vdus: Mapping[str, _Vdu]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the level of each aspect, and the nearest lower level of the aspects that match none."""
    aspects: Mapping[str, Any] = vnf.aspects or {}
    levels = {
        name: level
        for name, level in (vnf.scale_level or {}).items()
        if name in aspects and level <= aspects[name]["max_scale_level"]
    }
    nearest: dict[str, Any] = {}
    for name, aspect in aspects.items():
        scaled = [vdus[vdu] for vdu in aspect["deltas"]]
        if [vdu for vdu in scaled if not vdu.decided]:
            continue
        found = scaling.match(vnf.vdus or {}, aspect, {vdu: vdus[vdu].number or 0 for vdu in aspect["deltas"]})
        if found.exact is not None:
            levels[name] = found.exact
            continue
        nearest[name] = found.nearest
        for vdu in scaled:
            if vdu.result is Result.SYNCED:
                vdu.result = Result.DRIFTED
                vdu.report["detail"] = f"no level of {name} has these numbers of pods"
    return levels, nearest


def _check_fixed_size(vnf: VnfInstance, vdus: Mapping[str, _Vdu]) -> None:
    """A VDU that no aspect scales has its initial number of pods."""
    scaled = {vdu for aspect in (vnf.aspects or {}).values() for vdu in aspect["deltas"]}
    for name, vdu in vdus.items():
        wanted = (vnf.vdus or {})[name]["initial"]
        if name not in scaled and vdu.result is Result.SYNCED and vdu.number != wanted:
            vdu.result = Result.DRIFTED
            vdu.report["detail"] = f"{wanted} are wanted, and no aspect scales it"


def _result_of(vnf: VnfInstance, name: str, vdu: _Vdu, levels: Mapping[str, Any]) -> Result:
    """Return NO_DIFF if a synced VDU needs no write; else its result."""
    if vdu.result is not Result.SYNCED or vdu.old != vdu.new:
        return vdu.result
    before = vnf.scale_level or {}
    own = [aspect for aspect, scaling_of in (vnf.aspects or {}).items() if name in scaling_of["deltas"]]
    moved = any(before.get(aspect) != levels.get(aspect) for aspect in own)
    was_synced = ((vnf.vdu_results or {}).get(name) or {}).get("result") == Result.SYNCED.value
    return Result.NO_DIFF if was_synced and not moved else Result.SYNCED


def _known(vnf: VnfInstance, vdus: Mapping[str, _Vdu]) -> dict[str, Any]:
    """Return VDU -> pods that count; the stored number if the VDU could not be listed."""
    before = vnf.observed or {}
    numbers = {name: vdu.number if vdu.number is not None else before.get(name) for name, vdu in vdus.items()}
    return {name: number for name, number in numbers.items() if number is not None}


def _out_of_range(number: int, registered: Mapping[str, Any]) -> str | None:
    least, most = registered.get("min") or 0, registered.get("max")
    if number < least:
        return f"{number} pods are below its min, {least}"
    if most is not None and number > most:
        return f"{number} pods are above its max, {most}"
    return None


def _report(vdu_input: VduInput, counted: Collection[Pod]) -> dict[str, Any]:
    """Return the reasons of the pods that do not count, and the names of those in a crash loop."""
    shown = collections.Counter([_why(pod) for pod in vdu_input.pods if pod not in counted])
    flagged = sorted([pod.name or "" for pod in counted if pod.crash_looping])
    report: dict[str, Any] = {}
    if shown:
        report["not_counted"] = dict(sorted(shown.items()))
    if flagged:
        report["crash_looping"] = flagged
    return report


def _why(pod: Pod) -> str:
    """Return why a pod does not count."""
    if pod.phase == "Failed" and pod.reason == "Evicted":
        return "Evicted"
    if pod.phase in ("Running", "Pending") and pod.deleted_at is not None:
        return "Terminating"
    return pod.phase or "Unknown"


class ReportedDifference(msgspec.Struct, frozen=True, kw_only=True):
    """One field of the instance that is not what the live system shows."""

    field: str
    model_value: Any
    live_value: Any


class ReportedPod(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of vnfcResourceInfo that has another pod, is new, or is gone."""

    vdu: str
    vnfc_id: str
    old: str | None
    """Name of the pod before; None: the entry is new."""
    new: str | None
    """Name of the pod now; None: the entry is gone."""


class VnfSyncReport(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome for one instance; of a dry run, what the outcome would have been."""

    state: str
    """Of the instance as a whole, as its field ``state`` has it."""
    changed: bool
    """Whether there was something to write."""
    vdu_results: dict[str, dict[str, Any]]
    """VDU -> ``result`` (:class:`~watcher_sync.extensions.vnf.model.evaluation.Result`), and what else was seen."""
    differences: list[ReportedDifference]
    pods: list[ReportedPod]
