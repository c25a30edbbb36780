# SPDX-License-Identifier: Apache-2.0
"""What an instance is, which resources it has, and which instances a changed entity concerns."""

from __future__ import annotations

import pytest

from tests.unit.extensions.vnf.model.world import World, registered
from watcher_sync.extensions.webhooks.onap.documents import INSTANCE_KINDS, InstanceIndex, find_instance, resources_of
from watcher_sync.model.changes import Upsert

FIELDS = {
    "vnf_instance": {"registration": {"name": "one"}},
    "service_type_instance": {"spec": {"instance_name": "one"}},
    "instance": {"state": {"state": "active"}},
    "custom_object": {"state": {"state": "Running"}},
}


@pytest.fixture
def world():
    """A Deployment with two pods, a pod of a similar name elsewhere, and a StatefulSet of another owner."""
    world = World()
    below = world.deployment()
    world.pod("b", below)
    world.pod("a", below)
    world.pod("c", "another-uid")
    world.workload("s-db", "StatefulSet", "db")
    world.pod("d", "s-db")
    return world


def ids(found):
    return [(kind, entity.id) for kind, entity in found]


def put(world, kind, entity_id):
    world._write(Upsert(kind, entity_id, world._version(), FIELDS[kind]))


def test_an_id_is_looked_up_in_the_order_of_the_instance_kinds(world):
    assert find_instance(world.model.snapshot(), "x") is None
    for kind in reversed(INSTANCE_KINDS):
        put(world, kind, "x")
        found = find_instance(world.model.snapshot(), "x")
        assert (found[0], found[1].id) == (kind, "x")


def test_a_pod_is_no_instance(world):
    assert find_instance(world.model.snapshot(), "uid-a") is None


def test_a_vnf_instance_has_its_workloads_and_their_pods(world):
    found = resources_of(world.model.snapshot(), "vnf_instance", registered())
    assert ids(found) == [
        ("pod", "uid-a"),
        ("pod", "uid-b"),
        ("workload", "d-vdu1"),
        ("workload", "rs-vdu1"),
    ]


def test_a_vnf_instance_has_the_pod_that_it_names(world):
    vdu = {"workload": {"kind": "Pod", "name": "c"}, "initial": 1, "min": 1, "max": 1}
    found = resources_of(world.model.snapshot(), "vnf_instance", registered({"VDU1": vdu}, {}))
    assert ids(found) == [("pod", "uid-c")]


def test_workloads_that_own_each_other_end_the_walk():
    world = World()
    world.workload("one", "Deployment", "vdu1", owner_uid="two")
    world.workload("two", "ReplicaSet", "r", owner_uid="one")
    found = resources_of(world.model.snapshot(), "vnf_instance", registered())
    assert ids(found) == [("workload", "one"), ("workload", "two")]


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (["pod"], {"pod"}),
        (["workload", "pod"], {"pod", "workload"}),
        (["vnf_instance"], {"vnf_instance"}),
        ([], set()),
        (["instance"], set()),
    ],
)
def test_only_the_kinds_that_are_asked_for(world, kinds, expected):
    found = resources_of(world.model.snapshot(), "vnf_instance", registered(), kinds)
    assert {kind for kind, _ in found} == expected


@pytest.mark.parametrize("kind", ["service_type_instance", "instance", "custom_object"])
def test_any_other_instance_is_its_only_resource(world, kind):
    put(world, kind, "x")
    view = world.model.snapshot()
    entity = view.get(kind, "x")
    assert resources_of(view, kind, entity) == [(kind, entity)]
    assert resources_of(view, kind, entity, [kind]) == [(kind, entity)]
    assert resources_of(view, kind, entity, ["pod"]) == []


def concerned(index, world, kind, entity_id):
    view = world.model.snapshot()
    return index.concerned(kind, entity_id, [None, view.get(kind, entity_id)], view)


@pytest.mark.parametrize("kind", INSTANCE_KINDS)
def test_an_instance_concerns_itself(world, kind):
    assert InstanceIndex().concerned(kind, "x", [None, None], world.model.snapshot()) == {(kind, "x")}


def test_an_entity_concerns_exactly_the_instances_that_it_is_a_resource_of(world):
    index, view = InstanceIndex(), world.model.snapshot()
    vnf = registered()
    index.put("vnf", vnf)
    resources = ids(resources_of(view, "vnf_instance", vnf))
    for kind in ("pod", "workload"):
        for entity_id in view.ids(kind):
            expected = {("vnf_instance", "vnf")} if (kind, entity_id) in resources else set()
            assert concerned(index, world, kind, entity_id) == expected, (kind, entity_id)


def test_an_instance_that_was_removed_concerns_no_more(world):
    index = InstanceIndex()
    index.put("vnf", registered())
    assert len(index) == 1
    index.put("vnf", None)
    assert len(index) == 0
    assert concerned(index, world, "pod", "uid-a") == set()


def test_a_deleted_pod_concerns_the_instance_of_its_state_before(world):
    index, before = InstanceIndex(), world.model.snapshot().get("pod", "uid-a")
    index.put("vnf", registered())
    world.gone("uid-a")
    assert index.concerned("pod", "uid-a", [before, None], world.model.snapshot()) == {("vnf_instance", "vnf")}


def test_a_pod_with_another_owner_concerns_the_instances_of_both_states(world):
    vdu = {"workload": {"kind": "StatefulSet", "name": "db"}, "initial": 1, "min": 1, "max": 1}
    index, before = InstanceIndex(), world.model.snapshot().get("pod", "uid-a")
    index.put("one", registered())
    index.put("two", registered({"VDU1": vdu}, {}))
    world.pod("a", "s-db")
    view = world.model.snapshot()
    found = index.concerned("pod", "uid-a", [before, view.get("pod", "uid-a")], view)
    assert found == {("vnf_instance", "one"), ("vnf_instance", "two")}


def test_an_entity_of_another_kind_concerns_no_instance(world):
    index = InstanceIndex()
    index.put("vnf", registered())
    assert index.concerned("cluster", "edge", [None], world.model.snapshot()) == set()
