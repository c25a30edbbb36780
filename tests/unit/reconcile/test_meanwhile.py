# SPDX-License-Identifier: Apache-2.0
"""An event that arrives while a cluster is compared is newer than the listing, in every process that compares."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.clusters import Installation, one_vdu, truth
from tests.waiting import deadline
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.batch_dispatch import CommitOptions
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.events import Event
from watcher_sync.exceptions import DatabaseUnavailable, RowRefused, StaleToken
from watcher_sync.extensions.kubernetes.reconcile.compare import ClusterComparer
from watcher_sync.extensions.kubernetes.source.target import ClusterTarget
from watcher_sync.extensions.vnf.assembly import make_evaluation
from watcher_sync.extensions.vnf.instance_sync import VnfSync
from watcher_sync.extensions.vnf.reconcile import VnfClusterReconciler
from watcher_sync.storage.table_model import TableView
from watcher_sync.testing.kubernetes import KubernetesServer, forbidden
from watcher_sync.testing.kubernetes.builders import deployment

pytestmark = pytest.mark.slow


@pytest.fixture
def server() -> Iterator[KubernetesServer]:
    with KubernetesServer() as server:
        server.cluster.add_nodes(2)
        server.create(deployment("vdu1", replicas=1))
        server.create(deployment("other", replicas=9))
        server.cluster.settle()
        yield server


@pytest.fixture
def site(server: KubernetesServer, tmp_path: Path) -> Iterator[Installation]:
    site = Installation(tmp_path, {"edge": server}, connect_timeout=30.0, read_timeout=30.0)
    yield site
    site.close()


@pytest.fixture
def after_listing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Have something happen between the listing and whatever is made of it."""
    list_objects = ClusterTarget.list_objects

    def arrange(happen: Callable[[], None]) -> None:
        def listed(*args: Any, **more: Any) -> Iterator[Any]:
            yield from list_objects(*args, **more)
            happen()

        monkeypatch.setattr(ClusterTarget, "list_objects", listed)

    return arrange


def nothing(_seconds: float) -> None:
    """No watch is waited for."""


def over_the_tables(site: Installation, wait: Callable[[float], None] = nothing) -> VnfClusterReconciler:
    """As in a process without a replica, such as an API worker."""
    view = TableView(site.store.database, site.store.tables, site.store.kinds)
    return VnfClusterReconciler(site.conf, site.context(lambda: view), wait=wait)


class Watch:
    """Tells the model what the cluster has, as an engine's watch does."""

    def __init__(self, site: Installation, server: KubernetesServer) -> None:
        self._site, self._server = site, server
        self._number = 0

    def tell(self) -> None:
        events = []
        for kind in ("Deployment", "ReplicaSet", "Pod"):
            for obj in self._server.objects(kind):
                self._number += 1
                event = Event(
                    id=f"e-{self._number}",
                    type=f"kubernetes.{kind.lower()}.modified",
                    source="edge",
                    origin="edge",
                    data=msgspec.json.encode(obj),
                    sequence=(1, self._number),
                )
                events.append(event)
        self._site.told(*events)


def test_a_pod_reported_after_the_listing_is_not_deleted_by_a_process_that_reads_the_tables(
    site: Installation, server: KubernetesServer, after_listing: Callable[[Callable[[], None]], None]
):
    site.register("v1", one_vdu())
    site.reconcile()

    def scaled_and_told() -> None:
        server.cluster.scale("Deployment", "vdu1", 2)
        server.cluster.settle()
        Watch(site, server).tell()

    after_listing(scaled_and_told)
    report = over_the_tables(site).run("edge", allow_deletes=True, deadline=time.monotonic() + deadline(120))
    assert report.deleted == 0
    assert site.objects() == truth(server)


def test_a_requested_sync_deletes_no_pod_that_is_reported_after_the_listing(
    site: Installation, server: KubernetesServer, after_listing: Callable[[Callable[[], None]], None]
):
    site.register("v1", one_vdu())
    site.reconcile()

    def scaled_and_told() -> None:
        server.cluster.scale("Deployment", "vdu1", 2)
        server.cluster.settle()
        Watch(site, server).tell()

    after_listing(scaled_and_told)
    report = over_the_tables(site).sync_now("v1", dry_run=False)
    assert report.state == "SYNCED"
    assert site.objects() == truth(server)
    assert site.vnf("v1").scale_level == {"vdu1_aspect": 1}


