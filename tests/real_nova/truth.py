# SPDX-License-Identifier: Apache-2.0
"""What Nova's and Placement's APIs answer, in the words of the model.

It is written apart from the reconciler, so that a field which the reconciler reads wrongly differs here. Fields that no
API shows are left out. They are the zone that a compute service reports, the time of the last event, and since when a
host is up or down.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Mapping
from typing import Any

from tests.real_nova.admin import HYPERVISOR_VERSION, Admin
from watcher_sync.testing.comparison import ModelDifference

Rows = dict[str, dict[str, Any]]
"""Id -> fields."""

KINDS = ("aggregate", "compute_node", "instance")

_POWER_STATES = {0: "pending", 1: "running", 3: "paused", 4: "shutdown", 6: "crashed", 7: "suspended"}
"""As Nova's notifications call what its API numbers."""

_CLASSES = {"vcpus": "VCPU", "memory_mb": "MEMORY_MB", "disk_gb": "DISK_GB"}
_RATIOS = {"vcpus": "vcpu_ratio", "memory_mb": "memory_ratio", "disk_gb": "disk_ratio"}


def read_truth(admin: Admin) -> dict[str, Rows]:
    """Kind -> id -> fields, as the APIs answer now."""
    aggregates = admin.get("nova", "/v2.1/os-aggregates")["aggregates"]
    return {
        "aggregate": {a["uuid"]: _aggregate(a) for a in aggregates},
        "compute_node": _compute_nodes(admin),
        "instance": _instances(admin),
    }


def differences(truth: Mapping[str, Rows], model: Mapping[str, Rows]) -> Iterator[ModelDifference]:
    """What the model has wrong: entities that it lacks or has without reason, and each field that the truth tells."""
    for kind in truth:
        for entity_id in sorted({*truth[kind], *model[kind]}):
            expected, found = truth[kind].get(entity_id), model[kind].get(entity_id)
            if expected is None or found is None:
                yield ModelDifference(kind, entity_id, None, expected, found)
                continue
            for field, value in expected.items():
                if found[field] != value:
                    yield ModelDifference(kind, entity_id, field, value, found[field])


def _aggregate(answer: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": answer["name"],
        "number": answer["id"],
        "metadata": answer["metadata"],
        "hosts": sorted(answer["hosts"]),
        "availability_zone": answer["availability_zone"],
    }


# Compute nodes


def _compute_nodes(admin: Admin) -> Rows:
    services = admin.get("nova", "/v2.1/os-services?binary=nova-compute")["services"]
    listed = admin.pages("nova", "/v2.1/os-hypervisors/detail", "hypervisors", HYPERVISOR_VERSION)
    hypervisors = {h["service"]["host"]: h for h in listed}
    return {service["host"]: _compute_node(admin, service, hypervisors.get(service["host"])) for service in services}


def _compute_node(admin: Admin, service: Mapping[str, Any], hypervisor: Mapping[str, Any] | None) -> dict[str, Any]:
    node: dict[str, Any] = {
        "status": service["status"],
        "disabled_reason": service["disabled_reason"],
        "forced_down": service["forced_down"],
        "state": service["state"],
        "availability_zone": service["zone"],
    }
    if hypervisor is None:
        return node | dict.fromkeys(("hypervisor_hostname", "hypervisor_type", "uuid", *_CLASSES, "inventories"))
    provider = f"/resource_providers/{hypervisor['id']}"
    inventories = admin.get("placement", f"{provider}/inventories")["inventories"]
    usages = admin.get("placement", f"{provider}/usages")["usages"]
    node |= {
        "hypervisor_hostname": hypervisor["hypervisor_hostname"],
        "hypervisor_type": hypervisor["hypervisor_type"],
        "uuid": hypervisor["id"],
        "inventories": {name: _inventory(inventories[name], usages.get(name, 0)) for name in inventories},
    }
    for field, name in _CLASSES.items():
        node[field] = inventories[name]["total"]
        node[f"reserved_{field}"] = inventories[name]["reserved"]
        node[_RATIOS[field]] = inventories[name]["allocation_ratio"]
    return node


def _inventory(inventory: Mapping[str, Any], used: int) -> dict[str, Any]:
    return {**inventory, "used": used}


# Instances


def _instances(admin: Admin) -> Rows:
    # The list hides soft-deleted servers unless it is asked for them.
    listed = admin.pages("nova", "/v2.1/servers/detail?all_tenants=true&soft_deleted=true", "servers")
    flavors = {f["name"]: f["id"] for f in admin.pages("nova", "/v2.1/flavors/detail?is_public=none", "flavors")}
    sources = {
        m["instance_uuid"]: m["source_compute"]
        for m in admin.pages("nova", "/v2.1/os-migrations?status=finished", "migrations")
    }
    return {server["id"]: _instance(server, flavors, sources) for server in listed}


def _instance(server: Mapping[str, Any], flavors: Mapping[str, str], sources: Mapping[str, str]) -> dict[str, Any]:
    state = server["OS-EXT-STS:vm_state"]
    flavor = server["flavor"]
    image = server["image"]["id"] if server["image"] else None
    swap = int(flavor["swap"] or 0)
    shown = {
        "name": server["name"],
        "host_name": server["OS-EXT-SRV-ATTR:hostname"],
        "project_id": server["tenant_id"],
        "user_id": server["user_id"],
        "host": server["OS-EXT-SRV-ATTR:host"] or None,
        "node": server["OS-EXT-SRV-ATTR:hypervisor_hostname"] or None,
        "source_host": sources.get(server["id"]) if state == "resized" else None,
        "state": {"soft-delete": "soft-deleted"}.get(state, state),
        "task_state": server["OS-EXT-STS:task_state"],
        "power_state": _POWER_STATES[server["OS-EXT-STS:power_state"]],
        "locked": server["locked"],
        "locked_reason": server["locked_reason"],
        "vcpus": flavor["vcpus"],
        "memory_mb": flavor["ram"],
        "disk_gb": (flavor["disk"] if image else 0) + flavor["ephemeral"] + math.ceil(swap / 1024),
        "root_gb": flavor["disk"],
        "ephemeral_gb": flavor["ephemeral"],
        "swap_mb": swap,
        "flavor_id": flavors[flavor["original_name"]],
        "flavor_name": flavor["original_name"],
        "extra_specs": flavor["extra_specs"],
        "image_id": image,
        "metadata": server["metadata"],
        "key_name": server["key_name"],
        "availability_zone": server["OS-EXT-AZ:availability_zone"] or None,
        "pinned_zone": server["pinned_availability_zone"],
        "ip_addresses": sorted(a["addr"] for network in server["addresses"].values() for a in network),
        "created_at": _time(server["created"]),
        "updated_at": _time(server["updated"]),
        "launched_at": _time(server["OS-SRV-USG:launched_at"]),
        "fault_message": server["fault"]["message"] if "fault" in server else None,
    }
    if state == "building":
        del shown["ip_addresses"]  # Nova hides them
    return shown


def _time(text: str | None) -> datetime.datetime | None:
    """Nova's times are UTC; some of them do not say so."""
    if text is None:
        return None
    return datetime.datetime.fromisoformat(text.removesuffix("Z")).replace(tzinfo=datetime.UTC)
