# SPDX-License-Identifier: Apache-2.0
"""Makes Watcher's StorageModelRoot of Cinder's kinds, as CinderModelBuilder makes it of Cinder's answers.

CinderModelBuilder fails if the capacity of one pool is unknown, or one volume has no host. Here such a pool is left out
and counted, and such a volume is in no pool. So one backend without figures does not end all audits.
"""

from __future__ import annotations

import datetime
from typing import Any

from oslo_log import log
from watcher.decision_engine.model import element, model_root

from watcher_sync_watcher.request import Document
from watcher_sync_watcher.scope import Backends

LOG = log.getLogger(__name__)

_CAPACITIES = ("total_capacity_gb", "free_capacity_gb", "provisioned_capacity_gb", "allocated_capacity_gb")
_NEEDED = ("size_gb", "status", "project_id", "created_at")


def build(document: Document) -> model_root.StorageModelRoot:
    """The model of a document. Volumes are added in the order in which Cinder lists them: the newest first."""
    model = model_root.StorageModelRoot()
    model.places = Backends(document)
    for entry in document["storage_backends"]:
        model.add_node(_node(entry, model.places))
    backends, pools = model.get_all_storage_nodes(), {}
    unknown = []
    for entry in document["storage_pools"]:
        node = backends.get(entry["id"].split("#")[0])
        if node is not None and (node.state, node.status) != ("up", "enabled"):
            continue  # Cinder's scheduler does not list it
        if any(entry[name] is None for name in _CAPACITIES):
            unknown.append(entry["id"])
            continue
        pools[entry["id"]] = pool = _pool(entry)
        model.add_pool(pool)
        if node is not None:
            model.map_pool(pool, node)
    if unknown:
        LOG.warning("%d pools of unknown capacity are left out, among them %s", len(unknown), unknown[0])
    _add_volumes(model, document, pools)
    return model


def _add_volumes(model: model_root.StorageModelRoot, document: Document, pools: dict[str, element.Pool]) -> None:
    types: dict[str | None, str | None] = {entry["id"]: entry["name"] for entry in document["volume_types"]}
    types[None] = ""
    unknown = [
        entry["id"]
        for entry in document["volumes"]
        if any(entry[name] is None for name in _NEEDED) or types.get(entry["volume_type_id"]) is None
    ]
    if unknown:
        LOG.warning("%d volumes of unknown size or type are left out, among them %s", len(unknown), unknown[0])
    known = (entry for entry in document["volumes"] if entry["id"] not in set(unknown))
    for entry in sorted(known, key=lambda entry: (entry["created_at"], entry["id"]), reverse=True):
        volume = _volume(entry, types[entry["volume_type_id"]])
        model.add_volume(volume)
        if (pool := pools.get(entry["pool_id"])) is not None:
            model.map_volume(volume, pool)


def _node(entry: dict[str, Any], backends: Backends) -> element.StorageNode:
    return element.StorageNode(
        host=entry["id"],
        zone=entry["availability_zone"] or "",
        state="up" if entry["state"] == "up" else "down",
        status=entry["status"] or element.ServiceState.ENABLED.value,
        volume_type=backends.get_volume_type_by_backendname(entry["id"].partition("@")[2]),
    )


def _pool(entry: dict[str, Any]) -> element.Pool:
    return element.Pool(
        name=entry["id"],
        total_volumes=entry["total_volumes"] or 0,
        **{name: int(entry[name]) for name in _CAPACITIES},
    )


def _volume(entry: dict[str, Any], type_name: str | None) -> element.Volume:
    return element.Volume(
        uuid=entry["id"],
        size=entry["size_gb"],
        status=entry["status"],
        attachments=[
            {"attachment_id": attachment["attachment_id"], "server_id": attachment["instance_id"]}
            for attachment in entry["attachments"] or ()
        ],
        name=entry["name"] or "",
        multiattach=bool(entry["multiattach"]),
        snapshot_id=entry["snapshot_id"] or "",
        project_id=entry["project_id"],
        metadata=entry["metadata"] or {},
        bootable=str(bool(entry["bootable"])).lower(),  # Watcher's field takes every text for true
        volume_type=type_name,
        created_at=datetime.datetime.fromisoformat(entry["created_at"]).strftime("%Y-%m-%dT%H:%M:%S.%f"),
        host=entry["pool_id"] or "",
    )