@pytest.mark.parametrize("is_asked_for", [False, True])
def test_a_pod_that_came_and_went_before_the_engine_listed_again_is_not_created(
    site: Installation, server: KubernetesServer, is_asked_for: bool
):
    """The engine's watch had ended, so no event reports the pod or its deletion."""
    site.register("v1", one_vdu())
    site.reconcile()
    server.cluster.scale("Deployment", "vdu1", 3)
    server.cluster.settle()

    def gone_and_listed(_seconds: float) -> None:
        server.cluster.scale("Deployment", "vdu1", 1)
        server.cluster.settle()
        Watch(site, server).tell()

    reconciler = site.reconciler(gone_and_listed)
    if is_asked_for:
        reconciler.sync_now("v1", dry_run=False)
    else:
        reconciler.run("edge", deadline=time.monotonic() + deadline(120))
    assert site.objects() == truth(server)


@pytest.mark.parametrize("is_asked_for", [False, True])
@pytest.mark.parametrize("replica", [False, True])
def test_a_pod_that_went_before_the_engine_listed_again_and_is_created_then_is_deleted(
    site: Installation,
    server: KubernetesServer,
    after_listing: Callable[[Callable[[], None]], None],
    is_asked_for: bool,
    replica: bool,
):
    """The engine's list is newer than the comparison's, and is committed first: its watch begins without the pod."""
    site.register("v1", one_vdu())
    site.reconcile()
    server.cluster.scale("Deployment", "vdu1", 3)
    server.cluster.settle()
    listings = itertools.count(1)

    def gone_and_listed() -> None:
        if next(listings) == 2:
            server.cluster.scale("Deployment", "vdu1", 1)
            server.cluster.settle()
            Watch(site, server).tell()

    after_listing(gone_and_listed)
    reconciler = site.reconciler() if replica else over_the_tables(site)
    if is_asked_for:
        reconciler.sync_now("v1", dry_run=False)
    else:
        report = reconciler.run("edge", deadline=time.monotonic() + deadline(120))
        assert (report.complete, report.deleted) == (True, 2)
    assert next(listings) == 4
    assert site.objects() == truth(server)
    assert site.vnf("v1").scale_level == {"vdu1_aspect": 0}


def test_a_run_that_cannot_confirm_a_pod_is_incomplete_and_is_repeated_soon(
    site: Installation, server: KubernetesServer, after_listing: Callable[[Callable[[], None]], None]
):
    server.cluster.scale("Deployment", "vdu1", 3)
    server.cluster.settle()
    listings = itertools.count(1)

    def refuse() -> None:
        if next(listings) == 2:
            server.fail(forbidden(), path="/api/v1/pods", count=10)

    after_listing(refuse)
    reconciler = site.reconciler()
    assert reconciler.interval("edge") is None
    report = reconciler.run("edge", deadline=time.monotonic() + deadline(20))
    assert site.objects() == truth(server)
    assert report.complete is False
    assert set(report.failures) == {"pods"}
    assert reconciler.interval("edge") == 10
    server.heal()
    server.cluster.scale("Deployment", "vdu1", 1)
    server.cluster.settle()
    assert reconciler.run("edge", dry_run=True, deadline=time.monotonic() + deadline(20)).complete
    assert reconciler.interval("edge") == 10
    assert reconciler.run("edge", deadline=time.monotonic() + deadline(20)).deleted == 2
    assert reconciler.interval("edge") is None
    assert site.objects() == truth(server)


def test_a_kind_that_cannot_be_listed_keeps_no_other_kind_unconfirmed(site: Installation, server: KubernetesServer):
    server.fail(forbidden(), path="/apis/apps/v1/daemonsets", count=None)
    reconciler = site.reconciler()
    report = reconciler.run("edge", deadline=time.monotonic() + deadline(20))
    assert report.written
    assert set(report.failures) == {"daemonsets"}
    assert reconciler.interval("edge") is None


def test_a_run_that_fails_after_it_created_pods_is_repeated_soon(
    site: Installation, server: KubernetesServer, monkeypatch: pytest.MonkeyPatch
):
    server.cluster.scale("Deployment", "vdu1", 3)
    server.cluster.settle()

    def fail(*_args: Any, **_more: Any) -> None:
        raise DatabaseUnavailable("gone")

    monkeypatch.setattr(ClusterComparer, "created_but_gone", fail)
    reconciler = site.reconciler()
    with pytest.raises(DatabaseUnavailable):
        reconciler.run("edge", deadline=time.monotonic() + deadline(20))
    assert reconciler.interval("edge") == 10


def test_a_pod_of_a_kind_that_cannot_be_listed_again_is_not_created(site: Installation, server: KubernetesServer):
    site.reconcile()
    server.cluster.scale("Deployment", "vdu1", 3)
    server.cluster.settle()
    before = {pod.id for pod in site.model.all("pod")}

    def refuse(_seconds: float) -> None:
        server.fail(forbidden(), path="/api/v1/pods", count=10)

    report = site.reconcile(wait=refuse)
    assert {pod.id for pod in site.model.all("pod")} == before
    assert report.complete is False
    assert set(report.failures) == {"pods"}


