# SPDX-License-Identifier: Apache-2.0
"""A sync on demand over REST: the report, and the problem when the sync is not possible."""

from __future__ import annotations

import json
import threading

import pytest

from tests.syncing import syncing_with
from tests.unit.api.conftest import Client
from tests.unit.extensions.vnf.api.test_instances import DEMO, PATH
from tests.waiting import deadline
from watcher_sync.assembly.api import make_application
from watcher_sync.exceptions import OperationRunning, SourceError
from watcher_sync.extensions.vnf.model.evaluation import ReportedDifference, ReportedPod, VnfSyncReport
from watcher_sync.operations import OperationLimits, Operations
from watcher_sync.storage.groups.operation_leases import OperationLeases

SYNC = f"{PATH}/a/sync"

REPORT = VnfSyncReport(
    state="DRIFTED",
    changed=True,
    vdu_results={"VDU1": {"result": "DRIFTED", "detail": "no level of vdu1_aspect has these numbers of pods"}},
    differences=[ReportedDifference(field="state", model_value="UNKNOWN", live_value="DRIFTED")],
    pods=[
        ReportedPod(vdu="VDU1", vnfc_id="v1", old="vdu1-5d8f-aaaaa", new="vdu1-5d8f-bbbbb"),
        ReportedPod(vdu="VDU1", vnfc_id="v2", old=None, new="vdu1-5d8f-ccccc"),
    ],
)


class Syncing:
    """A stand-in for the sync of clusters: it returns the given report, and respects the operation leases."""

    def __init__(self, store):
        self.asked = []
        self.outcome = REPORT
        self._operations = Operations(
            OperationLeases(store.database, store.tables), "vnf_instance", OperationLimits(lease_time=30.0)
        )

    def run(self, entity_id, *, dry_run, actor=None):
        self.asked.append((entity_id, dry_run))
        lease = None if dry_run else self._operations.running(entity_id)
        if lease is not None:
            raise OperationRunning(lease)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


@pytest.fixture
def syncing(store):
    return Syncing(store)


@pytest.fixture
def client(conf, store, syncing):
    """Of an application that syncs; there is an instance, a."""
    client = Client(make_application(conf, store, extensions=syncing_with(syncing)))
    assert client.simulate_put(f"{PATH}/a", json=DEMO).status_code == 201
    return client


@pytest.mark.parametrize(("query", "dry_run"), [("", False), ("dry_run=false", False), ("dry_run=true", True)])
def test_the_report_is_answered_with_what_was_asked(client, syncing, query, dry_run):
    answer = client.simulate_post(SYNC, query_string=query)
    assert answer.status_code == 200, answer.text
    assert answer.json == {
        "vnf_instance_id": "a",
        "dry_run": dry_run,
        "state": "DRIFTED",
        "changed": True,
        "vdu_results": REPORT.vdu_results,
        "differences": [{"field": "state", "model_value": "UNKNOWN", "live_value": "DRIFTED"}],
        "pods": [
            {"vdu": "VDU1", "vnfc_id": "v1", "old": "vdu1-5d8f-aaaaa", "new": "vdu1-5d8f-bbbbb"},
            {"vdu": "VDU1", "vnfc_id": "v2", "old": None, "new": "vdu1-5d8f-ccccc"},
        ],
    }
    assert syncing.asked == [("a", dry_run)]


@pytest.mark.parametrize("query", ["dry_run=yes", "dry_run=", "dry_run=1", "dry=true"])
def test_what_is_asked_wrongly_is_not_taken_for_a_sync(client, syncing, problem, query):
    document = problem(client.simulate_post(SYNC, query_string=query), 400)
    assert document["errors"][0]["pointer"].lstrip("/") == query.partition("=")[0]
    assert syncing.asked == []


def test_an_unknown_instance_is_not_found_and_no_cluster_is_asked(client, syncing, problem):
    problem(client.simulate_post(f"{PATH}/nobody/sync"), 404)
    assert syncing.asked == []


def test_an_instance_that_is_deleted_meanwhile_is_not_found(conf, store, syncing, problem, client):
    class Deleting(Syncing):
        def run(self, entity_id, *, dry_run, actor=None):
            assert client.simulate_delete(f"{PATH}/{entity_id}").status_code == 204
            raise KeyError(entity_id)

    problem(Client(make_application(conf, store, extensions=syncing_with(Deleting(store)))).simulate_post(SYNC), 404)


def test_a_key_error_of_an_instance_that_exists_is_a_failure_of_the_server(client, syncing, problem):
    syncing.outcome = KeyError("VDU1")
    problem(client.simulate_post(SYNC), 500)


def test_while_an_operation_runs_a_sync_is_refused_with_its_holder_and_a_dry_run_is_answered(client, problem):
    begun = client.simulate_post(f"{PATH}/a/operations", json={"operation": "SCALE", "holder": "lcm-1"}).json
    refused = client.simulate_post(SYNC)
    document = problem(refused, 409)
    assert (document["holder"], document["operation"]) == ("lcm-1", "SCALE")
    assert (document["since"], document["expires_at"]) == (begun["since"], begun["expires_at"])
    assert 1 <= int(refused.headers["retry-after"]) <= 30
    assert client.simulate_post(SYNC, query_string="dry_run=true").status_code == 200
    client.simulate_delete(f"{PATH}/a/operations/{begun['id']}", headers={"Operation-Secret": begun["secret"]})
    assert client.simulate_post(SYNC).status_code == 200


def test_a_cluster_that_cannot_be_asked_is_reported_with_the_reason(client, syncing, problem):
    syncing.outcome = SourceError("the cluster edge is none of [engine] enabled_sources")
    assert "edge is none of [engine] enabled_sources" in problem(client.simulate_post(SYNC), 503)["detail"]


@pytest.mark.slow
def test_a_server_without_a_source_for_the_cluster_says_so(conf, store, client, problem):
    plain = Client(make_application(conf, store))
    assert "no source that is configured here follows the cluster" in problem(plain.simulate_post(SYNC), 503)["detail"]
    problem(plain.simulate_post(f"{PATH}/nobody/sync"), 404)


def test_the_policy_decides_who_may(conf, store, syncing, client, problem, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text(json.dumps({"vnf_instances:sync": "role:operator"}))
    conf.set_override("policy_file", str(policy), group="oslo_policy")
    asked = Client(make_application(conf, store, extensions=syncing_with(syncing))).simulate_post(SYNC)
    assert "vnf_instances:sync" in problem(asked, 403)["detail"]
    assert syncing.asked == []


def test_a_process_runs_a_bounded_number_of_syncs_at_one_time(conf, store, problem):
    begun, goes_on = threading.Semaphore(0), threading.Event()

    class Waiting(Syncing):
        def run(self, entity_id, *, dry_run, actor=None):
            begun.release()
            assert goes_on.wait(deadline(60))
            return super().run(entity_id, dry_run=dry_run, actor=actor)

    client = Client(make_application(conf, store, extensions=syncing_with(Waiting(store))))
    assert client.simulate_put(f"{PATH}/a", json=DEMO).status_code == 201
    answers = []
    threads = [
        threading.Thread(target=lambda: answers.append(client.simulate_post(f"{PATH}/a/sync").status_code))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert begun.acquire(timeout=deadline(60))
    refused = client.simulate_post(f"{PATH}/a/sync")
    assert "8 syncs" in problem(refused, 503)["detail"]
    assert refused.headers["Retry-After"] == "1"
    goes_on.set()
    for thread in threads:
        thread.join(deadline(60))
    assert answers == [200] * 8
    assert client.simulate_post(f"{PATH}/a/sync").status_code == 200
