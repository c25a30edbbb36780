# SPDX-License-Identifier: Apache-2.0
"""What went wrong in models of this kind before; each through dispatch, handler and model."""

from __future__ import annotations

import itertools

import pytest

from watcher_sync.model.changes import Outcome

DESTINATION = "nova-compute:host2"


def where(snapshot, vm):
    instance = snapshot.get("instance", vm)
    return None if instance is None else (instance.host, instance.node)


def nodes(snapshot):
    return snapshot.ids("compute_node")


@pytest.mark.parametrize("null", ["host", "display_name", "created_at"])
@pytest.mark.parametrize("event_type", ["instance.create.end", "instance.update", "instance.delete.end"])
def test_trap_01_null_host_name_or_created_at_neither_raises_nor_leaves_a_half_written_entity(
    nova, player, null, event_type
):
    fields = {null: None, "at": None} if null == "created_at" else {null: None}
    if event_type == "instance.delete.end":
        fields["state"] = "deleted"
    snapshot = player.play(nova.instance(event_type, sent=1, **fields))
    assert player.outcomes == [Outcome.APPLIED]
    instance = snapshot.get("instance", nova.VM)
    if event_type == "instance.delete.end":
        assert instance is None
        assert nodes(snapshot) == []
        return
    assert (instance.state, instance.project_id, instance.vcpus, instance.locked) == ("active", "p1", 2, False)
    assert instance.host == (None if null == "host" else "host1")
    assert instance.name == (None if null == "display_name" else "some-server")
    assert (instance.created_at is None) == (null == "created_at")
    assert nodes(snapshot) == ([] if null == "host" else ["host1"])


def test_trap_02_service_update_of_nova_conductor_on_host_x_does_not_disable_compute_x(nova, player):
    snapshot = player.play(
        nova.service("service.create", "x", sent=1),
        nova.service("service.update", "x", sent=2, binary="nova-conductor", disabled=True, forced_down=True),
        nova.service("service.delete", "x", sent=3, binary="nova-conductor"),
    )
    node = snapshot.get("compute_node", "x")
    assert (node.status, node.forced_down, node.gone) == ("enabled", False, False)
    assert player.outcomes == [Outcome.APPLIED, Outcome.IGNORED, Outcome.IGNORED]


def test_trap_03_force_complete_after_post_dest_does_not_move_the_vm_back(nova, play):
    snapshot = play(
        nova.instance("instance.create.end", at=0),
        nova.instance("instance.live_migration_post_dest.end", at=5, host="host2", publisher=DESTINATION),
        nova.instance("instance.live_migration_force_complete.end", at=5, sent=9, task_state="migrating"),
    )
    assert where(snapshot, nova.VM) == ("host2", "host2")
    assert nodes(snapshot) == ["host2"]


def test_trap_03_force_complete_as_the_first_event_places_the_vm_nowhere(nova, play):
    snapshot = play(nova.instance("instance.live_migration_force_complete.end", at=5, task_state="migrating"))
    assert where(snapshot, nova.VM) == (None, None)
    assert nodes(snapshot) == []


@pytest.mark.parametrize("late", ["instance.shutdown.end", "instance.update", "instance.create.error"])
@pytest.mark.parametrize("at", [1, 99], ids=["older", "newer"])
def test_trap_04_a_late_event_after_delete_end_does_not_resurrect(nova, player, late, at):
    snapshot = player.play(
        nova.instance("instance.create.end", at=0),
        nova.instance("instance.delete.end", at=10, state="deleted"),
        nova.instance(late, at=at, task_state="deleting"),
    )
    assert snapshot.get("instance", nova.VM) is None
    assert nodes(snapshot) == []
    assert player.outcomes[-1] is Outcome.STALE


def test_trap_05_delete_of_an_unknown_vm_does_not_add_its_host(nova, play):
    snapshot = play(nova.instance("instance.delete.end", host="host7", state="deleted"))
    assert nodes(snapshot) == []
    assert snapshot.count("instance") == 0


