# SPDX-License-Identifier: Apache-2.0
"""What a real Nova says, a sentence each: events as it publishes them, and what the model makes of them."""

from __future__ import annotations

import datetime
import itertools
import json

import pytest

from watcher_sync.exceptions import InvalidEvent
from watcher_sync.extensions.openstack.handler.aggregates import MAX_JOINS
from watcher_sync.extensions.openstack.handler.handler import NovaHandler
from watcher_sync.model.changes import Outcome, Seen
from watcher_sync.testing.nova import notifications
from watcher_sync.wire.envelopes import read_body

VM = notifications.instance_record()["uuid"]
API, CONDUCTOR, A, B = "nova-api:ctl", "nova-compute:ctl", "nova-compute:host1", "nova-compute:host2"
COPIES = [
    "instance.exists",
    "instance.shutdown.end",
    "instance.live_migration_force_complete.end",
    "instance.volume_attach.end",
    "instance.volume_detach.end",
    "instance.volume_swap.end",
]


def at(seconds):
    time = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC) + datetime.timedelta(seconds=seconds)
    return time.strftime("%Y-%m-%d %H:%M:%S.%f")


def stamp(seconds):
    return at(seconds)[:19].replace(" ", "T") + "Z"


def event(event_type, sent, *, by=A, **fields):
    """The event that a compute, a conductor or the API published ``sent`` seconds after noon."""
    if event_type.startswith("instance."):
        fields = {"host": "host1", "node": "host1", "state": "active", "task_state": None, "deleted_at": None, **fields}
    envelope = {"timestamp": at(sent), "publisher_id": by}
    return read_body(json.dumps(notifications.event(event_type, envelope=envelope, **fields)).encode(), source="nova")


def update(sent, *, old=("active", None), by=CONDUCTOR, **fields):
    """An instance.update of a save that had this (state, task_state) before."""
    data = {
        "old_state": old[0],
        "state": fields.get("state", "active"),
        "old_task_state": old[1],
        "new_task_state": fields.get("task_state"),
    }
    return event(
        "instance.update", sent, by=by, state_update=notifications.wrap("InstanceStateUpdatePayload", data), **fields
    )


def created(sent=0, **fields):
    return event("instance.create.end", sent, **fields)


def vm(snapshot):
    return snapshot.get("instance", VM)


# 1. updated_at, and copies


def test_updated_at_is_the_time_of_the_write_before_and_orders_nothing(play):
    play(created(), update(5, updated_at=stamp(5), display_name="second"))
    assert vm(play(update(9, updated_at=stamp(0), display_name="third"))).name == "third"


@pytest.mark.parametrize("copy", COPIES)
def test_an_event_that_saves_nothing_overwrites_nothing(play, copy):
    play(
        created(),
        event("instance.power_off.end", 4, state="stopped"),
        event("instance.lock", 5, by=API, state="stopped", locked=True, locked_reason="audit"),
        event("instance.resize_finish.end", 6, by=B, state="resized", host="host2", locked=True),
    )
    before = vm(play())
    after = vm(play(event(copy, 9, task_state="migrating", display_name="old", ip_addresses=[], flavor={"vcpus": 9})))
    assert after is before


@pytest.mark.parametrize("copy", COPIES)
def test_the_first_event_that_tells_of_an_instance_tells_all_of_it_even_a_copy(play, copy):
    found = vm(play(event(copy, 9, locked=True, state="paused")))
    assert (found.state, found.host, found.locked, found.vcpus, found.name) == ("paused", "host1", True, 2, "server-1")
    assert vm(play(created(1))).state == "active"


def test_a_volume_attached_while_the_server_is_locked_does_not_unlock_it(play):
    play(created(), event("instance.lock", 5, by=API, locked=True))
    assert vm(play(event("instance.volume_attach.end", 9, locked=False))).locked is True


@pytest.mark.parametrize("event_type", ["instance.create.end", "instance.pause.end", "instance.rebuild.end"])
def test_the_lock_belongs_to_lock_and_unlock(play, event_type):
    play(event("instance.lock", 5, by=API, locked=True))
    assert vm(play(event(event_type, 9, locked=False))).locked is True
    assert vm(play(update(10, locked=False))).locked is True
    assert vm(play(event("instance.unlock", 11, by=API, locked=False))).locked is False


