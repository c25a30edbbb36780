# SPDX-License-Identifier: Apache-2.0
"""Operations on servers that stay where they are, with the writes and notifications of Nova.

An operation is a generator. It yields a notification when it publishes it, and a number of seconds when it waits
while other operations continue. The order of writes and publications within one operation is Nova's, including its
traps. An event may follow the deletion of its instance. ``delete.end`` is published although the deletion failed.

Moves between hosts are in :mod:`watcher_sync.testing.nova.move_operations`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from watcher_sync.testing.nova.control_plane import API, ControlPlane, Copy, Host, Server, Steps


class Act(NamedTuple):
    """An operation that begins and ends on the server's own host."""

    action: str
    states: tuple[str, ...]
    task_state: str
    final: dict[str, Any]


RUNNING = {"state": "active", "power_state": "running"}
STOPPED = {"state": "stopped", "power_state": "shutdown"}
ACTS = (
    Act("power_off", ("active",), "powering-off", STOPPED),
    Act("power_on", ("stopped",), "powering-on", RUNNING),
    Act("pause", ("active",), "pausing", {"state": "paused", "power_state": "paused"}),
    Act("unpause", ("paused",), "unpausing", RUNNING),
    Act("suspend", ("active",), "suspending", {"state": "suspended", "power_state": "suspended"}),
    Act("resume", ("suspended",), "resuming", RUNNING),
    Act("reboot", ("active",), "rebooting_hard", RUNNING),
    Act("rescue", ("active", "stopped"), "rescuing", {"state": "rescued", "power_state": "running"}),
    Act("unrescue", ("rescued",), "unrescuing", RUNNING),
    Act("soft_delete", ("active", "stopped"), "soft-deleting", {"state": "soft-delete", "power_state": "shutdown"}),
    Act("restore", ("soft-delete",), "restoring", RUNNING),
    Act("snapshot", ("active", "stopped"), "image_snapshot", {}),
)  # fmt: skip


def act(plane: ControlPlane, server: Server, what: Act) -> Steps:
    """Go through one of :data:`ACTS`."""
    copy, host = plane.read(server), server.host
    assert host is not None
    begun: dict[str, Any] = {"task_state": what.task_state}
    if what.action in ("soft_delete", "restore"):
        begun["deleted_at"] = plane.second() if what.action == "soft_delete" else None
    yield from order(plane, copy, **begun)
    if what.action == "reboot":  # the start shows a task state that is written after it
        copy.record = {**copy.record, "task_state": "reboot_pending_hard"}
    yield copy.publish(f"instance.{what.action}.start", host)
    if what.action == "reboot":
        yield from copy.save(task_state="reboot_pending_hard")
        yield from copy.save(task_state="reboot_started_hard")
    yield plane.rng.uniform(0.01, 2.5)
    yield from finish(copy, host, f"instance.{what.action}.end", **what.final)


def rebuild(plane: ControlPlane, server: Server, *, fails: bool) -> Steps:
    """The same server from another image, stopped again if it was stopped."""
    copy, host = plane.read(server), server.host
    assert host is not None
    was_stopped = server.state == "stopped"
    yield from order(plane, copy, task_state="rebuilding")
    yield copy.publish("instance.rebuild_scheduled", f"nova-conductor:{host.name}")
    yield copy.publish("instance.exists", host)
    yield copy.publish("instance.rebuild.start", host)
    yield plane.rng.uniform(0.2, 3.0)
    yield from copy.save(task_state="rebuild_spawning")
    if fails:
        yield from fail_rebuild(plane, copy, host)
        return
    image = plane.new_id() if server.record["image_uuid"] else ""
    changes = {"image_uuid": image, "launched_at": plane.second(copy.conductor)}
    yield from respawn(copy, host, was_stopped=was_stopped, **changes)
    yield copy.publish("instance.rebuild.end", host)


def respawn(copy: Copy, host: Host, *, was_stopped: bool, **changes: Any) -> Steps:
    """The driver built the server again; the compute stops it again."""
    yield from copy.save(task_state=None, **RUNNING, **changes)
    if was_stopped:
        yield from copy.save(task_state="powering-off")
        yield copy.publish("instance.power_off.start", host)
        yield from finish(copy, host, "instance.power_off.end", **STOPPED)


