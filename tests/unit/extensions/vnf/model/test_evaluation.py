# SPDX-License-Identifier: Apache-2.0
"""An instance follows its pods: levels, entries with ids that stay, and a word for everything that is not right."""

from __future__ import annotations

import datetime
import itertools
import random

import pytest

from tests.simulated import NOON
from tests.unit.extensions.vnf.model.world import DEPLOYMENT, Sync, World, registered


@pytest.fixture
def world():
    return World()


def scaled(world, *names, replicas=None):
    """The Deployment vdu1 with these pods."""
    replica_set = world.deployment(replicas=len(names) if replicas is None else replicas)
    for number, name in enumerate(names):
        world.pod(name, replica_set, age=100 - number)
    return replica_set


def results(observation):
    return {vdu: str(result) for vdu, result in observation.results.items()}


def test_scaled_from_one_to_three_the_level_is_two_and_three_pods_are_shown(world):
    scaled(world, "a")
    sync = Sync(world, registered())
    sync()
    assert sync.vnf.scale_level == {"vdu1_aspect": 0}
    scaled(world, "a", "b", "c")
    observation = sync()
    assert sync.vnf.scale_level == {"vdu1_aspect": 2}
    assert sync.vnf.state == "SYNCED"
    assert sync.pods == {"vnfc-1": "a", "vnfc-2": "b", "vnfc-3": "c"}
    assert [(c.old, c.new) for c in observation.pods] == [(None, "b"), (None, "c")]
    assert results(observation) == {"VDU1": "SYNCED"}


def test_scaled_down_the_survivors_keep_everything(world):
    scaled(world, "a", "b", "c")
    sync = Sync(world, registered())
    sync()
    for uid in ("uid-a", "uid-c"):
        world.gone(uid)
    scaled(world, "b")
    sync()
    assert sync.vnf.scale_level == {"vdu1_aspect": 0}
    assert sync.pods == {"vnfc-2": "b"}
    assert sync.vnf.vacant == []


def test_a_sync_without_a_difference_changes_nothing(world):
    scaled(world, "a", "b")
    sync = Sync(world, registered())
    assert sync().changed
    before = sync.vnf
    observation = sync()
    assert not observation.changed
    assert results(observation) == {"VDU1": "NO_DIFF"}
    assert observation.pods == ()
    assert sync.vnf == before


def test_a_killed_pod_is_replaced_under_the_same_id_and_both_names_are_reported(world):
    replica_set = scaled(world, "a", "b")
    sync = Sync(world, registered())
    sync()
    world.pod("a", replica_set, deleted_at=NOON)
    world.pod("z", replica_set, phase="Pending")
    observation = sync()
    assert sync.pods == {"vnfc-2": "b"}
    assert [(c.vnfc, c.old, c.new) for c in observation.pods] == [("vnfc-1", "a", None)]
    world.gone("uid-a")
    assert not sync().pods
    world.pod("z", replica_set)
    observation = sync()
    assert sync.pods == {"vnfc-1": "z", "vnfc-2": "b"}
    assert [(c.vnfc, c.old, c.new) for c in observation.pods] == [("vnfc-1", "a", "z")]
    assert sync.vnf.vacant == []


def test_entries_have_the_order_in_which_they_were_made_when_pods_are_replaced(world):
    replica_set = scaled(world, "a", "b", "c")
    sync = Sync(world, registered())
    sync()
    order = [v["id"] for v in sync.vnf.vnfc_resource_info]
    for uid in ("uid-a", "uid-b"):
        world.gone(uid)
        sync()
    for name in "de":
        world.pod(name, replica_set)
        sync()
    assert [v["id"] for v in sync.vnf.vnfc_resource_info] == order
    assert [v["computeResource"]["resourceId"] for v in sync.vnf.vnfc_resource_info][2] == "c"
    assert not any("at" in v for v in sync.vnf.vnfc_resource_info)


