# SPDX-License-Identifier: Apache-2.0
"""Deletion: graceful, conditional, with what is owned."""

from __future__ import annotations

import pytest

from tests.unit.testing.kubernetes.conftest import DEPLOYMENTS, PODS, Client
from watcher_sync.testing.kubernetes import KubernetesServer
from watcher_sync.testing.kubernetes.builders import bare_pods, deployment, pod
from watcher_sync.testing.kubernetes.resources import DEPLOYMENTS as DEPLOYMENT_TYPE
from watcher_sync.testing.kubernetes.resources import PODS as POD_TYPE
from watcher_sync.testing.kubernetes.resources import REPLICA_SETS


def test_a_pod_on_a_node_is_terminating_until_its_kubelet_is_done(server: KubernetesServer, api: Client) -> None:
    server.create(pod("a", node="n1", phase="Running"))
    dying = api("DELETE", f"{PODS}/a").json
    assert dying["metadata"]["deletionTimestamp"]
    assert dying["metadata"]["deletionGracePeriodSeconds"] == 30
    assert api("GET", f"{PODS}/a").status == 200
    server.cluster.settle()
    assert api("GET", f"{PODS}/a").status == 404


def test_without_grace_or_a_node_a_pod_goes_at_once(server: KubernetesServer, api: Client) -> None:
    server.create(pod("a", node="n1", phase="Running"))
    server.create(pod("b"))
    assert api("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0}).json["status"] == "Success"
    assert api("DELETE", f"{PODS}/b").json["status"] == "Success"
    assert server.pods() == []


@pytest.mark.parametrize("precondition", [{"uid": "other"}, {"resourceVersion": "1"}])
def test_a_delete_whose_precondition_does_not_hold_is_a_conflict(
    server: KubernetesServer, api: Client, precondition: dict[str, str]
) -> None:
    server.create(pod("a"))
    assert api("DELETE", f"{PODS}/a", {"preconditions": precondition}).status == 409


def test_an_object_with_finalizers_goes_with_the_last_of_them(server: KubernetesServer, api: Client) -> None:
    server.create({**pod("a"), "metadata": {"name": "a", "finalizers": ["x/y"]}})
    assert api("DELETE", f"{PODS}/a").json["metadata"]["deletionTimestamp"]
    server.patch("pod", "a", {"metadata": {"finalizers": None}})
    assert api("GET", f"{PODS}/a").status == 404


def test_a_collection_is_deleted_by_selector(server: KubernetesServer, api: Client) -> None:
    server.load(bare_pods(4))
    api("DELETE", PODS, {"gracePeriodSeconds": 0}, labelSelector="app in (app-0,app-2)")
    assert api("GET", PODS).names == ["pod-000001", "pod-000003"]


@pytest.mark.parametrize(("policy", "left"), [("Background", 0), ("Foreground", 0), ("Orphan", 2)])
def test_what_is_owned_goes_or_stays_as_the_policy_says(
    server: KubernetesServer, api: Client, policy: str, left: int
) -> None:
    server.create(deployment("x", replicas=2))
    server.cluster.settle()
    api("DELETE", f"{DEPLOYMENTS}/x", {"propagationPolicy": policy})
    if policy == "Foreground":
        assert api("GET", f"{DEPLOYMENTS}/x").json["metadata"]["finalizers"] == ["foregroundDeletion"]
    server.cluster.settle()
    assert api("GET", f"{DEPLOYMENTS}/x").status == 404
    assert len(server.pods()) == left
    assert [item["metadata"].get("ownerReferences") for item in server.objects("ReplicaSet")] == [[]] * (left // 2)


def removed(server: KubernetesServer) -> list[str]:
    """Settle. Return the kinds of the objects that are removed, in their order."""
    before = server.store.version
    server.cluster.settle()
    events = [e for each in (DEPLOYMENT_TYPE, REPLICA_SETS, POD_TYPE) for e in server.store.events_after(each, before)]
    return [e.last.resource.kind for e in sorted(events, key=lambda e: e.version) if e.new is None]


def test_in_the_foreground_pods_go_before_their_set_and_that_before_its_deployment(server: KubernetesServer) -> None:
    server.create(deployment("x", replicas=2))
    server.cluster.settle()
    server.delete("Deployment", "x", propagationPolicy="Foreground")
    assert removed(server) == ["Pod", "Pod", "ReplicaSet", "Deployment"]


def test_of_a_deleted_namespace_the_pods_go_first_and_are_not_replaced(server: KubernetesServer) -> None:
    server.create(deployment("x", replicas=2, namespace="doomed"))
    server.cluster.settle()
    server.delete("Namespace", "doomed")
    assert sorted(removed(server)[2:]) == ["Deployment", "ReplicaSet"]


def test_a_namespace_that_is_being_deleted_takes_nothing_new(server: KubernetesServer, api: Client) -> None:
    server.create(pod("a", namespace="doomed"))
    server.delete("Namespace", "doomed")
    assert api("POST", "/api/v1/namespaces/doomed/pods", pod("b", namespace="doomed")).status == 403


def test_a_namespace_takes_along_what_is_in_it(server: KubernetesServer, api: Client) -> None:
    server.create(deployment("x", namespace="doomed"))
    server.cluster.settle()
    assert api("DELETE", "/api/v1/namespaces/doomed").json["status"]["phase"] == "Terminating"
    server.cluster.settle()
    assert api("GET", "/api/v1/namespaces/doomed").status == 404
    assert server.objects("Deployment") == server.objects("ReplicaSet") == server.pods() == []


def test_an_eviction_by_the_api_deletes_with_grace(server: KubernetesServer, api: Client) -> None:
    server.create(pod("a", node="n1", phase="Running"))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
    assert api("POST", f"{PODS}/a/eviction", eviction).status == 201
    assert "deletionTimestamp" in server.get("pod", "a")["metadata"]
