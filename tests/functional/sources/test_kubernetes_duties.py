# SPDX-License-Identifier: Apache-2.0
"""What a reflector does where nothing is wrong, each duty by name, over real HTTP."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.functional.sources.reflecting import (
    PODS,
    Engine,
    following,
    listed,
    make_source,
    only,
    threads_of,
    wait_for_truth,
)
from tests.waiting import deadline, wait_until
from watcher_sync.extensions.kubernetes.source import monitor
from watcher_sync.extensions.kubernetes.source import source as source_module
from watcher_sync.sources.base import SourceState
from watcher_sync.testing.kubernetes import Break, Hang, KubernetesServer, Silence, error_event
from watcher_sync.testing.kubernetes.builders import bare_pods, deployment, pod, stateful_set

ALL = ["pods", "deployments", "replicasets", "statefulsets", "daemonsets"]


@pytest.fixture
def engine() -> Engine:
    return Engine()


def asked(server: KubernetesServer, verb: str) -> list[dict[str, str]]:
    return [dict(r.query) for r in server.requests.last() if r.verb == verb]


@pytest.mark.parametrize("watch_list", ["on", "refused", "ignored", "unavailable"])
def test_initial_events_are_streamed_where_the_server_can_and_listed_in_pages_elsewhere(engine, tmp_path, watch_list):
    with KubernetesServer(watch_list=watch_list) as server:
        server.load(bare_pods(30))
        # A server that ignores the request for a streamed list is noticed by this timeout.
        seconds = 0.5 if watch_list == "ignored" else 30.0
        with following(server, tmp_path, engine, watch_list_timeout=seconds):
            assert engine.types() == ["added"] * 30 + ["listed"]
            assert len(listed(server)) == (0 if watch_list == "on" else 1)
            server.create(pod("one-more"))
            wait_for_truth(server, engine)


@pytest.mark.parametrize("watch_list", ["refused", "unavailable"])
def test_a_server_that_refuses_streamed_lists_is_not_asked_for_one_again_soon(engine, tmp_path, watch_list):
    with KubernetesServer(watch_list=watch_list) as server, following(server, tmp_path, engine) as source:
        server.compact()
        server.create(pod("a"))
        server.compact()
        server.fail(error_event())
        server.bookmark()
        wait_until(lambda: only(source).progress.relists >= 2)  # by the lost history, by the error, or by each
        server.requests.wait_for_watches(1)
        assert len([q for q in asked(server, "watch") if "sendInitialEvents" in q]) == 1


def test_lists_come_in_pages_of_one_snapshot(engine, tmp_path):
    with KubernetesServer() as server:
        server.load(bare_pods(25))
        with following(server, tmp_path, engine, watch_list=False, page_size=10):
            lists = listed(server)
            assert [(q["limit"], "continue" in q) for q in lists] == [("10", False), ("10", True), ("10", True)]
            assert len(engine.names()) == 25


def test_every_watch_allows_bookmarks_and_has_a_timeout(engine, tmp_path):
    with KubernetesServer() as server, following(server, tmp_path, engine, watch_timeout=100):
        assert asked(server, "watch")
        for query in asked(server, "watch"):
            assert query["allowWatchBookmarks"] == "true"
            assert 100 <= int(query["timeoutSeconds"]) <= 150


def test_a_watch_that_the_server_ends_in_time_goes_on_without_a_list(engine, tmp_path):
    with KubernetesServer() as server, following(server, tmp_path, engine, watch_timeout=1) as source:
        wait_until(lambda: server.requests.count("watch") >= 3)
        server.create(pod("late"))
        wait_for_truth(server, engine)
        assert (only(source).progress.relists, source.status().reconnects) == (1, 0)


def test_a_bookmark_keeps_the_version_fresh_so_that_no_relist_is_needed(engine, tmp_path):
    with KubernetesServer(history_limit=50) as server, following(server, tmp_path, engine) as source:
        for number in range(100):
            server.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c{number}"}})
            if number % 20 == 19:
                newest = str(server.store.version)
                server.bookmark()
                wait_until(lambda: only(source).version == newest)  # noqa: B023 - waits here and now
        server.fail(Break(), path=PODS)
        wait_until(lambda: only(source).progress.resumptions)
        server.create(pod("after"))
        wait_for_truth(server, engine)
        assert only(source).progress.relists == 1


def test_a_resource_version_is_opaque(engine, tmp_path):
    """Nothing is made of it: versions that are no numbers do as well."""
    with KubernetesServer() as server, following(server, tmp_path, engine) as source:
        reflector = only(source)
        server.create(pod("a"))  # with its version the start is over, which sets one, too
        wait_until(lambda: reflector.version == str(server.store.version))
        line = {"metadata": {"uid": "u", "name": "n", "resourceVersion": "é-ζ"}}
        stream = json.dumps({"type": "ADDED", "object": line}).encode()
        reflector.process_lines([stream], None)
        assert reflector.version == "é-ζ"
        assert [e for e in engine.events if e.type == "kubernetes.pod.added"][-1].position == "é-ζ"
        reflector.version = str(server.store.version)


def test_large_answers_are_compressed(engine, tmp_path):
    with KubernetesServer(gzip_from=100) as server:
        server.load(bare_pods(50))
        with following(server, tmp_path, engine, watch_list=False):
            assert len(engine.names()) == 50
        lists = [r for r in server.requests.last() if r.verb == "list"]
        assert "gzip" in lists[0].headers["accept-encoding"]


def test_replica_sets_are_read_whole_and_lead_to_the_deployment(engine, tmp_path):
    with KubernetesServer() as server:
        server.create(deployment("vdu1", replicas=2))
        server.cluster.settle()
        with following(server, tmp_path, engine, resources=ALL):
            wait_for_truth(server, engine)
            events = [e for e in engine.events if e.type == "kubernetes.replicaset.added"]
            assert {"metadata", "spec", "status"} <= set(json.loads(events[0].data))
            (top,) = {pod.workload_uid for pod in engine.snapshot().all("pod")}
            assert engine.snapshot().get("workload", top).kind == "Deployment"


@pytest.mark.parametrize("watch_list", [True, False])
def test_a_restart_finds_what_was_deleted_meanwhile(engine, tmp_path, watch_list):
    with KubernetesServer() as server:
        for name in ("stays", "goes"):
            server.create(deployment(name, replicas=2))
        server.cluster.settle()
        with following(server, tmp_path, engine, resources=ALL, watch_list=watch_list):
            wait_for_truth(server, engine)
        server.delete("Deployment", "goes")
        server.cluster.settle()
        before = len(engine.events)
        with following(server, tmp_path, engine, resources=ALL, watch_list=watch_list):
            wait_for_truth(server, engine)
            assert {e.type.rpartition(".")[2] for e in engine.events[before:]} >= {"added", "listed"}
            assert all(pod.name.startswith("stays") for pod in engine.snapshot().all("pod"))


def test_a_restart_with_nothing_new_changes_nothing(engine, tmp_path):
    with KubernetesServer() as server:
        server.create(stateful_set("db", replicas=3))
        server.cluster.settle()
        with following(server, tmp_path, engine, resources=ALL):
            wait_for_truth(server, engine)
        before = {pod.id: pod for pod in engine.snapshot().all("pod")}
        with following(server, tmp_path, engine, resources=ALL):
            assert {pod.id: pod for pod in engine.snapshot().all("pod")} == before


def test_the_epoch_is_the_number_that_the_source_was_given(engine, tmp_path):
    with KubernetesServer() as server, following(server, tmp_path, engine, cursor="41") as source:
        assert {event.sequence[0] for event in engine.events} == {41}
        assert source.cursor(engine.events) == "41"
        assert source.cursor([]) is None


def test_only_the_namespaces_and_labels_that_are_asked_for_are_followed(engine, tmp_path):
    with KubernetesServer() as server:
        for namespace in ("a", "b", "c"):
            server.create(pod(f"{namespace}-yes", namespace=namespace, labels={"tier": "vnf"}))
            server.create(pod(f"{namespace}-no", namespace=namespace))
        with following(server, tmp_path, engine, namespaces=["a", "b"], label_selector="tier=vnf") as source:
            assert engine.names() == ["a-yes", "b-yes"]
            assert [r.lister_watcher.name for r in source.reflectors] == ["pods of a", "pods of b"]
            server.delete("Pod", "a-yes", namespace="a", gracePeriodSeconds=0)
            wait_until(lambda: engine.names() == ["b-yes"])


def test_a_kind_without_namespaces_is_followed_and_counted_once_whatever_namespaces_has(engine, tmp_path):
    with KubernetesServer() as server:
        server.cluster.add_nodes(3)
        server.create(pod("a", namespace="a"))
        server.create(pod("b", namespace="b"))
        resources = ["pods", "v1/Node"]
        with following(server, tmp_path, engine, namespaces=["a", "b"], resources=resources) as source:
            wait_until(lambda: counts(engine) == {"Pod": 2, "Node": 3}, what="the counts")
            names = [r.lister_watcher.name for r in source.reflectors]
            assert names == ["pods of a", "pods of b", "nodes"]
            assert server.requests.watches("nodes") == 1


def counts(engine: Engine) -> dict[str, int] | None:
    """The last counts that the cluster reported."""
    synced = [json.loads(event.data) for event in engine.events if event.type == "kubernetes.cluster.synced"]
    return synced[-1]["counts"] if synced else None


def test_other_kinds_are_followed_by_group_version_and_kind(engine, tmp_path):
    with KubernetesServer() as server:
        server.register("argoproj.io", "v1alpha1", "rollouts", "Rollout")
        server.create({"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "metadata": {"name": "canary"}})
        with following(server, tmp_path, engine, resources=["argoproj.io/v1alpha1/Rollout"]):
            (found,) = engine.snapshot().all("workload")
            assert (found.name, found.title, engine.types("rollout.argoproj.io")) == (
                "canary",
                "Rollout.argoproj.io",
                ["added", "listed"],
            )


def test_has_synced_lag_and_the_last_events_age_can_be_read(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(source_module, "_VERSION_TIMEOUT_SECONDS", 60.0)
    with KubernetesServer() as server:
        server.load(bare_pods(40))
        engine.gate.clear()
        with following(server, tmp_path, engine, synced=False, watch_list=False, page_size=10) as source:
            wait_until(lambda: source.status().lag)
            assert (source.has_synced, source.status().lag, only(source).progress.phase) == (False, 30, "listing")
            engine.gate.set()
            wait_until(lambda: source.has_synced)
            status = wait_until(lambda: (s := source.status()).state is SourceState.CONNECTED and s)
            assert (status.lag, only(source).objects.count) == (0, 40)
            assert status.last_event_at == only(source).progress.last_event_at
            cluster = wait_until(lambda: (c := engine.snapshot().get("cluster", "edge")) and c.version and c)
            assert cluster.version == "v1.31.0"
            assert (cluster.state, cluster.has_synced, cluster.counts) == ("connected", True, {"Pod": 40})


def test_while_the_engine_is_busy_the_watch_is_read_slower_and_nothing_is_lost(engine, tmp_path):
    with KubernetesServer() as server, following(server, tmp_path, engine) as source:
        wait_until(lambda: engine.types("cluster").count("connected"))  # the last event of the start
        engine.gate.clear()
        server.load(bare_pods(3000))
        before = len(engine.events)
        wait_until(lambda: only(source).progress.last_event_at)
        assert len(engine.events) == before
        engine.gate.set()
        wait_for_truth(server, engine)
        assert only(source).progress.relists == 1


def test_what_the_engine_releases_comes_again_in_its_old_place(engine, tmp_path):
    with KubernetesServer() as server, following(server, tmp_path, engine) as source:
        server.create(pod("a", phase="Pending"))
        wait_for_truth(server, engine)
        old = next(event for event in engine.events if event.type == "kubernetes.pod.added")
        server.patch("Pod", "a", {"status": {"phase": "Running"}})
        wait_for_truth(server, engine)
        source.nack([old], 0.05)
        wait_until(lambda: sum(event is old for event in list(engine.events)) == 2)
        wait_for_truth(server, engine)


def test_a_stop_does_not_wait_for_a_request_that_hangs(engine, tmp_path):
    with KubernetesServer() as server:
        server.fail(Hang(), path=PODS, count=None)
        source = make_source(server.kubeconfig(tmp_path / "kubeconfig"), resources=["pods"])
        source.start(engine.emit)
        wait_until(lambda: server.requests.count())
        source.stop(time.monotonic() + deadline(600))
        assert threads_of(source)  # the request waits on, and times out after 60 s
    wait_until(lambda: not threads_of(source))  # the end of the server ends the request
    assert engine.events == []


def test_one_dead_cluster_costs_the_others_nothing(tmp_path: Path):
    engine = Engine()
    with KubernetesServer() as alive, KubernetesServer() as dead:
        config = tmp_path / "dead"
        dead.kubeconfig(config)
        dead.stop()
        lost = make_source(str(config), name="dead")
        lost.start(engine.emit)
        try:
            with following(alive, tmp_path, engine):
                wait_until(lambda: lost.status().state is SourceState.DISCONNECTED)
                alive.create(pod("quick"))
                wait_until(lambda: engine.names() == ["quick"])
                wait_until(lambda: (c := engine.snapshot().get("cluster", "dead")) and c.state == "disconnected")
                wait_until(lambda: "refused" in lost.status().detail)  # none while it tries again
        finally:
            lost.stop(time.monotonic() + deadline(5))


def test_a_frozen_cluster_is_disconnected_although_its_watch_stays_open(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(source_module, "_PROBE_TIMEOUT_SECONDS", 0.5)
    with (
        KubernetesServer() as server,
        following(server, tmp_path, engine, probe_interval=0.2, read_timeout=60.0) as source,
    ):
        wait_until(lambda: source.status().state is SourceState.CONNECTED)
        server.fail(Silence(), path=PODS, count=None)
        server.fail(Hang(), path="/version", count=None)
        status = wait_until(lambda: (s := source.status()).state is SourceState.DISCONNECTED and s, seconds=60)
        assert status.detail == "the API server does not answer: the read timed out"
        wait_until(lambda: engine.snapshot().get("cluster", "edge").state == "disconnected")
        server.heal()
        wait_until(lambda: engine.snapshot().get("cluster", "edge").state == "connected", seconds=60)
        server.create(pod("new"))
        wait_until(lambda: "new" in engine.names())
        assert only(source).progress.relists == 1


def test_the_counts_and_the_sync_of_a_cluster_are_current(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(monitor, "_REFRESH_SECONDS", 0.05)
    with KubernetesServer() as server, following(server, tmp_path, engine):
        first = wait_until(lambda: (c := engine.snapshot().get("cluster", "edge")) and c.counts and c)
        assert first.counts == {"Pod": 0}
        server.create(pod("a"))
        cluster = wait_until(lambda: (c := engine.snapshot().get("cluster", "edge")).counts == {"Pod": 1} and c)
        assert cluster.last_sync_at > first.last_sync_at