def test_new_tags_are_published_by_the_api_without_a_save(play):
    play(created(), update(5, state="paused"))
    assert vm(play(update(6, by=API, state="active", host=None))).state == "paused"


def test_new_tags_are_those_of_the_instance_and_no_other_event_changes_them_in_any_order(new_player):
    events = [
        event("instance.create.end", 0, tags=["first"]),
        update(5, tags=["first"], state="paused"),
        update(6, by=API, tags=["b", "a"], state="active"),
        event("instance.unpause.end", 9),
    ]
    for order in itertools.permutations(events):
        found = vm(new_player().play(*order))
        assert (found.tags, found.state) == (["a", "b"], "active")


def test_post_dest_tells_the_host_and_not_what_changed_during_the_migration(play):
    play(created(), update(5, task_state="migrating", metadata={"new": "yes"}))
    moved = event("instance.live_migration_post_dest.end", 6, by=B, host="host2", node="host2", metadata={})
    found = vm(play(moved))
    assert (found.host, found.task_state, found.metadata) == ("host2", "migrating", {"new": "yes"})


def test_a_server_stopped_between_the_switch_and_post_dest_is_stopped_in_any_order(new_player):
    there = {"host": "host2", "node": "host2"}
    events = [
        created(),
        update(5, old=("active", "migrating"), **there),
        event("instance.power_off.end", 5.6, by=B, state="stopped", power_state="shutdown", **there),
        event("instance.live_migration_post_dest.end", 6, by=B, ip_addresses=["10.0.0.9"], **there),
    ]
    for order in itertools.permutations(events):
        found = vm(new_player().play(*order))
        assert (found.host, found.state, found.power_state) == ("host2", "stopped", "shutdown")
        assert found.ip_addresses == ["10.0.0.9"]


@pytest.mark.parametrize("event_type", ["instance.interface_attach.end", "instance.interface_detach.end"])
def test_an_interface_changes_the_addresses_only(play, event_type):
    play(created(), event("instance.pause.end", 5, state="paused"))
    found = vm(play(event(event_type, 6, ip_addresses=["10.0.0.9"])))
    assert (found.ip_addresses, found.state) == (["10.0.0.9"], "paused")


# 2. Deletion


def test_a_deletion_that_failed_publishes_its_end_and_the_server_remains(player):
    found = vm(player.play(created(), event("instance.delete.end", 5, by=API, task_state="deleting")))
    assert (found.state, found.task_state, found.host) == ("active", "deleting", "host1")
    assert player.doubtful == {("instance", VM)}
    assert vm(player.play(event("instance.power_off.end", 9, state="stopped"))).state == "stopped"


def test_a_state_deleted_alone_is_taken_back_by_the_error_that_follows(play):
    play(created(), update(5, state="deleted", old=("active", "deleting")))
    assert vm(play()).state == "deleted"
    assert vm(play(update(6, state="error", old=("deleted", None)))).state == "error"


def test_a_deletion_by_deleted_at_is_final(play):
    play(created(), update(5, state="deleted", deleted_at=stamp(5)))
    assert vm(play(update(6, state="error", old=("deleted", None)))) is None


@pytest.mark.parametrize("state", ["error", "active", "stopped"])
def test_a_delete_end_with_a_deleted_at_is_a_deletion_whatever_its_state(play, state):
    play(created())
    assert vm(play(event("instance.delete.end", 5, state=state, deleted_at=stamp(5)))) is None
    assert vm(play(update(6, state=state))) is None


def test_a_soft_deleted_server_whose_final_deletion_fails_remains(play):
    play(created(), event("instance.soft_delete.end", 5, state="soft-delete", deleted_at=stamp(5)))
    play(event("instance.delete.end", 9, state="error", deleted_at=stamp(5), terminated_at=stamp(8)))
    assert vm(play()).state == "error"


