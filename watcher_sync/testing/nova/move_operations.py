# SPDX-License-Identifier: Apache-2.0
"""Operations that bring servers to a host or to another one, with the writes and notifications of Nova.

Operations are generators, as in :mod:`watcher_sync.testing.nova.server_operations`. The publisher of an event is often
not the host that its payload names. The source of a migration publishes the old host after the destination published
the new one. The destination of an evacuation publishes the dead host until its last event.
"""

from __future__ import annotations

from watcher_sync.testing.nova.control_plane import API, ControlPlane, Copy, Host, Record, Server, Steps
from watcher_sync.testing.nova.server_operations import (
    RUNNING,
    fail_rebuild,
    finish,
    new_addresses,
    order,
    respawn,
)

_NO_HOST = ("NoValidHost", "No valid host was found. There are not enough hosts available.")


def boot(plane: ControlPlane, server: Server, *, fails: str | None) -> Steps:
    """From the API's record to a running server, or to state error.

    :param fails: ``everywhere``: no host can build it; ``once``: the first host cannot; ``abort``: the first host gives
        up for all.
    """
    rng, host = plane.rng, plane.pick_host()
    yield plane.publish_other("scheduler.select_destinations.start")
    yield plane.publish_other("scheduler.select_destinations.end")
    if host is None:
        yield from _give_up(plane, plane.read(server), "build_instances", _NO_HOST)
        return
    server.record = {**server.record, "availability_zone": host.availability_zone}
    if rng.random() < 0.1:
        server.pinned_zone = host.availability_zone
    copy = plane.read(server)
    if plane.notify_on_state_change:
        yield plane.publish_update(copy, copy.record, copy.conductor)
    yield rng.uniform(0.01, 0.8)
    if fails in ("everywhere", "once"):
        yield from _fail_to_build(plane, copy, host)
        host = plane.pick_host(other_than=host)
        if host is None or (fails == "everywhere" and rng.random() < 0.5):
            text = f"Exceeded maximum number of retries for instance {server.uuid}."
            yield from _give_up(plane, copy, "build_instances", ("MaxRetriesExceeded", text))
            return
        yield from copy.save(task_state="scheduling", availability_zone=None)
        yield from copy.save(availability_zone=host.availability_zone)
    if fails == "everywhere":
        yield from _fail_to_build(plane, copy, host)
        text = f"Exceeded maximum number of retries for instance {server.uuid}."
        yield from _give_up(plane, copy, "build_instances", ("MaxRetriesExceeded", text))
        return
    yield from _spawn(plane, copy, host)
    if fails == "abort":
        fault = rng.choice((("FlavorDiskTooSmall", "The created instance's disk would be too small."),
                            ("VirtualInterfaceCreateException", "Virtual Interface creation failed")))  # fmt: skip
        yield copy.publish("instance.create.error", host, fault=fault)
        plane.fail(server, *fault)
        plane.database.release(server)
        yield from copy.save(state="error", task_state=None, **plane.place(server, None))
        return
    launched = {"launched_at": plane.second(copy.conductor), **RUNNING}
    yield from finish(copy, host, "instance.create.end", **launched)


def _spawn(plane: ControlPlane, copy: Copy, host: Host) -> Steps:
    """A host takes the server and builds it, as far as the driver's end."""
    rng, server = plane.rng, copy.server
    plane.database.claim(server, host)
    yield from copy.save(task_state=None)
    yield copy.publish("instance.create.start", host)
    yield from copy.save(**plane.place(server, host))
    yield rng.uniform(0.1, 1.0)
    yield from copy.save(task_state="networking")
    yield rng.uniform(0.1, 1.0)
    yield from copy.save(task_state="spawning", ip_addresses=new_addresses(plane))
    yield rng.uniform(0.1, 3.0)


def _fail_to_build(plane: ControlPlane, copy: Copy, host: Host) -> Steps:
    """The clean-up still names the host; the error that follows names none."""
    server = copy.server
    yield from _spawn(plane, copy, host)
    yield copy.publish("instance.shutdown.start", host)
    yield copy.publish("instance.shutdown.end", host)
    plane.database.release(server)
    yield from copy.save(ip_addresses=[], **plane.place(server, None))
    fault = ("BuildAbortException", f"Build of instance {server.uuid} was re-scheduled: fails")
    yield copy.publish("instance.create.error", host, fault=fault)
    yield from copy.save()
    yield plane.rng.uniform(0.01, 0.3)


def _give_up(plane: ControlPlane, copy: Copy, method: str, fault: tuple[str, str]) -> Steps:
    """A conductor finds no host."""
    plane.fail(copy.server, *fault)
    yield from copy.save(state="error", task_state=None)
    yield plane.publish_compute_task(method, copy, fault)


