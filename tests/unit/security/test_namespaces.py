# SPDX-License-Identifier: Apache-2.0
"""Namespaces of Kubernetes that a source's option maps to projects: their pods, and the VNF instances in them."""

from __future__ import annotations

import json

import pytest
from keystonemiddleware.fixture import AuthTokenFixture
from oslo_config import cfg

from tests.unit.api.conftest import conf, problem, store  # noqa: F401 - fixtures
from tests.unit.extensions.vnf.api.test_instances import demo, written
from tests.unit.security.callers import OTHER, OWN, Api, configured
from watcher_sync.commit.batch import Batch
from watcher_sync.events import Event
from watcher_sync.exceptions import ConfigError
from watcher_sync.extensions.kubernetes.conf.namespaces import namespace_projects
from watcher_sync.model.changes import Upsert

VNFS = "/v1/vnf_instances"


@pytest.fixture
def api(conf, store):  # noqa: F811
    with AuthTokenFixture() as fixture:
        yield Api(configured(conf, {"own": OWN, "other": OTHER}), store, fixture)


def seen(number, kind="pod", namespace="own", what="added", cluster="edge"):
    """The event of an object of a cluster."""
    metadata = {"uid": f"{kind}-{namespace}", "name": kind, "namespace": namespace, "resourceVersion": str(number)}
    return Event(
        id=str(number), type=f"kubernetes.{kind}.{what}", source="k8s", origin=cluster, sequence=(1, number),
        data=json.dumps({"metadata": metadata, "spec": {"nodeName": "worker-1"}}).encode(),
    )  # fmt: skip


def listed(api, caller, plural):
    return {entity["id"] for entity in api(caller, "GET", f"/v1/{plural}").json[plural]}


def test_a_project_sees_the_objects_of_its_namespaces_and_their_changes(api):
    events = [
        seen(1), seen(2, namespace="other"), seen(3, namespace="kube-system"), seen(4, "deployment"),
        seen(5, "daemonset", "other"), seen(6, "rollout"), seen(7, "statefulset", cluster="far"),
    ]  # fmt: skip
    api.cycle.run(Batch(events=events))
    assert listed(api, "reader", "pods") == {"pod-own"}
    assert listed(api, "reader", "workloads") == {"deployment-own", "rollout-own"}
    assert listed(api, "stranger", "pods") == {"pod-other"}
    assert listed(api, "stranger", "workloads") == {"daemonset-other"}
    assert listed(api, "system_reader", "pods") == {"pod-own", "pod-other", "pod-kube-system"}
    api.cycle.run(Batch(events=[seen(8, what="deleted"), seen(9, namespace="other", what="deleted")]))
    changes = api("reader", "GET", "/v1/events", params={"since": 0, "kind": "pod"})
    assert [(e["id"], e["change"]) for e in changes.json["events"]] == [("pod-own", "created"), ("pod-own", "deleted")]
    assert "worker-1" not in changes.text
    assert api("reader", "GET", "/v1/pods/pod-own/history").json["history"]
    assert api("stranger", "GET", "/v1/pods/pod-own/history").status_code == 404


def test_objects_get_the_project_of_a_changed_option_when_they_are_listed_again(api):
    api.cycle.run(Batch(events=[seen(1)]))
    for entry in api.cycle.dispatcher.table():
        if entry.plugin == "kubernetes" and entry.call is not None:
            entry.call.__self__.namespace_projects = {("edge", "own"): OTHER}
    api.cycle.run(Batch(events=[seen(2)]))
    assert listed(api, "reader", "pods") == set()
    assert listed(api, "stranger", "pods") == {"pod-own"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("caller", "namespace", "status"),
    [("member", "own", 201), ("member", "other", 403), ("member", "default", 403), ("stranger", "own", 403),
     ("admin", "other", 201), ("system_admin", "own", 201)],
)  # fmt: skip
def test_a_vnf_instance_is_refused_in_the_namespace_of_another_project(api, caller, namespace, status):
    made = api(caller, "POST", VNFS, json=demo(namespace=namespace))
    assert made.status_code == status
    assert api(caller, "PUT", f"{VNFS}/a", json=demo(namespace=namespace)).status_code == status


def test_an_instance_cannot_be_moved_into_the_namespace_of_another_project(api, problem):  # noqa: F811
    assert api("member", "PUT", f"{VNFS}/a", json=demo(namespace="own")).status_code == 201
    found = problem(api("member", "PUT", f"{VNFS}/a", json=demo(namespace="other")), 403)
    assert found["detail"] == "The policy does not allow a VNF instance of the project in the namespace edge/other"
    assert api("member", "GET", f"{VNFS}/a").json["namespace"] == "own"


@pytest.mark.slow
def test_a_process_without_the_option_knows_the_projects_of_namespaces_with_objects(api, conf):  # noqa: F811
    api.cycle.run(Batch(events=[seen(1), seen(2, "deployment", namespace="other")]))
    conf.set_override("enabled_sources", [], group="engine")
    with AuthTokenFixture() as fixture:
        bare = Api(conf, api.store, fixture)
        for caller, namespace, status in (("member", "other", 403), ("stranger", "own", 403), ("member", "own", 201)):
            assert bare(caller, "POST", VNFS, json=demo(namespace=namespace)).status_code == status


def test_the_option_is_read_per_cluster_and_only_of_this_driver(conf):  # noqa: F811
    assert namespace_projects(configured(conf, {"n": OWN}, cluster=None)) == {("k8s", "n"): OWN}
    conf.set_override("driver", "rabbitmq", group="source_k8s")
    assert namespace_projects(conf) == {}
    assert namespace_projects(cfg.ConfigOpts()) == {}