def test_a_soft_deleted_server_has_a_deleted_at_and_remains(play):
    play(created(), event("instance.soft_delete.end", 5, state="soft-delete", deleted_at=stamp(5)))
    assert vm(play()).state == "soft-deleted"
    assert vm(play(event("instance.delete.end", 6, state="soft-delete", deleted_at=stamp(5)))) is not None


# 3. Evacuation


def test_the_publisher_of_an_evacuations_rebuild_end_is_the_placement(player):
    player.play(
        created(),
        event("instance.power_off.end", 5, by=B, state="stopped"),
        event("instance.rebuild.end", 6, by=B, state="stopped"),
    )
    found = vm(player.play())
    assert (found.host, found.node, found.state) == ("host2", "host2", "stopped")
    assert player.doubtful == {("instance", VM)}, "its node is a guess"


def test_a_rebuild_in_place_leaves_the_server_where_it_is(player):
    found = vm(player.play(created(), event("instance.rebuild.end", 6, node="host1.example.org")))
    assert (found.host, found.node) == ("host1", "host1.example.org")
    assert player.doubtful == set()


@pytest.mark.parametrize("ahead", [0, 0.5], ids=["clocks equal", "destination ahead"])
def test_an_evacuation_with_updates_is_right_whatever_the_clocks(new_player, ahead):
    events = [
        created(),
        update(5, task_state="rebuild_spawning", old=("active", "rebuilding")),
        update(5.1, host="host2", node="host2", old=("active", "rebuild_spawning")),
        event("instance.rebuild.end", 5.11 + ahead, by=B),
        update(5.2, host="host2", node="host2"),
    ]
    for order in itertools.permutations(events):
        found = vm(new_player().play(*order))
        assert (found.host, found.state, found.task_state) == ("host2", "active", None)


# 4. Failed builds


def test_a_build_that_failed_is_on_no_host_although_its_clean_up_names_one(play):
    play(
        event("instance.shutdown.end", 5, state="building", task_state="spawning"),
        event("instance.create.error", 6, state="building", task_state="spawning", host=None, node=None),
    )
    assert (vm(play()).host, vm(play()).node) == (None, None)


def test_a_failure_with_a_host_proves_nothing_of_the_placement(play):
    play(created(), event("instance.create.error", 6, host="host9"))
    assert vm(play()).host == "host1"


# 5. Cross-cell resize


def test_a_cross_cell_resize_leaves_the_server_where_resize_finish_end_said(new_player):
    events = [
        created(),
        event("instance.resize.end", 5, task_state="resize_migrated"),
        event("instance.resize_finish.start", 5.1, by=B, task_state="resize_finish"),
        update(5.2, by=B, state="resized", host="host2", node="host2", old=("active", "resize_finish")),
        event("instance.resize_finish.end", 5.21, by=B, state="resized", host="host2", node="host2"),
        update(5.4, task_state="resize_migrated", old=("active", "resize_migrated")),
    ]
    for order in itertools.permutations(events):
        found = vm(new_player().play(*order))
        assert (found.host, found.state, found.task_state, found.source_host) == ("host2", "resized", None, "host1")


# Resizes


def test_resize_end_and_finish_start_tell_the_destination_when_the_finish_fails(play):
    play(created(), event("instance.resize.end", 5, host="host2", node="host2", task_state="resize_migrated"))
    assert (vm(play()).host, vm(play()).source_host) == ("host2", "host1")
    flavor = {"vcpus": 8}
    play(event("instance.resize_finish.start", 6, by=B, host="host2", task_state="resize_finish", flavor=flavor))
    assert (vm(play()).host, vm(play()).vcpus) == ("host2", 2), "Nova takes the flavor back"


@pytest.mark.parametrize(("end", "host"), [("confirm", "host2"), ("revert", "host1")])
def test_a_resize_ends_and_frees_the_other_hosts_allocation(play, end, host):
    play(
        created(),
        event("instance.resize.end", 5, host="host2", node="host2", task_state="resize_migrated"),
        event("instance.resize_finish.end", 6, by=B, host="host2", node="host2", state="resized"),
    )
    assert vm(play()).source_host == "host1"
    found = vm(play(event(f"instance.resize_{end}.end", 9, host=host, node=host)))
    assert (found.host, found.source_host, found.state) == (host, None, "active")


