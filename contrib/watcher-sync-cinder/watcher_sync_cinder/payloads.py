# SPDX-License-Identifier: Apache-2.0
"""The fields of Cinder's payloads that are used; others may come and go. Each one is unversioned."""

from __future__ import annotations

import datetime
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

ATTACHED = "attached"
"""The ``attach_status`` of the attachments that the API lists."""


class Pair(msgspec.Struct):
    """One entry of the metadata."""

    key: str
    value: str | None


class Attachment(msgspec.Struct):
    """An attachment, reserved ones included."""

    id: str
    attach_status: str | None = None
    instance_uuid: str | None = None


class VolumeUsage(msgspec.Struct):
    """The payload of ``volume.*``."""

    volume_id: str
    status: str
    tenant_id: str | None
    display_name: str | None
    size: int
    user_id: str | None
    created_at: datetime.datetime
    host: str | None
    volume_type: str | None
    availability_zone: str | None = None
    snapshot_id: str | None = None
    metadata: list[Pair] | UnsetType | None = UNSET
    volume_attachment: list[Attachment] | UnsetType = UNSET
    """Absent if the database did not have the volume any more."""
    audit_period_beginning: Any = None
    """Set by ``cinder-volume-usage-audit`` alone."""


class SnapshotUsage(msgspec.Struct):
    """The payload of ``snapshot.*``. ``metadata`` is a Python literal, and not used."""

    snapshot_id: str
    volume_id: str
    status: str
    tenant_id: str | None
    display_name: str | None
    volume_size: int
    created_at: datetime.datetime
    deleted: str = ""
    audit_period_beginning: Any = None


class GroupUsage(msgspec.Struct):
    """The payload of ``group.*``, ``group_snapshot.*`` and their older forms."""

    tenant_id: str


class RequestedVolume(msgspec.Struct):
    """The volume in the request that the scheduler failed to serve."""

    display_name: str | None
    size: int
    project_id: str | None
    user_id: str | None
    created_at: datetime.datetime
    volume_type_id: str | None
    availability_zone: str | None = None
    snapshot_id: str | None = None
    metadata: dict[str, str | None] = {}


class Request(msgspec.Struct):
    """The request; the volume is not in each one."""

    volume: RequestedVolume | None = None


class SchedulerFailure(msgspec.Struct):
    """The payload of ``scheduler.*``."""

    volume_id: str | None = None
    snapshot_id: str | None = None
    state: Any = None
    request_spec: Request | None = None


class TypeFields(msgspec.Struct):
    """A volume type."""

    id: str
    name: str | None
    is_public: bool | None
    extra_specs: dict[str, Any] | None = None


class TypeReport(msgspec.Struct):
    """The payload of ``volume_type.*``. A refused request has ``error_message``, and no type."""

    volume_types: msgspec.Raw
    error_message: Any = None


class SpecsReport(msgspec.Struct):
    """The payload of ``volume_type_extra_specs.*``."""

    type_id: str


class CapacityReport(msgspec.Struct):
    """The payload of ``capacity.*``."""

    name_to_id: str
    total: float
    free: float
    allocated: float
    provisioned: float