def fail_rebuild(plane: ControlPlane, copy: Copy, host: Host) -> Steps:
    """The error is published before the state is written, so without instance.update it is not known."""
    fault = ("BuildAbortException", f"Build of instance {copy.server.uuid} aborted: no space left")
    yield copy.publish("instance.rebuild.error", host, fault=fault)
    plane.fail(copy.server, *fault)
    yield from copy.save(task_state=None, state="error")
    yield plane.publish_other("compute.exception", host.publisher)


def shelve(plane: ControlPlane, server: Server, *, offload: bool) -> Steps:
    """Off, with its image; offloaded, it is on no host."""
    copy, host = plane.read(server), server.host
    assert host is not None
    yield from order(plane, copy, task_state="shelving")
    yield copy.publish("instance.exists", host)
    yield copy.publish("instance.shelve.start", host)
    yield plane.rng.uniform(0.1, 2.0)
    yield from finish(copy, host, "instance.shelve.end", state="shelved", power_state="shutdown")
    if offload:
        yield plane.rng.uniform(0.0, 2.0)
        yield from shelve_offload(plane, server)


def shelve_offload(plane: ControlPlane, server: Server) -> Steps:
    """Take a shelved server off its host: its state is written first, its host then."""
    copy, host = plane.read(server), server.host
    assert host is not None
    yield from copy.save(task_state="shelving_offloading")
    yield copy.publish("instance.shelve_offload.start", host)
    yield from copy.save(state="shelved_offloaded", task_state=None)
    plane.database.release(server)
    yield from copy.save(availability_zone=None, **plane.place(server, None))
    yield copy.publish("instance.shelve_offload.end", host)


def unshelve(plane: ControlPlane, server: Server) -> Steps:
    """Run again: powered on where it was, or anywhere when it was offloaded."""
    copy, host = plane.read(server), server.host
    yield from order(plane, copy, task_state="unshelving")
    if host is not None:
        yield from copy.save(task_state="powering-on")
        yield copy.publish("instance.power_on.start", host)
        yield plane.rng.uniform(0.1, 1.0)
        yield from finish(copy, host, "instance.power_on.end", **RUNNING)
        return
    host = plane.pick_host()
    if host is None:
        yield from copy.save(task_state=None)
        return
    plane.database.claim(server, host)
    yield plane.rng.uniform(0.1, 1.0)
    copy.record = {**copy.record, "availability_zone": host.availability_zone}
    yield copy.publish("instance.unshelve.start", host)
    yield from copy.save(task_state="spawning", availability_zone=host.availability_zone)
    yield from copy.save(**plane.place(server, host))
    yield plane.rng.uniform(0.1, 2.0)
    launched = plane.second(copy.conductor)
    yield from finish(copy, host, "instance.unshelve.end", launched_at=launched, **RUNNING)


def delete(plane: ControlPlane, server: Server, *, fails: bool = False) -> Steps:
    """Gone for good; by the API itself where no host can do it. Some words of it come late."""
    copy, host = plane.read(server), server.host
    yield from copy.save(API, task_state="deleting")
    if host is None or not host.works:
        yield from _delete_locally(plane, copy, fails=fails and host is not None)
        return
    yield plane.rng.uniform(0.005, 0.3)
    yield copy.publish("instance.delete.start", host)
    yield copy.publish("instance.shutdown.start", host)
    yield plane.rng.uniform(0.05, 1.5)
    yield copy.publish("instance.shutdown.end", host)
    dying, at = copy.record, plane.second(copy.conductor)
    yield from copy.save(task_state=None, state="deleted", power_state="pending", terminated_at=at)
    if fails:  # Placement refuses to free the allocation
        plane.fail(server, "PlacementAPIConnectFailure", "Unable to communicate with the Placement API.")
        yield from copy.save(state="error")
        yield from copy.save()
        yield plane.publish_other("compute.exception", host.publisher)
        return
    yield from _remove(plane, copy, host)
    late = plane.rng.random()
    if late < 0.1:
        copy.record = dying
        yield copy.publish("instance.shutdown.end", host)
    elif late < 0.2:
        yield copy.publish("instance.exists", host)


def _delete_locally(plane: ControlPlane, copy: Copy, *, fails: bool) -> Steps:
    """The API deletes the row itself, and publishes the end in a ``finally``: even when it failed."""
    yield copy.publish("instance.delete.start", API)
    yield plane.rng.uniform(0.01, 0.1)
    if fails:
        yield copy.publish("instance.delete.end", API)
        return
    yield from _remove(plane, copy, API)


