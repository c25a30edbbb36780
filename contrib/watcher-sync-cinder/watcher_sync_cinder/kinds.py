# SPDX-License-Identifier: Apache-2.0
"""The kinds of Cinder.

Each facet has one kind of writer. ``inventory`` and ``report`` are facets that no notification brings: the reconciler
alone writes them.
"""

from __future__ import annotations

import datetime
from typing import Annotated, Any

from watcher_sync.model.kinds import (
    AdminOnly,
    Count,
    Doc,
    Entity,
    Id,
    In,
    LongText,
    Reference,
    Text,
    Vocabulary,
    kind,
)

_ADMIN_STATES = Vocabulary(("enabled", "disabled"))
_SERVICE_STATES = Vocabulary(("up", "down"))
_VOLUME_STATUSES = Vocabulary(
    (
        "attaching", "available", "awaiting-transfer", "backing-up", "creating", "deleted", "deleting", "detaching",
        "downloading", "error", "error_backing-up", "error_deleting", "error_extending", "error_managing",
        "error_managing_deleting", "error_restoring", "error_unmanaging", "extending", "in-use", "maintenance",
        "managing", "reserved", "restoring-backup", "retyping", "reverting", "unmanaging", "uploading",
    )
)  # fmt: skip
_SNAPSHOT_STATUSES = Vocabulary(
    (
        "available", "backing-up", "creating", "deleted", "deleting", "error", "error_deleting", "error_managing",
        "managing", "restoring", "unmanaging", "updating",
    )
)  # fmt: skip


@kind("storage_backend", plural="storage_backends", anchor="service", ids_reused=True, filter_indexes=("state",))
class StorageBackend(Entity, frozen=True, kw_only=True, gc=False):
    """A backend of ``cinder-volume``. Id: the host of its service, ``host@backend``."""

    status: Annotated[Text | None, In("service"), _ADMIN_STATES, Doc("``enabled`` or ``disabled``.")] = None
    state: Annotated[Text | None, In("service"), _SERVICE_STATES, Doc("``up`` or ``down``.")] = None
    disabled_reason: Annotated[LongText | None, In("service"), Doc("Why an operator disabled it.")] = None
    availability_zone: Annotated[Text | None, In("service"), Doc("The zone of its volumes.")] = None


@kind(
    "storage_pool",
    plural="storage_pools",
    anchor="pool",
    ids_reused=True,
    indexes=("backend_id",),
    references=(Reference("backend_id", "storage_backend", "runs_on"),),
)
class StoragePool(Entity, frozen=True, kw_only=True, gc=False):
    """A pool of a backend. Id: ``host@backend#pool``. Capacities that Cinder calls unknown or infinite are None."""

    backend_id: Annotated[Id | None, In("pool"), Doc("Its backend.")] = None
    name: Annotated[Text | None, In("pool"), Doc("The pool in the backend.")] = None
    total_capacity_gb: Annotated[float | None, In("capacity"), Doc("What it has, GiB.")] = None
    free_capacity_gb: Annotated[float | None, In("capacity"), Doc("What is free, GiB.")] = None
    provisioned_capacity_gb: Annotated[
        float | None, In("capacity"), Doc("The size of all volumes, those of others included, GiB.")
    ] = None
    allocated_capacity_gb: Annotated[float | None, In("capacity"), Doc("The size of Cinder's volumes, GiB.")] = None
    max_over_subscription_ratio: Annotated[
        float | None, In("report"), Doc("Provisioned capacity per physical one; None where Cinder computes it.")
    ] = None
    reserved_percentage: Annotated[Count | None, In("report"), Doc("What the scheduler leaves free, %.")] = None
    total_volumes: Annotated[Count | None, In("report"), Doc("Its volumes, if the driver counts them.")] = None
    volume_backend_name: Annotated[Text | None, In("report"), Doc("The name that volume types ask for.")] = None


