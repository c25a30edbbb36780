# SPDX-License-Identifier: Apache-2.0
"""A real engine, a cluster that speaks HTTP, and readers of the API: VNF instances stay in step."""

from __future__ import annotations

import itertools
import json
import re
import statistics
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import falcon.testing
import pytest

from tests.functional.engine.driving import EngineProcess, Installation
from tests.waiting import seconds_until, wait_until
from watcher_sync.storage.groups.operation_leases import OperationLeases
from watcher_sync.storage.groups.source_status import list_sources
from watcher_sync.testing.kubernetes import Hang, KubernetesServer
from watcher_sync.testing.kubernetes.builders import deployment, stateful_set
from watcher_sync.wsgi.api import FILES, init_application

BODY = {
    "name": "demo",
    "cluster": "edge",
    "namespace": "default",
    "vnfd_id": "helloworld3",
    "flavour_id": "simple",
    "vdus": {"VDU1": {"workload": {"kind": "Deployment", "name": "vdu1"}, "initial": 1, "min": 1, "max": 3}},
    "aspects": {"vdu1_aspect": {"max_scale_level": 2, "deltas": {"VDU1": 1}}},
}


class Reader:
    """Who uses the API of an installation, as a WSGI server loads it."""

    def __init__(self, site: Installation) -> None:
        application = init_application({FILES: str(site.config(api__auth_strategy="noauth"))})
        self._client = falcon.testing.TestClient(
            lambda environ, start_response: application(environ, start_response)  # type: ignore[arg-type]
        )

    def __call__(self, method: str, path: str, status: int, **more: Any) -> Any:
        result = self._client.simulate_request(method, path, host="localhost", **more)
        assert result.status_code == status, result.text
        return result.json if result.text else None

    def vnf(self, vnf_id: str) -> tuple[Any, list[str]]:
        """(level, names of the pods) as SOL003 shows it."""
        told = self("GET", f"/v1/vnf_instances/{vnf_id}", 200)["instantiatedVnfInfo"]
        levels = {status["aspectId"]: status["scaleLevel"] for status in told["scaleStatus"]}
        return levels.get("vdu1_aspect"), [v["computeResource"]["resourceId"] for v in told["vnfcResourceInfo"]]


@pytest.fixture
def server() -> Iterator[KubernetesServer]:
    with KubernetesServer() as server:
        server.cluster.add_nodes(2)
        server.create(deployment("vdu1", replicas=1))
        server.create(deployment("vdu10", replicas=2))
        server.create(stateful_set("db", replicas=2))
        server.cluster.settle()
        yield server


@pytest.fixture
def site(
    install: Callable[..., Installation], postgresql_url: str, server: KubernetesServer, tmp_path: Path
) -> Installation:
    site = install(postgresql_url, engine__enabled_sources="edge")
    site.options["source_edge.driver"] = "kubernetes"
    site.options["source_edge.kubeconfig"] = server.kubeconfig(tmp_path / "edge")
    site.upgrade()
    return site


def running(server: KubernetesServer) -> list[str]:
    return sorted(obj["metadata"]["name"] for obj in server.pods() if obj["metadata"]["name"].startswith("vdu1-"))


def started(site: Installation) -> EngineProcess:
    engine = site.engine(site.config())
    engine.wait_until_leading()
    return engine


def test_a_failed_operation_holds_the_sync_back_over_a_restart_until_the_next_one_completes(
    site: Installation, server: KubernetesServer
):
    engine = started(site)
    read = Reader(site)
    read("POST", "/v1/vnf_instances", 201, json={"id": "v1", **BODY, "sync_after_failure": False})
    wait_until(lambda: read.vnf("v1")[0] == 0, what="the first level")

    def operated(state: str) -> None:
        lease = read("POST", "/v1/vnf_instances/v1/operations", 201, json={"operation": "SCALE", "holder": "lcm"})
        path, own = f"/v1/vnf_instances/v1/operations/{lease['id']}", {"Operation-Secret": lease["secret"]}
        read("DELETE", path, 204, params={"state": state}, headers=own)

    def state() -> str:
        return str(read("GET", "/v1/vnf_instances/v1", 200)["state"])

    operated("FAILED_TEMP")
    wait_until(lambda: state() == "HELD_BACK", what="the engine knows")
    engine.terminate()
    engine = started(site)
    server.cluster.scale("Deployment", "vdu1", 3)
    server.cluster.settle()
    wait_until(lambda: len(read("GET", "/v1/pods", 200, params={"name": "prefix:vdu1-"})["pods"]) == 3, what="the pods")
    assert (state(), read.vnf("v1")[0], len(read.vnf("v1")[1])) == ("HELD_BACK", 0, 1)
    operated("COMPLETED")
    wait_until(lambda: (state(), read.vnf("v1")[0]) == ("SYNCED", 2), what="level 2")