@pytest.mark.parametrize(("operation", "host"), [("finish", "host2"), ("revert", "host1")])
def test_a_resize_that_failed_frees_the_other_hosts_allocation_in_any_order(new_player, operation, host):
    placed = {"host": host, "node": host}
    events = [
        created(),
        event("instance.resize.end", 5, host="host2", node="host2", task_state="resize_migrated"),
        update(7, state="error", task_state=f"resize_{operation}", old=("active", f"resize_{operation}"), **placed),
        update(7.1, state="error", old=("error", f"resize_{operation}"), **placed),
    ]
    for order in itertools.permutations(events):
        found = vm(new_player().play(*order))
        assert (found.host, found.source_host, found.state) == (host, None, "error")


# 6. Clocks


def test_a_shelve_with_offload_at_once_by_two_conductors_ends_on_no_host(new_player):
    other = "nova-compute:ctl2"
    events = [
        created(),
        update(5, state="shelved", task_state="shelving_offloading", old=("active", "shelving")),
        update(5.9, by=other, state="shelved_offloaded", old=("shelved", "shelving_offloading")),
        update(5.5, state="shelved_offloaded", host=None, node=None, old=("shelved_offloaded", None)),
    ]
    for order in itertools.permutations(events):
        found = vm(new_player().play(*order))
        assert (found.host, found.state, found.task_state) == (None, "shelved_offloaded", None)


def test_a_forced_live_migration_ends_on_the_destination_with_the_source_ahead(new_player):
    events = [
        created(),
        event("instance.live_migration_force_complete.end", 5.5, task_state="migrating"),
        event("instance.live_migration_post_dest.end", 5.2, by=B, host="host2", node="host2"),
        event("instance.live_migration_post.end", 5.8, task_state="migrating"),
    ]
    for order in itertools.permutations(events):
        found = vm(new_player().play(*order))
        assert (found.host, found.state, found.task_state) == ("host2", "active", None)


def test_a_rescheduled_build_ends_on_the_second_host_with_the_first_one_ahead(new_player):
    building = {"state": "building", "task_state": "spawning"}
    events = [
        event("instance.shutdown.end", 5.4, **building),
        event("instance.create.error", 5.5, host=None, node=None, **building),
        event("instance.create.end", 5.2, by=B, host="host2", node="host2"),
    ]
    for order in itertools.permutations(events):
        found = vm(new_player().play(*order))
        assert (found.host, found.state, found.fault_type) == ("host2", "active", None)


def test_an_order_that_only_two_clocks_tell_is_marked_doubtful_in_any_order(new_player):
    events = [
        event("instance.power_off.end", 5, state="stopped"),
        update(5.3, task_state="powering-on", state="stopped", old=("stopped", "powering-on")),
    ]
    for order in itertools.permutations(events):
        player = new_player()
        player.play(created(), *order)
        assert player.doubtful == {("instance", VM)}
    player = new_player()
    player.play(created(), events[0], update(9, task_state="powering-on", old=("stopped", "powering-on")))
    assert player.doubtful == set()


def test_a_chain_of_states_that_agrees_with_the_clocks_is_not_doubtful(player):
    player.play(created(), update(5, task_state="pausing", old=("active", "pausing")))
    player.play(update(5.2, by="nova-compute:ctl2", state="paused", old=("active", "pausing")))
    assert player.doubtful == set()


# 7. Aggregates


def aggregate(action, sent, *hosts, **fields):
    return event(f"aggregate.{action}.end", sent, hosts=list(hosts), by=API, **fields)


def the_aggregate(snapshot):
    (found,) = snapshot.all("aggregate")
    return found


@pytest.mark.parametrize("apart", [0.0001, 0.65, 3600])
def test_hosts_added_by_requests_that_list_only_their_own_are_all_in_it_in_any_order(new_player, apart):
    events = [
        aggregate("create", 1),
        *(aggregate("add_host", 5 + i * apart, f"host{3 - i}") for i in range(3)),
    ]
    ends = [the_aggregate(new_player().play(*order)) for order in itertools.permutations(events)]
    assert {(tuple(one.hosts), one.versions) for one in ends} == {(("host1", "host2", "host3"), ends[0].versions)}