@kind("volume_type", plural="volume_types", anchor="type", filter_indexes=("name",))
class VolumeType(Entity, frozen=True, kw_only=True, gc=False):
    """A type of volumes. Id: its uuid."""

    name: Annotated[Text | None, In("type"), Doc("Name of the type.")] = None
    is_public: Annotated[bool | None, In("type"), Doc("Whether every project may use it.")] = None
    extra_specs: Annotated[dict[str, Any] | None, In("specs"), AdminOnly(), Doc("What the scheduler asks for.")] = None


@kind(
    "volume",
    plural="volumes",
    indexes=("instance_ids", "pool_id", "project_id", "volume_type_id"),
    filter_indexes=("status",),
    references=(
        Reference("instance_ids", "instance", "attached_to", lists_dependents=True),
        Reference("pool_id", "storage_pool", "runs_on"),
        Reference("volume_type_id", "volume_type", "provided_by"),
    ),
)
class Volume(Entity, frozen=True, kw_only=True, gc=False):
    """A volume. Id: its uuid. The temporary volumes of migrations and backups are not in the model."""

    name: Annotated[Text | None, In("name"), Doc("Name of the volume.")] = None
    status: Annotated[Text | None, In("state"), _VOLUME_STATUSES, Doc("Cinder's status, such as ``available``.")] = None
    size_gb: Annotated[Count | None, In("details"), Doc("Its size, GiB.")] = None
    project_id: Annotated[Text | None, In("details"), Doc("The project that it belongs to.")] = None
    user_id: Annotated[Text | None, In("details"), Doc("The user who created it.")] = None
    availability_zone: Annotated[Text | None, In("details"), Doc("Its zone.")] = None
    volume_type_id: Annotated[Id | None, In("details"), Doc("Its type.")] = None
    snapshot_id: Annotated[Id | None, In("details"), Doc("The snapshot that it was made of.")] = None
    created_at: Annotated[datetime.datetime | None, In("details"), Doc("When it was created.")] = None
    metadata: Annotated[dict[str, Any] | None, In("metadata"), Doc("Its key-value pairs.")] = None
    pool_id: Annotated[Id | None, In("placement"), AdminOnly(), Doc("The pool with its data; None: in none.")] = None
    instance_ids: Annotated[list[str] | None, In("attachments"), Doc("The servers that have it, sorted.")] = None
    attachments: Annotated[
        list[Any] | None, In("attachments"), Doc("Its attachments: attachment_id and instance_id, sorted.")
    ] = None
    bootable: Annotated[bool | None, In("inventory"), Doc("Whether a server can boot from it.")] = None
    multiattach: Annotated[bool | None, In("inventory"), Doc("Whether several servers may have it.")] = None
    source_volume_id: Annotated[Id | None, In("inventory"), Doc("The volume that it was made of.")] = None
    migration_status: Annotated[Text | None, In("inventory"), AdminOnly(), Doc("Of its last migration.")] = None
    name_id: Annotated[
        Id | None, In("inventory"), AdminOnly(), Doc("The id that the backend knows it by, if it is another one.")
    ] = None


@kind(
    "volume_snapshot",
    plural="volume_snapshots",
    indexes=("project_id", "volume_id"),
    filter_indexes=("status",),
    references=(Reference("volume_id", "volume", "owned_by"),),
)
class VolumeSnapshot(Entity, frozen=True, kw_only=True, gc=False):
    """A snapshot of a volume. Id: its uuid."""

    name: Annotated[Text | None, In("name"), Doc("Name of the snapshot.")] = None
    status: Annotated[Text | None, In("state"), _SNAPSHOT_STATUSES, Doc("Cinder's status, such as ``available``.")] = (
        None
    )
    size_gb: Annotated[Count | None, In("details"), Doc("The size of its volume, GiB.")] = None
    project_id: Annotated[Text | None, In("details"), Doc("The project that it belongs to.")] = None
    volume_id: Annotated[Id | None, In("details"), Doc("Its volume.")] = None
    created_at: Annotated[datetime.datetime | None, In("details"), Doc("When it was created.")] = None


KINDS = (StorageBackend, StoragePool, VolumeType, Volume, VolumeSnapshot)
"""All kinds, those first that others refer to."""