def test_a_scaling_behind_our_back_shows_in_the_api_by_events(
    site: Installation, server: KubernetesServer, figure: Callable[[str], None]
):
    site.options["reconcile.enabled"] = False
    engine = started(site)
    read = Reader(site)
    read("POST", "/v1/vnf_instances", 201, json={"id": "v1", **BODY})
    wait_until(lambda: read.vnf("v1")[0] == 0, what="the first level")
    server.cluster.scale("Deployment", "vdu1", 3)
    server.cluster.settle()
    up = seconds_until(lambda: read.vnf("v1")[0] == 2, what="level 2")
    assert sorted(read.vnf("v1")[1]) == running(server)
    assert len(running(server)) == 3

    before = {v["computeResource"]["resourceId"]: v["id"] for v in vnfcs(read)}
    victim = running(server)[1]
    server.cluster.kill(victim)
    server.cluster.settle()
    killed = seconds_until(lambda: sorted(read.vnf("v1")[1]) == running(server), what="the new pod")
    after = {v["computeResource"]["resourceId"]: v["id"] for v in vnfcs(read)}
    (new,) = after.keys() - before.keys()
    assert after[new] == before[victim]
    figure(f"{up:.2f} s from the scaling to level 2, {killed:.2f} s from the kill to the new pod")

    def logged() -> set[tuple[str, str]]:
        found = re.findall(r"VNF instance v1, VDU1: vnfc (\S+): pod (\S+) -> (\S+)", engine.log)
        return {(vnfc, name) for vnfc, old, now in found for name in (old, now)}

    # In one step, or in two if the evaluation ran in between.
    wait_until(lambda: {(before[victim], victim), (before[victim], new)} <= logged(), what="the log of the new pod")

    server.cluster.scale("Deployment", "vdu1", 1)
    server.cluster.settle()
    wait_until(lambda: read.vnf("v1")[0] == 0, what="level 0")
    assert engine.terminate()[0] == 0
    site.check_journal()


def vnfcs(read: Reader) -> list[Any]:
    return read("GET", "/v1/vnf_instances/v1", 200)["instantiatedVnfInfo"]["vnfcResourceInfo"]


def test_without_a_watch_one_reconciliation_shows_a_scaling_and_the_next_ones_write_nothing(
    site: Installation, server: KubernetesServer
):
    site.options |= {"source_edge.watch": False, "reconcile.interval": 1, "reconcile.jitter": 0}
    engine = started(site)
    read = Reader(site)
    read("POST", "/v1/vnf_instances", 201, json={"id": "v1", **BODY})
    wait_until(lambda: read.vnf("v1")[0] == 0, what="the first level")
    server.cluster.scale("Deployment", "vdu1", 3)
    server.cluster.settle()
    # The interval, and the second for which a difference has to last.
    wait_until(lambda: read.vnf("v1")[0] == 2, what="level 2")
    assert sorted(read.vnf("v1")[1]) == running(server)
    wait_until(lambda: synced(site, "edge") is not None, what="a full sync")
    lists = lambda: server.requests.count("list", "pods")  # noqa: E731
    scaled = lists()  # a run in the middle of the scaling may have left something for the next ones
    wait_until(lambda: lists() >= scaled + 3, what="the rest of the scaling")
    done, head = lists(), site.head()
    wait_until(lambda: lists() >= done + 3, what="three more reconciliations")
    assert site.head() == head
    assert server.requests.count("watch") == 0
    assert engine.terminate()[0] == 0


def synced(site: Installation, source: str) -> Any:
    return {row.source: row.last_full_sync_at for row in list_sources(site.store.database)}.get(source)


def test_while_an_operation_is_in_progress_sync_skips_it_and_a_second_operation_gets_409(
    site: Installation, server: KubernetesServer
):
    site.options["operations.lease_time"] = 600  # a pause of the machine does not end the operation
    engine = started(site)
    read = Reader(site)
    read("POST", "/v1/vnf_instances", 201, json={"id": "v1", **BODY})
    wait_until(lambda: read.vnf("v1")[0] == 0, what="the first level")
    wait_until(lambda: synced(site, "edge") is not None, what="a full sync, so that the next one is far away")
    leases = OperationLeases(site.store.database, site.store.tables)
    wait_until(lambda: leases.running("vnf_instance", ["v1"]) == {}, what="the end of the sync that wrote it")
    lease = read("POST", "/v1/vnf_instances/v1/operations", 201, json={"operation": "SCALE", "holder": "tacker"})
    second = read("POST", "/v1/vnf_instances/v1/operations", 409, json={"operation": "HEAL", "holder": "other"})
    assert (second["holder"], second["operation"]) == ("tacker", "SCALE")
    server.cluster.scale("Deployment", "vdu1", 3)
    server.cluster.settle()
    engine.wait_for_log("VNF instance v1 is not synced (SKIPPED_LCM) for now: tacker holds it for SCALE")
    assert read.vnf("v1")[0] == 0
    secret = {"Operation-Secret": lease["secret"]}
    path = f"/v1/vnf_instances/v1/operations/{lease['id']}"
    read("DELETE", path, 204, params={"token": lease["token"]}, headers=secret)
    wait_until(lambda: read.vnf("v1")[0] == 2, what="level 2 when the operation is over")
    assert engine.terminate()[0] == 0


