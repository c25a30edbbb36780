# SPDX-License-Identifier: Apache-2.0
"""VNF instances follow what the model says of their pods."""

from __future__ import annotations

import datetime
import logging
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from tests.clusters import Installation, one_vdu
from watcher_sync.assembly.reconcile import make_follower
from watcher_sync.commit.cycle import Batch, CommitCycle
from watcher_sync.events import Event
from watcher_sync.exceptions import DatabaseUnavailable, RowRefused
from watcher_sync.reconcile.following import Follower
from watcher_sync.reconcile.kubernetes.reconciler import cluster_sources
from watcher_sync.reconcile.kubernetes.vnf_sync import VnfSync
from watcher_sync.testing.kubernetes import KubernetesServer
from watcher_sync.testing.kubernetes.builders import deployment
from watcher_sync.testing.kubernetes.faults import forbidden

NOW = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)


class Followed:
    """An engine's model, what follows it, and a cluster whose changes are told when the test says so."""

    def __init__(self, site: Installation, server: KubernetesServer) -> None:
        self.site = site
        self.server = server
        self.clock = 0.0
        self.cycle = CommitCycle(site.store, site.store.load(), site.dispatcher)
        context = site.context()
        model = self.cycle.model
        self.follower = Follower(
            model.snapshot,
            lambda: model.generation,
            VnfSync(context.writes, context.operations),
            {source.cluster: source for source in cluster_sources(site.conf)},
            clock=lambda: self.clock,
        )
        self._told: dict[str, str] = {}
        self._number = 0

    def synced(self) -> None:
        """The cluster was listed completely."""
        self._commit("kubernetes.cluster.synced", {"has_synced": True, "last_sync_at": NOW})

    def tell(self) -> None:
        """Everything that has changed in the cluster."""
        there = {}
        for kind in ("Deployment", "ReplicaSet", "Pod"):
            for obj in self.server.objects(kind):
                uid, version = obj["metadata"]["uid"], obj["metadata"]["resourceVersion"]
                there[uid] = kind
                if self._told.get(uid) != version:
                    self._commit(f"kubernetes.{kind.lower()}.modified", obj)
                self._told[uid] = version
        for uid in self._told.keys() - there.keys():
            self._commit("kubernetes.pod.deleted", {"metadata": {"uid": uid}})
            del self._told[uid]

    def look(self) -> None:
        self.cycle.follow()
        self.follower.look()
        self.cycle.follow()

    def _commit(self, event_type: str, data: object) -> None:
        self._number += 1
        event = Event(
            id=f"e-{self._number}",
            type=event_type,
            source="edge",
            origin="edge",
            data=msgspec.json.encode(data),
            sequence=(1, self._number),
        )
        self.cycle.run(Batch(events=[event]))


@pytest.fixture
def server() -> Iterator[KubernetesServer]:
    with KubernetesServer() as server:
        server.cluster.add_nodes(2)
        server.create(deployment("vdu1", replicas=1))
        server.create(deployment("vdu10", replicas=2))
        server.cluster.settle()
        yield server


@pytest.fixture
def make(server: KubernetesServer, tmp_path: Path) -> Iterator[Callable[[], Followed]]:
    site = Installation(tmp_path, {"edge": server})
    yield lambda: Followed(site, server)
    site.close()


@pytest.fixture
def world(make: Callable[[], Followed]) -> Followed:
    return make()


def test_an_instance_is_left_alone_until_its_cluster_was_listed(world: Followed):
    world.site.register("v1", one_vdu())
    world.tell()
    world.look()
    assert world.site.vnf("v1").state == "UNKNOWN"
    world.synced()
    world.look()
    assert (world.site.vnf("v1").state, world.site.vnf("v1").scale_level) == ("SYNCED", {"vdu1_aspect": 0})


def test_a_scaling_shows_at_the_next_look(world: Followed):
    world.site.register("v1", one_vdu())
    world.tell()
    world.synced()
    world.look()
    world.server.cluster.scale("Deployment", "vdu1", 3)
    world.server.cluster.settle()
    world.tell()
    world.look()
    assert world.site.vnf("v1").scale_level == {"vdu1_aspect": 2}
    assert len(world.site.vnf("v1").vnfc_resource_info) == 3


