# SPDX-License-Identifier: Apache-2.0
"""The uid of its controller decides which VDU a pod belongs to."""

from __future__ import annotations

import pytest

from tests.simulated import NOON
from tests.unit.extensions.vnf.model.world import World
from watcher_sync.extensions.kubernetes.kinds import Pod
from watcher_sync.extensions.vnf.model.matching import VduInput, counts, is_settling, read_vdu


@pytest.fixture
def world():
    return World()


def seen(world, name="vdu1", kind="Deployment"):
    view = world.model.snapshot()
    return read_vdu(view, cluster="edge", namespace="default", workload={"kind": kind, "name": name})


def names(vdu):
    return [pod.name for pod in vdu.pods]


def test_vdu1_does_not_take_the_pods_of_vdu10(world):
    for name in ("vdu1", "vdu10"):
        world.pod(f"{name}-5d8f-aaaaa", world.deployment(name))
    assert names(seen(world, "vdu1")) == ["vdu1-5d8f-aaaaa"]
    assert names(seen(world, "vdu10")) == ["vdu10-5d8f-aaaaa"]


def test_the_pod_of_a_cronjob_that_looks_like_a_deployments_is_not_counted(world):
    world.pod("vdu1-5d8f-aaaaa", world.deployment())
    world.pod("vdu1-28451234-bbbbb", "uid-of-a-job", owner_kind="Job")
    world.pod("vdu1-5d8f-ccccc", None)
    assert names(seen(world)) == ["vdu1-5d8f-aaaaa"]


@pytest.mark.parametrize("length", [46, 47, 58, 63, 240])
def test_a_name_of_any_length_finds_its_pods(world, length):
    name = "v" * length
    replica_set = world.deployment(name)
    world.pod(f"{name[:58]}aaaaa", replica_set)
    assert names(seen(world, name)) == [f"{name[:58]}aaaaa"]


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "DaemonSet"])
def test_other_workloads_own_their_pods_themselves(world, kind):
    uid = world.workload("w", kind, "vdu1")
    world.pod("vdu1-0", uid)
    world.pod("vdu1-1", "another")
    assert names(seen(world, kind=kind)) == ["vdu1-0"]


def test_a_single_pod_is_found_by_its_name_and_none_is_none(world):
    world.pod("vdu1", None)
    world.pod("vdu10", None)
    assert names(seen(world, kind="Pod")) == ["vdu1"]
    assert seen(world, "gone", kind="Pod").pods == ()


@pytest.mark.parametrize("field", ["cluster", "namespace", "kind"])
def test_a_workload_of_the_same_name_elsewhere_is_another(world, field):
    world.workload("w", **({"kind": "Deployment", "name": "vdu1"} | {field: "StatefulSet" if field == "kind" else "x"}))
    assert not seen(world).resolved


def test_the_pods_of_a_workload_with_an_equal_uid_in_another_cluster_are_not_counted(world):
    replica_set = world.deployment()
    world.pod("a", replica_set)
    world.pod("b", replica_set, cluster="restored")
    assert [pod.name for pod in seen(world).pods] == ["a"]


RELEASE = {"app.kubernetes.io/instance": "shop"}


def by_labels(world, **labels):
    workload = {"kind": "Deployment", "labels": {**RELEASE, **labels}}
    return read_vdu(world.model.snapshot(), cluster="edge", namespace="default", workload=workload)


def test_a_workload_of_a_release_is_found_by_labels_that_it_alone_has(world):
    world.pod("a", world.deployment("shop-web", labels={**RELEASE, "app.kubernetes.io/name": "web"}))
    world.pod("b", world.deployment("shop-db", labels={**RELEASE, "app.kubernetes.io/name": "db"}))
    world.pod("c", world.deployment("other", labels={"app.kubernetes.io/name": "web"}))
    found = by_labels(world, **{"app.kubernetes.io/name": "web"})
    assert (found.resolved, found.name, names(found)) == (True, "shop-web", ["a"])
    assert world.model.snapshot().get("workload", "d-shop-web").labels


@pytest.mark.parametrize(
    ("made", "name"),
    [
        ((), "with app.kubernetes.io/instance=shop"),
        (("one", "two"), "with app.kubernetes.io/instance=shop alone (one, two have)"),
    ],
)
def test_labels_that_none_or_several_workloads_have_find_none(world, made, name):
    for each in made:
        world.deployment(each, labels=RELEASE)
    found = by_labels(world)
    assert (found.resolved, found.name, found.pods) == (False, name, ())


def test_of_two_with_one_name_the_newer_is_the_one(world):
    world.workload("old", "StatefulSet", "vdu1", created_at=NOON)
    world.workload("new", "StatefulSet", "vdu1", created_at=NOON.replace(minute=1))
    world.pod("vdu1-0", "old", uid="1")
    world.pod("vdu1-0", "new", uid="2")
    assert [pod.id for pod in seen(world, kind="StatefulSet").pods] == ["2"]


@pytest.mark.parametrize(
    ("phase", "fields", "counted"),
    [
        ("Running", {}, True),
        ("Running", {"crash_looping": True, "ready": False}, True),
        ("Running", {"deleted_at": NOON}, False),
        ("Pending", {}, False),
        ("Failed", {}, False),
        ("Failed", {"reason": "Evicted"}, False),
        ("Succeeded", {}, False),
        ("Unknown", {}, False),
        (None, {}, False),
    ],
)
def test_a_pod_counts_when_it_runs_and_is_not_deleted(phase, fields, counted):
    assert counts(Pod(id="1", phase=phase, **fields)) is counted


@pytest.mark.parametrize(
    ("running", "wanted", "behind", "settling"),
    [
        (1, 1, False, False),
        (1, 1, True, True),
        (2, 1, False, True),
        (1, 2, False, True),
        (1, 3, False, True),
        (2, 2, False, False),
        (0, 1, False, True),
        (5, None, False, False),
    ],
)
def test_a_workload_settles_until_as_many_pods_run_as_it_wants(running, wanted, behind, settling):
    pods = tuple(Pod(id=str(i), phase="Running") for i in range(running))
    vdu = VduInput(kind="Deployment", name="a", resolved=True, pods=pods, wanted=wanted, behind=behind)
    assert is_settling(vdu) is settling


@pytest.mark.parametrize(
    ("generation", "observed", "behind"), [(None, None, False), (2, None, False), (2, 1, True), (2, 2, False)]
)
def test_a_controller_is_behind_when_it_has_not_seen_the_newest_generation(world, generation, observed, behind):
    world.deployment(generation=generation, observed_generation=observed)
    assert seen(world).behind is behind