def resize(plane: ControlPlane, server: Server, flavor: Record, *, ends: str) -> Steps:
    """To another flavor on another host.

    :param ends: ``confirmed`` by the source, ``reverted`` back to it, or ``fails`` on the destination.
    """
    rng, source, copy = plane.rng, server.host, plane.read(server)
    target, old = plane.pick_host(other_than=source), server.record
    if source is None:
        return
    yield from order(plane, copy, task_state="resize_prep")
    if target is None:  # the server is as healthy as before, and its API shows no fault
        yield from copy.save(task_state=None)
        yield plane.publish_compute_task("migrate_server", copy, _NO_HOST)
        return
    migration = plane.migrate(server, "resize", target, flavor)
    yield copy.publish("instance.exists", target)
    yield copy.publish("instance.resize_prep.start", target)
    yield from copy.save()
    yield copy.publish("instance.resize_prep.end", target)
    yield rng.uniform(0.1, 1.0)
    plane.conclude(migration, "migrating")
    yield from copy.save(task_state="resize_migrating")
    yield copy.publish("instance.resize.start", source)
    yield rng.uniform(0.1, 2.0)
    server.source_host = source
    yield from copy.save(task_state="resize_migrated", **plane.place(server, target))
    yield copy.publish("instance.resize.end", source, source=source)
    yield rng.uniform(0.05, 0.5)
    yield from copy.save(task_state="resize_finish", flavor=flavor)
    yield copy.publish("instance.resize_finish.start", target)
    yield rng.uniform(0.05, 1.0)
    if ends == "fails":
        plane.conclude(migration, "error")
        plane.database.release(server, source)
        server.source_host = None
        fault = ("PortBindingFailed", "Binding failed for port 1, please check neutron logs for more information.")
        plane.fail(server, *fault)
        yield plane.publish_other(
            "compute.exception",
            target.publisher,
            request_id=copy.request_id,
            exception=fault[0],
            exception_message=fault[1],
        )
        yield from copy.save(state="error", task_state=None, flavor=old["flavor"])
        return
    launched = plane.second(copy.conductor)
    plane.conclude(migration, "finished")
    yield from finish(
        copy, target, "instance.resize_finish.end", state="resized", power_state="running", launched_at=launched
    )
    yield rng.uniform(0.5, 20.0)
    copy = plane.read(server)
    if ends == "confirmed":
        yield from _confirm(plane, copy, source, migration.uuid)
    else:
        yield from _revert(plane, copy, source, target, migration.uuid, old)


def _confirm(plane: ControlPlane, copy: Copy, source: Host, migration: str) -> Steps:
    server = copy.server
    yield copy.publish("instance.resize_confirm.start", source)
    yield plane.rng.uniform(0.01, 0.5)
    plane.database.release(server, source)
    plane.conclude(plane.database.migrations[migration], "confirmed")
    server.source_host = None
    yield from copy.save(task_state=None, **RUNNING)
    yield copy.publish("instance.resize_confirm.end", source)
    yield from copy.save()


def _revert(plane: ControlPlane, copy: Copy, source: Host, target: Host, migration: str, old: Record) -> Steps:
    server = copy.server
    yield from order(plane, copy, task_state="resize_reverting")
    yield copy.publish("instance.resize_revert.start", target)
    yield plane.rng.uniform(0.1, 1.0)
    plane.database.release(server, target)
    plane.database.hand_over(server, source, migration, server.uuid)
    plane.conclude(plane.database.migrations[migration], "reverted")
    server.source_host = None
    yield from copy.save(flavor=old["flavor"], **plane.place(server, source))
    yield from finish(copy, source, "instance.resize_revert.end", **RUNNING)


MIGRATIONS = {
    "done": 56, "forced": 8, "forced_late": 20, "rolled_back": 5, "aborted": 4, "aborted_in_queue": 4, "fails": 3,
}  # fmt: skip
"""How a live migration ends -> how often, in percent."""


