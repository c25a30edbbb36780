# SPDX-License-Identifier: Apache-2.0
"""The simulated cluster's accidents, its rest, and the account of it that the demo's exit status rests on."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.modelled import model_of
from tests.waiting import deadline
from watcher_sync.demo.cluster_truth import UNTOLD, differs_from_truth, observed_differences, observed_truth
from watcher_sync.demo.live_cluster import IMAGES, LiveCluster
from watcher_sync.demo.network_functions import FUNCTIONS
from watcher_sync.extensions.vnf.kinds import VnfInstance
from watcher_sync.model.model import Model, Snapshot, Written
from watcher_sync.testing.comparison import compare

AMF, UPF, UDR, AGENT = FUNCTIONS


def make(seed: int = 0, accidents: int = 0) -> LiveCluster:
    """A cluster after so many accidents, with controllers that keep up or do not; not at rest."""
    cluster = LiveCluster("edge", rate=1.0, seed=seed)
    rng = random.Random(seed)
    for _ in range(accidents):
        cluster.accident()
        for _ in range(rng.randint(0, 4)):
            cluster.server.cluster.step()
    return cluster


def changed(model: Model, entity_id: str, change: Callable[[VnfInstance], dict[str, Any]]) -> Snapshot:
    vnf = model.snapshot().get("vnf_instance", entity_id)
    assert isinstance(vnf, VnfInstance)
    model.write([Written("vnf_instance", entity_id, msgspec.structs.replace(vnf, **change(vnf)), None)], 3)
    return model.snapshot()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_after_any_accidents_the_account_of_the_vnf_instances_is_what_an_observer_sees(seed: int) -> None:
    cluster = make(seed, accidents=40)
    assert cluster.stop(60)
    truth = cluster.truth()
    snapshot = model_of(truth).snapshot()
    assert list(compare(truth, snapshot, ignored=UNTOLD)) == []
    assert list(observed_differences(cluster.server, FUNCTIONS, snapshot)) == []
    assert not differs_from_truth(cluster.server, "edge", snapshot)


@pytest.mark.slow
def test_every_accident_happens_and_is_counted() -> None:
    cluster = make(1, accidents=300)
    wanted = {"killed", "scaled", "crashed", "recovered", "evicted", "swept", "rolled"}
    assert wanted <= set(cluster.counts)
    assert sum(cluster.counts.values()) == 300
    assert len(cluster.server.objects("ReplicaSet")) <= 2 * len(cluster.server.objects("Deployment"))


def test_at_rest_nothing_crashes_and_nothing_is_on_its_way() -> None:
    cluster = make(2, accidents=60)
    cluster.server.cluster.crash_loop(cluster.server.pods()[0]["metadata"]["name"], namespace="access")
    cluster.server.cluster.rollout("DaemonSet", "du-agent", IMAGES[1], namespace="access")
    assert cluster.stop(60)
    assert cluster.server.cluster.settle() == 0
    pods = cluster.truth()["pod"].values()
    assert {pod["phase"] for pod in pods} <= {"Running", "Failed"}
    assert not any(pod["crash_looping"] or pod["deleted_at"] for pod in pods)


def test_accidents_end_with_the_cluster_at_rest_while_its_server_still_answers() -> None:
    cluster = LiveCluster("edge", rate=1000.0, seed=3)
    cluster.server.start()
    cluster.start()
    with cluster.server.store.changed:
        assert cluster.server.store.changed.wait_for(lambda: sum(cluster.counts.values()) > 20, 60)
    assert cluster.stop(60)
    assert cluster.failure is None
    assert cluster.server.cluster.settle() == 0
    cluster.close()


def test_a_thread_that_fails_says_so_and_the_cluster_does_not_count_as_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = LiveCluster("edge", rate=1000.0)
    monkeypatch.setattr(cluster, "accident", lambda: 1 // 0)
    cluster.start()
    cluster._thread.join(deadline(60))
    assert isinstance(cluster.failure, ZeroDivisionError)
    assert cluster.stop(60)


def test_a_manager_scales_all_workloads_of_an_aspect_at_once() -> None:
    cluster = make()
    cluster.scale(UPF, "sessions", 2)
    cluster.server.cluster.settle()
    truth = observed_truth(cluster.server, UPF)
    assert truth.levels == {"sessions": 2}
    assert truth.state == "SYNCED"
    assert {vdu: len(pods) for vdu, pods in truth.pods.items()} == {"control": 3, "user": 4}


def test_a_manager_heals_a_pod_that_crashes_and_finds_nothing_where_none_does() -> None:
    cluster = make()
    name = next(pod["metadata"]["name"] for pod in cluster.server.pods("access"))
    assert not cluster.heal(AGENT)
    cluster.server.cluster.crash_loop(name, namespace="access")
    assert not cluster.heal(AMF)
    assert cluster.heal(AGENT)
    assert name not in {pod["metadata"]["name"] for pod in cluster.server.pods("access")}


@pytest.mark.parametrize(
    ("kind", "name", "replicas", "function", "state", "nearest"),
    [
        ("Deployment", "amf", 4, AMF, "SYNCED", {}),
        ("Deployment", "amf", 5, AMF, "DRIFTED", {"workers": 1}),
        ("Deployment", "amf", 7, AMF, "OUT_OF_RANGE", {"workers": 2}),
        ("Deployment", "amf", 0, AMF, "OUT_OF_RANGE", {"workers": None}),
        ("Deployment", "upf-u", 4, UPF, "DRIFTED", {"sessions": 0}),
        ("StatefulSet", "udr", 4, UDR, "SYNCED", {}),
    ],
)
def test_the_account_knows_levels_and_what_is_between_and_beyond_them(
    kind: str, name: str, replicas: int, function: Any, state: str, nearest: dict[str, int | None]
) -> None:
    cluster = make()
    cluster.server.cluster.scale(kind, name, replicas, namespace="core")
    cluster.server.cluster.settle()
    truth = observed_truth(cluster.server, function)
    assert (truth.state, truth.nearest) == (state, nearest)


def test_a_function_without_its_workload_is_unresolved_and_one_off_its_initial_number_drifted() -> None:
    cluster = make()
    cluster.server.delete("Deployment", "upf", namespace="core")
    cluster.server.cluster.add_nodes(1)
    cluster.server.cluster.settle()
    assert observed_truth(cluster.server, UPF).state == "UNRESOLVED"
    assert observed_truth(cluster.server, UPF).levels == observed_truth(cluster.server, UPF).nearest == {}
    assert observed_truth(cluster.server, AGENT).state == "DRIFTED"
    snapshot = model_of(cluster.truth()).snapshot()
    assert list(observed_differences(cluster.server, FUNCTIONS, snapshot)) == []


def test_pods_of_strangers_are_nobodys() -> None:
    cluster = make()
    names = {name for function in FUNCTIONS for pods in observed_truth(cluster.server, function).pods.values()
             for name, _ in pods}  # fmt: skip
    assert not any(name.startswith(("amf-probe", "backup")) for name in names)
    assert len(names) == 2 + 1 + 1 + 2 + 3


WRONG = {
    "state": lambda vnf: {"state": "UNKNOWN"},
    "scale_level": lambda vnf: {"scale_level": {"workers": 1}},
    "nearest_level": lambda vnf: {"nearest_level": {"workers": 0}},
    "observed": lambda vnf: {"observed": {"worker": 1}},
    "vnfc_resource_info of worker": lambda vnf: {"vnfc_resource_info": vnf.vnfc_resource_info[:1]},
    "vnfc_resource_info of no VDU": lambda vnf: {
        "vnfc_resource_info": [*vnf.vnfc_resource_info, {**vnf.vnfc_resource_info[0], "vduId": "other"}]
    },
    "vnfc_info": lambda vnf: {"vnfc_info": []},
}


@pytest.mark.parametrize("field", WRONG)
def test_a_vnf_instance_that_is_seen_otherwise_is_found(field: str) -> None:
    cluster = make()
    snapshot = changed(model_of(cluster.truth()), AMF.id, WRONG[field])
    found = list(observed_differences(cluster.server, FUNCTIONS, snapshot))
    assert field in {difference.field for difference in found}
    assert {difference.entity_id for difference in found} == {AMF.id}


def test_a_pod_that_was_made_again_under_its_name_is_found() -> None:
    cluster = make()
    model = model_of(cluster.truth())
    cluster.server.cluster.kill("udr-0", namespace="core")
    cluster.server.cluster.settle()
    found = list(observed_differences(cluster.server, FUNCTIONS, model.snapshot()))
    assert [difference.field for difference in found] == ["vnfc_resource_info of shard"]
    assert differs_from_truth(cluster.server, "edge", model.snapshot())


def test_a_preserved_level_may_be_any_that_exists() -> None:
    cluster = make()
    cluster.server.cluster.scale("Deployment", "amf", 3, namespace="core")
    cluster.server.cluster.settle()
    model = model_of(cluster.truth())
    for levels, right in (({}, True), ({"workers": 2}, True), ({"workers": 3}, False), ({"workers": -1}, False)):
        snapshot = changed(model, AMF.id, lambda _, levels=levels: {"scale_level": levels})
        assert (list(observed_differences(cluster.server, FUNCTIONS, snapshot)) == []) is right


def test_what_was_not_observed_yet_differs() -> None:
    cluster = make()
    snapshot = model_of(cluster.truth(), observed=False).snapshot()
    found = {difference.entity_id for difference in observed_differences(cluster.server, FUNCTIONS, snapshot)}
    assert found == {function.id for function in FUNCTIONS}


@pytest.mark.parametrize("kind", ["pod", "workload"])
def test_an_object_too_few_too_many_or_older_is_differs_from_truth(kind: str) -> None:
    cluster = make()
    truth = cluster.truth()
    entity_id, row = next(iter(truth[kind].items()))
    variants = (
        {i: r for i, r in truth[kind].items() if i != entity_id},
        {**truth[kind], "other": {**row, "id": "other"}},
        {**truth[kind], entity_id: {**row, "resource_version": "1"}},
    )
    for rows in variants:
        assert differs_from_truth(cluster.server, "edge", model_of({**truth, kind: rows}).snapshot())
