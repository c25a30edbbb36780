# SPDX-License-Identifier: Apache-2.0
"""The story: what happens in the cloud, step by step. After each step the models are compared with the APIs.

:func:`before` is what existed before the engines listened. Each entry of :data:`STEPS` is one step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tests.real_nova.admin import Refused
from tests.real_nova.hosted.network import NETWORK_ID
from tests.real_nova.processes import wait_for
from tests.real_nova.settings import COMPUTES, FAR
from tests.real_nova.stage import Stage

FIRST, SECOND, THIRD = COMPUTES
FOURTH, RENAMED = "compute-4", "compute-4-renamed"
"""A host that the story adds, and its later name."""

SOFT = "nova-soft"
"""The API that resizes to the same host and ignores quotas."""

Step = tuple[str, Callable[[Stage], None]]


def before(stage: Stage) -> None:
    """Two servers and an aggregate that no event of the recording speaks of."""
    number = stage.create_aggregate("racks")
    stage.act_on_aggregate(number, "add_host", host=FIRST)
    stage.boot("elder", host=FIRST, metadata={"from": "before"})
    stage.boot("idle", flavor="large", host=SECOND)
    # Until its own steps no server comes to it.
    stage.update_service(FAR, status="disabled")


def zone(stage: Stage) -> None:
    stage.aggregate = stage.create_aggregate("east", zone="east")
    stage.act_on_aggregate(stage.aggregate, "add_host", host=THIRD)
    stage.act_on_aggregate(stage.aggregate, "set_metadata", metadata={"disk": "ssd"})
    stage.await_event("aggregate.update_metadata.end")


def boot(stage: Stage) -> None:
    stage.boot("web", host=FIRST, metadata={"tier": "front"})
    stage.boot("shop", by=stage.tenant, flavor="large", zone="nova")


def boot_in_zone(stage: Stage) -> None:
    stage.boot("pinned", zone="east")


def stop(stage: Stage) -> None:
    stage.do("web", "os-stop", status="SHUTOFF", event="instance.power_off.end")


def start(stage: Stage) -> None:
    stage.do("web", "os-start", status="ACTIVE", event="instance.power_on.end")


def reboot(stage: Stage) -> None:
    stage.do("web", "reboot", {"type": "HARD"}, status="ACTIVE", event="instance.reboot.end")


def rename(stage: Stage) -> None:
    stage.admin.call("PUT", "nova", f"/v2.1/servers/{stage.servers['web']}", {"server": {"name": "web-renamed"}})
    stage.await_event("instance.update", "web")


def metadata(stage: Stage) -> None:
    path = f"/v2.1/servers/{stage.servers['web']}/metadata"
    stage.admin.post("nova", path, {"metadata": {"owner": "ops", "tier": "back"}})
    stage.admin.call("DELETE", "nova", f"{path}/tier")
    stage.await_event("instance.update", "web")


def lock(stage: Stage) -> None:
    stage.do("web", "lock", {"locked_reason": "audit"}, status="ACTIVE", event="instance.lock")


def unlock(stage: Stage) -> None:
    stage.do("web", "unlock", status="ACTIVE", event="instance.unlock")


def pause(stage: Stage) -> None:
    stage.do("web", "pause", status="PAUSED", event="instance.pause.end")


def unpause(stage: Stage) -> None:
    stage.do("web", "unpause", status="ACTIVE", event="instance.unpause.end")


def suspend(stage: Stage) -> None:
    stage.do("web", "suspend", status="SUSPENDED", event="instance.suspend.end")


def resume(stage: Stage) -> None:
    stage.do("web", "resume", status="ACTIVE", event="instance.resume.end")


def _flavor(stage: Stage, name: str) -> dict[str, str]:
    assert stage.cloud.seeded is not None
    return {"flavorRef": stage.cloud.seeded.flavors[name]}


def _resize(stage: Stage, name: str, flavor: str, service: str = "nova") -> None:
    body = _flavor(stage, flavor)
    stage.do(name, "resize", body, status="VERIFY_RESIZE", event="instance.resize_finish.end", service=service)


def resize(stage: Stage) -> None:
    _resize(stage, "web", "large")


def confirm_resize(stage: Stage) -> None:
    stage.do("web", "confirmResize", status="ACTIVE", event="instance.resize_confirm.end")


def resize_again(stage: Stage) -> None:
    _resize(stage, "web", "small")


def revert_resize(stage: Stage) -> None:
    stage.do("web", "revertResize", status="ACTIVE", event="instance.resize_revert.end")


def resize_to_the_same_host(stage: Stage) -> None:
    # Its zone has no other host.
    _resize(stage, "pinned", "large", SOFT)
    assert stage.host_of("pinned") == THIRD


def confirm_on_the_same_host(stage: Stage) -> None:
    stage.do("pinned", "confirmResize", status="ACTIVE", event="instance.resize_confirm.end")


def resize_to_the_same_host_again(stage: Stage) -> None:
    _resize(stage, "pinned", "small", SOFT)


def revert_on_the_same_host(stage: Stage) -> None:
    stage.do("pinned", "revertResize", status="ACTIVE", event="instance.resize_revert.end")


def fail_end_of_resize(stage: Stage) -> None:
    stage.boot("doomed", host=FIRST, metadata={"fail": "finish_migration"})
    stage.act("doomed", "resize", _flavor(stage, "large"))
    # It names no server.
    stage.await_event("compute.exception")
    stage.await_status("doomed", "ERROR")


def fail_end_of_revert(stage: Stage) -> None:
    stage.boot("stuck", host=FIRST, metadata={"fail": "finish_revert_migration"})
    _resize(stage, "stuck", "large")
    stage.act("stuck", "revertResize")
    stage.await_event("compute.exception")
    stage.await_status("stuck", "ERROR")


def cold_migrate(stage: Stage) -> None:
    stage.do("web", "migrate", status="VERIFY_RESIZE", event="instance.resize_finish.end")


def confirm_migration(stage: Stage) -> None:
    stage.do("web", "confirmResize", status="ACTIVE", event="instance.resize_confirm.end")


def live_migrate(stage: Stage) -> None:
    _live_migrate(stage, "instance.live_migration_post_dest.end")


def fail_live_migration(stage: Stage) -> None:
    path = f"/v2.1/servers/{stage.servers['web']}/metadata"
    stage.admin.post("nova", path, {"metadata": {"fail": "live_migration"}})
    _live_migrate(stage, "instance.live_migration_rollback.end")
    stage.admin.call("DELETE", "nova", f"{path}/fail")


def _live_migrate(stage: Stage, event: str) -> None:
    body = {"host": None, "block_migration": "auto"}
    stage.do("web", "os-migrateLive", body, status="ACTIVE", event=event)


def shelve(stage: Stage) -> None:
    stage.do("web", "shelve", status="SHELVED", event="instance.shelve.end")


def offload(stage: Stage) -> None:
    stage.do("web", "shelveOffload", status="SHELVED_OFFLOADED", event="instance.shelve_offload.end")


def unshelve(stage: Stage) -> None:
    stage.do("web", "unshelve", status="ACTIVE", event="instance.unshelve.end")


def unshelve_to_a_zone(stage: Stage) -> None:
    shelve(stage)
    offload(stage)
    stage.do("web", "unshelve", {"availability_zone": "east"}, status="ACTIVE", event="instance.unshelve.end")
    assert stage.host_of("web") == THIRD


def unshelve_to_a_host(stage: Stage) -> None:
    shelve(stage)
    offload(stage)
    body = {"availability_zone": None, "host": FIRST}
    stage.do("web", "unshelve", body, status="ACTIVE", event="instance.unshelve.end")


def rebuild(stage: Stage) -> None:
    assert stage.cloud.seeded is not None
    body = {"imageRef": stage.cloud.seeded.images["second"], "metadata": {"rebuilt": "yes"}}
    stage.do("web", "rebuild", body, status="ACTIVE", event="instance.rebuild.end")


def rescue(stage: Stage) -> None:
    stage.do("web", "rescue", status="RESCUE", event="instance.rescue.end")


def unrescue(stage: Stage) -> None:
    stage.do("web", "unrescue", status="ACTIVE", event="instance.unrescue.end")


def fail_rescue(stage: Stage) -> None:
    stage.boot("broken", host=SECOND, metadata={"fail": "rescue"})
    stage.act("broken", "rescue")
    # It names no server.
    stage.await_event("compute.exception")
    stage.await_status("broken", "ERROR")


def reset_state(stage: Stage) -> None:
    stage.do("broken", "os-resetState", {"state": "active"}, status="ACTIVE", event="instance.update")


def attach_interface(stage: Stage) -> None:
    path = f"/v2.1/servers/{stage.servers['web']}/os-interface"
    stage.admin.post("nova", path, {"interfaceAttachment": {"net_id": NETWORK_ID}})
    stage.await_event("instance.interface_attach.end", "web")


def soft_delete(stage: Stage) -> None:
    for name in ("web", "broken"):
        stage.admin.call("DELETE", "nova-soft", f"/v2.1/servers/{stage.servers[name]}")
        stage.await_status(name, "SOFT_DELETED")
        stage.await_event("instance.soft_delete.end", name)


def restore(stage: Stage) -> None:
    stage.do("web", "restore", status="ACTIVE", event="instance.restore.end")


def delete_for_good(stage: Stage) -> None:
    stage.act("broken", "forceDelete")
    stage.await_gone("broken")


def fail_build(stage: Stage) -> None:
    stage.boot("unlucky", metadata={"fail": "spawn"}, status="ERROR", event="instance.create.error")
    stage.boot("impossible", flavor="impossible", status="ERROR", event="compute_task.build_instances.error")


def build_slowly(stage: Stage) -> None:
    stage.request("slow", host=SECOND, metadata={"wait": "spawn"})
    stage.await_task("slow", "spawning")


def delete_while_building(stage: Stage) -> None:
    stage.delete("slow")


def delete_while_scheduling(stage: Stage) -> None:
    with stage.cloud.without_scheduler():
        stage.request("early")
        stage.await_task("early", "scheduling")
        stage.admin.call("DELETE", "nova", f"/v2.1/servers/{stage.servers['early']}")
    del stage.servers["early"]
    stage.await_event("scheduler.select_destinations.end")


def _quota(stage: Stage) -> str:
    return f"/v2.1/os-quota-sets/{stage.server('shop')['tenant_id']}"


def exceed_the_quota(stage: Stage) -> None:
    """The project has one server, and may have no second one and no larger one."""
    stage.admin.call("PUT", "nova", _quota(stage), {"quota_set": {"instances": 1, "cores": 2}})
    with pytest.raises(Refused, match=": 403: "):
        stage.request("more", by=stage.tenant)
    with pytest.raises(Refused, match=": 403: "):
        stage.act("shop", "resize", _flavor(stage, "impossible"))


def exceed_the_quota_at_once(stage: Stage) -> None:
    # As if another request had been allowed in the same moment: only the conductor checks the quota.
    stage.boot("late", by=stage.tenant, service=SOFT, status="ERROR", event="compute_task.build_instances.error")
    stage.admin.call("DELETE", "nova", _quota(stage))


def disable_service(stage: Stage) -> None:
    stage.update_service(SECOND, status="disabled", disabled_reason="maintenance")


def enable_service(stage: Stage) -> None:
    stage.update_service(SECOND, status="enabled")


def lose_host(stage: Stage) -> None:
    stage.boot("victim", host=SECOND)
    stage.cloud.kill_compute(SECOND)
    stage.await_service(SECOND, "down")


def force_down(stage: Stage) -> None:
    stage.update_service(SECOND, forced_down=True)


def evacuate(stage: Stage) -> None:
    # Nova stops the server at its destination.
    stage.do("victim", "evacuate", {"host": FIRST}, status="SHUTOFF", event="instance.power_off.end")


def return_host(stage: Stage) -> None:
    stage.cloud.start_compute(SECOND)
    # Nova refuses it until the started host has removed the guests that left it.
    stage.update_service_once_allowed(SECOND, forced_down=False)
    stage.await_service(SECOND, "up")


def add_host(stage: Stage) -> None:
    stage.cloud.start_compute(FOURTH)
    stage.await_new_host(FOURTH)


def rename_host_in_vain(stage: Stage) -> None:
    """Nova knows the node of the host, and does not start under another name."""
    stage.cloud.kill_compute(FOURTH)
    stage.cloud.start_compute(RENAMED, formerly=FOURTH)
    wait_for(lambda: stage.cloud.has_ended(RENAMED), 60, f"the end of {RENAMED}")
    stage.await_service(FOURTH, "down")


def rename_host_with_its_node(stage: Stage) -> None:
    """Without the service of its old name it starts, but Nova lists no hypervisor, and Placement no resources."""
    stage.remove_service(FOURTH)
    stage.cloud.start_compute(RENAMED, formerly=FOURTH)
    stage.await_event("service.create")
    stage.await_service(RENAMED, "up")


def rename_host(stage: Stage) -> None:
    """It needs a new node, too."""
    remove_host(stage)
    stage.cloud.forget_node(FOURTH)
    stage.cloud.start_compute(RENAMED, formerly=FOURTH)
    stage.await_new_host(RENAMED)


def remove_host(stage: Stage) -> None:
    stage.cloud.kill_compute(RENAMED)
    stage.await_service(RENAMED, "down")
    stage.remove_service(RENAMED)


def boot_in_the_second_cell(stage: Stage) -> None:
    stage.update_service(FAR, status="enabled")
    stage.boot("far", host=FAR)


def stop_in_the_second_cell(stage: Stage) -> None:
    stage.do("far", "os-stop", status="SHUTOFF", event="instance.power_off.end")


def resize_in_the_second_cell(stage: Stage) -> None:
    _resize(stage, "far", "large", SOFT)


def revert_in_the_second_cell(stage: Stage) -> None:
    stage.do("far", "revertResize", status="SHUTOFF", event="instance.resize_revert.end")


def delete_in_the_second_cell(stage: Stage) -> None:
    stage.delete("far")
    stage.update_service(FAR, status="disabled")


def touch_the_elder(stage: Stage) -> None:
    stage.do("elder", "os-stop", status="SHUTOFF", event="instance.power_off.end")


def delete(stage: Stage) -> None:
    for name in ("pinned", "shop", "unlucky", "impossible", "late", "doomed", "stuck", "victim"):
        stage.delete(name)


def dissolve_zone(stage: Stage) -> None:
    stage.act_on_aggregate(stage.aggregate, "remove_host", host=THIRD)
    stage.admin.call("DELETE", "nova", f"/v2.1/os-aggregates/{stage.aggregate}")
    stage.await_event("aggregate.delete.end")


_FUNCTIONS: Sequence[Callable[[Stage], None]] = (
    zone,
    boot,
    boot_in_zone,
    add_host,
    rename_host_in_vain,
    rename_host_with_its_node,
    rename_host,
    remove_host,
    boot_in_the_second_cell,
    stop_in_the_second_cell,
    resize_in_the_second_cell,
    revert_in_the_second_cell,
    delete_in_the_second_cell,
    stop,
    start,
    reboot,
    rename,
    metadata,
    lock,
    unlock,
    pause,
    unpause,
    suspend,
    resume,
    resize,
    confirm_resize,
    resize_again,
    revert_resize,
    resize_to_the_same_host,
    confirm_on_the_same_host,
    resize_to_the_same_host_again,
    revert_on_the_same_host,
    fail_end_of_resize,
    fail_end_of_revert,
    cold_migrate,
    confirm_migration,
    live_migrate,
    fail_live_migration,
    shelve,
    offload,
    unshelve,
    unshelve_to_a_zone,
    unshelve_to_a_host,
    rebuild,
    rescue,
    unrescue,
    fail_rescue,
    reset_state,
    attach_interface,
    soft_delete,
    restore,
    delete_for_good,
    fail_build,
    build_slowly,
    delete_while_building,
    delete_while_scheduling,
    exceed_the_quota,
    exceed_the_quota_at_once,
    disable_service,
    enable_service,
    lose_host,
    force_down,
    evacuate,
    return_host,
    touch_the_elder,
    delete,
    dissolve_zone,
)

STEPS: Sequence[Step] = tuple((function.__name__.replace("_", " "), function) for function in _FUNCTIONS)