def test_the_list_of_an_added_host_proves_no_other_host_and_leaves_doubt(player):
    found = the_aggregate(player.play(aggregate("create", 1), aggregate("add_host", 5, "old", "host1")))
    assert found.hosts == ["host1"]
    assert player.doubtful == {("aggregate", found.id)}


def test_a_host_added_to_an_aggregate_whose_hosts_are_known_is_not_doubtful(player):
    player.play(aggregate("create", 1, "old"), aggregate("add_host", 5, "old", "host1"), aggregate("add_host", 6, "h2"))
    assert player.doubtful == set()


def test_a_late_list_of_hosts_leaves_the_hosts_that_joined_after_it_in_any_order(new_player):
    events = [
        aggregate("add_host", 2, "gone"),
        aggregate("update_prop", 3, "listed", name="new"),
        aggregate("add_host", 4, "fourth"),
        aggregate("add_host", 5, "fifth"),
    ]
    ends = [the_aggregate(new_player().play(*order)) for order in itertools.permutations(events)]
    assert ends[0].hosts == ["fifth", "fourth", "listed"]
    assert {(tuple(one.hosts), tuple(one.joins), one.versions) for one in ends} == {
        (("fifth", "fourth", "listed"), tuple(ends[0].joins), ends[0].versions)
    }


def test_an_aggregate_remembers_a_limited_number_of_joins_and_all_its_hosts(play):
    found = the_aggregate(play(*(aggregate("add_host", n, f"host{n:03d}") for n in range(MAX_JOINS + 10))))
    assert len(found.joins) == MAX_JOINS
    assert found.hosts == [f"host{n:03d}" for n in range(MAX_JOINS + 10)]


def test_the_list_of_an_aggregate_is_authoritative_in_create_and_update(play):
    play(event("aggregate.create.end", 1, hosts=["host1"], by=API))
    snapshot = play(event("aggregate.update_metadata.end", 1.1, hosts=["host2"], by=API, metadata={"a": "b"}))
    (found,) = snapshot.all("aggregate")
    assert (found.hosts, found.metadata, found.number) == (["host2"], {"a": "b"}, 1)


@pytest.mark.parametrize("apart", [0.1, 3600])
def test_a_host_removed_from_an_aggregate_marks_it_doubtful(player, apart):
    player.play(aggregate("create", 5, "host1", "host2"))
    found = the_aggregate(player.play(aggregate("remove_host", 5 + apart, "host2")))
    assert found.hosts == ["host2"]
    assert player.doubtful == {("aggregate", found.id)}


# 8. Old payloads


def test_a_flavor_payload_1_0_without_swap_counts_no_swap(play):
    old = event("instance.create.end", 1, flavor={"root_gb": 20, "ephemeral_gb": 5})
    document = old.read()
    flavor = document["nova_object.data"]["flavor"]
    flavor["nova_object.version"] = "1.0"
    for name in ("swap", "name", "extra_specs"):
        del flavor["nova_object.data"][name]
    found = vm(play(type(old)(id="x", type=old.type, source="nova", origin=A, time=old.time, data=document)))
    assert (found.disk_gb, found.swap_mb) == (25, None)


# 9. What no event has


def test_a_failed_rebuild_leaves_its_state_untold_and_the_instance_doubtful(player):
    player.play(created(), event("instance.rebuild.error", 5, task_state="rebuild_spawning"))
    assert player.doubtful == {("instance", VM)}


def test_a_compute_exception_makes_the_hosts_instances_with_a_task_doubtful(player):
    player.play(
        created(),
        created(uuid="idle"),
        created(uuid="resizing"),
        update(5, task_state="rebuilding"),
        event("instance.resize.end", 5, by=B, uuid="resizing", task_state="resize_migrated"),
    )
    player.play(event("compute.exception", 6, by=A))
    assert player.doubtful == {("instance", VM), ("instance", "resizing")}


# Conductors that gave up


