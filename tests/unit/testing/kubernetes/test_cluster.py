# SPDX-License-Identifier: Apache-2.0
"""The controllers make pods as a cluster would, step by step, and stop when all is done."""

from __future__ import annotations

import time
from typing import Any

import pytest

from watcher_sync.testing.kubernetes import KubernetesServer
from watcher_sync.testing.kubernetes.builders import daemon_set, deployment, job, pod, replica_set, stateful_set
from watcher_sync.testing.kubernetes.population import populate


@pytest.fixture
def server() -> KubernetesServer:
    """No HTTP is needed here."""
    return KubernetesServer()


def names(server: KubernetesServer) -> list[str]:
    return [item["metadata"]["name"] for item in server.pods()]


def owner(obj: dict[str, Any]) -> str:
    return str(obj["metadata"]["ownerReferences"][0]["uid"])


def test_a_deployment_has_pods_through_a_replica_set(server: KubernetesServer) -> None:
    made = server.create(deployment("web", replicas=3))
    server.cluster.settle()
    (middle,) = server.objects("ReplicaSet")
    assert owner(middle) == made["metadata"]["uid"]
    assert {owner(item) for item in server.pods()} == {middle["metadata"]["uid"]}
    hashed = middle["metadata"]["labels"]["pod-template-hash"]
    assert all(item["metadata"]["labels"] == {"app": "web", "pod-template-hash": hashed} for item in server.pods())
    assert all(name.startswith(f"web-{hashed}-") for name in names(server))
    assert {item["status"]["phase"] for item in server.pods()} == {"Running"}
    status = server.get("deployment", "web")["status"]
    assert (status["readyReplicas"], status["observedGeneration"]) == (3, 1)


def test_a_settled_cluster_writes_nothing(server: KubernetesServer) -> None:
    for obj in (deployment("a"), stateful_set("b", replicas=2), daemon_set("c"), job("d"), replica_set("e")):
        server.create(obj)
    server.cluster.settle()
    version = server.store.version
    assert not server.cluster.step()
    assert server.store.version == version


def test_a_rollout_is_seen_on_the_way(server: KubernetesServer) -> None:
    server.create(deployment("web", replicas=4))
    server.cluster.settle()
    before = set(names(server))
    server.cluster.rollout("deployment", "web", "registry.example/app:2")
    obj = server.get("deployment", "web")
    assert obj["status"]["observedGeneration"] < obj["metadata"]["generation"]
    most = least = 4
    while server.cluster.step():
        running = [item for item in server.pods() if item["status"]["phase"] == "Running"]
        most = max(most, len(server.pods()))
        least = min(least, len([item for item in running if "deletionTimestamp" not in item["metadata"]]))
    assert most > 4
    assert least >= 3
    assert len(names(server)) == 4
    assert not before & set(names(server))
    assert sorted(item["spec"]["replicas"] for item in server.objects("ReplicaSet")) == [0, 4]


def test_recreate_has_no_pod_of_the_new_kind_beside_one_of_the_old(server: KubernetesServer) -> None:
    server.create(deployment("web", replicas=2, strategy={"type": "Recreate"}))
    server.cluster.settle()
    server.cluster.rollout("deployment", "web", "registry.example/app:2")
    while server.cluster.step():
        assert len({owner(item) for item in server.pods()}) <= 1
    assert len(server.pods()) == 2


def test_a_stateful_set_keeps_names_and_changes_uids(server: KubernetesServer) -> None:
    server.create(stateful_set("db", replicas=3))
    server.cluster.settle()
    assert names(server) == ["db-0", "db-1", "db-2"]
    before = server.get("pod", "db-1")["metadata"]["uid"]
    server.cluster.kill("db-1")
    server.cluster.settle()
    assert names(server) == ["db-0", "db-1", "db-2"]
    assert server.get("pod", "db-1")["metadata"]["uid"] != before
    server.cluster.scale("sts", "db", 1)
    server.cluster.settle()
    assert names(server) == ["db-0"]


