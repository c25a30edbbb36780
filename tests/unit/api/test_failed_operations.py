# SPDX-License-Identifier: Apache-2.0
"""A failed operation holds the sync of an instance back until it is resolved, if its registration says so."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.clusters import Installation, nothing, one_vdu
from tests.syncing import syncing_with
from tests.unit.api.conftest import Client
from tests.unit.extensions.vnf.test_evaluation import Followed
from watcher_sync.assembly.api import make_application
from watcher_sync.extensions.vnf.reconcile import VnfClusterReconciler
from watcher_sync.storage.table_model import TableView
from watcher_sync.testing.kubernetes import KubernetesServer
from watcher_sync.testing.kubernetes.builders import deployment

pytestmark = pytest.mark.slow

PATH = "/v1/vnf_instances/v1"
FAILURES = pytest.mark.parametrize("failure", ["FAILED", "FAILED_TEMP"])


class Syncing:
    """The reconciler of clusters, as the API asks it."""

    def __init__(self, site: Installation) -> None:
        view = TableView(site.store.database, site.store.tables, site.store.kinds)
        self._reconciler = VnfClusterReconciler(site.conf, site.context(lambda: view), wait=nothing)

    def run(self, entity_id: str, *, dry_run: bool, actor: Any = None) -> Any:
        return self._reconciler.sync_now(entity_id, dry_run=dry_run, actor=actor)


class Watched(Followed):
    """An engine's cycle over a cluster, and the API over the same database. The instance v1 is at level 0."""

    def __init__(self, site: Installation, server: KubernetesServer, body: dict[str, Any]) -> None:
        super().__init__(site, server)
        self.api = Client(make_application(site.conf, site.store, extensions=syncing_with(Syncing(site))))
        self.body = body
        self.tell()
        self.synced()
        assert self.api.simulate_put(PATH, json=body).status_code == 201
        self.look()
        assert (self.level(), self.state()) == (0, "SYNCED")

    def state(self) -> str:
        return str(self.site.vnf("v1").state)

    def operate(self, state: str) -> dict[str, Any]:
        """An operation that ends so."""
        lease = self.begin()
        self.end(lease, state)
        return lease

    def begin(self) -> dict[str, Any]:
        begun = self.api.simulate_post(f"{PATH}/operations", json={"operation": "SCALE", "holder": "lcm-1"})
        assert begun.status_code == 201, begun.text
        lease: dict[str, Any] = begun.json
        return lease

    def end(self, lease: dict[str, Any], state: str) -> None:
        path, own = f"{PATH}/operations/{lease['id']}", {"Operation-Secret": lease["secret"]}
        ended = self.api.simulate_delete(path, params={"state": state}, headers=own)
        assert ended.status_code == 204, ended.text

    def scale(self, replicas: int) -> None:
        """Scale the workload behind the manager's back. The engine commits the events."""
        self.settle(vdu1=replicas)
        self.tell()
        self.look()

    def pods(self) -> list[str]:
        return [one["computeResource"]["resourceId"] for one in self.site.vnf("v1").vnfc_resource_info or []]


def dt(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)


@pytest.fixture
def server() -> Iterator[KubernetesServer]:
    with KubernetesServer() as server:
        server.cluster.add_nodes(2)
        server.create(deployment("vdu1", replicas=1))
        server.cluster.settle()
        yield server


@pytest.fixture
def make(server: KubernetesServer, tmp_path: Path) -> Iterator[Callable[..., Watched]]:
    site = Installation(tmp_path, {"edge": server}, connect_timeout=30.0, read_timeout=30.0)
    site.conf.set_override("auth_strategy", "noauth", group="api")
    yield lambda **more: Watched(site, server, one_vdu(**more))
    site.close()


@pytest.fixture
def world(make: Callable[..., Watched]) -> Watched:
    """The registration says that the sync waits."""
    return make(sync_after_failure=False)


@FAILURES
def test_by_default_the_sync_goes_on_after_an_operation_that_failed(make: Callable[..., Watched], failure: str):
    world = make()
    world.operate(failure)
    world.scale(2)
    assert (world.level(), world.state()) == (1, "SYNCED")
    shown = world.api.simulate_get(PATH).json
    assert (shown["sync_after_failure"], shown["failed_operation"]) == (True, None)


@FAILURES
def test_events_of_pods_do_not_move_an_instance_whose_operation_failed(world: Watched, failure: str):
    before = world.pods()
    world.operate(failure)
    world.look()
    world.scale(3)
    assert (world.state(), world.level(), world.pods()) == ("HELD_BACK", 0, before)
    assert len(list(world.site.model.all("pod"))) == 3
    head = world.site.head()
    world.look()
    world.look()
    assert world.site.head() == head


def test_reconciliation_does_not_move_an_instance_whose_operation_failed_and_reports_no_drift(world: Watched):
    world.operate("FAILED")
    world.look()
    world.settle(vdu1=2)
    world.site.reconcile()
    assert (world.state(), world.level()) == ("HELD_BACK", 0)
    assert [drift for drift in world.site.drifts() if drift.kind == "vnf_instance"] == []