def live_migrate(plane: ControlPlane, server: Server, *, ends: str) -> Steps:
    """To another host while it runs.

    :param ends: one of :data:`MIGRATIONS`.
    """
    rng, source, copy = plane.rng, server.host, plane.read(server)
    target = plane.pick_host(other_than=source)
    if source is None or target is None:
        return
    yield from order(plane, copy, task_state="migrating")
    migration = plane.migrate(server, "live-migration", target)
    if ends == "aborted_in_queue":
        _undo(plane, server, source, target, migration.uuid)
        yield from _abort(plane, server, source, queued=True)
        return
    yield copy.publish("instance.live_migration_pre.start", target)
    yield copy.publish("instance.live_migration_pre.end", target)
    yield rng.uniform(0.1, 4.0)
    if ends in ("rolled_back", "aborted"):
        if ends == "aborted":
            yield from _abort(plane, server, source, queued=False)
        yield copy.publish("instance.live_migration_rollback.start", source)
        _undo(plane, server, source, target, migration.uuid)
        yield from finish(copy, source, "instance.live_migration_rollback.end")
        if ends == "aborted":
            copy.record = {**copy.record, "task_state": "migrating"}
            yield copy.publish("instance.live_migration_rollback_dest.start", target)
            yield copy.publish("instance.live_migration_rollback_dest.end", target)
        return
    forced = plane.read(server) if ends.startswith("forced") else None
    if forced is not None:
        yield forced.publish("instance.live_migration_force_complete.start", source)
        if ends == "forced":
            yield forced.publish("instance.live_migration_force_complete.end", source)
    yield from _switch(plane, copy, source, target, migration.uuid, fails=ends == "fails")
    if forced is not None and ends == "forced_late":  # the source did not know that it was over
        yield rng.uniform(0.0, 1.5)
        yield forced.publish("instance.live_migration_force_complete.end", source)


def _switch(
    plane: ControlPlane, copy: Copy, source: Host, target: Host, migration: str, *, fails: bool
) -> Steps:  # fmt: skip
    """The server runs on the destination; the source's copy never learns of it."""
    server = copy.server
    there = plane.read(server)
    there.record, there.request_id = copy.record, copy.request_id
    yield copy.publish("instance.live_migration_post.start", source)
    yield there.publish("instance.live_migration_post_dest.start", target)
    plane.database.release(server, source)
    plane.conclude(plane.database.migrations[migration], "error" if fails else "completed")
    if fails:
        plane.fail(server, "VirtualInterfaceCreateException", "Virtual Interface creation failed")
        yield from there.save(task_state=None, state="error", **plane.place(server, target))
        yield plane.publish_other("compute.exception", target.publisher)
    else:
        yield from there.save(task_state=None, **plane.place(server, target), **RUNNING)
        yield plane.rng.uniform(0.0, 0.5)
        yield there.publish("instance.live_migration_post_dest.end", target)
    yield copy.publish("instance.live_migration_post.end", source)


def _abort(plane: ControlPlane, server: Server, source: Host, *, queued: bool) -> Steps:
    """The API reads the server again; a migration in the queue ends at once."""
    copy = plane.read(server)
    yield copy.publish("instance.live_migration_abort.start", source)
    if queued:
        yield from copy.save(task_state=None)
    owns = "instance.live_migration_abort.end" if queued else "instance.live_migration_abort.end of a running one"
    yield copy.publish("instance.live_migration_abort.end", source, owns=owns)


def _undo(plane: ControlPlane, server: Server, source: Host, target: Host, migration: str) -> None:
    """The allocation on the source is the server's again."""
    plane.database.release(server, target)
    plane.database.hand_over(server, source, migration, server.uuid)
    plane.conclude(plane.database.migrations[migration], "cancelled")


def evacuate(plane: ControlPlane, server: Server, *, fails: bool = False) -> Steps:
    """Rebuilt elsewhere, because its host is dead. Only the publisher tells the new host; the row is written last."""
    copy, was_stopped = plane.read(server), server.state == "stopped"
    target = plane.pick_host(other_than=server.host)
    yield from copy.save(API, task_state="rebuilding")
    yield copy.publish("instance.evacuate", API)
    yield plane.rng.uniform(0.1, 0.6)
    yield plane.publish_other("scheduler.select_destinations.start")
    if target is None:
        yield from _give_up(plane, copy, "rebuild_server", _NO_HOST)
        return
    yield plane.publish_other("scheduler.select_destinations.end")
    migration = plane.migrate(server, "evacuation", target)
    yield copy.publish("instance.rebuild_scheduled", f"nova-conductor:{target.name}")
    yield copy.publish("instance.exists", target)
    yield copy.publish("instance.rebuild.start", target)
    yield plane.rng.uniform(0.1, 2.0)
    yield from copy.save(task_state="rebuild_spawning", availability_zone=target.availability_zone)
    if fails:
        plane.database.release(server, target)
        plane.conclude(migration, "failed")
        yield from fail_rebuild(plane, copy, target)
        return
    launched = plane.second(copy.conductor)
    yield from respawn(copy, target, was_stopped=was_stopped, launched_at=launched)
    yield copy.publish("instance.rebuild.end", target, on=target)
    plane.conclude(migration, "done")
    yield from copy.save(**plane.place(server, target))