def evaluate_all(site: Installation) -> None:
    """What an engine does with the VNF instances when it begins to lead."""
    evaluation = make_evaluation(site.conf)
    evaluation.start()
    CommitCycle(site.store, site.store.load(), site.dispatcher, CommitOptions(evaluation=evaluation)).run(
        Batch(events=())
    )


def synced(site: Installation) -> None:
    """The watch has listed everything."""
    told = {"has_synced": True, "last_sync_at": "2026-01-02T00:00:00Z"}
    site.told(
        Event(
            id="s-1",
            type="kubernetes.cluster.synced",
            source="edge",
            origin="edge",
            data=msgspec.json.encode(told),
            sequence=(1, 1_000_000),
        )
    )


@pytest.mark.parametrize("replica", [True, False])
def test_an_instance_that_events_bring_in_step_meanwhile_is_no_drift(
    site: Installation, server: KubernetesServer, after_listing: Callable[[Callable[[], None]], None], replica: bool
):
    site.register("v1", one_vdu())
    watch = Watch(site, server)
    watch.tell()
    synced(site)
    evaluate_all(site)
    site.reconcile()
    evaluate_all(site)
    assert site.reconcile().differences == ()

    def scale_and_tell(replicas: int) -> None:
        server.cluster.scale("Deployment", "vdu1", replicas)
        server.cluster.settle()
        watch.tell()

    # It is in the tables and in the listing, and no engine has evaluated it yet.
    scale_and_tell(2)

    def looked(_seconds: float) -> None:
        evaluate_all(site)

    reconciler = site.reconciler(looked) if replica else over_the_tables(site, looked)
    report = reconciler.run("edge", deadline=time.monotonic() + deadline(120))
    assert [d for d in report.differences if d.kind == "vnf_instance"] == []
    assert site.vnf("v1").scale_level == {"vdu1_aspect": 1}

    # It comes after the listing, and the engine has evaluated it before anything is made of that.
    def meanwhile() -> None:
        scale_and_tell(3)
        evaluate_all(site)

    after_listing(meanwhile)
    reconciler = site.reconciler() if replica else over_the_tables(site)
    report = reconciler.run("edge", deadline=time.monotonic() + deadline(120))
    assert [d for d in report.differences if d.kind == "vnf_instance"] == []
    assert site.vnf("v1").scale_level == {"vdu1_aspect": 2}


def test_while_the_brake_holds_deletions_no_instance_gets_the_pods_of_both_sides(
    site: Installation, server: KubernetesServer
):
    site.register("v1", one_vdu())
    site.reconcile()
    before = site.vnf("v1")
    pods = {pod.id for pod in site.model.all("pod")}
    server.cluster.kill(before.vnfc_resource_info[0]["computeResource"]["resourceId"])
    server.cluster.scale("Deployment", "other", 0)
    server.cluster.settle()
    report = site.reconcile()
    assert report.refused_deletes == {"Pod": 10}
    assert {pod.id for pod in site.model.all("pod")} == pods
    assert site.vnf("v1") == before
    assert "vnf_instance" in {drift.kind for drift in site.drifts()}
    site.reconcile(allow_deletes=True)
    assert site.objects() == truth(server)
    (now,) = site.vnf("v1").vnfc_resource_info
    assert now["computeResource"] != before.vnfc_resource_info[0]["computeResource"]
    assert now["id"] == before.vnfc_resource_info[0]["id"]


@pytest.mark.parametrize("error", [RowRefused("too long"), StaleToken(None)])
def test_an_instance_that_cannot_be_written_does_not_keep_the_others_back(
    site: Installation, server: KubernetesServer, error: Exception, monkeypatch: pytest.MonkeyPatch
):
    for name in ("v1", "v2", "v3"):
        site.register(name, one_vdu())
    sync = VnfSync.sync

    def refusing(self: VnfSync, vnf_id: str, **how: Any) -> Any:
        if vnf_id == "v2":
            raise error
        return sync(self, vnf_id, **how)

    monkeypatch.setattr(VnfSync, "sync", refusing)
    report = site.reconcile()
    assert report.complete
    assert [site.vnf(name).state for name in ("v1", "v2", "v3")] == ["SYNCED", "UNKNOWN", "SYNCED"]
    assert {drift.entity_id for drift in site.drifts() if drift.kind == "vnf_instance"} == {"v1", "v2", "v3"}
