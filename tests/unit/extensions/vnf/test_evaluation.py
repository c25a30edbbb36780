# SPDX-License-Identifier: Apache-2.0
"""VNF instances follow their pods in the same commit, and nothing that they wait for holds the events up."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa

from tests.clusters import Installation, one_vdu
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.batch_dispatch import CommitOptions
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.commit.pipeline import Pipeline
from watcher_sync.events import Event
from watcher_sync.exceptions import DatabaseUnavailable, RowRefused
from watcher_sync.extensions.kubernetes.source.source import cluster_targets
from watcher_sync.extensions.vnf.assembly import make_evaluation
from watcher_sync.extensions.vnf.evaluation import COALESCE_SECONDS, MAX_EVALUATIONS, VnfEvaluation
from watcher_sync.extensions.vnf.handler import SettlingSettings, VnfHandler
from watcher_sync.model.changes import Delete, Outcome
from watcher_sync.testing.kubernetes import KubernetesServer, forbidden
from watcher_sync.testing.kubernetes.builders import deployment

pytestmark = pytest.mark.slow

NOW = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)


class CountingHandler(VnfHandler):
    """Counts the evaluations, and fails for some instances."""

    def __init__(self, settings: SettlingSettings) -> None:
        super().__init__(settings, now=lambda: NOW + datetime.timedelta(seconds=self.elapsed))
        self.elapsed = 0.0
        self.evaluated: list[str] = []
        self.failing: set[str] = set()

    def evaluate(self, view: Any, vnf: Any, unknown: Any) -> Any:
        self.evaluated.append(vnf.id)
        if vnf.id in self.failing:
            raise ZeroDivisionError("a bug of ours")
        return super().evaluate(view, vnf, unknown)


class Followed:
    """The commit cycle of an engine that leads, and a cluster whose changes arrive when the test passes them on."""

    def __init__(self, site: Installation, server: KubernetesServer) -> None:
        self.site = site
        self.server = server
        self.clock = 0.0
        self.handler = CountingHandler(site.conf.reconcile)
        self.evaluation = VnfEvaluation(cluster_targets(site.conf), handler=self.handler, clock=lambda: self.clock)
        self.cycle = CommitCycle(
            site.store, site.store.load(), site.dispatcher, CommitOptions(evaluation=self.evaluation)
        )
        self.evaluation.start()
        self._told: dict[str, tuple[str, str]] = {}
        """uid -> kind, and resourceVersion."""
        self._number = 0

    def synced(self) -> None:
        """The cluster was listed completely."""
        self.commit("kubernetes.cluster.synced", {"has_synced": True, "last_sync_at": NOW})

    def tell(self) -> None:
        """Everything that has changed in the cluster, in commits of one event."""
        for event in self.news():
            self.cycle.run(Batch(events=[event]))

    def news(self) -> list[Event]:
        """The events of everything that has changed in the cluster."""
        there: dict[str, tuple[str, str]] = {}
        events: list[Event] = []
        for kind in ("Deployment", "ReplicaSet", "Pod"):
            for obj in self.server.objects(kind):
                uid, there[uid] = obj["metadata"]["uid"], (kind, obj["metadata"]["resourceVersion"])
                if self._told.get(uid) != there[uid]:
                    events.append(self.event(f"kubernetes.{kind.lower()}.modified", obj))
        for uid in self._told.keys() - there.keys():
            kind, _ = self._told[uid]
            events.append(self.event(f"kubernetes.{kind.lower()}.deleted", {"metadata": {"uid": uid}}))
        self._told = there
        return events

    def look(self) -> None:
        """What an engine does while no events come: follow the journal, and evaluate what is due in a moment."""
        self.cycle.follow()
        self.clock += COALESCE_SECONDS
        while self.evaluation.seconds_until_due() <= 0:
            self.cycle.run(Batch(events=()))

    def settle(self, **replicas: int) -> None:
        """Scale Deployments, and let the cluster come to rest."""
        for name, count in replicas.items():
            self.server.cluster.scale("Deployment", name, count)
        self.server.cluster.settle()

    def event(self, event_type: str, data: object) -> Event:
        self._number += 1
        return Event(
            id=f"e-{self._number}",
            type=event_type,
            source="edge",
            origin="edge",
            data=msgspec.json.encode(data),
            sequence=(1, self._number),
        )

    def commit(self, event_type: str, data: object) -> None:
        self.cycle.run(Batch(events=[self.event(event_type, data)]))

    def level(self, vnf_id: str = "v1") -> Any:
        return (self.site.vnf(vnf_id).scale_level or {}).get("vdu1_aspect")

    def waiting(self) -> str:
        return self.evaluation.report()["waiting"]


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
    world.settle(vdu1=3)
    world.tell()
    world.look()
    assert world.site.vnf("v1").scale_level == {"vdu1_aspect": 2}
    assert len(world.site.vnf("v1").vnfc_resource_info) == 3


@pytest.mark.parametrize(
    ("kind", "name", "options"),
    [("Deployment", "vdu1", {"propagationPolicy": "Foreground"}), ("Deployment", "vdu1", {}), ("Namespace", "vnf", {})],
)
def test_a_deletion_in_any_order_is_no_scale_in_and_keeps_entries_and_level(
    world: Followed, kind: str, name: str, options: dict[str, str]
):
    world.server.create(deployment("vdu1", replicas=3, namespace="vnf"))
    world.server.cluster.settle()
    world.site.register("v1", {**one_vdu(), "namespace": "vnf"})
    world.tell()
    world.synced()
    world.look()
    before = world.site.vnf("v1")
    assert (before.state, before.scale_level) == ("SYNCED", {"vdu1_aspect": 2})
    world.server.delete(kind, name, namespace="vnf", **options)
    states = []
    for _ in range(8):
        world.tell()
        world.look()
        states.append(world.site.vnf("v1").state)
        assert world.site.vnf("v1").scale_level == before.scale_level
        world.server.cluster.step()
    allowed = {"SYNCED", "SETTLING", "UNRESOLVED"} if kind == "Namespace" else {"UNRESOLVED"}
    assert set(states) <= allowed
    after = world.site.vnf("v1")
    assert after.state == "UNRESOLVED"
    assert not world.server.objects("Pod", namespace="vnf")
    assert after.vnfc_resource_info == before.vnfc_resource_info
    assert after.vnfc_info == before.vnfc_info


def test_an_instance_that_is_registered_later_is_judged_at_once(world: Followed):
    world.tell()
    world.synced()
    world.look()
    world.site.register("v1", one_vdu())
    world.look()
    assert world.site.vnf("v1").state == "SYNCED"


def test_an_instance_of_labels_follows_its_workload_from_the_moment_that_it_has_them(world: Followed):
    body = one_vdu()
    body["vdus"]["VDU1"]["workload"] = {"kind": "Deployment", "labels": {"app.kubernetes.io/instance": "shop"}}
    world.site.register("v1", body)
    world.tell()
    world.synced()
    world.look()
    assert world.site.vnf("v1").state == "UNRESOLVED"
    (found,) = [obj for obj in world.server.objects("Deployment") if obj["metadata"]["name"] == "vdu1"]
    found["metadata"]["labels"] = {"app.kubernetes.io/instance": "shop"}
    world.commit("kubernetes.deployment.modified", {**found, "metadata": {**found["metadata"], "resourceVersion": "x"}})
    world.look()
    assert (world.site.vnf("v1").state, world.level()) == ("SYNCED", 0)


def test_the_pods_of_others_cost_nothing(world: Followed):
    world.site.register("v1", one_vdu())
    world.tell()
    world.synced()
    world.look()
    world.handler.evaluated.clear()
    world.settle(vdu10=5)
    world.tell()
    world.look()
    assert world.handler.evaluated == []


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
    world.settle(vdu1=0)
    world.tell()
    world.look()
    vnf = world.site.vnf("v1")
    assert (vnf.state, vnf.vnfc_resource_info, vnf.observed) == ("OUT_OF_RANGE", [], {"VDU1": 0})


def unlisted(*kinds: str) -> dict[str, Any]:
    """What a source reports of a cluster that does not answer for these kinds."""
    why = {"since": "2026-01-02T00:00:00Z", "reason": "timed out"}
    return {"has_synced": True, "last_sync_at": NOW, "unlisted": dict.fromkeys(kinds, why)}


@pytest.mark.parametrize("key", ["DaemonSet", "other/Pod"])
def test_what_cannot_be_listed_costs_only_the_vdus_that_need_it(synced: Followed, key: str):
    synced.commit("kubernetes.cluster.synced", unlisted(key))
    synced.settle(vdu1=2)
    synced.tell()
    synced.look()
    assert (synced.site.vnf("v1").state, synced.level()) == ("SYNCED", 1)


def test_an_instance_of_a_cluster_that_is_away_is_unknown_since_then_and_shows_what_was(synced: Followed):
    before = synced.site.vnf("v1")
    synced.commit("kubernetes.cluster.synced", unlisted("Deployment", "default/Pod", "ReplicaSet"))
    synced.look()
    vnf = synced.site.vnf("v1")
    report = {"result": "UNKNOWN", "detail": "Deployment: timed out", "since": "2026-01-02T00:00:00Z"}
    assert (vnf.state, vnf.vdu_results) == ("UNKNOWN", {"VDU1": report})
    assert vnf.vnfc_resource_info == before.vnfc_resource_info != []
    assert (vnf.scale_level, vnf.observed) == (before.scale_level, before.observed)
    synced.synced()
    synced.look()
    assert synced.site.vnf("v1").state == "SYNCED"


def test_pods_that_do_not_come_are_drift_after_the_limit_without_another_event(synced: Followed):
    (old,) = synced.site.vnf("v1").vnfc_resource_info
    synced.server.cluster.kill(old["computeResource"]["resourceId"])
    synced.tell()
    synced.look()
    assert (synced.site.vnf("v1").state, synced.level()) == ("SETTLING", 0)
    due = synced.evaluation.seconds_until_due()
    assert 299 <= due <= 300
    synced.clock += due
    synced.handler.elapsed += 301
    synced.look()
    assert (synced.site.vnf("v1").state, synced.level()) == ("DRIFTED", 0)
    assert synced.evaluation.seconds_until_due() > 1000


def test_an_instance_that_is_held_when_its_limit_is_over_is_retried_every_second(synced: Followed):
    synced.settle(vdu1=0)
    synced.server.cluster.scale("Deployment", "vdu1", 1)
    synced.tell()
    synced.look()
    synced.site.operations.begin("v1", "SCALE", "tacker")
    synced.clock += synced.evaluation.seconds_until_due()
    synced.handler.elapsed += 301
    synced.cycle.run(Batch(events=()))
    assert (synced.site.vnf("v1").state, synced.waiting()) == ("SETTLING", "v1")
    assert synced.evaluation.seconds_until_due() == 1


def test_a_pod_that_is_killed_and_replaced_keeps_its_vnfc(world: Followed):
    world.site.register("v1", one_vdu())
    world.tell()
    world.synced()
    world.look()
    (old,) = world.site.vnf("v1").vnfc_resource_info
    world.server.cluster.kill(old["computeResource"]["resourceId"])
    world.tell()
    world.look()
    assert (world.site.vnf("v1").vnfc_resource_info, world.site.vnf("v1").state) == ([], "SETTLING")
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
    assert world.evaluation.report() == {"clusters": "edge", "waiting": "v1", "held by operations": "v1"}
    (waiting,) = world.evaluation.collect()
    assert [sample.value for sample in waiting.samples] == [1]
    world.site.operations.end("v1", lease.id, lease.proof)
    world.clock += 2
    world.look()
    assert world.site.vnf("v1").state == "SYNCED"
    assert caplog.text.count("VNF instance v1 is not synced (SKIPPED_LCM) for now: tacker holds it for SCALE") == 1


def test_one_that_leads_from_now_on_begins_with_all_instances(world: Followed, make: Callable[[], Followed]):
    world.tell()
    world.synced()
    world.evaluation.join(0)
    world.site.register("v1", one_vdu())
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
    world.site.register("v1", one_vdu())
    world.tell()
    world.synced()
    with world.site.context().writes.begin() as cycle:
        cycle.write(
            Event(id="d", type="vnf_instance.deleted", source="api"),
            [Delete("vnf_instance", "v1", cycle.next_version())],
        )
    world.settle(vdu1=3)
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
    world.evaluation.join(0)
    world.tell()
    world.synced()
    evaluate_as_configured(world)
    assert world.site.vnf("v1").state == "UNKNOWN"
    world.site.conf.set_override("policy", {}, group="reconcile")
    evaluate_as_configured(world)
    assert world.site.vnf("v1").state == "SYNCED"


def evaluate_as_configured(world: Followed) -> None:
    evaluation = make_evaluation(world.site.conf)
    evaluation.start()
    CommitCycle(
        world.site.store, world.site.store.load(), world.site.dispatcher, CommitOptions(evaluation=evaluation)
    ).run(Batch(events=()))


@pytest.fixture
def synced(world: Followed) -> Followed:
    """An instance at level 0, evaluated so long ago that it may be evaluated at once."""
    world.site.register("v1", one_vdu())
    world.tell()
    world.synced()
    world.look()
    world.look()
    assert world.level() == 0
    world.handler.evaluated.clear()
    return world


def test_a_pod_and_its_instance_are_written_in_one_transaction_with_one_evaluation(synced: Followed):
    synced.settle(vdu1=2)
    events = synced.news()
    transactions: list[Any] = []
    sa.event.listen(synced.site.store.database, "commit", transactions.append)
    head = synced.site.store.load().generation
    synced.cycle.run(Batch(events=events))
    assert len(transactions) == 1
    assert synced.handler.evaluated == ["v1"]
    assert synced.level() == 1
    t = synced.site.store.tables.journal
    with synced.site.store.database.connect() as connection:
        rows = connection.execute(sa.select(t).where(t.c.seq > head).order_by(t.c.seq)).all()
    assert (rows[-1].kind, rows[-1].event_type, rows[-1].source) == ("vnf_instance", "vnf_instance.synced", "edge")
    assert len({row.time for row in rows}) == 1


def test_a_storm_of_events_costs_five_evaluations_a_second_and_ends_in_step(synced: Followed):
    for number in range(100):
        synced.settle(vdu1=2 + number % 2)
        synced.cycle.run(Batch(events=synced.news()))
        synced.clock += 0.01
    assert 4 <= len(synced.handler.evaluated) <= 6
    synced.look()
    assert synced.level() == 2
    assert synced.waiting() == "none"


def test_no_commit_evaluates_more_than_a_hundred_instances(world: Followed):
    for number in range(MAX_EVALUATIONS + 30):
        world.site.register(f"v{number}", one_vdu())
    world.tell()
    world.cycle.follow()
    world.clock += 1
    world.synced()
    assert len(world.handler.evaluated) == MAX_EVALUATIONS
    assert world.evaluation.seconds_until_due() == 0
    world.cycle.run(Batch(events=()))
    assert {vnf.state for vnf in world.site.model.all("vnf_instance")} == {"SYNCED"}
    assert len(world.handler.evaluated) == MAX_EVALUATIONS + 30


def test_while_an_operation_holds_the_instance_its_pods_are_written_without_it(synced: Followed):
    lease = synced.site.operations.begin("v1", "SCALE", "tacker")
    synced.settle(vdu1=2)
    synced.cycle.run(Batch(events=synced.news()))
    assert synced.level() == 0
    assert len([pod for pod in synced.site.model.all("pod") if "vdu1-" in pod.name]) == 2
    assert synced.evaluation.seconds_until_due() == pytest.approx(1)
    synced.site.operations.end("v1", lease.id, lease.proof)
    synced.clock += 1
    synced.look()
    assert synced.level() == 1
    assert synced.evaluation.report()["held by operations"] == "none"


def test_a_held_instance_does_not_keep_others_back(synced: Followed):
    synced.site.register("v2", one_vdu())
    synced.site.operations.begin("v1", "SCALE", "tacker")
    synced.settle(vdu1=2)
    synced.cycle.follow()
    synced.cycle.run(Batch(events=synced.news()))
    assert (synced.level("v1"), synced.level("v2")) == (0, 1)


def test_pods_that_another_writer_commits_mark_their_instance(synced: Followed):
    synced.settle(vdu1=3)
    synced.site.told(*synced.news())
    synced.look()
    assert synced.level() == 2
    synced.settle(vdu1=1)
    synced.site.told(*synced.news())
    synced.look()
    assert synced.level() == 0


def test_a_batch_that_another_writer_forestalls_is_evaluated_again_on_top(synced: Followed):
    synced.settle(vdu1=2)
    first = synced.news()
    synced.settle(vdu1=3)
    second = synced.news()
    synced.site.told(*first)
    conflicts = synced.cycle.stats.conflicts
    synced.cycle.run(Batch(events=second))
    assert synced.cycle.stats.conflicts == conflicts + 1
    assert synced.level() == 2
    seqs = synced.site.store.load().generation
    synced.look()
    assert synced.site.store.load().generation == seqs


@pytest.mark.parametrize("lost", [False, True])
def test_batches_in_a_pipeline_lose_no_mark(synced: Followed, monkeypatch: pytest.MonkeyPatch, lost: bool):
    settled: list[tuple[int, bool]] = []

    def again(batch: Batch | None) -> bool:
        synced.cycle.catch_up()
        if batch is not None:
            synced.cycle.run(batch)
        return True

    pipeline = Pipeline(synced.cycle, again=again, settle=lambda owner, done: settled.append((owner, done)))
    for number in range(2, 5):
        if lost:  # another writer commits before each batch
            synced.site.told(synced.event("kubernetes.deployment.modified", {"metadata": {"uid": f"x-{number}"}}))
        synced.settle(vdu1=2 + number % 2)
        pipeline.add(number, Batch(events=synced.news()))
    pipeline.end()
    assert settled == [(2, True), (3, True), (4, True)]
    assert len(synced.handler.evaluated) >= 1
    synced.look()
    assert synced.level() == 1
    assert synced.waiting() == "none"


def test_a_registration_that_names_another_workload_follows_that_one(synced: Followed):
    synced.site.register("v1", one_vdu(name="vdu10"))
    synced.look()
    assert synced.level() == 1
    synced.look()
    synced.handler.evaluated.clear()
    synced.settle(vdu1=3)
    synced.tell()
    assert synced.handler.evaluated == []
    synced.settle(vdu10=3)
    synced.tell()
    synced.look()
    assert synced.level() == 2


def test_an_engine_that_drains_writes_what_its_batches_touch_and_nothing_that_waits(synced: Followed):
    synced.site.register("v2", one_vdu(name="vdu10"))
    synced.cycle.follow()
    synced.evaluation.begin_stop()
    synced.settle(vdu1=2)
    synced.cycle.run(Batch(events=synced.news()))
    assert synced.level() == 1
    assert synced.site.vnf("v2").state == "UNKNOWN"
    assert synced.evaluation.seconds_until_due() == float("inf")


def test_an_evaluation_that_fails_costs_the_others_nothing_and_is_tried_again_ever_later(
    world: Followed, caplog: pytest.LogCaptureFixture
):
    for name in ("v1", "v2", "v3"):
        world.site.register(name, one_vdu())
    world.handler.failing |= {"v1", "v2"}
    world.tell()
    world.synced()
    world.look()
    assert world.site.vnf("v3").state == "SYNCED"
    for _ in range(500):
        world.look()
    assert 6 <= world.handler.evaluated.count("v1") <= 8
    assert caplog.text.count("VNF instance v1 cannot be synced") == 1
    world.handler.failing.clear()
    world.clock += 61
    world.look()
    assert world.site.vnf("v1").state == world.site.vnf("v2").state == "SYNCED"
    assert world.waiting() == "none"


def test_an_instance_that_the_database_refuses_costs_neither_events_nor_others(
    world: Followed, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    for name in ("v1", "v2", "v3"):
        world.site.register(name, one_vdu())
    world.tell()
    world.cycle.follow()
    commit, refused = world.site.store.commit, []

    def refusing(prepared: Any) -> None:
        if any(s.id == "v1" for s in prepared.staged):
            refused.append(world.clock)
            raise RowRefused("too long")
        commit(prepared)

    monkeypatch.setattr(world.site.store, "commit", refusing)
    world.clock += 1
    world.synced()
    world.look()
    assert world.site.vnf("v2").state == world.site.vnf("v3").state == "SYNCED"
    assert world.cycle.stats.total(Outcome.QUARANTINED) == 0
    for _ in range(500):
        world.look()
    assert 6 <= len(refused) <= 9
    assert caplog.text.count("VNF instance v1 cannot be synced") == 1
    monkeypatch.setattr(world.site.store, "commit", commit)
    world.clock += 61
    world.look()
    assert world.site.vnf("v1").state == "SYNCED"
    assert world.waiting() == "none"


def test_while_the_database_is_away_nothing_is_lost(world: Followed, monkeypatch: pytest.MonkeyPatch):
    for number in range(9):
        world.site.register(f"v{number}", one_vdu())
    world.tell()
    listed = Batch(events=[world.event("kubernetes.cluster.synced", {"has_synced": True, "last_sync_at": NOW})])
    commit = world.site.store.commit

    def away(_commit: Any) -> None:
        raise DatabaseUnavailable("away")

    monkeypatch.setattr(world.site.store, "commit", away)
    for _ in range(2):
        with pytest.raises(DatabaseUnavailable):
            world.cycle.run(listed)
    assert world.handler.evaluated.count("v1") == 2
    monkeypatch.setattr(world.site.store, "commit", commit)
    world.cycle.run(listed)
    assert {vnf.state for vnf in world.site.model.all("vnf_instance")} == {"SYNCED"}
    assert world.waiting() == "none"


class Listener:
    """Notes the notifications."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def sync_start(self, vnf: Any) -> None:
        self.words.append(f"start {vnf.id}")

    def sync_end(self, vnf: Any, results: Any, pods: Any) -> None:
        self.words.append(f"end {vnf.id} {results} {pods}")

    def sync_error(self, vnf: Any, why: str) -> None:
        self.words.append(f"error {vnf.id}: {why}")


def test_listeners_receive_each_sync_from_its_start_to_its_end(synced: Followed):
    listener = synced.evaluation._notifications = Listener()
    synced.settle(vdu1=2)
    synced.cycle.run(Batch(events=synced.news()))
    assert listener.words == ["start v1", "end v1 {'VDU1': 'SYNCED'} {'VDU1': 2}"]
    synced.handler.failing.add("v1")
    synced.settle(vdu1=3)
    synced.tell()
    synced.look()
    assert listener.words[2:] == ["start v1", "error v1: a bug of ours"]