def test_a_survivor_keeps_metadata_connection_points_storage_and_properties(world):
    replica_set = scaled(world, "a", "b")
    sync = Sync(world, registered())
    sync()
    first = sync.vnf.vnfc_resource_info[0]
    first |= {"metadata": {"k": "v"}, "vnfcCpInfo": [{"id": "cp"}], "storageResourceIds": ["s"], "zoneId": "z"}
    sync.vnf.vnfc_info[0]["vnfcConfigurableProperties"] = {"p": 1}
    kept = {name: first[name] for name in ("id", "metadata", "vnfcCpInfo", "storageResourceIds", "zoneId")}
    world.gone("uid-a")
    sync()
    assert [v["id"] for v in sync.vnf.vnfc_info] == ["VDU1-vnfc-2"]
    world.pod("z", replica_set)
    sync()
    found = next(v for v in sync.vnf.vnfc_resource_info if v["id"] == "vnfc-1")
    assert {name: found[name] for name in kept} == kept
    assert found["computeResource"]["resourceId"] == "z"
    assert "info" not in found
    assert next(i for i in sync.vnf.vnfc_info if i["vnfcResourceInfoId"] == "vnfc-1")["vnfcConfigurableProperties"] == {
        "p": 1
    }


def test_all_pods_gone_is_seen_and_seen_again_and_the_level_is_not_left_as_if_it_were_true(world):
    scaled(world, "a", "b")
    sync = Sync(world, registered())
    sync()
    world.deployment(replicas=0)
    for uid in ("uid-a", "uid-b"):
        world.gone(uid)
    for _ in range(2):
        observation = sync()
        assert results(observation) == {"VDU1": "OUT_OF_RANGE"}
        assert sync.vnf.state == "OUT_OF_RANGE"
        assert sync.vnf.observed == {"VDU1": 0}
        assert sync.vnf.nearest_level == {"vdu1_aspect": None}
        assert sync.vnf.vnfc_resource_info == []
    assert sync.vnf.scale_level == {"vdu1_aspect": 1}
    scaled(world, "c")
    sync()
    assert (sync.vnf.state, sync.vnf.scale_level) == ("SYNCED", {"vdu1_aspect": 0})


@pytest.mark.parametrize("count", range(12))
def test_a_level_is_never_negative_nor_above_the_last(world, count):
    vdus = {"VDU1": {**DEPLOYMENT, "initial": 3, "min": 0, "max": 9}}
    scaled(world, *(f"p{i}" for i in range(count)))
    sync = Sync(world, registered(vdus, {"x": {"max_scale_level": 3, "deltas": {"VDU1": 2}}}))
    sync()
    level = {3: 0, 5: 1, 7: 2, 9: 3}.get(count)
    assert sync.vnf.scale_level == ({"x": level} if level is not None else {})
    nearest = max((n for n in range(4) if 3 + 2 * n <= count), default=None)
    assert sync.vnf.nearest_level == ({} if level is not None else {"x": nearest})
    assert sync.vnf.state == ("SYNCED" if level is not None else "OUT_OF_RANGE" if count > 9 else "DRIFTED")
    assert len(sync.vnf.vnfc_resource_info) == count


def test_a_number_between_two_levels_updates_the_pods_and_keeps_the_level(world):
    aspects = {"x": {"max_scale_level": 1, "deltas": {"VDU1": 2}}}
    scaled(world, "a")
    sync = Sync(world, registered(aspects=aspects))
    sync()
    scaled(world, "a", "b")
    assert results(sync()) == {"VDU1": "DRIFTED"}
    assert (sync.vnf.scale_level, sync.vnf.nearest_level, sync.vnf.observed) == ({"x": 0}, {"x": 0}, {"VDU1": 2})
    assert list(sync.pods.values()) == ["a", "b"]


def test_a_wrong_level_with_equal_names_is_repaired(world):
    import msgspec

    scaled(world, "a", "b")
    sync = Sync(world, registered())
    sync()
    sync.vnf = msgspec.structs.replace(sync.vnf, scale_level={"vdu1_aspect": 0})
    observation = sync()
    assert observation.changed
    assert results(observation) == {"VDU1": "SYNCED"}
    assert sync.vnf.scale_level == {"vdu1_aspect": 1}


def two_vdus(world, pods1, pods2, aspects):
    for name, pods in (("vdu1", pods1), ("vdu2", pods2)):
        replica_set = world.deployment(name, replicas=pods)
        for number in range(pods):
            world.pod(f"{name}-{number}", replica_set)
    second = {**DEPLOYMENT, "workload": {"kind": "Deployment", "name": "vdu2"}}
    return Sync(world, registered({"VDU1": DEPLOYMENT, "VDU2": second}, aspects))