def test_an_instance_that_is_registered_later_is_judged_at_once(world: Followed):
    world.tell()
    world.synced()
    world.look()
    world.site.register("v1", one_vdu())
    world.look()
    assert world.site.vnf("v1").state == "SYNCED"


def test_the_pods_of_others_cost_nothing(world: Followed, monkeypatch: pytest.MonkeyPatch):
    world.site.register("v1", one_vdu())
    world.tell()
    world.synced()
    world.look()
    world.look()
    judged = []
    monkeypatch.setattr(world.follower, "_look_at", judged.append)
    world.server.cluster.scale("Deployment", "vdu10", 5)
    world.server.cluster.settle()
    world.tell()
    world.look()
    assert judged == []


def test_where_nothing_differs_nothing_is_written(world: Followed):
    world.site.register("v1", one_vdu())
    world.tell()
    world.synced()
    world.look()
    head = world.site.head()
    world.look()
    world.look()
    assert world.site.head() == head


def test_all_pods_gone_is_seen(world: Followed):
    world.site.register("v1", one_vdu())
    world.tell()
    world.synced()
    world.look()
    world.server.cluster.scale("Deployment", "vdu1", 0)
    world.server.cluster.settle()
    world.tell()
    world.look()
    vnf = world.site.vnf("v1")
    assert (vnf.state, vnf.vnfc_resource_info, vnf.observed) == ("OUT_OF_RANGE", [], {"VDU1": 0})


def test_a_pod_that_is_killed_and_replaced_between_two_looks_keeps_its_vnfc(world: Followed):
    world.site.register("v1", one_vdu())
    world.tell()
    world.synced()
    world.look()
    (old,) = world.site.vnf("v1").vnfc_resource_info
    world.server.cluster.kill(old["computeResource"]["resourceId"])
    world.tell()
    world.look()
    assert world.site.vnf("v1").vnfc_resource_info == []
    world.server.cluster.settle()
    world.tell()
    world.look()
    (new,) = world.site.vnf("v1").vnfc_resource_info
    assert new["id"] == old["id"]
    assert new["computeResource"]["resourceId"] != old["computeResource"]["resourceId"]


