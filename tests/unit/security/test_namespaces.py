# SPDX-License-Identifier: Apache-2.0
"""Namespaces of Kubernetes that a source's option maps to projects: their pods, and the VNF instances in them."""

from __future__ import annotations

import json

import pytest
from keystonemiddleware.fixture import AuthTokenFixture
from oslo_config import cfg

from tests.unit.api.conftest import conf, problem, store  # noqa: F401 - fixtures
from tests.unit.api.test_vnf_instances import demo
from tests.unit.security.callers import OTHER, OWN, Api
from watcher_sync.commit.batch import Batch
from watcher_sync.conf import opts
from watcher_sync.conf.namespaces import CLUSTER, NAMESPACE_PROJECTS, namespace_projects
from watcher_sync.events import Event
from watcher_sync.exceptions import ConfigError

VNFS = "/v1/vnf_instances"


def configured(conf, projects, name="k8s", cluster="edge"):  # noqa: F811
    conf.set_override("enabled_sources", [name], group="engine")
    opts.register_source(conf, name, [CLUSTER, NAMESPACE_PROJECTS])
    conf.set_override("driver", "kubernetes", group=f"source_{name}")
    conf.set_override("cluster", cluster, group=f"source_{name}")
    conf.set_override("namespace_projects", projects, group=f"source_{name}")
    return conf


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
    [("member", "own", 201), ("member", "other", 403), ("member", "default", 201), ("stranger", "own", 403),
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
