# SPDX-License-Identifier: Apache-2.0
"""Lists Cinder's API: services, pools, types, volumes and snapshots of all projects.

A volume that consumes no quota is left out. It is a temporary one of a migration or a backup, and Cinder publishes
nothing about it.

The scheduler lists no pool of a backend that is disabled or down, or that has not reported since the scheduler
started. Such a pool stays as the model has it.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec

from watcher_sync.exceptions import ReconcileError
from watcher_sync.handlers import sortable
from watcher_sync.model.kinds import Entity
from watcher_sync.reconcile.openstack_listing import OpenStackReconciler, pages
from watcher_sync_cinder.handler import attachment_fields, pool_fields
from watcher_sync_cinder.kinds import KINDS, StorageBackend, StoragePool, Volume, VolumeSnapshot, VolumeType

MICROVERSION: Final = "3.65"
"""The first one with ``consumes_quota``: Cinder 19 (Xena)."""

_SERVICE: Final = "block-storage"
_ALL: Final = {"all_tenants": "1"}
_DECODER: Final = msgspec.json.Decoder(dict[str, Any])
_FIELDS: Final[Mapping[type[Entity], Sequence[str]]] = {
    cls: [name for name in cls.__struct_fields__ if name not in Entity.__struct_fields__] for cls in KINDS
}


class CinderReconciler(OpenStackReconciler):
    """Compares the model with Cinder's API. The account needs the role admin."""

    name: ClassVar[str] = "cinder"
    versions: ClassVar[Mapping[str, str]] = {_SERVICE: "3"}
    lists: ClassVar[Mapping[type[Entity], Sequence[str]]] = _FIELDS

    def list_live(self, scope: str, deadline: float) -> Iterator[Entity]:
        """List everything; what a later list refers to comes first."""
        client = self.client(deadline)

        def get(path: str, params: dict[str, str]) -> Any:
            return client.read(_DECODER, _SERVICE, path, params=params, microversion=MICROVERSION)

        def listed(path: str, key: str, params: Mapping[str, str]) -> Iterator[dict[str, Any]]:
            return pages(client, _SERVICE, path, key=key, params=params, version=MICROVERSION)

        try:
            services = get("/os-services", {"binary": "cinder-volume"})["services"]
            yield from map(_backend, services)
            yield from self._pools(services, get("/scheduler-stats/get_pools", {"detail": "true"})["pools"])
            yield from map(_type, listed("/types", "volume_types", {"is_public": "None"}))
            volumes = listed("/volumes/detail", "volumes", {**_ALL, "sort": "id:asc"})  # a migration changes created_at
            yield from (_volume(one) for one in volumes if one["consumes_quota"])
            yield from map(_snapshot, listed("/snapshots/detail", "snapshots", _ALL))
        except (KeyError, TypeError, AttributeError, ValueError) as exc:
            raise ReconcileError(f"Cinder's answer has not the expected form: {exc!r}") from exc

    def _pools(self, services: Iterable[Any], pools: Iterable[Any]) -> Iterator[StoragePool]:
        listed = {pool["name"]: pool["capabilities"] for pool in pools}
        yield from (_pool(name, found) for name, found in listed.items())
        # The scheduler knows the services of a cluster by its name.
        hidden = {one["cluster"] or one["host"] for one in services} - {name.partition("#")[0] for name in listed}
        for known in self.context.view().all("storage_pool"):
            if known.id not in listed and known.id.partition("#")[0] in hidden:
                unchanged: dict[str, Any] = dict.fromkeys(_FIELDS[StoragePool], msgspec.UNSET)
                yield StoragePool(id=known.id, **unchanged)


def _backend(found: Mapping[str, Any]) -> StorageBackend:
    return StorageBackend(
        id=found["host"],
        status=found["status"],
        state=found["state"],
        disabled_reason=found["disabled_reason"],
        availability_zone=found["zone"],
    )


def _pool(pool_id: str, found: Mapping[str, Any]) -> StoragePool:
    reserved, volumes = _number(found.get("reserved_percentage")), _number(found.get("total_volumes"))
    return StoragePool(
        id=pool_id,
        **pool_fields(pool_id),
        total_capacity_gb=_number(found.get("total_capacity_gb")),
        free_capacity_gb=_number(found.get("free_capacity_gb")),
        provisioned_capacity_gb=_number(found.get("provisioned_capacity_gb")),
        allocated_capacity_gb=_number(found.get("allocated_capacity_gb")),
        max_over_subscription_ratio=_number(found.get("max_over_subscription_ratio")),
        reserved_percentage=None if reserved is None else int(reserved),
        total_volumes=None if volumes is None else int(volumes),
        volume_backend_name=found.get("volume_backend_name"),
    )


def _number(value: object) -> float | None:
    """A capability; None for a text such as ``unknown``, ``infinite`` or ``auto``."""
    try:
        return float(value)  # type: ignore[arg-type]  # drivers report texts, too
    except (TypeError, ValueError):
        return None


def _time(text: str) -> datetime.datetime:
    return sortable.utc(datetime.datetime.fromisoformat(text), "created_at")


def _type(found: Mapping[str, Any]) -> VolumeType:
    return VolumeType(
        id=found["id"], name=found["name"], is_public=found["is_public"], extra_specs=found["extra_specs"]
    )


def _volume(found: Mapping[str, Any]) -> Volume:
    attached = ((one["attachment_id"], one["server_id"]) for one in found["attachments"])
    return Volume(
        id=found["id"],
        name=found["name"],
        status=found["status"],
        size_gb=found["size"],
        project_id=found["os-vol-tenant-attr:tenant_id"],
        user_id=found["user_id"],
        availability_zone=found["availability_zone"],
        volume_type_id=found["volume_type_id"],
        snapshot_id=found["snapshot_id"],
        created_at=_time(found["created_at"]),
        metadata=found["metadata"],
        pool_id=found["os-vol-host-attr:host"] or None,
        **attachment_fields(attached),
        bootable=found["bootable"] == "true",
        multiattach=found["multiattach"],
        source_volume_id=found["source_volid"],
        migration_status=found["migration_status"],
        name_id=found["os-vol-mig-status-attr:name_id"],
    )


def _snapshot(found: Mapping[str, Any]) -> VolumeSnapshot:
    return VolumeSnapshot(
        id=found["id"],
        name=found["name"],
        status=found["status"],
        size_gb=found["size"],
        project_id=found["os-extended-snapshot-attributes:project_id"],
        volume_id=found["volume_id"],
        created_at=_time(found["created_at"]),
    )
