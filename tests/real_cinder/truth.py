# SPDX-License-Identifier: Apache-2.0
"""What Cinder's API answers, in the words of the model. It is written apart from the reconciler."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from watcher_sync_cinder.kinds import KINDS as CLASSES

from tests.real_cinder.admin import CinderAdmin
from tests.real_nova.truth import Rows

KINDS = ("storage_backend", "storage_pool", "volume_type", "volume", "volume_snapshot")
assert len(KINDS) == len(CLASSES)


def read_truth(admin: CinderAdmin, before: Mapping[str, Rows]) -> dict[str, Rows]:
    """Kind -> id -> fields, as the API answers now.

    :param before: the previous answer; it has the pools of backends that are now disabled or down.
    """
    services = admin.get("cinder", "/v3/os-services?binary=cinder-volume")["services"]
    working = {one["host"] for one in services if one["state"] == "up" and one["status"] == "enabled"}
    pools = {one["name"]: _pool(one) for one in admin.pools_of_scheduler()}
    earlier = before.get("storage_pool", {})
    hidden = {name: row for name, row in earlier.items() if row["backend_id"] not in working}
    return {
        "storage_backend": {one["host"]: _backend(one) for one in services},
        "storage_pool": hidden | pools,
        "volume_type": {
            one["id"]: {name: one[name] for name in ("name", "is_public", "extra_specs")}
            for one in admin.get("cinder", "/v3/types?is_public=None")["volume_types"]
        },
        "volume": {
            one["id"]: _volume(one)
            for one in admin.get("cinder", "/v3/volumes/detail?all_tenants=1")["volumes"]
            if one["migration_status"] != "deleting" and "target:" not in (one["migration_status"] or "")
        },
        "volume_snapshot": {
            one["id"]: _snapshot(one) for one in admin.get("cinder", "/v3/snapshots/detail?all_tenants=1")["snapshots"]
        },
    }


def _backend(answer: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "status": answer["status"],
        "state": answer["state"],
        "disabled_reason": answer["disabled_reason"],
        "availability_zone": answer["zone"],
    }


def _pool(answer: Mapping[str, Any]) -> dict[str, Any]:
    told = answer["capabilities"]
    capacities = ("total_capacity_gb", "free_capacity_gb", "provisioned_capacity_gb", "allocated_capacity_gb")
    return {
        "backend_id": answer["name"].split("#")[0],
        "name": told["pool_name"],
        **{name: None if told[name] in ("unknown", "infinite") else told[name] for name in capacities},
        "max_over_subscription_ratio": float(told["max_over_subscription_ratio"]),
        "reserved_percentage": told["reserved_percentage"],
        "total_volumes": told.get("total_volumes"),
        "volume_backend_name": told["volume_backend_name"],
    }


def _volume(answer: Mapping[str, Any]) -> dict[str, Any]:
    attached = sorted(answer["attachments"], key=lambda one: one["attachment_id"])
    return {
        "name": answer["name"],
        "status": answer["status"],
        "size_gb": answer["size"],
        "project_id": answer["os-vol-tenant-attr:tenant_id"],
        "user_id": answer["user_id"],
        "availability_zone": answer["availability_zone"],
        "volume_type_id": answer["volume_type_id"],
        "snapshot_id": answer["snapshot_id"],
        "created_at": time_of(answer["created_at"]),
        "metadata": answer["metadata"],
        "pool_id": answer["os-vol-host-attr:host"],
        "instance_ids": sorted(one["server_id"] for one in attached),
        "attachments": [{"attachment_id": one["attachment_id"], "instance_id": one["server_id"]} for one in attached],
        "bootable": answer["bootable"] == "true",
        "multiattach": answer["multiattach"],
        "source_volume_id": answer["source_volid"],
        "migration_status": answer["os-vol-mig-status-attr:migstat"],
        "name_id": answer["os-vol-mig-status-attr:name_id"],
    }


def _snapshot(answer: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": answer["name"],
        "status": answer["status"],
        "size_gb": answer["size"],
        "project_id": answer["os-extended-snapshot-attributes:project_id"],
        "volume_id": answer["volume_id"],
        "created_at": time_of(answer["created_at"]),
    }


def time_of(text: str) -> datetime.datetime:
    """A time of the API."""
    return datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC)
