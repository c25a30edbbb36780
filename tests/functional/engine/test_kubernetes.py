# SPDX-License-Identifier: Apache-2.0
"""An engine that follows a cluster: its restart, a dead neighbour, and a cluster that loses its history."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.functional.engine.driving import Installation
from tests.waiting import wait_until
from watcher_sync.storage.stored.quarantine import Quarantine
from watcher_sync.testing.kubernetes import KubernetesServer, error_event
from watcher_sync.testing.kubernetes.builders import deployment, pod, stateful_set

KINDS = ("Pod", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")


@pytest.fixture
def server() -> Iterator[KubernetesServer]:
    with KubernetesServer() as server:
        server.cluster.add_nodes(2)
        server.create(deployment("vdu1", replicas=3))
        server.create(stateful_set("db", replicas=2))
        server.cluster.settle()
        yield server


@pytest.fixture
def site(
    install: Callable[..., Installation], sqlite_url: str, server: KubernetesServer, tmp_path: Path
) -> Iterator[Installation]:
    """An installation with one cluster that runs and one that is down."""
    site = install(sqlite_url, engine__enabled_sources="edge, dead")
    with KubernetesServer() as dead:
        dead.kubeconfig(tmp_path / "dead")
    for name, kubeconfig in (("edge", server.kubeconfig(tmp_path / "edge")), ("dead", tmp_path / "dead")):
        site.options[f"source_{name}.driver"] = "kubernetes"
        site.options[f"source_{name}.kubeconfig"] = kubeconfig
        site.options[f"source_{name}.backoff_max"] = 1
    site.upgrade()
    return site


def tables(site: Installation) -> dict[str, Any]:
    model = site.store.load().snapshot()
    return {
        entity.id: (entity.name, entity.resource_version) for kind in ("pod", "workload") for entity in model.all(kind)
    }


def clusters(site: Installation) -> dict[str, Any]:
    return {cluster.id: (cluster.state, cluster.has_synced) for cluster in site.store.load().snapshot().all("cluster")}


def truth(server: KubernetesServer) -> dict[str, Any]:
    metadata = [obj["metadata"] for kind in KINDS for obj in server.objects(kind)]
    return {m["uid"]: (m["name"], m["resourceVersion"]) for m in metadata}


def wait_for_truth(site: Installation, server: KubernetesServer) -> None:
    wait_until(lambda: tables(site) == truth(server), what="the tables as the cluster is")


def test_an_engine_keeps_in_step_with_a_cluster_through_restarts_and_faults(
    site: Installation, server: KubernetesServer
):
    engine = site.engine(site.config())
    engine.wait_until_leading()
    wait_for_truth(site, server)

    server.cluster.scale("Deployment", "vdu1", 5)
    server.cluster.settle()
    wait_for_truth(site, server)

    server.fail(error_event(410), count=5)
    server.cluster.kill("db-0")
    server.cluster.settle()
    wait_for_truth(site, server)

    engine.kill()
    server.delete("StatefulSet", "db")
    server.cluster.scale("Deployment", "vdu1", 1)
    server.cluster.settle()
    server.create(pod("made-meanwhile"))
    engine = site.engine(site.config())
    wait_for_truth(site, server)

    wait_until(lambda: clusters(site) == {"edge": ("connected", True), "dead": ("disconnected", None)})
    dumped = [json.loads(line) for line in site.manage("model", "dump", "--kind", "cluster").splitlines()]
    assert {c["id"]: (c["state"], c["has_synced"]) for c in dumped} == clusters(site)
    assert engine.terminate()[0] == 0, engine.log[-2000:]
    site.check_journal()


def test_a_restart_without_news_writes_nothing_about_objects(site: Installation, server: KubernetesServer):
    engine = site.engine(site.config())
    engine.wait_until_leading()
    wait_for_truth(site, server)
    assert engine.terminate()[0] == 0
    head = site.head()
    engine = site.engine(site.config())
    wait_until(lambda: any(row.entity_id == "edge" and "last_sync_at" in row.delta for row in site.rows(head)))
    assert engine.terminate()[0] == 0
    assert {row.kind for row in site.rows(head)} == {"cluster"}


def test_what_makes_no_sense_is_in_quarantine_and_the_rest_goes_on(site: Installation, server: KubernetesServer):
    server.create({**pod("odd"), "status": {"phase": "Running", "podIP": 7}})
    engine = site.engine(site.config())
    engine.wait_until_leading()
    wait_until(lambda: len(tables(site)) == len(truth(server)) - 1)
    wait_until(lambda: Quarantine(site.store).count(), what="the event in quarantine")
    assert engine.terminate()[0] == 0
    (entry,) = [json.loads(line) for line in site.manage("quarantine", "list", "-f", "json").splitlines()]
    assert entry["reason"] == "object: Expected `str | null`, got `int` - at `$.status.podIP`"


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("kubeconfig", "/no/such/file", "[source_edge] kubeconfig: /no/such/file: there is no such file"),
        ("in_cluster", "true", "[source_edge] kubeconfig: cannot be set beside in_cluster"),
        ("resources", "podz", "[source_edge] resources: 'podz' is neither one of pods,"),
        ("resources", "", "[source_edge] resources: names nothing to follow"),
        ("kinds", "a.example/v1/Thing state=phase", "[source_edge] kinds: a.example/v1/Thing: 'state=phase' is not"),
        ("kinds", "apps/v1/Deployment", "[source_edge] kinds: Deployment is a pod or a workload, which"),
    ],
)
def test_a_wrong_option_is_named_at_the_start(site: Installation, option: str, value: str, says: str):
    site.options[f"source_edge.{option}"] = value
    done = site.run("watcher-sync-engine")
    assert (done.returncode, says in done.stderr) == (2, True), done.stderr


def test_the_upgrade_check_reaches_for_the_cluster(site: Installation):
    checked = site.run("watcher-sync-status", "upgrade", "check").stdout
    assert "refused" in checked
    site.options["engine.enabled_sources"] = "edge"
    assert "refused" not in site.run("watcher-sync-status", "upgrade", "check").stdout