def test_one_indivisible_vdu_does_not_discard_the_others(world):
    aspects = {
        "one": {"max_scale_level": 2, "deltas": {"VDU1": 1}},
        "two": {"max_scale_level": 1, "deltas": {"VDU2": 2}},
    }
    sync = two_vdus(world, 3, 2, aspects)
    assert results(sync()) == {"VDU1": "SYNCED", "VDU2": "DRIFTED"}
    assert sync.vnf.scale_level == {"one": 2}
    assert sync.vnf.nearest_level == {"two": 0}
    assert len(sync.vnf.vnfc_resource_info) == 5


def test_an_aspect_over_two_vdus_needs_both_to_match(world):
    aspects = {"both": {"max_scale_level": 2, "deltas": {"VDU1": 1, "VDU2": 1}}}
    sync = two_vdus(world, 2, 1, aspects)
    assert results(sync()) == {"VDU1": "DRIFTED", "VDU2": "DRIFTED"}
    sync = two_vdus(world, 2, 2, aspects)
    assert results(sync()) == {"VDU1": "SYNCED", "VDU2": "SYNCED"}
    assert sync.vnf.scale_level == {"both": 1}


def test_a_vdu_that_no_aspect_scales_has_its_initial_number(world):
    scaled(world, "a", "b")
    sync = Sync(world, registered(aspects={}))
    assert results(sync()) == {"VDU1": "DRIFTED"}
    world.gone("uid-b")
    scaled(world, "a")
    assert results(sync()) == {"VDU1": "SYNCED"}


def test_fewer_pods_than_the_workload_wants_leave_the_level_and_are_no_scale_in(world):
    replica_set = scaled(world, "a", "b")
    sync = Sync(world, registered())
    sync()
    world.gone("uid-b")
    world.pod("c", replica_set, phase="Pending")
    observation = sync()
    assert results(observation) == {"VDU1": "SETTLING"}
    assert (sync.vnf.state, sync.vnf.scale_level) == ("SETTLING", {"vdu1_aspect": 1})
    assert observation.due_in == 300
    world.pod("c", replica_set)
    assert results(sync()) == {"VDU1": "SYNCED"}
    assert sync.vnf.scale_level == {"vdu1_aspect": 1}
    assert sync.pods == {"vnfc-1": "a", "vnfc-2": "c"}


@pytest.mark.parametrize(
    ("pending", "detail"),
    [
        (
            {"phase": "Pending", "reason": "Unschedulable"},
            "1 of the 2 pods that its Deployment wants run: Unschedulable",
        ),
        (None, "1 of the 2 pods that its Deployment wants run"),
    ],
)
def test_pods_that_do_not_run_within_the_limit_are_drift_with_the_reason_and_no_other_level(world, pending, detail):
    replica_set = scaled(world, "a", "b")
    sync = Sync(world, registered())
    sync()
    world.gone("uid-b")
    if pending is not None:
        world.pod("c", replica_set, **pending)
    sync()
    sync.now += datetime.timedelta(seconds=299)
    assert sync().due_in == 1
    assert sync.vnf.state == "SETTLING"
    for _ in range(2):
        sync.now += datetime.timedelta(seconds=1)
        assert sync().due_in is None
        assert (sync.vnf.state, sync.vnf.scale_level, sync.vnf.nearest_level) == ("DRIFTED", {"vdu1_aspect": 1}, {})
        report = {name: sync.vnf.vdu_results["VDU1"][name] for name in ("detail", "since")}
        assert report == {"detail": detail, "since": f"{NOON:%Y-%m-%dT%H:%M:%SZ}"}
    scaled(world, "a", "c")
    assert results(sync()) == {"VDU1": "SYNCED"}


def test_since_when_a_vdu_is_unknown_stays_through_its_evaluations(world):
    scaled(world, "a", "b")
    sync = Sync(world, registered())
    sync()
    sync(VDU1=None)
    sync.now += datetime.timedelta(hours=1)
    assert not sync(VDU1=None).changed
    report = {"result": "UNKNOWN", "detail": "the listing failed", "since": f"{NOON:%Y-%m-%dT%H:%M:%SZ}"}
    assert sync.vnf.vdu_results == {"VDU1": report}


def test_a_listing_that_failed_is_not_no_pods(world):
    scaled(world, "a", "b")
    sync = Sync(world, registered())
    sync()
    before = (sync.vnf.vnfc_resource_info, sync.vnf.vnfc_info, sync.vnf.scale_level, sync.vnf.observed)
    observation = sync(VDU1=None)
    assert results(observation) == {"VDU1": "UNKNOWN"}
    assert observation.pods == ()
    assert (sync.vnf.vnfc_resource_info, sync.vnf.vnfc_info, sync.vnf.scale_level, sync.vnf.observed) == before
    assert sync.vnf.state == "UNKNOWN"