def test_a_sync_that_is_asked_for_lists_the_cluster_now(site: Installation, server: KubernetesServer):
    read = Reader(site)
    read("POST", "/v1/vnf_instances", 201, json={"id": "v1", **BODY})
    dry = read("POST", "/v1/vnf_instances/v1/sync", 200, params={"dry_run": "true"})
    assert (dry["state"], dry["changed"], read.vnf("v1")) == ("SYNCED", True, (None, []))
    synced = read("POST", "/v1/vnf_instances/v1/sync", 200)
    assert [pod["new"] for pod in synced["pods"]] == running(server)
    assert read.vnf("v1") == (0, running(server))
    read("POST", "/v1/vnf_instances/v1/operations", 201, json={"operation": "SCALE", "holder": "tacker"})
    assert read("POST", "/v1/vnf_instances/v1/sync", 409)["holder"] == "tacker"
    server.stop()
    assert "cannot be listed" in read("POST", "/v1/vnf_instances/v1/sync", 503, params={"dry_run": "true"})["detail"]


def test_one_dead_cluster_of_ten_does_not_hold_up_the_sync_of_the_others(
    install: Callable[..., Installation], sqlite_url: str, tmp_path: Path, figure: Callable[[str], None]
):
    interval = 1.0
    names = [f"c{number}" for number in range(10)]
    site = install(sqlite_url, engine__enabled_sources=",".join(names), reconcile__interval=interval)
    site.options |= {"reconcile.jitter": 0, "reconcile.timeout": 60}
    with ExitStack() as stack:
        servers = [stack.enter_context(KubernetesServer()) for _ in names]
        for name, server in zip(names, servers, strict=True):
            server.cluster.add_nodes(1)
            server.create(deployment("vdu1", replicas=3))
            server.cluster.settle()
            site.options[f"source_{name}.driver"] = "kubernetes"
            site.options[f"source_{name}.kubeconfig"] = server.kubeconfig(tmp_path / name)
        servers[3].fail(Hang(), count=None)
        site.upgrade()
        engine = started(site)
        times: dict[str, list[Any]] = {name: [] for name in names}

        def sampled() -> bool:
            for row in list_sources(site.store.database):
                at = row.last_full_sync_at
                if at is not None and at not in times[row.source]:
                    times[row.source].append(at)
            return all(len(seen) >= 4 for name, seen in times.items() if name != "c3")

        wait_until(sampled, 180, "four syncs of each living cluster")
        assert times["c3"] == []
        assert engine.terminate()[0] == 0
    gaps = {
        name: statistics.median((b - a).total_seconds() for a, b in itertools.pairwise(seen))
        for name, seen in times.items()
        if name != "c3"
    }
    figure(f"every {min(gaps.values()):.2f} to {max(gaps.values()):.2f} s, {interval:.0f} are wanted")
    assert max(gaps.values()) < 30  # the request to the dead one times out after 60 s


def test_an_operator_compares_and_repairs_by_hand(site: Installation, server: KubernetesServer):
    first = json.loads(site.manage("reconcile", "--dry-run", "-f", "json"))
    assert (first["scope"], first["dry_run"], first["written"], site.head()) == ("edge", True, 0, 0)
    assert json.loads(site.manage("reconcile", "edge"))["written"] == len(first["differences"])
    assert json.loads(site.manage("reconcile"))["differences"] == []
    server.cluster.scale("Deployment", "vdu1", 0)
    server.cluster.scale("Deployment", "vdu10", 0)
    server.cluster.settle()
    held = site.run("watcher-sync-manage", "reconcile")
    assert (held.returncode, json.loads(held.stdout)["braked"]) == (1, {"Pod": 3})
    assert "edge: the delete guard refused to delete 3 of 5 entities of the kind Pod" in held.stderr
    assert json.loads(site.manage("reconcile", "--allow-deletes"))["deleted"] == 3
    assert "edge: 0 differences" in site.manage("reconcile", "-f", "table")
    wrong = site.run("watcher-sync-manage", "reconcile", "nowhere")
    assert (wrong.returncode, "nowhere: no such scope; the scopes are edge" in wrong.stderr) == (2, True)
    server.stop()
    dead = site.run("watcher-sync-manage", "reconcile")
    assert (dead.returncode, "the cluster edge cannot be listed" in dead.stderr) == (1, True)
