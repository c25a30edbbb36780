# SPDX-License-Identifier: Apache-2.0
"""The story: what happens in the cloud, step by step. After each step the models are compared with the API.

:func:`before` is what existed before the engines listened. Each entry of :data:`STEPS` is one step.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.real_cinder.settings import figures
from tests.real_cinder.stage import Stage
from tests.real_nova.admin import Refused
from tests.real_nova.processes import wait_for

Step = tuple[str, Callable[[Stage], None]]

FAST_A, FAST_B, SLOW = "volume-1@fast#fast-a", "volume-1@fast#fast-b", "volume-1@slow#slow-a"


def before(stage: Stage) -> None:
    """A volume that no notification of the recording speaks of."""
    stage.create("elder", metadata={"from": "before"})


def create(stage: Stage) -> None:
    stage.create("data", metadata={"tier": "gold"})
    stage.create("shop", by_tenant=True, size=2, volume_type="slow")
    stage.create("plain", volume_type="any", description="a volume")
    stage.create("restful")


def fail_to_create(stage: Stage) -> None:
    stage.create("broken", status="error", metadata={"fail": "create"})


def fail_to_schedule(stage: Stage) -> None:
    stage.create("huge", status="error", size=100000)


def rename(stage: Stage) -> None:
    stage.call("PUT", f"/volumes/{stage.ids['data']}", {"volume": {"name": "renamed"}})


def set_metadata(stage: Stage) -> None:
    stage.call("POST", f"/volumes/{stage.ids['data']}/metadata", {"metadata": {"tier": "lead"}})


def extend(stage: Stage) -> None:
    stage.act("data", "os-extend", new_size=3)
    stage.await_volume("data", status="available", size=3)


def fail_to_extend(stage: Stage) -> None:
    stage.create("stiff", metadata={"fail": "extend"})
    stage.act("stiff", "os-extend", new_size=2)
    stage.await_volume("stiff", status="error_extending")


def attach(stage: Stage) -> None:
    stage.attach("data")


def detach(stage: Stage) -> None:
    stage.detach("data")
    stage.await_volume("data", status="available")


def attach_twice(stage: Stage) -> None:
    body = {"name": "shared", "extra_specs": {"multiattach": "<is> True"}}
    stage.ids["shared type"] = stage.call("POST", "/types", {"volume_type": body})["volume_type"]["id"]
    stage.create("common", volume_type="shared")
    stage.attach("common")
    stage.attach("common", host="compute-2")


def detach_one(stage: Stage) -> None:
    stage.detach("common")
    wait_for(lambda: len(stage.volume("common")["attachments"]) == 1, 30, "one attachment")


def take_snapshots(stage: Stage) -> None:
    stage.snapshot("monday", "data")
    stage.snapshot("tuesday", "restful")
    stage.snapshot("shared snapshot", "shop")


def fail_to_take_a_snapshot(stage: Stage) -> None:
    stage.snapshot("failed", "data", status="error", metadata={"fail": "create"})


def rename_snapshot(stage: Stage) -> None:
    stage.call("PUT", f"/snapshots/{stage.ids['monday']}", {"snapshot": {"name": "friday"}})


def create_from_snapshot_and_volume(stage: Stage) -> None:
    stage.create("restored", snapshot_id=stage.ids["monday"], size=3)
    stage.create("clone", source_volid=stage.ids["data"], size=3)


def revert(stage: Stage) -> None:
    stage.act("restful", "revert", snapshot_id=stage.ids["tuesday"])
    stage.await_snapshot("tuesday", "available")
    stage.await_volume("restful", status="available")


def fail_to_revert(stage: Stage) -> None:
    stage.create("stuck", metadata={"fail": "revert"})
    stage.snapshot("wednesday", "stuck")
    stage.act("stuck", "revert", snapshot_id=stage.ids["wednesday"])
    stage.await_volume("stuck", status="error")


def reset_snapshot(stage: Stage) -> None:
    stage.call("POST", f"/snapshots/{stage.ids['tuesday']}/action", {"os-reset_status": {"status": "error"}})


def delete_snapshots(stage: Stage) -> None:
    for name in ("failed", "monday"):
        stage.delete(name, "snapshots")


def retype(stage: Stage) -> None:
    stage.act("plain", "os-retype", new_type="shared", migration_policy="never")
    stage.await_volume("plain", status="available", volume_type="shared")


def retype_with_migration(stage: Stage) -> None:
    stage.act("elder", "os-retype", new_type="slow", migration_policy="on-demand")
    stage.await_volume("elder", status="available", volume_type="slow", migration_status="success")
    stage.await_no_temporary()


def migrate_between_pools(stage: Stage) -> None:
    there = FAST_B if stage.volume("restored")["os-vol-host-attr:host"] == FAST_A else FAST_A
    stage.migrate("restored", there)


def migrate_between_backends(stage: Stage) -> None:
    stage.migrate("plain", FAST_A if stage.volume("plain")["os-vol-host-attr:host"] == SLOW else SLOW)


def rename_migrated(stage: Stage) -> None:
    stage.call("PUT", f"/volumes/{stage.ids['plain']}", {"volume": {"name": "moved"}})


def reset_status(stage: Stage) -> None:
    stage.act("clone", "os-reset_status", status="error")


def offer_transfer(stage: Stage) -> None:
    body = {"volume_id": stage.ids["elder"], "name": "gift"}
    made = stage.call("POST", "/volume-transfers", {"transfer": body})["transfer"]
    stage.ids["gift"], stage.ids["key"] = made["id"], made["auth_key"]


def accept_transfer(stage: Stage) -> None:
    path = f"/v3/volume-transfers/{stage.ids['gift']}/accept"
    stage.tenant.post("cinder", path, {"accept": {"auth_key": stage.ids["key"]}})
    stage.await_volume("elder", status="available")


def cancel_transfer(stage: Stage) -> None:
    body = {"volume_id": stage.ids["restored"], "name": "none"}
    made = stage.call("POST", "/volume-transfers", {"transfer": body})["transfer"]["id"]
    stage.call("DELETE", f"/volume-transfers/{made}")


def manage(stage: Stage) -> None:
    body = {"host": SLOW, "ref": {"source-name": "found"}, "name": "found", "volume_type": "slow"}
    stage.ids["found"] = stage.call("POST", "/os-volume-manage", {"volume": body})["volume"]["id"]
    stage.await_volume("found", status="available")


def unmanage(stage: Stage) -> None:
    stage.call("POST", f"/volumes/{stage.ids['found']}/action", {"os-unmanage": {}})
    stage.await_gone("found")


def force_delete(stage: Stage) -> None:
    stage.call("POST", f"/volumes/{stage.ids['clone']}/action", {"os-force_delete": {}})
    stage.await_gone("clone")


def fail_to_delete(stage: Stage) -> None:
    stage.create("sticky", metadata={"fail": "delete"})
    stage.call("DELETE", f"/volumes/{stage.ids['sticky']}")
    stage.await_volume("sticky", status="error_deleting")


def delete_unplaced(stage: Stage) -> None:
    stage.delete("huge")
    stage.delete("broken")


def delete_with_snapshots(stage: Stage) -> None:
    stage.snapshot("thursday", "data")
    stage.delete("data", query="?cascade=true")


def change_types(stage: Stage) -> None:
    body = {"name": "other", "os-volume-type-access:is_public": False}
    stage.ids["other type"] = stage.call("POST", "/types", {"volume_type": body})["volume_type"]["id"]
    path = f"/types/{stage.ids['other type']}"
    stage.call("PUT", path, {"volume_type": {"name": "another"}})
    stage.call("POST", f"{path}/extra_specs", {"extra_specs": {"tier": "1"}})
    stage.call("PUT", f"{path}/extra_specs/tier", {"tier": "2"})


def refuse_to_delete_a_type(stage: Stage) -> None:
    with pytest.raises(Refused):
        stage.call("DELETE", f"/types/{stage.ids['shared type']}")


def delete_type(stage: Stage) -> None:
    stage.call("DELETE", f"/types/{stage.ids['other type']}")
    unused = stage.call("POST", "/types", {"volume_type": {"name": "unused", "extra_specs": {}}})["volume_type"]["id"]
    stage.call("POST", f"/types/{unused}/extra_specs", {"extra_specs": {"tier": "1"}})


def fill_pools(stage: Stage) -> None:
    stage.cloud.set_pools("slow", {"slow-a": figures(200.0, 150.5, 60.0)})
    stage.await_pool(SLOW, "free_capacity_gb", 150.5)


def blur_pools(stage: Stage) -> None:
    unknown = {**figures(), "total_capacity_gb": "unknown", "free_capacity_gb": "infinite"}
    stage.cloud.set_pools("slow", {"slow-a": unknown})
    stage.await_pool(SLOW, "free_capacity_gb", "infinite")


def add_pool(stage: Stage) -> None:
    stage.cloud.set_pools("slow", {"slow-a": figures(), "slow-b": figures(50.0, 50.0)})
    stage.await_pool("volume-1@slow#slow-b", "free_capacity_gb", 50.0)


def disable_backend(stage: Stage) -> None:
    stage.service("slow", "disable-log-reason", disabled_reason="maintenance")


def enable_backend(stage: Stage) -> None:
    stage.service("slow", "enable")


STEPS: tuple[Step, ...] = tuple(
    (function.__name__.replace("_", " "), function)
    for function in (
        create,
        fail_to_create,
        fail_to_schedule,
        rename,
        set_metadata,
        extend,
        fail_to_extend,
        attach,
        detach,
        attach_twice,
        detach_one,
        take_snapshots,
        fail_to_take_a_snapshot,
        rename_snapshot,
        create_from_snapshot_and_volume,
        revert,
        fail_to_revert,
        reset_snapshot,
        delete_snapshots,
        retype,
        retype_with_migration,
        migrate_between_pools,
        migrate_between_backends,
        rename_migrated,
        reset_status,
        offer_transfer,
        accept_transfer,
        cancel_transfer,
        manage,
        unmanage,
        force_delete,
        fail_to_delete,
        delete_unplaced,
        delete_with_snapshots,
        change_types,
        refuse_to_delete_a_type,
        delete_type,
        fill_pools,
        blur_pools,
        add_pool,
        disable_backend,
        enable_backend,
    )
)