def test_a_workload_that_is_not_there_keeps_its_entries_and_its_level_until_it_is_found_again(world):
    replica_set = scaled(world, "a", "b")
    sync = Sync(world, registered())
    sync()
    before = (sync.vnf.vnfc_resource_info, sync.vnf.vnfc_info, sync.vnf.scale_level, sync.vnf.observed)
    world.gone("d-vdu1", "workload")
    world.gone("uid-a")
    assert results(sync()) == {"VDU1": "UNRESOLVED"}
    assert (sync.vnf.vnfc_resource_info, sync.vnf.vnfc_info, sync.vnf.scale_level, sync.vnf.observed) == before
    world.workload("d2", "Deployment", "vdu1", replicas=2)
    world.workload("rs2", "ReplicaSet", "vdu1-x", owner_uid="d2")
    for number, name in enumerate("yz"):
        world.pod(name, "rs2", age=10 - number)
    assert results(sync()) == {"VDU1": "SYNCED"}
    assert sync.pods == {"vnfc-1": "y", "vnfc-2": "z"}
    assert replica_set == "rs-vdu1"


def test_pods_of_a_workload_that_is_being_deleted_go_without_a_change(world):
    replica_set = scaled(world, "a", "b")
    sync = Sync(world, registered())
    sync()
    before = sync.vnf
    world.deployment(replicas=2, deleted_at=NOON)
    world.pod("a", replica_set, deleted_at=NOON)
    observation = sync()
    assert results(observation) == {"VDU1": "UNRESOLVED"}
    assert sync.vnf.vdu_results["VDU1"]["detail"] == "the Deployment vdu1 is being deleted"
    for field in ("vnfc_resource_info", "vnfc_info", "scale_level", "observed", "workload_uids"):
        assert getattr(sync.vnf, field) == getattr(before, field), field


def test_places_that_waited_for_a_pod_are_shown_again_when_the_workload_is_gone(world):
    replica_set = scaled(world, "a", "b", "c")
    sync = Sync(world, registered())
    sync()
    before = sync.vnf
    world.pod("a", replica_set, deleted_at=NOON)
    world.gone("uid-c")
    assert results(sync()) == {"VDU1": "SETTLING"}
    world.gone("d-vdu1", "workload")
    assert results(sync()) == {"VDU1": "UNRESOLVED"}
    for field in ("vnfc_resource_info", "vnfc_info", "vacant", "scale_level"):
        assert getattr(sync.vnf, field) == getattr(before, field), field


def test_through_a_rollout_with_surge_the_level_waits_and_the_ids_stay(world):
    old = scaled(world, "a", "b")
    sync = Sync(world, registered())
    sync()
    ids = set(sync.pods)
    new = world.workload("rs-new", "ReplicaSet", "vdu1-new", owner_uid="d-vdu1")
    for step, (goes, comes) in enumerate((("a", "y"), ("b", "z"))):
        world.workload("d-vdu1", "Deployment", "vdu1", replicas=2, updated_replicas=step + 1)
        world.pod(comes, new, age=-step)
        assert results(sync()) == {"VDU1": "SETTLING"}
        assert set(sync.pods) == ids
        assert sync.vnf.scale_level == {"vdu1_aspect": 1}
        world.pod(goes, old, deleted_at=NOON)
        sync()
        assert set(sync.pods) == ids
    assert sorted(sync.pods.values()) == ["y", "z"]
    assert sync.vnf.state == "SYNCED"


def test_a_statefulset_pod_made_again_under_its_name_is_noticed(world):
    uid = world.workload("s", "StatefulSet", "vdu1", replicas=2)
    for number in range(2):
        world.pod(f"vdu1-{number}", uid, uid=f"first-{number}")
    vdu = {**DEPLOYMENT, "workload": {"kind": "StatefulSet", "name": "vdu1"}}
    sync = Sync(world, registered({"VDU1": vdu}))
    sync()
    before = sync.pods
    world.gone("first-1")
    world.pod("vdu1-1", uid, uid="second-1")
    observation = sync()
    assert observation.changed
    assert sync.pods == before
    (change,) = observation.pods
    assert (change.old, change.new, change.old_uid, change.new_uid) == ("vdu1-1", "vdu1-1", "first-1", "second-1")


