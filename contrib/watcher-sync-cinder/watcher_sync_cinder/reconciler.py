# SPDX-License-Identifier: Apache-2.0
"""Lists Cinder's API: services, pools, types, volumes and snapshots of all projects.

A volume or a snapshot that consumes no quota is left out. It is a temporary one of a migration or a backup, and Cinder
publishes nothing about it.

The scheduler lists no pool of a backend that is disabled or down. Such a pool stays as the model has it.
"""

from __future__ import annotations

import datetime
import functools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec
import openstack
from keystoneauth1 import exceptions, loading
from openstack.exceptions import SDKException
from oslo_config import cfg

from watcher_sync.exceptions import ConfigError, ReconcileError
from watcher_sync.handlers import sortable
from watcher_sync.model.kinds import Entity
from watcher_sync.reconcile.listing import ListingReconciler
from watcher_sync_cinder.handler import attachment_fields, pool_fields
from watcher_sync_cinder.kinds import StorageBackend, StoragePool, Volume, VolumeSnapshot, VolumeType

GROUP: Final = "reconciler_cinder"

MICROVERSION: Final = "3.65"
"""The first one with ``consumes_quota``: Cinder 19 (Xena)."""

_PAGE: Final = 1000
_FIELDS: Final[Mapping[type[Entity], Sequence[str]]] = {
    StorageBackend: ("status", "state", "disabled_reason", "availability_zone"),
    StoragePool: (
        "backend_id",
        "name",
        "total_capacity_gb",
        "free_capacity_gb",
        "provisioned_capacity_gb",
        "allocated_capacity_gb",
        "max_over_subscription_ratio",
        "reserved_percentage",
        "total_volumes",
        "volume_backend_name",
    ),
    VolumeType: ("name", "is_public", "extra_specs"),
    Volume: (
        "name",
        "status",
        "size_gb",
        "project_id",
        "user_id",
        "availability_zone",
        "volume_type_id",
        "snapshot_id",
        "created_at",
        "metadata",
        "pool_id",
        "instance_ids",
        "attachments",
        "bootable",
        "multiattach",
        "source_volume_id",
        "migration_status",
        "name_id",
    ),
    VolumeSnapshot: ("name", "status", "size_gb", "project_id", "volume_id", "created_at"),
}


class CinderReconciler(ListingReconciler):
    """Compares the model with Cinder's API. The account needs the role admin."""

    name: ClassVar[str] = "cinder"
    lists: ClassVar[Mapping[type[Entity], Sequence[str]]] = _FIELDS
    options: ClassVar[list[cfg.Opt]] = [
        cfg.StrOpt("cloud", help="The name of a cloud in ``clouds.yaml``; unset: ``auth_type`` and so on."),
        cfg.StrOpt("region_name", help="The region; unset: that of ``cloud``, or the first one in the catalogue."),
        cfg.StrOpt("interface", default="public", help="The interface of the endpoint; not used with ``cloud``."),
        *loading.get_session_conf_options(),
        *loading.get_auth_common_conf_options(),
        *loading.get_auth_plugin_conf_options("password"),
    ]

    def scopes(self) -> Sequence[str]:
        """One scope, if an account is configured."""
        options = self.conf[GROUP]
        if options.cloud and options.auth_type:
            raise ConfigError(f"[{GROUP}] cloud, auth_type: both are set; one of them names the account")
        return [self.name] if options.cloud or options.auth_type else []

    def list_live(self, scope: str, deadline: float) -> Iterator[Entity]:
        """List everything; what a later list refers to comes first."""
        try:
            services = self._get("/os-services?binary=cinder-volume", deadline)["services"]
            pools = self._get("/scheduler-stats/get_pools?detail=true", deadline)["pools"]
            types = self._pages("/types?is_public=None", "volume_types", deadline)
            volumes = self._pages("/volumes/detail?all_tenants=1", "volumes", deadline)
            snapshots = self._pages("/snapshots/detail?all_tenants=1", "snapshots", deadline)
            yield from map(_backend, services)
            yield from self._pools(services, pools)
            yield from map(_type, types)
            yield from (_volume(one) for one in volumes if one["consumes_quota"])
            yield from (_snapshot(one) for one in snapshots if one["consumes_quota"])
        except (KeyError, TypeError, AttributeError, ValueError) as exc:
            raise ReconcileError(f"Cinder's answer has not the expected form: {exc!r}") from exc

    def _pools(self, services: Iterable[Any], pools: Iterable[Any]) -> Iterator[StoragePool]:
        listed = {pool["name"]: pool["capabilities"] for pool in pools}
        yield from (_pool(name, found) for name, found in listed.items())
        hidden = {one["host"] for one in services if (one["status"], one["state"]) != ("enabled", "up")}
        for known in self.context.view().all("storage_pool"):
            if known.id not in listed and known.id.partition("#")[0] in hidden:
                unchanged: dict[str, Any] = dict.fromkeys(_FIELDS[StoragePool], msgspec.UNSET)
                yield StoragePool(id=known.id, **unchanged)

    def _pages(self, path: str, key: str, deadline: float) -> list[Any]:
        found: list[Any] = []
        page = self._get(f"{path}&limit={_PAGE}", deadline)
        while items := page[key]:
            found += items
            if f"{key}_links" not in page and len(items) < _PAGE:
                break
            page = self._get(f"{path}&limit={_PAGE}&marker={items[-1]['id']}", deadline)
        return found

    def _get(self, path: str, deadline: float) -> Any:
        """:raises ReconcileError: there is no answer, or it is an error. The message has no address."""
        seconds = deadline - time.monotonic()
        if seconds <= 0:
            raise ReconcileError("the listing of Cinder did not end in time")
        what = path.partition("?")[0]
        try:
            answer = self._client.get(path, microversion=MICROVERSION, timeout=seconds, raise_exc=False)
            if answer.status_code != 200:
                raise ReconcileError(f"Cinder answers GET {what} with {answer.status_code}")
            return answer.json()
        except (exceptions.ClientException, SDKException, ValueError) as exc:
            raise ReconcileError(f"Cinder does not answer GET {what}: {type(exc).__name__}") from exc

    @functools.cached_property
    def _client(self) -> Any:
        options = self.conf[GROUP]
        if options.cloud:
            return openstack.connect(cloud=options.cloud, region_name=options.region_name).block_storage
        auth = loading.load_auth_from_conf_options(self.conf, GROUP)
        session = loading.load_session_from_conf_options(self.conf, GROUP, auth=auth)
        connection = openstack.connection.Connection(
            session=session, region_name=options.region_name, interface=options.interface
        )
        return connection.block_storage


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
