# SPDX-License-Identifier: Apache-2.0
"""Makes Watcher's ModelRoot of a compute model, as NovaModelBuilder makes it of Nova's and Placement's answers.

Watcher's model cannot say "unknown". A host without a uuid or a capacity, and a server without a size, are left out and
counted. A host whose state is unknown is down, so no strategy moves a server there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oslo_log import log
from watcher.decision_engine.model import element, model_root

from watcher_sync_watcher.request import Document
from watcher_sync_watcher.scope import Places

LOG = log.getLogger(__name__)

_HIDDEN_STATES = frozenset({"deleted", "soft-delete", "soft-deleted"})
"""States of servers that Nova's API does not list."""

_SIZES = ("vcpus", "memory_mb", "disk_gb")


def build(document: Document, scope: Sequence[dict[str, Any]]) -> model_root.ModelRoot:
    """The model of a document. Hosts and servers are added in the order of their ids.

    :param scope: an audit's scope. Aggregates and zones in it choose the hosts; if they choose none, all are taken.
    """
    model = model_root.ModelRoot()
    model.places = Places(document)
    wanted = model.places.hosts_of(next((part["compute"] for part in scope if part.get("compute")), ()))
    nodes: dict[str, tuple[element.ComputeNode, str]] = {}
    unknown = []
    for entry in sorted(document["compute_nodes"], key=lambda entry: entry["id"]):
        if entry["hypervisor_type"] == "ironic" or (wanted and entry["id"] not in wanted) or entry["gone"]:
            continue
        if entry["uuid"] is None or any(entry[name] is None for name in _SIZES):
            unknown.append(entry["id"])
            continue
        node = _node(entry)
        model.add_node(node)
        nodes[entry["id"]] = (node, entry["hypervisor_hostname"] or entry["id"])
    if unknown:
        LOG.warning("%d hosts without uuid or capacity are left out, among them %s", len(unknown), unknown[0])
    _add_instances(model, document, nodes)
    return model


def _add_instances(
    model: model_root.ModelRoot, document: Document, nodes: dict[str, tuple[element.ComputeNode, str]]
) -> None:
    extended = model.extended_attributes_enabled
    unknown = []
    for entry in document["instances"]:
        found = nodes.get(entry["host"])
        if found is None or entry["state"] in _HIDDEN_STATES:
            continue
        node, hypervisor = found
        if entry["created_at"] is None or any(entry[name] is None for name in _SIZES):
            unknown.append(entry["id"])
            continue
        instance = _instance(entry, hypervisor, extended=extended)
        model.add_instance(instance)
        model.map_instance(instance, node)
    if unknown:
        LOG.warning("%d servers without flavor are left out, among them %s", len(unknown), unknown[0])


def _node(entry: dict[str, Any]) -> element.ComputeNode:
    return element.ComputeNode(
        uuid=entry["uuid"],
        hostname=entry["id"],
        status=entry["status"] or element.ServiceState.ENABLED.value,
        disabled_reason=entry["disabled_reason"],
        state="up" if entry["state"] == "up" else "down",
        vcpus=entry["vcpus"],
        vcpu_reserved=entry["reserved_vcpus"] or 0,
        vcpu_ratio=_ratio(entry["vcpu_ratio"]),
        memory=entry["memory_mb"],
        memory_mb_reserved=entry["reserved_memory_mb"] or 0,
        memory_ratio=_ratio(entry["memory_ratio"]),
        disk=entry["disk_gb"],
        disk_gb_reserved=entry["reserved_disk_gb"] or 0,
        disk_ratio=_ratio(entry["disk_ratio"]),
    )


def _ratio(value: float | None) -> float:
    """NovaModelBuilder takes 1.0 where Placement has no inventory."""
    return 1.0 if value is None else value


def _instance(entry: dict[str, Any], hypervisor: str, *, extended: bool) -> element.Instance:
    return element.Instance(
        uuid=entry["id"],
        name=entry["name"] or "",
        state=entry["state"] or "",
        vcpus=entry["vcpus"],
        memory=entry["memory_mb"],
        disk=entry["disk_gb"],
        metadata=entry["metadata"] or {},
        project_id=entry["project_id"],
        locked=bool(entry["locked"]),
        created=entry["created_at"],
        host=entry["host"],
        hypervisor_hostname=entry["node"] or hypervisor,
        flavor_extra_specs=(entry["extra_specs"] or {}) if extended else {},
        pinned_az=(entry["pinned_zone"] or "") if extended else "",
    )