def _remove(plane: ControlPlane, copy: Copy, publisher: Host | str) -> Steps:
    """The row is deleted, and the end is published."""
    server, at = copy.server, plane.second(copy.conductor)
    gone = {"state": "deleted", "task_state": None, "power_state": "pending", "deleted_at": at, "terminated_at": at}
    if publisher is API:
        gone |= {"host": None, "node": None}
    before = server.record["updated_at"]
    plane.place(server, None)
    server.source_host = None
    server.record = {**server.record, **gone, "updated_at": at}
    copy.record = {**server.record, "updated_at": before}
    plane.database.remove(server)
    yield copy.publish("instance.delete.end", publisher)


def edit(plane: ControlPlane, server: Server) -> Steps:
    """What the owner changes without any host, also while another operation runs; and what Nova tells unasked."""
    if server.deleted or server.record["updated_at"] is None:  # a cell does not have it any more, or not yet
        return
    rng, copy = plane.rng, plane.read(server)
    what = rng.choice(("name", "metadata", "lock", "lock", "exists", "tags"))
    record = copy.record
    if what == "name":
        name = rng.choice((None, f"renamed-{rng.randrange(10_000)}", "serveur-été", "x" * 255))
        yield from copy.save(API, display_name=name)
    elif what == "metadata":
        yield from copy.save(API, metadata={**record["metadata"], "ticket": str(rng.randrange(10_000))})
    elif what in ("exists", "tags"):
        yield rng.uniform(0.01, 0.5)
        yield _tell(plane, copy, what)
    elif record["locked"]:
        yield from copy.save(API, locked=False, locked_reason=None)
        yield copy.publish("instance.unlock", API)
    else:
        yield from copy.save(API, locked=True, locked_reason=rng.choice((None, "frozen for the audit")))
        yield copy.publish("instance.lock", API)


def _tell(plane: ControlPlane, copy: Copy, what: str) -> dict[str, Any]:
    """The copy as it was read a while ago: the audit of a host, or the API's update of tags, which no option hides."""
    if what == "tags":
        return plane.publish_update(copy, copy.record, API, owns="instance.update of tags")
    host = copy.server.host
    return copy.publish("instance.exists", host if host is not None and host.works else API)


def attach(plane: ControlPlane, server: Server) -> Steps:
    """Volumes and interfaces come, go and are swapped; the row is not written, and the copy is as the API read it."""
    rng, copy, host = plane.rng, plane.read(server), server.host
    assert host is not None
    record = copy.record
    volumes, addresses = record["block_devices"], record["ip_addresses"]
    fresh = plane.new_id()
    more: dict[str, Any] = {}
    if rng.random() < 0.5:
        if len(addresses) < 3:
            action, change = "interface_attach", {"ip_addresses": [*addresses, *new_addresses(plane)][:3]}
        else:
            action, change = "interface_detach", {"ip_addresses": addresses[1:]}
    elif not volumes:
        action, change, more = "volume_attach", {"block_devices": [fresh]}, {"volume_id": fresh}
    elif rng.random() < 0.5:
        action, change, more = "volume_detach", {"block_devices": []}, {"volume_id": volumes[0]}
    else:
        action, change = "volume_swap", {"block_devices": [fresh]}
        more = {"old_volume_id": volumes[0], "new_volume_id": fresh}
    yield copy.publish(f"instance.{action}.start", host, **more)
    yield rng.uniform(0.01, 2.0)
    server.record = {**server.record, **change}
    copy.record = {**copy.record, **change}
    yield copy.publish(f"instance.{action}.end", host, **more)


def order(plane: ControlPlane, copy: Copy, **changes: Any) -> Steps:
    """The API takes the order; the service that carries it out comes to it a little later."""
    yield from copy.save(API, **changes)
    yield plane.rng.uniform(0.005, 0.3)


def finish(copy: Copy, host: Host, event_type: str, **final: Any) -> Steps:
    """The host saves the result, and publishes the end."""
    yield from copy.save(task_state=None, **final)
    yield copy.publish(event_type, host)


def new_addresses(plane: ControlPlane) -> list[str]:
    """One or two fixed addresses."""
    rng = plane.rng
    first = f"10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(1, 255)}"
    return [first, f"fd00:17::{rng.randrange(1, 65_536):x}"] if rng.random() < 0.3 else [first]
