# SPDX-License-Identifier: Apache-2.0
"""vnfcResourceInfo (ETSI GS NFV-SOL 003, VnfcResourceInfo) with ids that outlast the pods.

An entry represents a *place* in the function, not a pod. If its pod is replaced, only its resourceId changes; the id,
metadata, connection points and storage stay. A new pod takes its place by the StatefulSet's
ordinal, by the DaemonSet's node, or else by the order of creation.

Entries are shown for pods that count. A place without one is *vacant*. It is stored apart while the workload wants
more pods, or cannot be found. So no id is lost between two pods.

Beside SOL003's fields an entry has ``pod``: uid, place, time of creation and flags. The uid identifies the pod.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from watcher_sync.extensions.kubernetes.kinds import Pod
from watcher_sync.extensions.vnf.model.matching import VduInput

Vnfc = dict[str, Any]
"""One entry of vnfcResourceInfo."""

Place = Callable[[Pod], str | None]
"""Maps a pod to its place, by which its replacement is recognised."""


_TIME_FORMAT: Final = "%Y-%m-%dT%H:%M:%S.%fZ"


class PodChange(msgspec.Struct, frozen=True, kw_only=True):
    """The change of one entry; for the log."""

    vdu: str
    vnfc: str
    """Id of the entry."""
    old: str | None
    """Name of the pod before; None: the entry is new."""
    new: str | None
    """Name of the pod now; None: the entry is gone."""
    old_uid: str | None = None
    new_uid: str | None = None


def pair(
    old: Sequence[Vnfc], pods: Sequence[Pod], *, place: Place | None, limit: int | None = None
) -> list[tuple[Vnfc | None, Pod]]:
    """Pair each pod with its entry; entries without a pod are left out.

    :param pods: those that count, in the order of their creation.
    :param place: how a replaced pod is recognised; None: by the order of creation.
    :param limit: number of entries up to which new ones are made. Surge pods beyond it wait for the place of a pod
        that goes, so the ids outlast the rollout.
    """
    by_uid = {pod.id: pod for pod in pods}
    behind = {(v.get("pod") or {}).get("uid"): v for v in old}
    paired: dict[str, Pod] = {v["id"]: by_uid[uid] for uid, v in behind.items() if uid in by_uid}
    vacant = sorted([v for v in old if v["id"] not in paired], key=lambda v: (_pod(v).get("created_at") or "", v["id"]))
    waiting = [pod for pod in pods if pod.id not in behind]
    if place is not None and [pod for pod in pods if place(pod) is not None]:
        places = {_pod(v).get("place"): v for v in reversed(vacant)}
        for pod in list(waiting):
            if (taken := places.pop(place(pod), None)) is not None:
                paired[taken["id"]] = pod
                waiting.remove(pod)
    else:
        for vnfc, pod in zip(vacant, waiting, strict=False):
            paired[vnfc["id"]] = pod
        waiting = waiting[len(vacant) :]
    known: list[tuple[Vnfc | None, Pod]] = [(v, paired[v["id"]]) for v in old if v["id"] in paired]
    new = waiting if limit is None else waiting[: max(limit - len(known), 0)]
    return [*known, *[(None, pod) for pod in new]]


def places(entries: Sequence[Vnfc], vacant: Sequence[Vnfc]) -> list[Vnfc]:
    """Return all entries in the order in which they were made; ``at`` of a vacant one is its place among all."""
    found = list(entries)
    for vnfc in sorted(vacant, key=lambda v: v.get("at", len(entries))):
        found.insert(vnfc.get("at", len(found)), vnfc)
    return found


def shown(vnfc: Vnfc) -> Vnfc:
    """Return an entry without what it has only while it is vacant."""
    return {name: value for name, value in vnfc.items() if name not in ("info", "at")}


def vacated(
    old: Sequence[Vnfc], new: Sequence[Vnfc], wanted: int | None, old_info: Sequence[Mapping[str, Any]]
) -> list[Vnfc]:
    """Return the vacant places.

    :param old: all entries before, shown and vacant, in their order.
    :param wanted: pods that the workload asks for; None: not known, and all wait.
    :param old_info: vnfcInfo before; what it says of a place waits with it.
    """
    filled = {v["id"] for v in new}
    information_of = {info.get("vnfcResourceInfoId"): info for info in old_info}
    empty = [{**v, "at": at} for at, v in enumerate(old) if v["id"] not in filled]
    if wanted is not None:
        empty = empty[: max(wanted - len(new), 0)]
    return [{**v, "info": info} if (info := information_of.get(v["id"])) is not None else v for v in empty]


def place_of(vdu_input: VduInput) -> Place | None:
    """Return how a replaced pod of a workload is recognised; None: not at all."""
    if vdu_input.kind == "StatefulSet":
        prefix = f"{vdu_input.name}-"
        return lambda pod: (pod.name or "").removeprefix(prefix)
    if vdu_input.kind == "DaemonSet":
        return lambda pod: pod.node
    return None


def entry(
    vnfc: Vnfc | None,
    pod: Pod,
    *,
    vdu: str,
    vnfd_id: str | None,
    kind: str,
    place: Place | None,
    new_id: Callable[[], str],
) -> Vnfc:
    """Return the entry with this pod; fields that do not describe the pod stay.

    :param kind: of the VDU's workload.
    """
    if vnfc is None:
        vnfc = {
            "id": new_id(),
            "storageResourceIds": [],
            "vnfcCpInfo": [],
            "metadata": {},
        }
    resource, created = vnfc.get("computeResource") or {}, pod.created_at
    return {
        **shown(vnfc),
        "vduId": vdu,
        "vnfdId": vnfd_id,
        "computeResource": {
            **resource,
            "vimConnectionId": resource.get("vimConnectionId") or pod.cluster,
            "resourceProviderId": resource.get("resourceProviderId") or pod.cluster,
            "resourceId": pod.name,
            "vimLevelResourceType": kind,
        },
        "pod": {
            "uid": pod.id,
            "place": place(pod) if place is not None else None,
            "node": pod.node,
            "created_at": None if created is None else created.astimezone(datetime.UTC).strftime(_TIME_FORMAT),
            "flags": ["CrashLoopBackOff"] if pod.crash_looping else [],
        },
    }


def changes(vdu: str, old: Sequence[Vnfc], vacant: Sequence[Vnfc], new: Sequence[Vnfc]) -> list[PodChange]:
    """Return the changes of the entries of one VDU: replaced, gone or vacant, new.

    :param old: shown before.
    :param vacant: vacant before.
    :param new: shown now.
    """
    before, after = {v["id"]: v for v in (*vacant, *old)}, {v["id"]: v for v in new}
    found = []
    for vnfc_id in dict.fromkeys([*[v["id"] for v in old], *after]):
        was, is_now = before.get(vnfc_id), after.get(vnfc_id)
        if was == is_now:
            continue
        old_name, old_uid = _identity(was)
        new_name, new_uid = _identity(is_now)
        if (old_name, old_uid) != (new_name, new_uid):
            found.append(PodChange(vdu=vdu, vnfc=vnfc_id, old=old_name, new=new_name, old_uid=old_uid, new_uid=new_uid))
    return found


def information(vnfcs: Sequence[Vnfc], old: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """vnfcInfo (SOL003, VnfcInfo) of these entries; their configurable properties stay."""
    before = {info.get("vnfcResourceInfoId"): info for info in old}
    blank: dict[str, Any] = {"vnfcConfigurableProperties": {}}
    return [
        {
            **before.get(v["id"], blank),
            "id": before.get(v["id"], {}).get("id") or f"{v['vduId']}-{v['id']}",
            "vduId": v["vduId"],
            "vnfcResourceInfoId": v["id"],
            "vnfcState": "STARTED",
        }
        for v in vnfcs
    ]


def _identity(vnfc: Vnfc | None) -> tuple[str | None, str | None]:
    if vnfc is None:
        return None, None
    return (vnfc.get("computeResource") or {}).get("resourceId"), (vnfc.get("pod") or {}).get("uid")


def _pod(vnfc: Vnfc) -> Mapping[str, Any]:
    return vnfc.get("pod") or {}