@pytest.mark.parametrize("task", ["build_instances", "migrate_server", "rebuild_server"])
def test_a_conductor_that_gave_up_tells_state_task_and_fault(nova, play, task):
    reason = notifications.fault("NoValidHost", "none is left")
    payload = {"instance_uuid": VM, "state": "error", "reason": reason, "request_spec": None}
    wrapped = notifications.wrap("ComputeTaskPayload", payload, version="1.0")
    error = nova.event(f"compute_task.{task}.error", wrapped, sent=10**7, publisher="nova-conductor:ctl")
    found = vm(play(error))
    assert (found.state, found.task_state, found.host, found.name) == ("error", None, None, None)
    assert (found.fault_type, found.fault_message) == ("NoValidHost", "none is left")


def gave_up(nova, task, *, image=True, version="1.1", state="error"):
    """A conductor gave up, with the specification of the request."""
    flavor = {"flavorid": "9", "name": "wide", "vcpus": 3, "memory_mb": 300, "root_gb": 5, "ephemeral_gb": 1}
    flavor |= {"swap": 1025, "extra_specs": {"hw:cpu_policy": "dedicated"}}
    spec = {
        "instance_uuid": VM,
        "project_id": "p9",
        "user_id": "u9",
        "availability_zone": "north",
        "flavor": notifications.wrap("FlavorPayload", flavor, version="1.4"),
        "image": notifications.wrap("ImageMetaPayload", {"id": "image9", "name": "i"}, version="1.0")
        if image
        else None,
    }
    payload = {"instance_uuid": VM, "state": state, "reason": notifications.fault("NoValidHost", "none is left")}
    payload["request_spec"] = notifications.wrap("RequestSpecPayload", spec, version=version)
    wrapped = notifications.wrap("ComputeTaskPayload", payload, version="1.0")
    return nova.event(f"compute_task.{task}.error", wrapped, sent=10**7, publisher="nova-conductor:ctl")


REQUESTED = {
    "project_id": "p9", "user_id": "u9", "pinned_zone": "north", "vcpus": 3, "memory_mb": 300, "root_gb": 5,
    "ephemeral_gb": 1, "swap_mb": 1025, "flavor_id": "9", "flavor_name": "wide",
    "extra_specs": {"hw:cpu_policy": "dedicated"},
}  # fmt: skip


@pytest.mark.parametrize(("image", "image_id", "disk_gb"), [(True, "image9", 8), (False, None, 3)])
def test_a_server_that_was_never_built_has_what_it_was_requested_with(nova, play, image, image_id, disk_gb):
    found = vm(play(gave_up(nova, "build_instances", image=image)))
    assert {name: getattr(found, name) for name in REQUESTED} == REQUESTED
    assert (found.image_id, found.disk_gb, found.availability_zone, found.state) == (image_id, disk_gb, None, "error")


@pytest.mark.parametrize("first", [True, False])
def test_what_an_event_tells_of_the_server_itself_is_newer_than_its_request_in_any_order(nova, new_player, first):
    events = [gave_up(nova, "build_instances"), update(5, task_state="scheduling", state="building")]
    found = vm(new_player().play(*(events if first else reversed(events))))
    alone = vm(new_player().play(events[1]))
    names = set(REQUESTED) - {"pinned_zone"} | {"name", "image_id", "disk_gb"}
    assert {name: getattr(found, name) for name in names} == {name: getattr(alone, name) for name in names}


@pytest.mark.parametrize("task", ["migrate_server", "rebuild_server"])
def test_the_request_of_a_move_tells_nothing_of_the_server(nova, play, task):
    """That of a resize has the new flavor."""
    found = vm(play(created(), gave_up(nova, task)))
    assert found.state == "error"
    assert [name for name in REQUESTED if getattr(found, name) == REQUESTED[name]] == []


def test_a_request_of_an_unknown_version_is_refused(nova, play):
    with pytest.raises(InvalidEvent, match=r"request_spec\.nova_object\.version: Expected 1\.x, got '2\.0'"):
        list(NovaHandler().on_compute_task_error(gave_up(nova, "build_instances", version="2.0"), None))


