# SPDX-License-Identifier: Apache-2.0
"""A table of Nova's versioned notifications: event type -> payload class, version, state after the event.

The builders in :mod:`watcher_sync.testing.nova.notifications` and the simulated cloud follow the table, and tests
iterate over it. So a new event type is built and tested everywhere. Names and versions are those of Nova's
notification objects; tests compare them with Nova's own samples. Tables only.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

PROJECT = "5f0c1e0b3a6d4a58b5d1c2f0a4e97d13"
USER = "c04b7b7e9d214f0ea5e3d5d2c86a3b71"
UUID = "3a9d2f6c-51c4-4d0e-9a5c-7c1f0b8d2e64"


class Shape(NamedTuple):
    """What Nova puts into an instance event: the payload class and the state that the event ends in."""

    payload: str = "InstanceActionPayload"
    state: str = "active"
    task_state: str | None = None
    power_state: str = "running"


VERSIONS = {
    "InstanceActionPayload": "1.9",
    "InstanceActionRebuildPayload": "1.10",
    "InstanceActionRescuePayload": "1.4",
    "InstanceActionResizePrepPayload": "1.4",
    "InstanceActionSnapshotPayload": "1.10",
    "InstanceActionVolumePayload": "1.7",
    "InstanceActionVolumeSwapPayload": "1.9",
    "InstanceCreatePayload": "1.13",
    "InstanceExistsPayload": "2.1",
    "InstanceUpdatePayload": "2.1",
    "AggregatePayload": "1.1",
    "ServiceStatusPayload": "1.1",
    "ComputeTaskPayload": "1.0",
    "AuditPeriodPayload": "1.0",
    "BlockDevicePayload": "1.0",
    "ExceptionPayload": "1.1",
    "FlavorPayload": "1.4",
    "InstanceStateUpdatePayload": "1.0",
    "IpPayload": "1.0",
    "KeypairPayload": "1.0",
    "MetricsPayload": "1.0",
    "RequestSpecPayload": "1.1",
    "ServerGroupPayload": "1.1",
    "VolumeUsagePayload": "1.0",
}
"""Version of each payload class."""

CREATE, REBUILD, RESCUE = "InstanceCreatePayload", "InstanceActionRebuildPayload", "InstanceActionRescuePayload"
PREP, SNAPSHOT, ACTION = "InstanceActionResizePrepPayload", "InstanceActionSnapshotPayload", "InstanceActionPayload"
VOLUME, SWAP = "InstanceActionVolumePayload", "InstanceActionVolumeSwapPayload"
UPDATE, EXISTS = "InstanceUpdatePayload", "InstanceExistsPayload"

UPSERTS: dict[str, Shape] = {
    "instance.create.end": Shape(CREATE),
    "instance.update": Shape(UPDATE, "building", "scheduling", "pending"),
    "instance.exists": Shape(EXISTS),
    "instance.lock": Shape(),
    "instance.unlock": Shape(),
    "instance.pause.end": Shape(state="paused", power_state="paused"),
    "instance.unpause.end": Shape(),
    "instance.power_off.end": Shape(state="stopped", power_state="shutdown"),
    "instance.power_on.end": Shape(),
    "instance.reboot.end": Shape(),
    "instance.resume.end": Shape(),
    "instance.suspend.end": Shape(state="suspended", power_state="suspended"),
    "instance.shutdown.end": Shape(task_state="deleting"),
    "instance.restore.end": Shape(),
    "instance.rebuild.end": Shape(REBUILD),
    "instance.rescue.end": Shape(RESCUE, "rescued", None, "shutdown"),
    "instance.unrescue.end": Shape(),
    "instance.shelve.end": Shape(state="shelved", power_state="shutdown"),
    "instance.shelve_offload.end": Shape(state="shelved_offloaded", power_state="shutdown"),
    "instance.unshelve.end": Shape(),
    "instance.resize_finish.end": Shape(state="resized"),
    "instance.resize_confirm.end": Shape(),
    "instance.resize_revert.end": Shape(),
    "instance.live_migration_post_dest.end": Shape(),
    "instance.live_migration_force_complete.end": Shape(task_state="migrating"),
    "instance.live_migration_rollback.end": Shape(),
    "instance.volume_attach.end": Shape(VOLUME),
    "instance.volume_detach.end": Shape(VOLUME),
    "instance.volume_swap.end": Shape(SWAP),
    "instance.interface_attach.end": Shape(),
    "instance.interface_detach.end": Shape(),
    "instance.soft_delete.end": Shape(state="soft-delete"),
}
"""Events after which the instance is as the payload says."""

ERRORS: dict[str, Shape] = {
    "instance.create.error": Shape(CREATE, "building", None, "pending"),
    "instance.rebuild.error": Shape(REBUILD, "error", None, "running"),
    "instance.reboot.error": Shape(task_state="reboot_started"),
    "instance.resize.error": Shape(state="error"),
    "instance.volume_attach.error": Shape(VOLUME),
    "instance.volume_swap.error": Shape(SWAP),
    "instance.interface_attach.error": Shape(),
}
"""Events with priority ERROR; their payload carries a fault."""

DELETES: dict[str, Shape] = {"instance.delete.end": Shape(state="deleted", power_state="pending")}
"""The event that ends an instance."""

IGNORED: dict[str, Shape] = {
    **{f"{t.removesuffix('.end')}.start": s for t, s in {**UPSERTS, **DELETES}.items() if t.endswith(".end")},
    "instance.create.start": Shape(CREATE, "building", None, "pending"),
    "instance.evacuate": Shape(task_state="rebuilding"),
    "instance.live_migration_abort.start": Shape(task_state="migrating"),
    "instance.live_migration_abort.end": Shape(task_state="migrating"),
    "instance.live_migration_post.start": Shape(task_state="migrating"),
    "instance.live_migration_post.end": Shape(task_state="migrating"),
    "instance.live_migration_pre.start": Shape(task_state="migrating"),
    "instance.live_migration_pre.end": Shape(task_state="migrating"),
    "instance.live_migration_rollback_dest.start": Shape(),
    "instance.live_migration_rollback_dest.end": Shape(),
    "instance.rebuild_scheduled": Shape(REBUILD, "active", "rebuilding"),
    "instance.resize.start": Shape(task_state="resize_migrating"),
    "instance.resize.end": Shape(task_state="resize_migrated"),
    "instance.resize_prep.start": Shape(PREP, "active", "resize_prep"),
    "instance.resize_prep.end": Shape(PREP, "active", "resize_prep"),
    "instance.snapshot.start": Shape(SNAPSHOT, "active", "image_snapshot"),
    "instance.snapshot.end": Shape(SNAPSHOT),
    "instance.trigger_crash_dump.start": Shape(),
    "instance.trigger_crash_dump.end": Shape(),
}
"""Instance events that tell nothing which another event does not tell better."""

INSTANCE: dict[str, Shape] = {**IGNORED, **UPSERTS, **ERRORS, **DELETES}
SERVICE = ("service.create", "service.update", "service.delete")
_ACTIONS = ("create", "delete", "add_host", "remove_host", "update_prop", "update_metadata", "cache_images")
AGGREGATE = (*(f"aggregate.{a}.{phase}" for a in _ACTIONS for phase in ("start", "end")),)

MORE: dict[str, dict[str, Any]] = {
    REBUILD: {"trusted_image_certificates": None},
    RESCUE: {"rescue_image_ref": "6f1d3b5a-8a52-4b63-a7b3-2e5c90d1f7a8"},
    PREP: {"new_flavor": None},
    SNAPSHOT: {"snapshot_image_id": "d21b0d4a-93b6-4f7b-bd8d-1f0c6a2e5b37"},
    VOLUME: {"volume_id": "e7f0c2b1-5d3a-4e6c-9b8d-0a1f2c3d4e5f"},
    SWAP: {
        "old_volume_id": "e7f0c2b1-5d3a-4e6c-9b8d-0a1f2c3d4e5f",
        "new_volume_id": "1b2c3d4e-5f60-4718-92a3-b4c5d6e7f809",
    },
}
"""Payload class -> the fields that only it has."""

_GROUP = json.dumps({
    "uuid": "5a4b0f7d-4b1e-4f0b-8ad7-60a3f21b9f6e", "name": "anti-affinity", "project_id": PROJECT,
    "user_id": USER, "policies": ["anti-affinity"], "policy": "anti-affinity", "rules": {}, "members": [],
    "hosts": None,
})  # fmt: skip
_KEYPAIR = json.dumps({
    "name": "key", "user_id": USER, "type": "ssh", "fingerprint": "5b:0c:a7:11:42:9d:88:be:f0:10:66:2f:de:35:7c:04",
    "public_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPHEWmF0ZWQtZm9yLXRlc3RzLW9ubHkta2V5 key",
})  # fmt: skip
_FAULT = json.dumps({
    "exception": "FlavorNotFound", "exception_message": "Flavor 42 could not be found.", "traceback": "",
    "function_name": "get_flavor", "module_name": "nova.compute.flavors",
})  # fmt: skip
_SPEC = json.dumps({"instance_uuid": UUID, "project_id": PROJECT, "num_instances": 1, "availability_zone": None})
_TASK = json.dumps({"instance_uuid": UUID, "request_spec": None, "state": "error", "reason": None})

OTHER: dict[str, tuple[str, str, str]] = {
    **{f"server_group.{a}": ("ServerGroupPayload", "nova-api", _GROUP) for a in ("create", "delete", "add_member")},
    **{f"keypair.{a}.{p}": ("KeypairPayload", "nova-api", _KEYPAIR)
       for a in ("create", "delete", "import") for p in ("start", "end")},
    **{f"flavor.{a}": ("FlavorPayload", "nova-api", "{}") for a in ("create", "update", "delete")},
    **{f"scheduler.select_destinations.{p}": ("RequestSpecPayload", "nova-scheduler", _SPEC) for p in ("start", "end")},
    **{f"compute_task.{method}.error": ("ComputeTaskPayload", "nova-conductor", _TASK)
       for method in ("build_instances", "migrate_server", "rebuild_server")},
    "compute.exception": ("ExceptionPayload", "nova-api", _FAULT),
    "volume.usage": ("VolumeUsagePayload", "nova-compute", json.dumps({"volume_id": UUID, "read_bytes": 0})),
    "metrics.update": ("MetricsPayload", "nova-compute", json.dumps({"host": "controller-0", "metrics": []})),
}  # fmt: skip
"""Event type -> payload class, publishing binary, payload as JSON."""