def test_a_namespace_without_a_project_is_a_wrong_option(conf):  # noqa: F811
    with pytest.raises(ConfigError, match=r"\[source_k8s\] namespace_projects: n: is no namespace:project"):
        namespace_projects(configured(conf, {"n": ""}))


# A namespace of no project: the pods of kube-system

SYSTEM = "kube-system"
LABEL, ADDRESS, RESTARTS = "very-secret-label", "10.99.98.97", 1234567891
BARE = {
    "pod": {"name", "GVK", "kind", "id", "cluster", "namespace", "status"},
    "workload": {"name", "GVK", "kind", "id", "cluster", "namespace", "status"},
}
BARE_STATUS = {"pod": {"phase"}, "workload": {"replicas", "ready_replicas"}}
"""Kind -> what a project sees of the status of one that belongs to no project."""


def in_system(api, project_id=None):
    """A workload and its pod in kube-system; returns the body of a VNF instance that has them."""
    place = {"cluster": "edge", "namespace": SYSTEM, "project_id": project_id, "labels": {"app": LABEL}}
    pod = {
        **place, "name": "dns-1", "owner_uid": "w", "phase": "Running", "ip_address": ADDRESS, "restarts": RESTARTS,
        "node": "worker-1", "resource_version": "resource-9988", "ready": True,
    }  # fmt: skip
    workload = {
        **place,
        "kind": "Deployment",
        "name": "vdu1",
        "replicas": 1,
        "ready_replicas": 1,
        "generation": 1987654321,
    }
    version = f"{next(api._numbers):06d}"
    written(
        api.cycle, Upsert("workload", "w", version, {"state": workload}), Upsert("pod", "p", version, {"state": pod})
    )
    return demo(namespace=SYSTEM)


def test_only_administrators_register_a_vnf_instance_in_a_namespace_of_no_project(api, problem):  # noqa: F811
    body = in_system(api)
    for namespace in (SYSTEM, "default", "never-seen"):
        found = problem(api("member", "POST", VNFS, json={**body, "namespace": namespace}), 403)
        assert f"namespace edge/{namespace}" in found["detail"]
        problem(api("member", "PUT", f"{VNFS}/a", json={**body, "namespace": namespace}), 403)
    assert api("admin", "POST", VNFS, json=body).status_code == 201


def test_a_project_sees_name_and_phase_of_the_pods_of_a_namespace_without_a_project(api):
    """An administrator registered the instance for the project, or a policy lets the project do it."""
    body = in_system(api)
    vnf = api("admin", "POST", VNFS, json={**body, "project_id": OWN}).json["id"]
    for query in ("", "?payload=full", "?kinds=pod,workload&payload=full"):
        shown = api("member", "GET", f"/v1/instance/{vnf}/status{query}")
        documents = {one["kind"]: one for one in shown.json["resourcesStatus"]}
        assert documents.keys() == {"pod", "workload"}
        for kind, document in documents.items():
            assert document.keys() == BARE[kind]
            assert document["status"].keys() - {"id", "name", "kind", "cluster", "namespace"} == BARE_STATUS[kind]
        assert documents["pod"]["name"] == "dns-1"
        whole = api("admin", "GET", f"/v1/instance/{vnf}/status{query}").text
        assert ADDRESS in whole
        assert str(RESTARTS) in whole


def test_nothing_else_tells_a_project_of_the_pods_of_a_namespace_without_a_project(api):
    vnf = api("admin", "POST", VNFS, json={**in_system(api), "project_id": OWN}).json["id"]
    in_system(api)
    api.cycle.run(Batch(events=[seen(1, "daemonset", namespace="own")]))
    at = f"{VNFS}/{vnf}"
    paths = [
        at, f"{at}/history", VNFS, f"/vnflcm/v2/vnf_instances/{vnf}", "/vnflcm/v2/vnf_instances", "/v1/pods",
        "/v1/pods/p", "/v1/pods/p/history", "/v1/workloads", "/v1/workloads/w/history", "/v1/events?since=0",
        "/v1/diff?from=0", "/v1/search?q=dns-1", "/v1/search?q=p", "/v1/topology", "/v1/drifts",
        "/apis/v1/pods/p", "/apis/v1/workloads/w",
    ]  # fmt: skip
    answers = {path: api("member", "GET", path) for path in paths}
    answers["sync"] = api("member", "POST", f"{at}/sync", params={"dry_run": "true"})
    for path, answer in answers.items():
        for secret in (LABEL, ADDRESS, str(RESTARTS), "resource-9988", "1987654321", "worker-1"):
            assert secret not in answer.text, path
    assert api("member", "GET", "/v1/pods/p").status_code == 404
    assert api("member", "GET", "/v1/search?q=dns-1").json["results"] == []
    assert ADDRESS in api("admin", "GET", "/v1/pods/p/history").text


def test_the_history_of_a_pod_before_its_namespace_had_a_project_has_name_and_phase(api):
    in_system(api)
    in_system(api, OWN)
    rows = api("member", "GET", "/v1/pods/p/history").json["history"]
    assert rows[0]["delta"].keys() == {"name", "namespace", "cluster", "phase"}
    assert "project_id" in rows[-1]["delta"]
    place = {"cluster": "edge", "namespace": SYSTEM, "project_id": "c" * 32}
    written(api.cycle, Upsert("pod", "q", "1", {"state": {**place, "project_id": None, "ip_address": ADDRESS}}))
    written(api.cycle, Upsert("pod", "q", "2", {"state": {**place, "project_id": OWN, "ip_address": "10.1.1.1"}}))
    assert ADDRESS not in api("member", "GET", "/v1/pods/q/history").text
    assert "10.1.1.1" in api("member", "GET", "/v1/pods/q/history").text
