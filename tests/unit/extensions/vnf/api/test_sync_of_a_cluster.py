# SPDX-License-Identifier: Apache-2.0
"""A sync on demand down to a cluster that speaks HTTP, in a process that holds no replica of the model."""

from __future__ import annotations

import jsonschema
import pytest

from tests.clusters import Installation, nothing
from tests.syncing import syncing_with
from tests.unit.api.conftest import Client
from tests.unit.extensions.vnf.api.test_instances import DEMO, PATH
from watcher_sync.assembly.api import make_application
from watcher_sync.extensions.vnf.api.sync import REPORT
from watcher_sync.extensions.vnf.reconcile import VnfClusterReconciler
from watcher_sync.storage.table_model import TableView
from watcher_sync.testing.kubernetes import KubernetesServer
from watcher_sync.testing.kubernetes.builders import deployment

SYNC = f"{PATH}/a/sync"


class Syncing:
    """The reconciler of clusters, as the API asks it."""

    def __init__(self, site):
        view = TableView(site.store.database, site.store.tables, site.store.kinds)
        self._reconciler = VnfClusterReconciler(site.conf, site.context(lambda: view), wait=nothing)

    def run(self, entity_id, *, dry_run, actor=None):
        return self._reconciler.sync_now(entity_id, dry_run=dry_run)


@pytest.fixture
def server():
    with KubernetesServer() as server:
        server.cluster.add_nodes(1)
        server.create(deployment("vdu1", replicas=1))
        server.cluster.settle()
        yield server


@pytest.fixture
def client(server, tmp_path):
    """There is an instance, a, whose one pod runs."""
    site = Installation(tmp_path, {"edge": server}, connect_timeout=30.0, read_timeout=30.0)
    site.conf.set_override("auth_strategy", "noauth", group="api")
    client = Client(make_application(site.conf, site.store, extensions=syncing_with(Syncing(site))))
    assert client.simulate_put(f"{PATH}/a", json=DEMO).status_code == 201
    yield client
    site.close()


def synced(client, query=""):
    answer = client.simulate_post(SYNC, query_string=query)
    assert answer.status_code == 200, answer.text
    jsonschema.validate(answer.json, REPORT)
    return answer.json


def test_what_runs_is_reported_by_a_dry_run_and_written_by_a_sync(client, server):
    told = synced(client, "dry_run=true")
    assert (told["state"], told["changed"], told["vdu_results"]["VDU1"]["result"]) == ("SYNCED", True, "SYNCED")
    assert client.simulate_get(f"{PATH}/a").json["state"] == "UNKNOWN"
    written = synced(client)
    assert [pod["old"] for pod in written["pods"]] == [None]
    shown = client.simulate_get(f"{PATH}/a").json["instantiatedVnfInfo"]
    assert [v["computeResource"]["resourceId"] for v in shown["vnfcResourceInfo"]] == [written["pods"][0]["new"]]
    again = synced(client)
    assert (again["changed"], again["pods"], again["vdu_results"]["VDU1"]["result"]) == (False, [], "NO_DIFF")
    server.cluster.scale("Deployment", "vdu1", 4)
    server.cluster.settle()
    beyond = synced(client)
    assert (beyond["state"], beyond["vdu_results"]["VDU1"]["detail"]) == ("OUT_OF_RANGE", "4 pods are above its max, 3")
    assert client.simulate_get(f"{PATH}/a").json["scale_level"] == {"vdu1_aspect": 0}


def test_a_refused_sync_names_the_holder_of_the_instance_or_the_cluster_that_is_away(client, server, problem):
    begun = client.simulate_post(f"{PATH}/a/operations", json={"operation": "SCALE", "holder": "lcm-1"}).json
    assert problem(client.simulate_post(SYNC), 409)["holder"] == "lcm-1"
    assert synced(client, "dry_run=true")["state"] == "SYNCED"
    client.simulate_delete(f"{PATH}/a/operations/{begun['id']}", headers={"Operation-Secret": begun["secret"]})
    client.simulate_put(f"{PATH}/b", json=DEMO | {"cluster": "core"})
    assert "core" in problem(client.simulate_post(f"{PATH}/b/sync"), 503)["detail"]
    server.stop()
    assert "edge cannot be listed" in problem(client.simulate_post(SYNC), 503)["detail"]