def test_trap_06_resize_finish_puts_the_vm_on_the_destination_and_resize_revert_brings_it_back(nova, play):
    large = {"vcpus": 8}
    play(nova.instance("instance.create.end", at=0))
    finish = nova.instance("instance.resize_finish.end", at=5, host="host2", state="resized", publisher=DESTINATION)
    finish = nova.put(finish, "nova_object.data/flavor/nova_object.data/vcpus", large["vcpus"])
    snapshot = play(finish)
    assert where(snapshot, nova.VM) == ("host2", "host2")
    assert snapshot.get("instance", nova.VM).vcpus == 8
    snapshot = play(nova.instance("instance.resize_revert.end", at=9))
    assert where(snapshot, nova.VM) == ("host1", "host1")
    assert snapshot.get("instance", nova.VM).vcpus == 2
    assert nodes(snapshot) == ["host1"]


def test_trap_07_live_migration_post_end_from_the_source_moves_nothing(nova, player):
    snapshot = player.play(
        nova.instance("instance.create.end", at=0),
        nova.instance("instance.live_migration_post_dest.end", at=5, host="host2", publisher=DESTINATION),
        nova.instance("instance.live_migration_post.end", at=5, sent=8),
    )
    assert where(snapshot, nova.VM) == ("host2", "host2")
    assert player.outcomes[-1] is Outcome.IGNORED


@pytest.mark.parametrize("version", ["1.0", "1.2", "1.4", "1.27"])
def test_trap_08_a_rescue_payload_of_its_own_version_line_does_not_lose_the_lock(nova, play, version):
    locked = nova.instance("instance.lock", at=1, locked=True, locked_reason="audit", publisher="nova-api:ctl")
    rescued = nova.instance("instance.rescue.end", at=5, state="rescued", locked=True, locked_reason="audit")
    rescued = nova.put(rescued, "nova_object.version", version)
    instance = play(locked, rescued).get("instance", nova.VM)
    assert (instance.state, instance.locked, instance.locked_reason) == ("rescued", True, "audit")
    fresh = nova.put(rescued, "nova_object.data/uuid", "another")
    assert play(fresh).get("instance", "another").locked is True


def test_trap_08_a_payload_without_the_lock_does_not_unlock(nova, play):
    locked = nova.instance("instance.lock", at=1, locked=True, locked_reason="audit")
    rescued = nova.instance("instance.rescue.end", at=5, state="rescued", without=("locked", "locked_reason"))
    instance = play(locked, rescued).get("instance", nova.VM)
    assert (instance.state, instance.locked, instance.locked_reason) == ("rescued", True, "audit")


@pytest.mark.parametrize(("disabled", "forced_down"), list(itertools.product([False, True], repeat=2)))
def test_trap_09_forced_down_down_and_disabled_are_three_things(nova, play, disabled, forced_down):
    reason = "maintenance" if disabled else None
    node = play(
        nova.service("service.update", "x", sent=1, disabled=disabled, disabled_reason=reason, forced_down=forced_down)
    ).get("compute_node", "x")
    assert node.status == ("disabled" if disabled else "enabled")
    assert node.disabled_reason == reason
    assert node.forced_down is forced_down
    assert node.state == ("down" if forced_down else "unknown")


def test_trap_10_uuid_shaped_host_names_are_just_names(nova, play):
    host = "5a6b3bd1-2b50-4b6c-a9a7-0d1f6e7c1a11"
    snapshot = play(
        nova.service("service.create", host, sent=1),
        nova.instance("instance.create.end", at=2, host=host, publisher=f"nova-compute:{host}"),
    )
    assert nodes(snapshot) == [host]
    node = snapshot.get("compute_node", host)
    assert (node.uuid, node.discovered) == (None, False)
    assert where(snapshot, nova.VM) == (host, host)
    assert [i.id for i in snapshot.by("instance", "host", host)] == [nova.VM]
    assert snapshot.last_seen("compute_node", host) is not None


def test_trap_11_where_an_update_contradicts_itself_the_data_wins_over_the_state_update(nova, play):
    update = {
        "nova_object.name": "InstanceStateUpdatePayload",
        "nova_object.namespace": "nova",
        "nova_object.version": "1.0",
        "nova_object.data": {"old_state": "building", "state": "building", "old_task_state": None},
    }
    instance = play(
        nova.instance("instance.update", at=None, state="active", task_state="scheduling", state_update=update)
    ).get("instance", nova.VM)
    assert (instance.state, instance.task_state) == ("active", "scheduling")