def test_an_aborted_live_migration_in_the_queue_gives_the_state_back(play):
    play(created(), update(5, task_state="migrating"))
    found = vm(play(event("instance.live_migration_abort.end", 6)))
    assert (found.state, found.task_state, found.host) == ("active", None, "host1")


def test_the_abort_of_a_running_live_migration_gives_no_state_back_in_any_order(new_player):
    events = [
        created(),
        event("instance.live_migration_rollback.end", 5),
        event("instance.live_migration_abort.end", 6, task_state="migrating"),
    ]
    for order in itertools.permutations(events):
        found = vm(new_player().play(*order))
        assert (found.state, found.task_state) == ("active", None)


# Faults


@pytest.mark.parametrize("task", ["build_instances", "migrate_server", "rebuild_server"])
def test_a_conductor_that_gave_up_leaves_power_and_time_of_the_server_in_any_order(nova, new_player, task):
    events = [
        created(),
        event("instance.power_off.end", 5, state="stopped", power_state="shutdown", updated_at=stamp(4)),
        gave_up(nova, task, state="stopped"),
    ]
    ends = [vm(new_player().play(*order)) for order in itertools.permutations(events)]
    assert {one.versions for one in ends} == {ends[0].versions}
    times = {one.updated_at.isoformat() for one in ends}
    assert {(one.state, one.power_state) for one in ends} == {("stopped", "shutdown")}
    assert times == {stamp(4).replace("Z", "+00:00")}


def test_the_fault_of_a_request_is_shown_until_the_next_successful_action_of_a_healthy_server(nova, play):
    assert vm(play(created(), gave_up(nova, "migrate_server", state="active"))).fault_type == "NoValidHost"
    found = vm(play(event("instance.power_off.end", 6_000_000, state="stopped")))
    assert (found.state, found.fault_type, found.fault_message) == ("stopped", None, None)


def test_a_fault_goes_when_the_instance_recovers(play):
    play(created(), event("instance.rebuild.error", 5, state="error", fault=("Boom", "it failed")))
    assert vm(play(update(6, state="error"))).fault_type == "Boom"
    assert vm(play(update(7, state="error", task_state="rebuilding"))).fault_type == "Boom"
    found = vm(play(event("instance.rebuild.end", 8)))
    assert (found.state, found.fault_type, found.fault_message) == ("active", None, None)


def test_a_fault_from_another_process_has_its_message_without_the_traceback(nova, play):
    text = 'No valid host was found. \nTraceback (most recent call last):\n\n  File "server.py", line 1\n'
    payload = {"instance_uuid": VM, "state": "error", "reason": notifications.fault("NoValidHost_Remote", text)}
    wrapped = notifications.wrap("ComputeTaskPayload", payload, version="1.0")
    event = nova.event("compute_task.build_instances.error", wrapped, sent=10**7, publisher="nova-conductor:ctl")
    found = vm(play(event))
    assert (found.fault_type, found.fault_message) == ("NoValidHost", "No valid host was found. ")


# Signs of life


@pytest.mark.parametrize(
    ("event_type", "by", "alive"),
    [
        ("instance.power_off.end", A, True),
        ("instance.create.start", A, True),
        ("service.create", A, True),
        ("service.update", A, False),
        ("instance.update", A, False),
        ("instance.rebuild_scheduled", "nova-conductor:host1", False),
        ("instance.rebuild_scheduled", A, False),
        ("instance.lock", API, False),
        ("instance.delete.end", API, False),
        ("aggregate.add_host.end", API, False),
    ],
)
def test_a_sign_of_life_is_what_the_hosts_own_compute_published(nova, changes, event_type, by, alive):
    told = nova.event(event_type, {}, sent=5, publisher=by)
    if event_type in notifications.event_types():
        told = event(event_type, 5, by=by)
    found = [change for change in changes(told) if isinstance(change, Seen)]
    assert [sign.id for sign in found] == (["host1"] if alive else [])


def test_a_late_copy_after_a_deletion_resurrects_nothing(player):
    player.play(created(), event("instance.delete.end", 5, state="deleted", deleted_at=stamp(5)))
    assert vm(player.play(event("instance.exists", 9))) is None
    assert player.outcomes[-1] is Outcome.STALE
