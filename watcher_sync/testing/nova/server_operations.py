# SPDX-License-Identifier: Apache-2.0
"""Operations on servers, with the database writes and notifications that Nova makes.

An operation is a generator. It yields a notification when it publishes it, and a number of seconds when it waits
while other operations continue. The order of writes and publications within one operation is Nova's, including its
traps. For example, the source of a migration publishes the old host after the destination has published the new
one. An event may also follow the deletion of its instance.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from watcher_sync.testing.nova.control_plane import API, CONDUCTOR, ControlPlane, Host, Record, Server, Steps


class Act(NamedTuple):
    """An operation that begins and ends on the server's own host."""

    action: str
    states: tuple[str, ...]
    task_state: str
    final: dict[str, Any]


_RUNNING = {"state": "active", "power_state": "running"}
ACTS = (
    Act("power_off", ("active",), "powering-off", {"state": "stopped", "power_state": "shutdown"}),
    Act("power_on", ("stopped",), "powering-on", _RUNNING),
    Act("pause", ("active",), "pausing", {"state": "paused", "power_state": "paused"}),
    Act("unpause", ("paused",), "unpausing", _RUNNING),
    Act("suspend", ("active",), "suspending", {"state": "suspended", "power_state": "suspended"}),
    Act("resume", ("suspended",), "resuming", _RUNNING),
    Act("reboot", ("active",), "reboot_started", _RUNNING),
    Act("rescue", ("active", "stopped"), "rescuing", {"state": "rescued", "power_state": "running"}),
    Act("unrescue", ("rescued",), "unrescuing", _RUNNING),
    Act("soft_delete", ("active", "stopped"), "soft-deleting", {"state": "soft-delete", "power_state": "shutdown"}),
    Act("restore", ("soft-delete",), "restoring", {**_RUNNING, "deleted_at": None}),
    Act("snapshot", ("active", "stopped"), "image_snapshot", {}),
)  # fmt: skip


def act(plane: ControlPlane, server: Server, what: Act) -> Steps:
    """Go through one of :data:`ACTS`."""
    yield from _begin(plane, server, what.task_state)
    yield plane.publish(f"instance.{what.action}.start", server)
    yield plane.rng.uniform(0.01, 2.5)
    final = dict(what.final)
    if what.action == "soft_delete":
        final["deleted_at"] = plane.second()
    yield from _end(plane, server, f"instance.{what.action}.end", **final)


def boot(plane: ControlPlane, server: Server, *, fails: bool) -> Steps:
    """From the API's record to a running server, or to state error."""
    rng = plane.rng
    yield plane.update(server, {**server.record, "task_state": None}, API)
    yield rng.uniform(0.01, 0.8)
    host = plane.pick_host()
    if host is None:
        yield _change(plane, server, CONDUCTOR, state="error", task_state=None)
        return
    yield _change(plane, server, host, task_state=None, **plane.place(server, host))
    yield plane.publish("instance.create.start", server)
    if rng.random() < 0.3:
        yield _change(plane, server, task_state="networking")
    yield rng.uniform(0.1, 1.0)
    yield _change(plane, server, task_state="spawning", ip_addresses=_addresses(plane))
    yield rng.uniform(0.1, 3.0)
    if fails:
        fault = rng.choice((("FlavorDiskTooSmall", "The created instance's disk would be too small."),
                            ("VirtualInterfaceCreateException", "Virtual Interface creation failed")))  # fmt: skip
        yield plane.publish("instance.create.error", server, fault=fault)
        where = plane.place(server, None) if rng.random() < 0.5 else {}
        yield _change(plane, server, host, state="error", task_state=None, **where)
        return
    launched = {"launched_at": plane.second(), **_RUNNING}
    yield from _end(plane, server, "instance.create.end", **launched)


def rebuild(plane: ControlPlane, server: Server, *, fails: bool) -> Steps:
    """The same server from another image."""
    yield from _begin(plane, server, "rebuilding")
    yield plane.publish("instance.rebuild.start", server)
    yield plane.rng.uniform(0.2, 3.0)
    if fails:
        fault = ("BuildAbortException", f"Build of instance {server.record['uuid']} aborted: no space left")
        yield plane.publish("instance.rebuild.error", server, fault=fault)
        yield _change(plane, server, state="error", task_state=None)
        return
    image = plane.new_id() if server.record["image_uuid"] else ""
    yield from _end(plane, server, "instance.rebuild.end", image_uuid=image, launched_at=plane.second(), **_RUNNING)


