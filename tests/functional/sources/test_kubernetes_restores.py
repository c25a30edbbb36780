# SPDX-License-Identifier: Apache-2.0
"""Objects that live again: etcd restored from a snapshot, and labels that a selector sees come and go."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.functional.sources.reflecting import PODS, Engine, following, only, wait_for_truth
from tests.waiting import wait_until
from watcher_sync.testing.kubernetes import Break, Delay, KubernetesServer, RawLine
from watcher_sync.testing.kubernetes.builders import bare_pods, deployment, pod

WORKLOADS = ["pods", "deployments", "replicasets"]


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.mark.parametrize("watch_list", [True, False])
def test_after_a_restore_of_etcd_the_model_has_what_exists_again_and_no_ghost(engine, tmp_path, watch_list):
    with KubernetesServer() as server:
        server.create(deployment("old", replicas=2))
        server.cluster.settle()
        with following(server, tmp_path, engine, resources=WORKLOADS, watch_list=watch_list) as source:
            saved = server.store.save()
            server.delete("Deployment", "old")
            server.cluster.settle()
            server.create(deployment("ghost", replicas=3))
            server.cluster.settle()
            wait_for_truth(server, engine)
            server.restore(saved)
            wait_for_truth(server, engine)
            assert [w.name for w in engine.snapshot().all("workload") if w.kind == "Deployment"] == ["old"]
            wait_until(lambda: source.status().gaps == 1)
            server.cluster.scale("Deployment", "old", 4)
            server.cluster.settle()
            wait_for_truth(server, engine)


def test_a_version_that_was_given_twice_does_not_hide_a_change(engine, tmp_path):
    with KubernetesServer() as server, following(server, tmp_path, engine):
        server.create(pod("a"))
        saved = server.store.save()
        server.patch("Pod", "a", {"metadata": {"labels": {"life": "first"}}})
        server.load(bare_pods(5))
        wait_for_truth(server, engine)
        server.restore(saved)
        server.patch("Pod", "a", {"metadata": {"labels": {"life": "second"}}})
        wait_for_truth(server, engine)
        assert [p.labels for p in engine.snapshot().all("pod")] == [{"life": "second"}]


def test_a_bookmark_with_a_version_that_went_back_is_a_relist_and_a_gap(engine, tmp_path):
    with KubernetesServer() as server:
        server.load(bare_pods(3))
        with following(server, tmp_path, engine) as source:
            old = b'{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"7"}}}\n'
            server.fail(RawLine(old), path=PODS)
            server.create(pod("one-more"))
            wait_until(lambda: only(source).progress.relists >= 2)
            wait_for_truth(server, engine)


@pytest.mark.parametrize("is_resumed", [False, True])
def test_a_restore_before_the_watch_of_a_known_version_begins_is_a_relist_and_a_gap(
    engine, tmp_path, caplog, is_resumed
):
    with KubernetesServer() as server:
        server.create(pod("old"))
        saved = server.store.save()
        server.delete("Pod", "old", gracePeriodSeconds=0)
        server.create(pod("ghost"))
        if not is_resumed:
            restore_before_the_next_watch(server, saved)
        with following(server, tmp_path, engine, watch_list=False, read_timeout=600) as source:
            if is_resumed:
                restore_before_the_next_watch(server, saved)
                server.fail(Break(), path=PODS)
            wait_until(lambda: engine.names() == ["old"])
            wait_until(lambda: source.status().gaps == 1)
            server.create(pod("new"))
            wait_for_truth(server, engine)
            assert "unavailable" not in caplog.text


def restore_before_the_next_watch(server, saved):
    """Have etcd restored when a watch has arrived, before the server reads it. No connection ends."""

    def restore(_):
        server.store.restore(saved)
        server.expire_pages()
        return True

    server.fail(Delay(0), verb="watch", when=restore)


@pytest.mark.parametrize("watch_list", [True, False])
def test_a_pod_that_leaves_the_selector_and_returns_is_alive(engine, tmp_path, watch_list):
    with KubernetesServer() as server:
        server.create(pod("a", labels={"tier": "vnf"}))
        with following(server, tmp_path, engine, label_selector="tier=vnf", watch_list=watch_list):
            assert engine.names() == ["a"]
            server.patch("Pod", "a", {"metadata": {"labels": {"tier": None}}})
            wait_until(lambda: engine.names() == [])
            server.patch("Pod", "a", {"metadata": {"labels": {"tier": "vnf"}}})
            wait_until(lambda: engine.names() == ["a"])


@pytest.mark.parametrize("examples", [5, pytest.param(40, marks=pytest.mark.rare)])
def test_any_history_with_restores_and_selector_flips_ends_in_the_servers_truth(examples):
    @settings(max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(seed=st.integers(0, 2**32), watch_list=st.booleans())
    def each(seed, watch_list):
        _flip_and_restore(seed, watch_list)

    each()


def _flip_and_restore(seed, watch_list):
    rng, engine = random.Random(seed), Engine()
    with tempfile.TemporaryDirectory() as folder, KubernetesServer(seed=seed) as server:

        def selected() -> dict[str, str]:
            pods = [p["metadata"] for p in server.pods() if (p["metadata"].get("labels") or {}).get("tier") == "vnf"]
            return {metadata["uid"]: metadata["resourceVersion"] for metadata in pods}

        def is_followed() -> bool:
            if not 0 < int(only(source).version or 0) <= server.store.version:
                return False  # a restore is not noticed yet; after enough writes it never would be
            return {p.id: p.resource_version for p in engine.snapshot().all("pod")} == selected()

        options = {"label_selector": "tier=vnf", "watch_list": watch_list, "page_size": 3}
        with following(server, Path(folder), engine, **options) as source:
            saved = [server.store.save()]
            for step in range(40):
                names = [p["metadata"]["name"] for p in server.pods()]
                match rng.randrange(6):
                    case 0 if names:
                        server.delete("Pod", rng.choice(names), gracePeriodSeconds=0)
                    case 1 if names:
                        label = rng.choice(["vnf", None])
                        server.patch("Pod", rng.choice(names), {"metadata": {"labels": {"tier": label}}})
                    case 2:
                        saved.append(server.store.save())
                    case 3:
                        wait_until(is_followed)
                        del saved[rng.randint(1, len(saved)) :]  # of a life that has ended
                        server.restore(saved[-1])
                        wait_until(is_followed)
                    case _:
                        server.create(pod(f"p{step}", labels={"tier": "vnf"}))
            wait_until(is_followed)