def test_a_sync_on_demand_is_refused_with_the_failed_operation_and_a_dry_run_is_answered(
    world: Watched, problem: Callable[..., Any]
):
    lease = world.operate("FAILED_TEMP")
    world.look()
    world.settle(vdu1=2)
    refused = problem(world.api.simulate_post(f"{PATH}/sync"), 409)
    assert refused["failed_operation"]["id"] == lease["id"]
    assert f"SCALE ({lease['id']}) of lcm-1 ended FAILED_TEMP" in refused["detail"]
    assert world.level() == 0
    dry = world.api.simulate_post(f"{PATH}/sync", params={"dry_run": "true"}).json
    found = {one["field"]: (one["model_value"], one["live_value"]) for one in dry["differences"]}
    assert found["state"] == ("HELD_BACK", "SYNCED")
    assert found["scale_level"] == ({"vdu1_aspect": 0}, {"vdu1_aspect": 1})
    assert world.state() == "HELD_BACK"


def test_the_instance_and_the_list_of_drifts_show_which_operation_failed(world: Watched):
    lease = world.operate("FAILED")
    world.look()
    shown = world.api.simulate_get(PATH).json
    assert (shown["sync_after_failure"], shown["state"]) == (False, "HELD_BACK")
    ended = world.api.simulate_get(f"{PATH}/operations/{lease['id']}").json
    failed = shown["failed_operation"]
    assert abs(dt(failed.pop("ended_at")) - dt(ended["ended_at"])) < datetime.timedelta(minutes=1)
    assert failed == {"id": lease["id"], "operation": "SCALE", "holder": "lcm-1", "state": ended["state"]}
    (drift,) = world.api.simulate_get("/v1/drifts", params={"levels": "true"}).json["drifts"]
    assert (drift["entity_id"], drift["live_value"]) == ("v1", "HELD_BACK")
    assert "An operation failed" in drift["summary"]


@pytest.mark.parametrize("end", ["COMPLETED", "ROLLED_BACK"])
@FAILURES
def test_a_next_operation_may_begin_and_its_success_releases_the_sync_at_once(world: Watched, failure: str, end: str):
    world.operate(failure)
    world.scale(2)
    lease = world.begin()
    world.clock += 2
    world.look()
    assert (world.state(), world.level()) == ("HELD_BACK", 0)
    world.end(lease, end)
    world.cycle.follow()
    assert world.evaluation.seconds_until_due() <= 1
    world.clock += 1
    world.look()
    assert (world.state(), world.level(), len(world.pods())) == ("SYNCED", 1, 2)
    assert world.api.simulate_get(PATH).json["failed_operation"] is None


def test_a_next_operation_that_fails_takes_the_place_of_the_first(world: Watched):
    world.operate("FAILED_TEMP")
    second = world.operate("FAILED")
    world.scale(2)
    assert (world.state(), world.level()) == ("HELD_BACK", 0)
    assert world.site.vnf("v1").failed_operation["id"] == second["id"]


def test_an_operation_that_expires_resolves_nothing(world: Watched):
    world.operate("FAILED")
    world.site.conf.set_override("lease_time", 1, group="operations")
    world.begin()
    with world.site.store.database.begin() as connection:
        leases = world.site.store.tables.operation_leases
        connection.execute(sa.update(leases).values(expires_at=leases.c.since))
    world.clock += 2
    world.scale(2)
    assert (world.state(), world.level()) == ("HELD_BACK", 0)


@FAILURES
def test_the_same_registration_again_releases_the_sync_at_once(world: Watched, failure: str):
    world.operate(failure)
    world.scale(2)
    assert world.state() == "HELD_BACK"
    assert world.api.simulate_put(PATH, json=world.body).status_code == 200
    world.look()
    assert (world.state(), world.level()) == ("SYNCED", 1)
    assert world.site.vnf("v1").sync_after_failure is False


def test_the_sync_stays_held_back_for_the_next_leader_without_the_history_of_operations(world: Watched):
    world.operate("FAILED")
    with world.site.store.database.begin() as connection:
        connection.execute(sa.delete(world.site.store.tables.operations))
    successor = Followed(world.site, world.server)
    successor.look()
    world.settle(vdu1=2)
    successor.tell()
    successor.look()
    assert (successor.level(), world.state()) == (0, "HELD_BACK")


def test_an_end_that_is_sent_twice_writes_once_and_one_of_a_stale_holder_writes_nothing(
    world: Watched, problem: Callable[..., Any]
):
    lease = world.operate("FAILED")
    head = world.site.head()
    world.end(lease, "FAILED")
    own = {"Operation-Secret": lease["secret"]}
    problem(world.api.simulate_delete(f"{PATH}/operations/{lease['id']}", headers=own), 409)
    assert world.site.head() == head
    assert world.site.vnf("v1").failed_operation["id"] == lease["id"]
