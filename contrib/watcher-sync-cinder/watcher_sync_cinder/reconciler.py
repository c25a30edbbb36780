# SPDX-License-Identifier: Apache-2.0
"""Lists Cinder's API: services, pools, types, volumes and snapshots of all projects.

A volume that consumes no quota is left out. It is a temporary one of a migration or a backup, and Cinder publishes
nothing about it.

The scheduler lists no pool of a backend that is disabled or down, or that has not reported since the scheduler
started. Such a pool stays as the model has it.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec

from watcher_sync.exceptions import ReconcileError
from watcher_sync.extensions.openstack.cloud.listing import (
    CloudBadRequest,
    CloudClient,
    CloudRequestRefused,
    OpenStackReconciler,
    id_of,
    pages,
    resource,
)
from watcher_sync.handlers import sortable
from watcher_sync.model.kinds import Entity, kind_of
from watcher_sync.reconcile.listing import UnreadableEntry, read_entries
from watcher_sync_cinder.handler import attachment_fields, pool_fields
from watcher_sync_cinder.kinds import KINDS, StorageBackend, StoragePool, Volume, VolumeSnapshot, VolumeType

MICROVERSION: Final = "3.65"
"""The first one with ``consumes_quota``: Cinder 19 (Xena)."""

_SERVICE: Final = "block-storage"
_ALL: Final = {"all_tenants": "1"}
_UNKNOWN_FILTER: Final = "watcher_sync"
_NEEDED: Final = "to see all projects, the account needs the role admin"
_DECODER: Final = msgspec.json.Decoder(dict[str, Any])
_FIELDS: Final[Mapping[type[Entity], Sequence[str]]] = {
    cls: [name for name in cls.__struct_fields__ if name not in Entity.__struct_fields__] for cls in KINDS
}


class CinderReconciler(OpenStackReconciler):
    """Compares the model with Cinder's API. The account needs the role admin."""

    name: ClassVar[str] = "cinder"
    versions: ClassVar[Mapping[str, str]] = {_SERVICE: "3"}
    lists: ClassVar[Mapping[type[Entity], Sequence[str]]] = _FIELDS

    finds: ClassVar[Collection[type[Entity]]] = (VolumeType, Volume, VolumeSnapshot)

    def list_live(self, scope: str, deadline: float) -> Iterator[Entity | UnreadableEntry]:
        """List everything; what a later list refers to comes first."""
        client = self.client(deadline)
        self._sees_all = _sees_all(client)
        self._projects: set[str] = set()
        services = _listed(client, "/os-services", "services", {"binary": "cinder-volume"})
        yield from read_entries(StorageBackend, services, _backend, lambda one: one["host"])
        yield from self._pools(services, _listed(client, "/scheduler-stats/get_pools", "pools", {"detail": "true"}))
        for cls, (path, key, params, read) in _COLLECTIONS.items():
            found = pages(client, _SERVICE, path, key=f"{key}s", params=params, version=MICROVERSION)
            for entity in read_entries(cls, found, read, id_of):
                if isinstance(project := getattr(entity, "project_id", None), str):
                    self._projects.add(project)
                yield entity

    def find_live(self, scope: str, cls: type[Entity], entity_id: str, deadline: float) -> Entity | None:
        """Ask for one volume, snapshot or type. Cinder answers 404 for what the account may not see.

        :raises ReconcileError: it is unknown whether Cinder has it.
        """
        path, key, _, read = _COLLECTIONS[cls]
        path = path.removesuffix("/detail")
        found = resource(self.client(deadline), _SERVICE, path, entity_id, key=key, version=MICROVERSION)
        if found is not None:
            return read(found)
        known = self.context.view().get(kind_of(cls).name, entity_id)
        project = getattr(known, "project_id", None)
        if not self._sees_all and project and project not in self._projects and len(self._projects) < 2:
            raise ReconcileError(f"nothing of the project {project} is listed: {_NEEDED}")
        return None

    def _pools(self, services: Iterable[Any], pools: Iterable[Any]) -> Iterator[Entity | UnreadableEntry]:
        listed = list(read_entries(StoragePool, pools, _pool, lambda one: one["name"]))
        yield from listed
        ids = {one.id for one in listed}
        # The scheduler knows the services of a cluster by its name.
        hosts = {one.get("cluster") or one.get("host") for one in services if isinstance(one, dict)}
        hidden = {str(host) for host in hosts} - {str(pool_id).partition("#")[0] for pool_id in ids}
        for known in self.context.view().all("storage_pool"):
            if known.id not in ids and known.id.partition("#")[0] in hidden:
                unchanged: dict[str, Any] = dict.fromkeys(_FIELDS[StoragePool], msgspec.UNSET)
                yield StoragePool(id=known.id, **unchanged)


def _sees_all(client: CloudClient) -> bool:
    """Return whether the account surely sees all projects.

    Cinder ignores ``all_tenants`` of an account that is no administrator, and answers 200. An unknown filter is the
    difference: Cinder refuses it with 400, and an administrator gets an empty list.

    :raises CloudError: the account is no administrator, or Cinder cannot be asked.
    """
    try:
        return not _listed(client, "/volumes/detail", "volumes", {**_ALL, "limit": "1", _UNKNOWN_FILTER: "1"})
    except CloudBadRequest as exc:
        raise CloudRequestRefused(f"{exc}; {_NEEDED}") from None


def _listed(client: CloudClient, path: str, key: str, params: Mapping[str, str]) -> list[Any]:
    """Return a list without pages.

    :raises CloudError: it cannot be read.
    """
    found = client.read(_DECODER, _SERVICE, path, params=params, microversion=MICROVERSION).get(key)
    if not isinstance(found, list):
        raise ReconcileError(f"{_SERVICE} {path}: {key} is not a list")
    return found


def _backend(found: Mapping[str, Any]) -> StorageBackend:
    return StorageBackend(
        id=found["host"],
        status=found["status"],
        state=found["state"],
        disabled_reason=found["disabled_reason"],
        availability_zone=found["zone"],
    )


def _pool(pool: Mapping[str, Any]) -> StoragePool:
    pool_id, found = pool["name"], pool["capabilities"]
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
    """A capability; None for a text such as ``unknown``, ``infinite``, ``auto`` or ``inf``."""
    try:
        number = float(value)  # type: ignore[arg-type]  # drivers report texts, too
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _time(text: str) -> datetime.datetime:
    return sortable.utc(datetime.datetime.fromisoformat(text), "created_at")


def _type(found: Mapping[str, Any]) -> VolumeType:
    return VolumeType(
        id=found["id"], name=found["name"], is_public=found["is_public"], extra_specs=found["extra_specs"]
    )


def _volume(found: Mapping[str, Any]) -> Volume | None:
    if found["consumes_quota"] is False:
        return None
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


_COLLECTIONS: Final[
    Mapping[type[Entity], tuple[str, str, Mapping[str, str], Callable[[Mapping[str, Any]], Entity | None]]]
] = {
    VolumeType: ("/types", "volume_type", {"is_public": "None"}, _type),
    # A migration changes created_at, by which Cinder sorts.
    Volume: ("/volumes/detail", "volume", {**_ALL, "sort": "id:asc"}, _volume),
    VolumeSnapshot: ("/snapshots/detail", "snapshot", _ALL, _snapshot),
}
"""Class -> its collection, the name of one object in answers, parameters, and what makes the entity."""