def resize(plane: ControlPlane, server: Server, flavor: Record) -> Steps:
    """To another flavor on another host; confirmed by the source, or reverted back to it."""
    rng, source, old = plane.rng, server.host, server.record
    target = plane.pick_host(other_than=source)
    if source is None or target is None:
        return
    yield from _begin(plane, server, "resize_prep")
    yield plane.publish("instance.resize_prep.start", server, target)
    yield plane.publish("instance.resize_prep.end", server, target)
    yield rng.uniform(0.1, 1.0)
    yield _change(plane, server, source, task_state="resize_migrating")
    yield plane.publish("instance.resize.start", server, source)
    yield rng.uniform(0.1, 2.0)
    yield _change(plane, server, source, task_state="resize_migrated", **plane.place(server, target))
    yield plane.publish("instance.resize.end", server, source)
    yield rng.uniform(0.05, 0.5)
    yield _change(plane, server, task_state="resize_finish", flavor=flavor)
    yield plane.publish("instance.resize_finish.start", server)
    yield rng.uniform(0.05, 1.0)
    yield from _end(plane, server, "instance.resize_finish.end", state="resized", power_state="running")
    yield rng.uniform(0.5, 20.0)
    if rng.random() < 0.6:
        yield plane.publish("instance.resize_confirm.start", server, source)
        plane.save(server, task_state=None, **_RUNNING)
        yield plane.publish("instance.resize_confirm.end", server, source)
        return
    yield from _begin(plane, server, "resize_reverting")
    yield plane.publish("instance.resize_revert.start", server)
    yield rng.uniform(0.1, 1.0)
    back = plane.place(server, source)
    yield from _end(plane, server, "instance.resize_revert.end", flavor=old["flavor"], **back, **_RUNNING)


def live_migrate(plane: ControlPlane, server: Server) -> Steps:
    """To another host while it runs; or back, when the migration fails; forced to its end now and then."""
    rng, source = plane.rng, server.host
    target = plane.pick_host(other_than=source)
    if source is None or target is None:
        return
    yield from _begin(plane, server, "migrating")
    yield plane.publish("instance.live_migration_pre.start", server, target)
    yield plane.publish("instance.live_migration_pre.end", server, target)
    yield rng.uniform(0.1, 4.0)
    how = rng.random()
    if how < 0.1:
        yield plane.publish("instance.live_migration_rollback.start", server, source)
        yield from _end(plane, server, "instance.live_migration_rollback.end")
        yield plane.publish("instance.live_migration_rollback_dest.end", server, target)
        return
    force = "instance.live_migration_force_complete"
    if how < 0.4:
        yield plane.publish(f"{force}.start", server, source)
    if how < 0.2:
        yield plane.publish(f"{force}.end", server, source)
    stale = server.record
    yield plane.publish("instance.live_migration_post.start", server, source)
    yield plane.publish("instance.live_migration_post_dest.start", server, target)
    yield _change(plane, server, target, task_state=None, **plane.place(server, target), **_RUNNING)
    yield plane.publish("instance.live_migration_post_dest.end", server, target)
    yield plane.publish("instance.live_migration_post.end", server, source, seen=stale)
    if 0.2 <= how < 0.4:  # the source did not know that it was over
        if how < 0.26:
            yield plane.publish(f"{force}.end", server, source, seen=stale)
            return
        if how >= 0.33:
            yield rng.uniform(0.5, 1.5)
        yield plane.publish(f"{force}.end", server, source, seen={**stale, "updated_at": plane.second()})


def shelve(plane: ControlPlane, server: Server, *, offload: bool) -> Steps:
    """Off, with its image; offloaded, it is on no host."""
    yield from _begin(plane, server, "shelving")
    yield plane.publish("instance.shelve.start", server)
    yield plane.rng.uniform(0.1, 2.0)
    yield from _end(plane, server, "instance.shelve.end", state="shelved", power_state="shutdown")
    if offload:
        yield plane.rng.uniform(0.1, 2.0)
        yield from shelve_offload(plane, server)


def shelve_offload(plane: ControlPlane, server: Server) -> Steps:
    """Take a shelved server off its host."""
    host = server.host
    yield _change(plane, server, task_state="shelving_offloading")
    yield plane.publish("instance.shelve_offload.start", server)
    plane.save(server, state="shelved_offloaded", task_state=None, **plane.place(server, None))
    yield plane.publish("instance.shelve_offload.end", server, host)


def unshelve(plane: ControlPlane, server: Server) -> Steps:
    """Run again: where it was, or anywhere when it was offloaded."""
    yield from _begin(plane, server, "unshelving")
    if server.host is None:
        host = plane.pick_host()
        if host is None:
            yield _change(plane, server, CONDUCTOR, task_state=None)
            return
        yield plane.rng.uniform(0.1, 1.0)
        yield plane.publish("instance.unshelve.start", server, host)
        yield _change(plane, server, host, task_state="spawning", **plane.place(server, host))
        yield plane.rng.uniform(0.1, 2.0)
    yield from _end(plane, server, "instance.unshelve.end", **_RUNNING)


