# SPDX-License-Identifier: Apache-2.0
"""Cinder's notifications become changes of volumes, snapshots, types, pools and backends.

A payload is the object that the sender has in memory, not the row of the database. ``_COPIED`` names what an event has
only copied. A copy is written only over older copies. So the first event of a volume brings all of it.

The order is that of the envelopes' times: payloads have no time of the change. Pure functions, for any thread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final

import msgspec
from msgspec import UNSET

from watcher_sync.events import OSLO, Event
from watcher_sync.exceptions import InvalidEvent
from watcher_sync.handlers import sortable
from watcher_sync.handlers.base import Handler
from watcher_sync.model.changes import Change, Delete, Doubtful, Upsert, Version
from watcher_sync.model.view import View
from watcher_sync_cinder.payloads import (
    ATTACHED,
    CapacityReport,
    GroupUsage,
    SchedulerFailure,
    SnapshotUsage,
    SpecsReport,
    TypeFields,
    TypeReport,
    VolumeUsage,
)

Facets = dict[str, dict[str, Any]]

_DELETED: Final = "deleted"
"""The status of what its publisher has just removed."""

_DELETING: Final = "deleting"
"""The status of what its publisher is about to remove."""

_COPIED: Final[Mapping[str, Collection[str]]] = {
    "update.start": ("name", "state"),
    "update.end": ("state", "metadata"),
    "reset_status.start": ("name", "state"),
}
"""End of an event type -> the facets that it does not report; its sender read them before another one changed them."""
_COPIED_ELSEWHERE: Final = ("name",)
"""What all others do not report: the API alone changes names."""

_BIRTHS: Final = ("volume.create.", "volume.manage_existing.")
"""How the event types begin that bring new volumes."""

_STATUS: Final = {
    ("volume.transfer.create.end", "available"): "awaiting-transfer",
    ("volume.transfer.delete.end", "awaiting-transfer"): "available",
    ("volume.revert.end", "reverting"): "error",
    ("snapshot.revert.end", "restoring"): "available",
}
"""Event type and status in its payload -> what Cinder has written, or is about to write."""

_COPY, _REPORTED = "1", "2"
"""Ranks of versions."""


class CinderHandler(Handler):
    """The handler of ``cinder``."""

    events: ClassVar[Mapping[str, str | None]] = {
        "volume.*": "on_volume",
        "volume.exists": None,  # an audit of the past
        "snapshot.*": "on_snapshot",
        "snapshot.exists": None,
        "group.delete.end": "on_group_deleted",
        "consistencygroup.delete.end": "on_group_deleted",
        "group_snapshot.delete.end": "on_group_snapshot_deleted",
        "cgsnapshot.delete.end": "on_group_snapshot_deleted",
        "scheduler.*": "on_scheduler_failure",
        "volume_type.*": "on_type",
        "volume_type_extra_specs.*": "on_extra_specs",
        "capacity.pool": "on_pool",
        "capacity.backend": "on_backend",
    }
    drivers: ClassVar[Collection[str]] = ("oslo_messaging", "rabbitmq", "rabbitmq_stream")
    envelopes: ClassVar[Collection[str]] = (OSLO,)

    def on_volume(self, event: Event, view: View) -> Iterator[Change]:
        """All that the payload has of a volume, or its end."""
        usage = event.read(VolumeUsage)
        if usage.audit_period_beginning is not None:
            return
        if usage.status == _DELETED:
            yield Delete("volume", usage.volume_id, _version(event))
            return
        facets: Facets = {
            "name": {"name": usage.display_name},
            "state": {"status": _STATUS.get((event.type, usage.status), usage.status)},
            "details": {
                "size_gb": usage.size,
                "project_id": usage.tenant_id,
                "user_id": usage.user_id,
                "availability_zone": usage.availability_zone,
                "volume_type_id": usage.volume_type,
                "snapshot_id": usage.snapshot_id,
                "created_at": sortable.utc(usage.created_at, "created_at"),
            },
            "placement": {"pool_id": usage.host or None},
        }
        if usage.metadata is not UNSET:
            facets["metadata"] = {"metadata": {pair.key: pair.value for pair in usage.metadata or ()}}
        if usage.volume_attachment is not UNSET:
            facets["attachments"] = attachment_fields(
                (one.id, one.instance_uuid) for one in usage.volume_attachment if one.attach_status == ATTACHED
            )
        yield _upsert(event, "volume", usage.volume_id, facets)
        if not event.type.startswith(_BIRTHS) and view.get("volume", usage.volume_id) is None:
            yield Doubtful("volume", usage.volume_id)  # its creation was lost, or it is the target of a migration

    def on_snapshot(self, event: Event, view: View) -> Iterator[Change]:
        """All that the payload has of a snapshot, or its end."""
        usage = event.read(SnapshotUsage)
        if usage.audit_period_beginning is not None:
            return
        if usage.status == _DELETED:
            yield Delete("volume_snapshot", usage.snapshot_id, _version(event))
            return
        facets: Facets = {
            "name": {"name": usage.display_name},
            "state": {"status": _STATUS.get((event.type, usage.status), usage.status)},
            "details": {
                "size_gb": usage.volume_size,
                "project_id": usage.tenant_id,
                "volume_id": usage.volume_id,
                "created_at": sortable.utc(usage.created_at, "created_at"),
            },
        }
        yield _upsert(event, "volume_snapshot", usage.snapshot_id, facets)

    def on_group_deleted(self, event: Event, view: View) -> Iterator[Change]:
        """Its volumes are gone, without an event. The payload does not name them, and theirs do not name a group."""
        return _being_deleted("volume", event, view)

    def on_group_snapshot_deleted(self, event: Event, view: View) -> Iterator[Change]:
        """The same for its snapshots."""
        return _being_deleted("volume_snapshot", event, view)

    def on_scheduler_failure(self, event: Event, view: View) -> Iterator[Change]:
        """The status that the scheduler wrote because it found no pool; the rest of the volume needs a comparison."""
        failure = event.read(SchedulerFailure)
        entity_id = failure.snapshot_id if failure.volume_id is None else failure.volume_id
        if entity_id is None:
            return
        kind = "volume_snapshot" if failure.volume_id is None else "volume"
        status = failure.state.get("status") if isinstance(failure.state, dict) else failure.state
        if isinstance(status, str):
            facets: Facets = {"state": {"status": status}}
            asked = failure.request_spec.volume if failure.request_spec is not None else None
            if event.type == "scheduler.create_volume" and asked is not None:
                facets["placement"] = {"pool_id": None}
                facets["name"] = {"name": asked.display_name}
                facets["metadata"] = {"metadata": asked.metadata}
                facets["attachments"] = attachment_fields(())
                facets["details"] = {
                    "size_gb": asked.size,
                    "project_id": asked.project_id,
                    "user_id": asked.user_id,
                    "availability_zone": asked.availability_zone,
                    "volume_type_id": asked.volume_type_id,
                    "snapshot_id": asked.snapshot_id,
                    "created_at": sortable.utc(asked.created_at, "request_spec.volume.created_at"),
                }
            yield _upsert(event, kind, entity_id, facets)
        yield Doubtful(kind, entity_id)

    def on_type(self, event: Event, view: View) -> Iterator[Change]:
        """A type, or its end. The same event type with an error reports a request that changed nothing."""
        report = event.read(TypeReport)
        if report.error_message is not None:
            return
        found = msgspec.structs.replace(event, data=report.volume_types).read(TypeFields)
        if event.type == "volume_type.delete":
            yield Delete("volume_type", found.id, _version(event))
            return
        facets: Facets = {
            "type": {"name": found.name, "is_public": found.is_public},
            "specs": {"extra_specs": found.extra_specs or {}},
        }
        yield _upsert(event, "volume_type", found.id, facets)

    def on_extra_specs(self, event: Event, view: View) -> Iterator[Change]:
        """The payload has no value of a changed key, so the type needs a comparison."""
        yield Doubtful("volume_type", event.read(SpecsReport).type_id)

    def on_pool(self, event: Event, view: View) -> Iterator[Change]:
        """The capacity of a pool."""
        report = event.read(CapacityReport)
        facets: Facets = {
            "capacity": {
                "total_capacity_gb": report.total,
                "free_capacity_gb": report.free,
                "provisioned_capacity_gb": report.provisioned,
                "allocated_capacity_gb": report.allocated,
            },
        }
        if view.get("storage_pool", report.name_to_id) is None:
            facets["pool"] = pool_fields(report.name_to_id)
        yield _upsert(event, "storage_pool", report.name_to_id, facets)

    def on_backend(self, event: Event, view: View) -> Iterator[Change]:
        """A backend exists. Its sums follow from its pools, and its service is known to the API only."""
        backend_id = event.read(CapacityReport).name_to_id
        if view.get("storage_backend", backend_id) is None:
            yield _upsert(event, "storage_backend", backend_id, {"service": {}})


def _being_deleted(kind: str, event: Event, view: View) -> Iterator[Change]:
    """What the project of a group deletes needs a comparison: the start of each deletion has an event, in any case."""
    for each in view.by(kind, "project_id", event.read(GroupUsage).tenant_id):
        if getattr(each, "status", None) == _DELETING:
            yield Doubtful(kind, each.id)


def attachment_fields(attachments: Iterable[tuple[str, str | None]]) -> dict[str, Any]:
    """The facet ``attachments`` of a volume.

    :param attachments: (id of the attachment, id of the server) of those that are attached.
    """
    found = sorted(attachments)
    return {
        "attachments": [{"attachment_id": number, "instance_id": instance_id} for number, instance_id in found],
        "instance_ids": sorted({instance_id for _, instance_id in found if instance_id}),
    }


def pool_fields(pool_id: str) -> dict[str, Any]:
    """The facet ``pool`` of a pool, which follows from its id."""
    backend_id, _, name = pool_id.partition("#")
    return {"backend_id": backend_id, "name": name or None}


def _upsert(event: Event, kind: str, entity_id: str, facets: Facets) -> Upsert:
    copied = _COPIED.get(event.type.partition(".")[2], _COPIED_ELSEWHERE)
    versions = {facet: _version(event, _COPY if facet in copied else _REPORTED) for facet in facets}
    return Upsert(kind, entity_id, max(versions.values()), facets, versions)


def _version(event: Event, rank: str = _REPORTED) -> Version:
    """The time by the publisher's clock, and the message id as the tie-break."""
    if event.time is None:
        raise InvalidEvent("timestamp: it is missing")
    return Version(f"{rank}{sortable.digits(event.time, 'timestamp')}.{sortable.name(event.id)}")