def test_a_stateful_set_rolls_from_the_highest_ordinal_down_one_at_a_time(server: KubernetesServer) -> None:
    server.create(stateful_set("db", replicas=3))
    server.cluster.settle()
    uids = {item["metadata"]["name"]: item["metadata"]["uid"] for item in server.pods()}
    server.cluster.rollout("sts", "db", "registry.example/app:2")
    order: list[str] = []
    while server.cluster.step():
        for item in server.pods():
            name = item["metadata"]["name"]
            if item["metadata"]["uid"] != uids[name] and name not in order:
                order.append(name)
    assert order == ["db-2", "db-1", "db-0"]


def test_a_daemon_set_has_one_pod_on_each_node(server: KubernetesServer) -> None:
    server.create(daemon_set("agent"))
    server.cluster.settle()
    server.cluster.add_nodes(2)
    server.cluster.settle()
    assert sorted(item["spec"]["nodeName"] for item in server.pods()) == [f"node-{n}" for n in range(5)]
    server.delete("node", "node-1")
    server.cluster.settle()
    assert len(server.pods()) == 4


def test_a_long_name_is_cut_as_the_api_cuts_it(server: KubernetesServer) -> None:
    server.create(deployment("n" * 60))
    server.cluster.settle()
    (name,) = names(server)
    assert len(name) == 63
    assert name.startswith("n" * 58)


def test_an_evicted_pod_is_replaced_and_left_lying(server: KubernetesServer) -> None:
    server.create(deployment("web"))
    server.cluster.settle()
    (name,) = names(server)
    server.cluster.evict(name)
    server.cluster.settle()
    evicted = server.get("pod", name)["status"]
    assert (evicted["phase"], evicted["reason"]) == ("Failed", "Evicted")
    assert sorted(item["status"]["phase"] for item in server.pods()) == ["Failed", "Running"]


def test_restarts_and_crash_loops_count_in_the_container(server: KubernetesServer) -> None:
    server.create(deployment("web"))
    server.cluster.settle()
    (name,) = names(server)
    server.cluster.restart(name)
    server.cluster.crash_loop(name)
    server.cluster.settle()
    (container,) = server.get("pod", name)["status"]["containerStatuses"]
    assert (container["restartCount"], container["ready"]) == (2, False)
    assert container["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert server.get("deployment", "web")["status"]["readyReplicas"] == 0
    assert names(server) == [name]


def test_without_kubelets_new_pods_stay_pending(server: KubernetesServer) -> None:
    server.cluster.kubelets.working = False
    server.create(deployment("web", replicas=2))
    server.cluster.settle()
    assert {item["status"]["phase"] for item in server.pods()} == {"Pending"}


def test_the_pod_of_a_job_is_the_jobs(server: KubernetesServer) -> None:
    made = server.create(job("once"))
    server.cluster.settle()
    (item,) = server.pods()
    assert owner(item) == made["metadata"]["uid"]
    server.cluster.finish(item["metadata"]["name"])
    server.cluster.settle()
    assert server.get("job", "once")["status"]["succeeded"] == 1


def test_a_population_is_as_the_controllers_would_have_made_it(server: KubernetesServer) -> None:
    populate(server, 25, per_workload=10)
    assert len(server.pods()) == 25
    assert len(server.objects("Deployment")) == 3
    version = server.store.version
    server.cluster.settle()
    assert server.store.version == version


def test_the_controllers_can_go_on_by_themselves(server: KubernetesServer) -> None:
    server.create(deployment("web"))
    server.cluster.run(0.01)
    try:
        with server.store.changed:
            done = server.store.changed.wait_for(
                lambda: server.get("deployment", "web").get("status", {}).get("readyReplicas") == 1, 60
            )
    finally:
        server.cluster.stop()
    assert done


def test_one_seed_is_one_cluster() -> None:
    def built(seed: int) -> list[str]:
        server = KubernetesServer(seed=seed)
        server.create(deployment("web", replicas=3))
        server.create(pod("bare"))
        server.cluster.settle()
        return [item["metadata"]["uid"] for item in server.pods()]

    assert built(1) == built(1) != built(2)


def test_time_is_not_lost_on_what_does_not_change(server: KubernetesServer) -> None:
    populate(server, 5_000)
    begin = time.thread_time()
    assert not server.cluster.step()
    assert time.thread_time() - begin < 2.0