def evacuate(plane: ControlPlane, server: Server) -> Steps:
    """Rebuilt elsewhere, because its host is dead."""
    target = plane.pick_host(other_than=server.host)
    if target is None:
        return
    yield from _begin(plane, server, "rebuilding")
    yield plane.publish("instance.evacuate", server, API)
    yield plane.rng.uniform(0.1, 1.0)
    yield _change(plane, server, target, task_state="rebuild_spawning", **plane.place(server, target))
    yield plane.publish("instance.rebuild.start", server)
    yield plane.rng.uniform(0.1, 2.0)
    yield from _end(plane, server, "instance.rebuild.end", **_RUNNING)


def delete(plane: ControlPlane, server: Server) -> Steps:
    """Gone for good; by the API itself where no host can do it. Some words of it come late."""
    host, rng = server.host, plane.rng
    local = host is None or not host.works
    yield from _begin(plane, server, "deleting")
    publisher: Host | str = API if local or host is None else host
    yield plane.publish("instance.delete.start", server, publisher)
    dying = server.record
    if not local:
        yield plane.publish("instance.shutdown.start", server, publisher)
        yield rng.uniform(0.05, 1.5)
        yield plane.publish("instance.shutdown.end", server, publisher)
    where, gone = plane.place(server, None), plane.second()
    final = {"state": "deleted", "power_state": "pending", "deleted_at": gone, "terminated_at": gone}
    plane.save(server, task_state=None, **final, **(where if local else {}))
    yield plane.publish("instance.delete.end", server, publisher)
    late = rng.random()
    if late < 0.1:
        yield plane.publish("instance.shutdown.end", server, publisher, seen={**dying, "updated_at": plane.second()})
    elif late < 0.2:
        yield plane.publish("instance.exists", server, publisher)


def edit(plane: ControlPlane, server: Server) -> Steps:
    """What the owner changes without any host: name, metadata, lock; and what Nova tells unasked."""
    rng, record = plane.rng, server.record
    what = rng.choice(("name", "metadata", "lock", "lock", "exists"))
    if what == "name":
        name = rng.choice((None, f"renamed-{rng.randrange(10_000)}", "serveur-été", "x" * 255))
        yield _change(plane, server, API, display_name=name)
    elif what == "metadata":
        yield _change(plane, server, API, metadata={**record["metadata"], "ticket": str(rng.randrange(10_000))})
    elif what == "exists":
        yield plane.publish("instance.exists", server, None if server.host and server.host.works else API)
    elif record["locked"]:
        plane.save(server, locked=False, locked_reason=None)
        yield plane.publish("instance.unlock", server, API)
    else:
        plane.save(server, locked=True, locked_reason=rng.choice((None, "frozen for the audit")))
        yield plane.publish("instance.lock", server, API)


def attach(plane: ControlPlane, server: Server) -> Steps:
    """Volumes and interfaces come, go and are swapped."""
    rng, record = plane.rng, server.record
    volumes, addresses = record["block_devices"], record["ip_addresses"]
    fresh = plane.new_id()
    if rng.random() < 0.5:
        if len(addresses) < 3:
            action, change = "interface_attach", {"ip_addresses": [*addresses, *_addresses(plane)][:3]}
        else:
            action, change = "interface_detach", {"ip_addresses": addresses[1:]}
        more: dict[str, Any] = {}
    elif not volumes:
        action, change, more = "volume_attach", {"block_devices": [fresh]}, {"volume_id": fresh}
    elif rng.random() < 0.5:
        action, change, more = "volume_detach", {"block_devices": []}, {"volume_id": volumes[0]}
    else:
        action, change = "volume_swap", {"block_devices": [fresh]}
        more = {"old_volume_id": volumes[0], "new_volume_id": fresh}
    yield plane.publish(f"instance.{action}.start", server, **more)
    yield rng.uniform(0.01, 1.0)
    plane.save(server, **change)
    yield plane.publish(f"instance.{action}.end", server, **more)


def _begin(plane: ControlPlane, server: Server, task_state: str) -> Steps:
    """The API takes the order; the service that carries it out comes to it a little later."""
    yield _change(plane, server, API, task_state=task_state)
    yield plane.rng.uniform(0.005, 0.3)


def _end(plane: ControlPlane, server: Server, event_type: str, **final: Any) -> Steps:
    """The host saves what came of it, and tells so twice, mostly within one second."""
    yield _change(plane, server, task_state=None, **final)
    yield plane.publish(event_type, server)


def _change(plane: ControlPlane, server: Server, publisher: str | Host | None = None, **changes: Any) -> Record:
    """Save and tell."""
    old = server.record
    plane.save(server, **changes)
    return plane.update(server, old, publisher)


def _addresses(plane: ControlPlane) -> list[str]:
    rng = plane.rng
    first = f"10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(1, 255)}"
    return [first, f"fd00:17::{rng.randrange(1, 65_536):x}"] if rng.random() < 0.3 else [first]
