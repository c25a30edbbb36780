# SPDX-License-Identifier: Apache-2.0
"""The model held against a cluster that speaks HTTP."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.clusters import Installation, one_vdu, truth
from watcher_sync.events import Event
from watcher_sync.exceptions import ConfigError, OperationRunning, ReconcileError, SourceError
from watcher_sync.extensions.vnf.model.evaluation import Result
from watcher_sync.model.changes import Upsert
from watcher_sync.storage.drifts import list_drifts
from watcher_sync.testing.kubernetes import (
    Cut,
    KubernetesServer,
    Request,
    forbidden,
    gateway_page,
    gone,
    internal_error,
)
from watcher_sync.testing.kubernetes.builders import (
    daemon_set,
    deployment,
    owner_reference,
    pod,
    replica_set,
    stateful_set,
)

pytestmark = pytest.mark.slow

NAMES = "vnfc_resource_info"


@pytest.fixture
def server() -> Iterator[KubernetesServer]:
    with KubernetesServer() as server:
        server.cluster.add_nodes(2)
        server.create(deployment("vdu1", replicas=1))
        server.create(stateful_set("db", replicas=2))
        server.create(daemon_set("log"))
        server.cluster.settle()
        yield server


@pytest.fixture
def site(server: KubernetesServer, tmp_path: Path) -> Iterator[Installation]:
    site = Installation(tmp_path, {"edge": server}, page_size=3, connect_timeout=30.0, read_timeout=30.0)
    yield site
    site.close()


def names(site: Installation, vnf_id: str = "v1") -> list[str]:
    return [entry["computeResource"]["resourceId"] for entry in site.vnf(vnf_id).vnfc_resource_info or ()]


def scale(server: KubernetesServer, replicas: int) -> None:
    server.cluster.scale("Deployment", "vdu1", replicas)
    server.cluster.settle()


# In step


def test_an_empty_model_is_filled_and_a_second_run_finds_and_writes_nothing(
    site: Installation, server: KubernetesServer
):
    first = site.reconcile()
    assert site.objects() == truth(server)
    assert (first.complete, first.written, first.deleted) == (True, len(truth(server)), 0)
    head = site.head()
    second = site.reconcile()
    assert (second.differences, second.written, second.deleted) == ((), 0, 0)
    assert site.head() == head
    assert site.drifts() == []


def test_pods_are_traced_to_the_top_of_their_owners(site: Installation, server: KubernetesServer):
    site.reconcile()
    (top,) = [obj["metadata"]["uid"] for obj in server.objects("Deployment")]
    assert [p.owner_kind for p in site.model.by("pod", "workload_uid", top)] == ["ReplicaSet"]


def test_what_came_changed_and_went_unseen_is_healed_and_listed_as_drifts(site: Installation, server: KubernetesServer):
    site.reconcile()
    before = {uid for uid, row in site.objects().items()}
    server.cluster.kill("db-0")
    scale(server, 2)
    report = site.reconcile()
    assert site.objects() == truth(server)
    assert report.deleted == 1
    told = {(d.kind, d.field, d.entity_id in before) for d in report.differences}
    assert {("pod", "", True), ("pod", "", False), ("workload", "replicas", True)} <= told
    assert {(d.kind, d.entity_id, d.field) for d in site.drifts()} == {
        (d.kind, d.entity_id, d.field) for d in report.differences
    }
    assert site.reconcile().differences == ()
    assert site.drifts() == []


def test_the_onset_of_a_drift_that_is_only_observed_stays(site: Installation, server: KubernetesServer):
    site.conf.set_override("policy", {"workload": "observe", "pod": "observe"}, group="reconcile")
    scale(server, 2)
    head = site.head()
    site.reconcile()
    first = site.drifts()
    assert first
    assert {d.policy for d in first} == {"observe"}
    scale(server, 3)
    site.reconcile()
    since = {(d.kind, d.entity_id, d.field): d.since for d in site.drifts()}
    assert all(since[d.kind, d.entity_id, d.field] == d.since for d in first)
    assert (site.objects(), site.head()) == ({}, head)


def test_a_dry_run_tells_and_writes_nothing(site: Installation, server: KubernetesServer):
    site.register("v1", one_vdu())
    head = site.head()
    report = site.reconcile(dry_run=True)
    assert {d.kind for d in report.differences} == {"pod", "workload", "vnf_instance"}
    assert (report.written, report.deleted, site.head(), site.drifts()) == (0, 0, head, [])


def test_what_an_event_reported_during_the_listing_wins(site: Installation, server: KubernetesServer):
    site.reconcile()
    scale(server, 2)
    (uid,) = [uid for uid, row in site.objects().items() if row[:2] == ("Deployment", "vdu1")]

    def told_meanwhile(_seconds: float) -> None:
        server.cluster.scale("Deployment", "vdu1", 7)
        newest = server.get("Deployment", "vdu1")
        event = Event(
            id="e-1",
            type="kubernetes.deployment.modified",
            source="edge",
            origin="edge",
            data=msgspec.json.encode(newest),
            sequence=(1, 1),
        )
        site.told(event)

    report = site.reconcile(wait=told_meanwhile)
    assert uid not in {d.entity_id for d in report.differences}
    assert site.model.get("workload", uid).replicas == 7
    server.cluster.settle()
    site.reconcile()
    assert site.model.get("workload", uid).ready_replicas == 7


def test_an_event_that_comes_later_is_newer_than_what_was_healed(site: Installation, server: KubernetesServer):
    site.reconcile()
    obj = server.get("Deployment", "vdu1")
    obj["metadata"]["resourceVersion"] = "later"
    obj["spec"]["replicas"] = 9
    event = Event(
        id="e-1",
        type="kubernetes.deployment.modified",
        source="edge",
        origin="edge",
        data=msgspec.json.encode(obj),
        sequence=(1, 1),
    )
    site.told(event)
    assert site.model.get("workload", obj["metadata"]["uid"]).replicas == 9
    site.reconcile()  # the cluster knows nothing of nine
    assert site.model.get("workload", obj["metadata"]["uid"]).replicas == 1
    site.told(event)
    assert site.model.get("workload", obj["metadata"]["uid"]).replicas == 1, "a duplicate undid what was healed"
    site.told(msgspec.structs.replace(event, id="e-2", sequence=(1, 2)))
    assert site.model.get("workload", obj["metadata"]["uid"]).replicas == 9


def test_an_existing_pod_that_an_event_deleted_is_healed_unless_it_came_during_the_listing(
    site: Installation, server: KubernetesServer
):
    site.reconcile()
    expected = site.objects()
    uid, name = next((uid, name) for uid, (kind, name, _) in expected.items() if kind == "Pod")

    def delete(number: int) -> None:
        data = msgspec.json.encode({"metadata": {"uid": uid, "name": name}})
        site.told(
            Event(
                id=f"e-{number}",
                type="kubernetes.pod.deleted",
                source="edge",
                origin="edge",
                data=data,
                sequence=(1, number),
            )
        )

    delete(1)
    assert uid not in site.objects()
    site.reconcile(wait=lambda _seconds: delete(2))
    assert uid not in site.objects()
    assert site.reconcile().written
    assert site.objects() == expected
    assert site.reconcile().differences == ()


# What is not known


@pytest.mark.parametrize(
    "fault",
    [forbidden(), internal_error(), Cut(), gateway_page(), gateway_page(503, b'{"message":"\xfc"}')],
    ids=["403", "500", "cut", "login", "latin-1"],
)
def test_nothing_is_deleted_when_a_list_fails_or_is_cut_in_the_middle(
    site: Installation, server: KubernetesServer, fault: Any
):
    site.register("v1", one_vdu())
    site.reconcile()
    pods = len(list(site.model.all("pod")))
    scale(server, 0)
    server.fail(fault, path="/api/v1/pods", count=10)
    report = site.reconcile(allow_deletes=True)
    assert not report.complete
    assert set(report.failures) == {"pods"}
    assert len(list(site.model.all("pod"))) == pods
    vnf = site.vnf("v1")
    assert (vnf.state, vnf.vdu_results["VDU1"]["result"]) == ("UNKNOWN", Result.UNKNOWN)
    assert len(vnf.vnfc_resource_info) == 1


def test_a_second_page_that_fails_leaves_the_kind_unknown(site: Installation, server: KubernetesServer):
    site.reconcile()
    server.cluster.kill("db-0")
    server.fail(internal_error(), when=lambda r: r.resource == "pods" and "continue" in r.query, count=3)
    report = site.reconcile(allow_deletes=True)
    assert set(report.failures) == {"pods"}
    assert report.deleted == 0


def test_a_list_that_expires_is_begun_again(site: Installation, server: KubernetesServer):
    server.fail(gone(), when=lambda r: r.resource == "pods" and "continue" in r.query, count=1)
    assert site.reconcile().complete
    assert site.objects() == truth(server)


def test_what_a_list_had_that_was_begun_again_counts_for_nothing(site: Installation, server: KubernetesServer):
    """Here a pod of the first page, which is gone when the list begins again."""
    victim = min(obj["metadata"]["name"] for obj in server.pods())
    expired = []

    def at_the_second_page(request: Request) -> bool:
        if request.resource != "pods" or "continue" not in request.query or expired:
            return False
        expired.append(request)
        server.cluster.kill(victim)
        return True

    server.fail(gone(), when=at_the_second_page)
    assert site.reconcile().complete
    assert expired
    assert site.objects() == truth(server)
    assert victim not in {name for _, name, _ in site.objects().values()}


def test_a_cluster_that_is_dead_is_an_error_and_changes_nothing(site: Installation, server: KubernetesServer):
    site.register("v1", one_vdu())
    site.reconcile()
    head = site.head()
    server.stop()
    with pytest.raises(ReconcileError, match=r"the cluster edge cannot be listed: .*refused"):
        site.reconcile()
    assert site.head() == head


def test_an_object_that_cannot_be_read_leaves_its_kind_unknown(site: Installation, server: KubernetesServer):
    site.reconcile()
    server.create({**pod("odd"), "status": {"phase": "Running", "podIP": 7}})
    report = site.reconcile()
    assert "podIP" in report.failures["pods"]
    assert report.deleted == 0


# The delete guard


def test_the_delete_guard_refuses_a_deletion_of_sixty_percent_until_it_is_allowed(
    site: Installation, server: KubernetesServer
):
    server.cluster.scale("Deployment", "vdu1", 10)
    server.delete("StatefulSet", "db")
    server.delete("DaemonSet", "log")
    server.cluster.settle()
    site.reconcile()
    scale(server, 4)
    report = site.reconcile()
    assert (report.deleted, report.refused_deletes) == (0, {"Pod": 6})
    assert len(list(site.model.all("pod"))) == 10
    assert sum(d.kind == "pod" and d.field == "" for d in site.drifts()) == 6
    assert site.reconcile(allow_deletes=True).deleted == 6
    assert site.objects() == truth(server)


def test_a_rollout_without_events_replaces_every_pod_and_needs_no_allow_deletes(
    site: Installation, server: KubernetesServer
):
    server.cluster.scale("Deployment", "vdu1", 10)
    server.cluster.settle()
    site.reconcile()
    before = site.objects()
    server.cluster.rollout("Deployment", "vdu1", "registry.example/app:2")
    server.cluster.settle()
    report = site.reconcile()
    assert (report.refused_deletes, report.deleted) == ({}, 10)
    assert site.objects() == truth(server) != before


def test_a_pod_that_is_gone_below_replica_sets_that_own_each_other_is_deleted(
    site: Installation, server: KubernetesServer
):
    one, two = (server.create(replica_set(name, replicas=0)) for name in ("one", "two"))
    for owned, owner in ((one, two), (two, one)):
        server.patch(
            "ReplicaSet", owned["metadata"]["name"], {"metadata": {"ownerReferences": [owner_reference(owner)]}}
        )
    server.create({**pod("lost"), "metadata": {"name": "lost", "ownerReferences": [owner_reference(one)]}})
    site.reconcile()
    server.delete("Pod", "lost", gracePeriodSeconds=0)
    report = site.reconcile()
    assert (report.refused_deletes, report.deleted) == ({}, 1)


def test_another_cluster_with_the_same_names_replaces_nothing(tmp_path: Path, server: KubernetesServer):
    """A kubeconfig that names the wrong one: its uids are others."""
    with KubernetesServer(seed=7) as other:
        other.cluster.add_nodes(2)
        other.create(deployment("vdu1", replicas=1))
        other.create(stateful_set("db", replicas=2))
        other.create(daemon_set("log"))
        other.cluster.settle()
        site = Installation(tmp_path, {"edge": server})
        site.reconcile()
        before = site.objects()
        other.kubeconfig(tmp_path / "kubeconfig-edge")
        report = site.reconcile()
        assert report.refused_deletes == {"Pod": 5, "Deployment": 1, "ReplicaSet": 1, "StatefulSet": 1, "DaemonSet": 1}
        assert site.objects() == before
        site.close()


def test_a_deletion_below_the_limit_of_the_guard_is_done(site: Installation, server: KubernetesServer):
    server.cluster.scale("Deployment", "vdu1", 10)
    server.cluster.settle()
    site.reconcile()
    scale(server, 8)
    assert site.reconcile().deleted == 2


# VNF instances


def test_a_scaling_behind_our_back_shows_after_one_reconciliation(site: Installation, server: KubernetesServer):
    site.register("v1", one_vdu())
    site.reconcile()
    assert (site.vnf("v1").state, site.vnf("v1").scale_level) == ("SYNCED", {"vdu1_aspect": 0})
    scale(server, 3)
    site.reconcile()
    vnf = site.vnf("v1")
    assert (vnf.state, vnf.scale_level) == ("SYNCED", {"vdu1_aspect": 2})
    running = {obj["metadata"]["name"] for obj in server.pods() if obj["metadata"]["name"].startswith("vdu1-")}
    assert (len(names(site)), set(names(site))) == (3, running)


def test_a_pod_that_was_killed_keeps_its_vnfc_and_the_log_has_both_names(
    site: Installation, server: KubernetesServer, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    site.register("v1", one_vdu())
    site.reconcile()
    (old,) = site.vnf("v1").vnfc_resource_info
    server.cluster.kill(old["computeResource"]["resourceId"])
    server.cluster.settle()
    site.reconcile()
    (new,) = site.vnf("v1").vnfc_resource_info
    assert new["id"] == old["id"]
    assert new["computeResource"]["resourceId"] != old["computeResource"]["resourceId"]
    both = f"pod {old['computeResource']['resourceId']} -> {new['computeResource']['resourceId']}"
    assert any("v1" in line and both in line for line in caplog.text.splitlines())


def test_a_wrong_level_with_equal_names_is_repaired(site: Installation, server: KubernetesServer):
    site.register("v1", one_vdu())
    site.reconcile()
    with site.context().writes.begin() as cycle:
        wrong = {"scale_level": {"vdu1_aspect": 2}}
        cycle.write(
            Event(id="x", type="x", source="x"),
            [Upsert("vnf_instance", "v1", cycle.next_version(), {"observed": wrong})],
        )
    report = site.reconcile()
    assert ("vnf_instance", "scale_level") in {(d.kind, d.field) for d in report.differences}
    assert site.vnf("v1").scale_level == {"vdu1_aspect": 0}


def test_an_instance_that_an_operation_holds_is_skipped_and_synced_afterwards(
    site: Installation, server: KubernetesServer, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    site.register("v1", one_vdu())
    lease = site.operations.begin("v1", "SCALE", "tacker")
    assert [d for d in site.reconcile().differences if d.kind == "vnf_instance"] == []
    assert list_drifts(site.store.database, kind="vnf_instance") == []
    assert site.vnf("v1").state == "UNKNOWN"
    assert "VNF instance v1 is not synced (SKIPPED_LCM): tacker holds it for SCALE" in caplog.text
    site.operations.end("v1", lease.id, lease.proof)
    site.reconcile()
    assert site.vnf("v1").state == "SYNCED"


def test_one_instances_trouble_does_not_keep_the_others_back(site: Installation, server: KubernetesServer):
    site.register("v1", one_vdu(name="nobody"))
    site.register("v2", one_vdu())
    site.reconcile()
    assert (site.vnf("v1").state, site.vnf("v2").state) == ("UNRESOLVED", "SYNCED")


def test_no_more_requests_are_made_for_more_instances(site: Installation, server: KubernetesServer):
    first = site.reconcile().requests
    requests = site.reconcile().requests
    assert first == 3 * requests, "what is created is listed twice before and once after"
    for number in range(20):
        site.register(f"v{number}", one_vdu())
    assert site.reconcile().requests == requests
    assert requests == sum(1 for r in server.requests.last() if r.verb == "list") / 5


# One instance, now


def test_a_sync_of_one_instance_lists_its_namespace_only(site: Installation, server: KubernetesServer):
    site.register("v1", one_vdu())
    report = site.reconciler().sync_now("v1", dry_run=False)
    assert (report.state, report.changed) == ("SYNCED", True)
    assert report.vdu_results["VDU1"]["result"] == Result.SYNCED
    assert [(p.vdu, p.old) for p in report.pods] == [("VDU1", None)]
    assert names(site) == [report.pods[0].new]
    assert all("/namespaces/default/" in r.path for r in server.requests.last() if r.verb == "list")
    again = site.reconciler().sync_now("v1", dry_run=False)
    assert (again.changed, again.pods, again.differences) == (False, [], [])
    assert again.vdu_results["VDU1"]["result"] == Result.NO_DIFF


def test_a_dry_sync_reports_but_writes_nothing_during_an_operation(site: Installation, server: KubernetesServer):
    site.register("v1", one_vdu())
    site.operations.begin("v1", "SCALE", "tacker")
    head = site.head()
    report = site.reconciler().sync_now("v1", dry_run=True)
    assert (report.state, report.changed, len(report.pods)) == ("SYNCED", True, 1)
    assert {d.field for d in report.differences} >= {"state", "scale_level"}
    assert site.head() == head
    with pytest.raises(OperationRunning):
        site.reconciler().sync_now("v1", dry_run=False)


def test_a_sync_of_one_instance_says_what_it_lacks(site: Installation, server: KubernetesServer):
    with pytest.raises(KeyError):
        site.reconciler().sync_now("nobody", dry_run=True)
    site.register("v2", one_vdu() | {"cluster": "elsewhere"})
    with pytest.raises(SourceError, match="no source that is configured here follows the cluster elsewhere"):
        site.reconciler().sync_now("v2", dry_run=True)
    site.register("v1", one_vdu())
    server.stop()
    with pytest.raises(SourceError, match="the cluster edge cannot be listed"):
        site.reconciler().sync_now("v1", dry_run=True)


def test_a_wrong_option_of_a_source_is_a_config_error(site: Installation):
    site.conf.set_override("kubeconfig", "/no/such/file", group="source_edge")
    with pytest.raises(ConfigError, match=r"\[source_edge\] kubeconfig"):
        site.reconciler()


# All at once


def test_a_deployment_that_went_unheard_is_gone_with_its_replica_set_and_pods_after_one_run(
    site: Installation, server: KubernetesServer
):
    site.reconcile()
    server.delete("Deployment", "vdu1")
    server.cluster.settle()
    report = site.reconcile(allow_deletes=True)
    assert report.deleted == len(report.differences) == 3
    assert site.objects() == truth(server)


def test_pods_whose_replica_set_went_unheard_are_healed_with_it_in_one_run(
    site: Installation, server: KubernetesServer
):
    (pod_uid,) = [obj["metadata"]["uid"] for obj in server.pods() if obj["metadata"]["name"].startswith("vdu1-")]
    (stale,) = [obj for obj in server.pods() if obj["metadata"]["uid"] == pod_uid]
    stale["metadata"]["resourceVersion"], stale["status"]["phase"] = "1", "Pending"
    site.told(
        Event(
            id="e-1",
            type="kubernetes.pod.added",
            source="edge",
            origin="edge",
            data=msgspec.json.encode(stale),
            sequence=(1, 1),
        )
    )
    site.reconcile()
    assert site.objects() == truth(server)


def test_objects_without_a_namespace_are_compared_with_any_listed_namespaces(server: KubernetesServer, tmp_path: Path):
    namespaces = ["default", "kube-system"]
    site = Installation(tmp_path, {"edge": server}, namespaces=namespaces, resources=["pods", "v1/Node"])
    site.reconcile(dry_run=True)
    lists = [request.path for request in server.requests.last() if request.verb == "list"]
    assert lists.count("/api/v1/nodes") == lists.count("/api/v1/namespaces/default/pods") > 0
    site.reconcile()
    nodes = {w.id for w in site.model.all("workload") if w.kind == "Node"}
    assert nodes == {obj["metadata"]["uid"] for obj in server.objects("Node")}
    assert site.reconcile().differences == ()
    server.delete("Node", server.objects("Node")[0]["metadata"]["name"])
    site.reconcile(allow_deletes=True)
    assert len([w for w in site.model.all("workload") if w.kind == "Node"]) == len(nodes) - 1
    site.close()


def test_two_sources_of_one_cluster_are_refused_naming_both(server: KubernetesServer, tmp_path: Path):
    site = Installation(tmp_path, {"east": server, "west": server})
    assert site.reconciler().scopes() == ["east", "west"]
    site.conf.set_override("cluster", "east", group="source_west")
    with pytest.raises(ConfigError, match=r"\[source_west\] cluster: east is the cluster of \[source_east\] already"):
        site.reconciler()
    site.close()
