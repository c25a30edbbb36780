# SPDX-License-Identifier: Apache-2.0
"""The kind of VNF: instances that are made of the workloads and pods of a cluster. Their ids may be used again."""

from __future__ import annotations

import datetime
from typing import Annotated, Any, Literal

from watcher_sync.model.kinds import AdminOnly, Derived, Doc, Entity, In, MaxBytes, Reference, Text, kind
from watcher_sync.model.view import View

_PLACES = AdminOnly(("pod.node", "pod.place"))
"""The place of a pod of a DaemonSet is its node."""


def last_written(_view: View, vnf: VnfInstance) -> datetime.datetime | None:
    """When it was last registered again or seen to differ, whichever is later."""
    times = [t for t in (vnf.registered_at, vnf.observed_at) if t is not None]
    return max(times, default=None)


@kind(
    "vnf_instance",
    plural="vnf_instances",
    anchor="registration",
    ids_reused=True,
    indexes=("cluster", "namespace", "vnfd_id", "state", "project_id", "workload_uids", "pod_uids"),
    low_cardinality=("state",),
    filter_indexes=("cluster", "name", "namespace", "project_id", "state", "vnfd_id"),
    references=(
        Reference("cluster", "cluster", "runs_on"),
        Reference("workload_uids", "workload", "member_of", lists_dependents=True),
        Reference("pod_uids", "pod", "member_of", lists_dependents=True),
    ),
    derived=(Derived("updated_at", last_written, alone=True, reads=("registered_at", "observed_at")),),
)
class VnfInstance(Entity, frozen=True, kw_only=True, gc=False):
    """A network function that runs in a cluster. Id: given by who registered it, else a uuid.

    The registration is written through the REST API; what is observed, by the sync alone.
    """

    project_id: Annotated[Text | None, In("registration"), Doc("Project (tenant) that owns it; null: none.")] = None
    name: Annotated[Text | None, In("registration"), Doc("Name that the writer gave it.")] = None
    cluster: Annotated[Text | None, In("registration"), Doc("The cluster it runs in.")] = None
    namespace: Annotated[Text | None, In("registration"), Doc("The namespace it runs in.")] = None
    vnfd_id: Annotated[Text | None, In("registration"), Doc("Its descriptor (VNFD).")] = None
    flavour_id: Annotated[Text | None, In("registration"), Doc("Its deployment flavour.")] = None
    vnf_provider: Annotated[Text | None, In("registration"), Doc("Provider of the VNF; null: not given.")] = None
    vnf_product_name: Annotated[Text | None, In("registration"), Doc("Product of the VNF; null: not given.")] = None
    vnf_software_version: Annotated[Text | None, In("registration"), Doc("Software version; null: not given.")] = None
    vnfd_version: Annotated[Text | None, In("registration"), Doc("Version of its descriptor; null: not given.")] = None
    ext_cp_info: Annotated[
        list[dict[str, Any]] | None, In("registration"), Doc("External connection points (SOL003); null: not given.")
    ] = None
    vdus: Annotated[
        dict[str, Any] | None, In("registration"), Doc("VDU -> its workload and its initial, min and max pods.")
    ] = None
    aspects: Annotated[
        dict[str, Any] | None, In("registration"), Doc("Scaling aspect -> max_scale_level and deltas per VDU.")
    ] = None
    sync_after_failure: Annotated[
        bool, In("registration"), Doc("Whether the sync goes on after an operation that failed.")
    ] = True
    failed_operation: Annotated[
        dict[str, Any] | None,
        In("registration"),
        Doc("The failed operation that holds the sync back: id, operation, holder, state, ended_at; null: none."),
    ] = None
    created_at: Annotated[datetime.datetime | None, In("registration"), Doc("When it was registered first.")] = None
    registered_at: Annotated[datetime.datetime | None, In("registration"), Doc("When it was registered last.")] = None
    state: Annotated[
        Literal["UNKNOWN", "SYNCED", "DRIFTED", "SETTLING", "OUT_OF_RANGE", "UNRESOLVED", "HELD_BACK"],
        In("observed"),
        Doc("How what runs compares with the levels."),
    ] = "UNKNOWN"
    scale_level: Annotated[
        dict[str, Any] | None,
        In("observed"),
        MaxBytes(0),
        Doc("Scaling aspect -> level; absent until a level was seen."),
    ] = None
    nearest_level: Annotated[
        dict[str, Any] | None,
        In("observed"),
        MaxBytes(0),
        Doc("Aspect that matches no level -> the nearest lower one, or null."),
    ] = None
    observed: Annotated[dict[str, Any] | None, In("observed"), MaxBytes(0), Doc("VDU -> pods that count.")] = None
    vdu_results: Annotated[
        dict[str, Any] | None, In("observed"), MaxBytes(0), Doc("VDU -> result, what else was seen, and why.")
    ] = None
    vnfc_resource_info: Annotated[
        list[dict[str, Any]] | None,
        In("observed"),
        _PLACES,
        MaxBytes(0),
        Doc("SOL003's vnfcResourceInfo, and the pod behind each."),
    ] = None
    vnfc_info: Annotated[list[dict[str, Any]] | None, In("observed"), MaxBytes(0), Doc("SOL003's vnfcInfo.")] = None
    vacant: Annotated[
        list[dict[str, Any]] | None,
        In("observed"),
        MaxBytes(0),
        _PLACES,
        Doc("Places of vnfcResourceInfo that wait for a pod."),
    ] = None
    workload_uids: Annotated[
        list[str] | None, In("observed"), MaxBytes(0), Doc("The workloads of its VDUs, by uid; sorted.")
    ] = None
    pod_uids: Annotated[
        list[str] | None, In("observed"), MaxBytes(0), Doc("The pods that are VDUs themselves, by uid; sorted.")
    ] = None
    observed_at: Annotated[datetime.datetime | None, In("observed"), Doc("When what is observed last changed.")] = None
    updated_at: Annotated[datetime.datetime | None, Doc("The later of the two times.")] = None