def test_an_instance_that_is_held_is_synced_when_it_is_free(world: Followed, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    world.site.register("v1", one_vdu())
    lease = world.site.operations.begin("v1", "SCALE", "tacker")
    world.tell()
    world.synced()
    world.look()
    world.look()
    assert world.site.vnf("v1").state == "UNKNOWN"
    assert world.follower.report() == {"clusters": "edge", "waiting": "v1", "held by operations": "v1"}
    (waiting,) = world.follower.collect()
    assert [sample.value for sample in waiting.samples] == [1]
    world.site.operations.end("v1", lease.id)
    world.clock += 2
    world.look()
    assert world.site.vnf("v1").state == "SYNCED"
    assert caplog.text.count("VNF instance v1 is not synced (SKIPPED_LCM) for now: tacker holds it for SCALE") == 1


def test_one_that_leads_from_now_on_begins_with_all_instances(world: Followed, make: Callable[[], Followed]):
    world.site.register("v1", one_vdu())
    world.tell()
    world.synced()
    successor = make()
    successor.look()
    assert world.site.vnf("v1").state == "SYNCED"


def test_instances_in_clusters_of_other_engines_are_left_alone(world: Followed):
    world.site.register("v1", one_vdu(cluster="elsewhere"))
    world.tell()
    world.synced()
    world.look()
    assert world.site.vnf("v1").state == "UNKNOWN"


def test_a_deleted_instance_is_forgotten(world: Followed):
    from watcher_sync.model.changes import Delete

    world.site.register("v1", one_vdu())
    world.tell()
    world.synced()
    with world.site.context().writes.begin() as cycle:
        cycle.write(
            Event(id="d", type="vnf_instance.deleted", source="api"),
            [Delete("vnf_instance", "v1", cycle.next_version())],
        )
    world.server.cluster.scale("Deployment", "vdu1", 3)
    world.server.cluster.settle()
    world.tell()
    world.look()
    assert world.site.model.get("vnf_instance", "v1") is None


def test_what_a_reconciliation_could_not_list_is_not_contradicted(world: Followed):
    world.site.register("v1", one_vdu())
    world.tell()
    world.synced()
    world.look()
    world.site.reconcile()
    world.look()
    world.server.fail(forbidden(), path="/api/v1/pods", count=10)
    world.site.reconcile()
    world.look()
    assert world.site.vnf("v1").state == "UNKNOWN"
    head = world.site.head()
    world.site.reconcile()
    world.look()
    assert world.site.head() == head, "they write against each other"
    world.synced()
    world.look()
    assert world.site.vnf("v1").state == "SYNCED"


def test_of_a_kind_that_is_not_followed_nothing_is_concluded(server: KubernetesServer, tmp_path: Path):
    site = Installation(tmp_path, {"edge": server}, resources=["pods", "replicasets", "deployments"])
    world = Followed(site, server)
    site.register("v1", one_vdu("StatefulSet", "db"))
    world.tell()
    world.synced()
    world.look()
    assert site.vnf("v1").vdu_results["VDU1"]["result"] == "UNKNOWN"
    head = site.head()
    world.site.reconcile()
    assert site.vnf("v1").vdu_results["VDU1"]["result"] == "UNKNOWN"
    world.look()
    assert len([row for row in site.drifts() if row.kind == "vnf_instance"]) == 0
    assert site.vnf("v1").seq <= head
    site.close()


def test_instances_in_namespaces_that_are_not_followed_are_left_alone(server: KubernetesServer, tmp_path: Path):
    site = Installation(tmp_path, {"edge": server}, namespaces=["kube-system"])
    world = Followed(site, server)
    site.register("v1", one_vdu())
    world.synced()
    world.look()
    assert (site.vnf("v1").state, site.vnf("v1").observed_at) == ("UNKNOWN", None)
    site.close()


def test_instances_that_are_only_observed_are_not_written(world: Followed):
    world.site.conf.set_override("policy", {"vnf_instance": "observe"}, group="reconcile")
    world.site.register("v1", one_vdu())
    world.tell()
    world.synced()
    world.cycle.follow()
    engine = types.SimpleNamespace(store=world.site.store, model=world.cycle.model)
    follower = make_follower(world.site.conf, engine, world.site.dispatcher)
    follower.look()
    assert world.site.vnf("v1").state == "UNKNOWN"
    world.site.conf.set_override("policy", {}, group="reconcile")
    make_follower(world.site.conf, engine, world.site.dispatcher).look()
    assert world.site.vnf("v1").state == "SYNCED"


class Refusing:
    """Stands in front of a sync, and fails for some instances."""

    def __init__(self, sync: VnfSync, error: Exception, *refused: str) -> None:
        self._sync, self._error = sync, error
        self.refused = set(refused)
        self.asked: list[str] = []

    def sync(self, vnf_id: str, **how: object) -> object:
        self.asked.append(vnf_id)
        if vnf_id in self.refused:
            raise self._error
        return self._sync.sync(vnf_id, **how)


@pytest.mark.slow
def test_an_instance_that_the_database_refuses_costs_the_others_nothing_and_is_tried_again_ever_later(
    world: Followed, caplog: pytest.LogCaptureFixture
):
    for name in ("v1", "v2", "v3"):
        world.site.register(name, one_vdu())
    sync = world.follower._sync = Refusing(world.follower._sync, RowRefused("too long"), "v1", "v2")
    world.tell()
    world.synced()
    world.look()
    assert world.site.vnf("v3").state == "SYNCED"
    for _ in range(100):
        world.clock += 1
        world.look()
    assert 6 <= sync.asked.count("v1") <= 8
    assert caplog.text.count("VNF instance v1 cannot be synced") == 1
    sync.refused.clear()
    world.clock += 61
    world.look()
    assert world.site.vnf("v1").state == world.site.vnf("v2").state == "SYNCED"
    assert world.follower.report()["waiting"] == "none"


def test_while_the_database_is_away_one_instance_asks_for_all(world: Followed):
    for number in range(9):
        world.site.register(f"v{number}", one_vdu())
    world.tell()
    world.synced()
    sync = world.follower._sync = Refusing(
        world.follower._sync, DatabaseUnavailable("away"), *(f"v{number}" for number in range(9))
    )
    world.look()
    world.look()
    assert len(sync.asked) == 1
    world.clock += 1
    world.look()
    assert len(sync.asked) == 2
    sync.refused.clear()
    world.clock += 1
    world.look()
    assert {vnf.state for vnf in world.site.model.all("vnf_instance")} == {"SYNCED"}