def test_a_statefulsets_places_are_its_ordinals_in_whatever_order_pods_come_back(world):
    uid = world.workload("s", "StatefulSet", "vdu1", replicas=3)
    for number in range(3):
        world.pod(f"vdu1-{number}", uid, uid=f"first-{number}")
    vdu = {**DEPLOYMENT, "workload": {"kind": "StatefulSet", "name": "vdu1"}}
    sync = Sync(world, registered({"VDU1": vdu}))
    sync()
    before = sync.pods
    for number in range(3):
        world.gone(f"first-{number}")
    sync()
    for number in (2, 0, 1):
        world.pod(f"vdu1-{number}", uid, uid=f"second-{number}", age=number)
        sync()
    assert sync.pods == before


def test_a_daemonsets_places_are_its_nodes(world):
    uid = world.workload("s", "DaemonSet", "vdu1", replicas=3)
    for number in range(3):
        world.pod(f"p{number}", uid, node=f"node-{number}")
    vdu = {**DEPLOYMENT, "workload": {"kind": "DaemonSet", "name": "vdu1"}}
    sync = Sync(world, registered({"VDU1": vdu}))
    sync()
    at = {v["pod"]["node"]: v["id"] for v in sync.vnf.vnfc_resource_info}
    for number in range(3):
        world.gone(f"uid-p{number}")
        world.pod(f"q{2 - number}", uid, node=f"node-{2 - number}", age=number)
    sync()
    assert {v["pod"]["node"]: v["id"] for v in sync.vnf.vnfc_resource_info} == at


def test_a_single_pod_that_comes_again_has_its_place(world):
    vdu = {"workload": {"kind": "Pod", "name": "vdu1"}, "initial": 1, "min": 1, "max": 1}
    world.pod("vdu1", None, uid="1")
    sync = Sync(world, registered({"VDU1": vdu}, {}))
    sync()
    before = sync.pods
    world.gone("1")
    assert results(sync()) == {"VDU1": "OUT_OF_RANGE"}
    world.pod("vdu1", None, uid="2")
    sync()
    assert sync.pods == before


def test_what_does_not_count_is_shown_and_what_crashes_is_flagged(world):
    replica_set = scaled(world, "a", "b", replicas=2)
    world.pod("a", replica_set, crash_looping=True)
    world.pod("pending", replica_set, phase="Pending")
    world.pod("evicted", replica_set, phase="Failed", reason="Evicted")
    world.pod("going", replica_set, deleted_at=NOON)
    world.pod("done", replica_set, phase="Succeeded")
    sync = Sync(world, registered())
    sync()
    assert sync.vnf.observed == {"VDU1": 2}
    assert sync.vnf.vdu_results["VDU1"] == {
        "result": "SYNCED",
        "not_counted": {"Evicted": 1, "Pending": 1, "Succeeded": 1, "Terminating": 1},
        "crash_looping": ["a"],
    }
    flags = {v["computeResource"]["resourceId"]: v["pod"]["flags"] for v in sync.vnf.vnfc_resource_info}
    assert flags == {"a": ["CrashLoopBackOff"], "b": []}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_each_running_pod_has_one_place_and_no_id_is_given_twice(world, seed):
    rng = random.Random(seed)
    replica_set = world.deployment(replicas=0)
    vdu = {**DEPLOYMENT, "initial": 0, "min": 0, "max": 50}
    sync = Sync(world, registered({"VDU1": vdu}, {"x": {"max_scale_level": 50, "deltas": {"VDU1": 1}}}))
    living, names = set(), itertools.count()
    for _ in range(60):
        for _ in range(rng.randint(0, 3)):
            if living and rng.random() < 0.5:
                living.remove(name := rng.choice(sorted(living)))
                world.gone(f"uid-{name}")
            else:
                living.add(name := f"p{next(names)}")
                world.pod(name, replica_set, age=-int(name[1:]))
        world.deployment(replicas=len(living))
        before = {v["pod"]["uid"]: v["id"] for v in sync.vnf.vnfc_resource_info or []}
        sync()
        after = {v["pod"]["uid"]: v["id"] for v in sync.vnf.vnfc_resource_info}
        assert set(after) == {f"uid-{name}" for name in living}
        assert len(set(after.values())) == len(after)
        assert all(after[uid] == vnfc for uid, vnfc in before.items() if uid in after)
        assert sync.vnf.scale_level == {"x": len(living)}
        assert not sync().changed
