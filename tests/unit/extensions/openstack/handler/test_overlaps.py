# SPDX-License-Identifier: Apache-2.0
"""Orders of events that the simulated cloud found, each as small as it gets."""

from __future__ import annotations

import itertools

import pytest

from tests.unit.extensions.openstack.handler.conftest import wrapped

T = "2026-01-01T12:00:{:02d}Z".format


def test_a_soft_deleted_instance_remains_when_its_deletion_fails(nova, play):
    soft = {"state": "soft-delete", "deleted_at": T(2), "terminated_at": None}
    play(nova.instance("instance.create.end", at=1), nova.instance("instance.soft_delete.end", at=2, **soft))
    gone = {"state": "deleted", "deleted_at": T(2), "terminated_at": T(5)}
    play(nova.instance("instance.update", at=5, sent=5.1, **gone))
    snapshot = play(nova.instance("instance.update", at=5, sent=5.2, **{**gone, "state": "error"}))
    assert snapshot.get("instance", nova.VM).state == "error"


def test_a_late_copy_of_a_deleted_instance_deletes_it(nova, play):
    play(nova.instance("instance.create.end", at=1))
    snapshot = play(nova.instance("instance.exists", at=9, state="deleted", deleted_at=T(5), terminated_at=T(5)))
    assert snapshot.count("instance") == 0


def offloaded_then_locked(nova):
    off = {"state": "shelved_offloaded", "host": None, "node": None, "availability_zone": None}
    return [
        nova.instance("instance.create.end", at=1),
        nova.instance("instance.shelve_offload.end", at=2, **off),
        nova.instance("instance.update", at=4, **off),
    ]


def evacuated_then_migrated(nova):
    there = {"host": "host2", "node": "host2", "availability_zone": "az2"}
    dead = {"host": "host1", "node": "host1", "availability_zone": "az2"}
    return [
        nova.instance("instance.create.end", at=1),
        nova.instance("instance.live_migration_post_dest.end", at=2, **{**dead, "availability_zone": "az1"}),
        nova.instance("instance.rebuild.end", at=4, publisher="nova-compute:host2", **dead),
    ], there


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_an_offloaded_instance_has_no_zone_in_any_order(nova, new_player, order):
    events = offloaded_then_locked(nova)
    instance = new_player().play(*(events[i] for i in order)).get("instance", nova.VM)
    assert (instance.host, instance.node, instance.availability_zone) == (None, None, None)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_an_evacuated_instance_has_the_zone_of_its_new_host_in_any_order(nova, new_player, order):
    events, there = evacuated_then_migrated(nova)
    instance = new_player().play(*(events[i] for i in order)).get("instance", nova.VM)
    assert {name: getattr(instance, name) for name in there} == there


@pytest.mark.parametrize("method", ["build_instances", "rebuild_server"])
@pytest.mark.parametrize("order", list(itertools.permutations(range(2))))
def test_a_scheduling_that_failed_leaves_the_same_state_in_any_order(nova, new_player, order, method):
    task = wrapped("ComputeTaskPayload", "1.0", {"instance_uuid": nova.VM, "state": "error", "reason": None})
    publisher = "nova-conductor:ctl"
    events = [
        nova.instance("instance.update", at=1, state="building", task_state="spawning", power_state="pending"),
        nova.event(f"compute_task.{method}.error", task, sent=9, publisher=publisher),
    ]
    instance = new_player().play(*(events[i] for i in order)).get("instance", nova.VM)
    assert (instance.state, instance.task_state) == ("error", None)
    assert (instance.power_state, instance.updated_at.second) == ("pending", 1)
