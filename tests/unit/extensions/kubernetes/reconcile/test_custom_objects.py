# SPDX-License-Identifier: Apache-2.0
"""Custom objects of the model held against a cluster that speaks HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clusters import Installation, one_vdu
from watcher_sync.extensions.kubernetes.source import lister_watcher
from watcher_sync.testing.kubernetes import KubernetesServer, forbidden, internal_error
from watcher_sync.testing.kubernetes.builders import deployment

pytestmark = pytest.mark.slow

KINDS = ["a.example/v1/Thing state=.status.phase size=.spec.size", "b.example/v1/Thing"]


def thing(name: str, group: str = "a.example", phase: str = "Ready") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": metadata, "status": {"phase": phase}}


@pytest.fixture
def server() -> Iterator[KubernetesServer]:
    with KubernetesServer() as server:
        for group in ("a.example", "b.example"):
            server.register(group, "v1", f"{group[0]}things", "Thing", namespaced=group != "b.example")
        server.create(deployment("vdu1", replicas=1))
        server.load([thing("one"), *(thing(f"other-{number}", "b.example") for number in range(4))])
        server.cluster.settle()
        yield server


@pytest.fixture
def site(server: KubernetesServer, tmp_path: Path) -> Iterator[Installation]:
    site = Installation(tmp_path, {"edge": server}, kinds=KINDS, connect_timeout=30.0, read_timeout=30.0)
    yield site
    site.close()


def names(site: Installation) -> list[str]:
    return sorted(each.name for each in site.model.all("custom_object"))


ALL = ["one", "other-0", "other-1", "other-2", "other-3"]


def test_an_empty_model_is_filled_and_a_second_run_writes_nothing(site: Installation):
    assert site.reconcile().complete
    assert names(site) == ALL
    head = site.head()
    report = site.reconcile()
    assert (report.differences, report.sizes["Thing.b.example"], site.head()) == ((), 4, head)


def test_what_came_changed_and_went_is_healed_and_is_a_drift_by_field(site: Installation, server: KubernetesServer):
    site.reconcile()
    server.patch("athings", "one", {"status": {"phase": "Failed"}, "spec": {"size": 3}})
    server.create(thing("two"))
    server.delete("bthings", "other-0")
    report = site.reconcile()
    assert names(site) == ["one", "other-1", "other-2", "other-3", "two"]
    assert (report.deleted, report.refused_deletes) == (1, {})
    found = {(d.field, str(d.model_value), str(d.live_value)) for d in report.differences if d.kind == "custom_object"}
    assert {
        ("state", "Ready", "Failed"), ("properties", "{'size': None}", "{'size': 3}"),
        ("", "None", "two"), ("", "other-0", "None"),
    } <= found  # fmt: skip
    assert {d.field for d in site.drifts() if d.kind == "custom_object"} >= {"state", "properties", ""}
    assert site.reconcile().differences == ()
    assert site.drifts() == []


def test_an_update_that_changes_nothing_of_the_model_is_no_difference(site: Installation, server: KubernetesServer):
    site.reconcile()
    server.patch("athings", "one", {"status": {"heartbeat": 1}})
    head = site.head()
    assert (site.reconcile().differences, site.head()) == ((), head)


JOBS = {"resources": ["pods", "deployments", "replicasets", "batch/v1/Job", "a.example/v1/Job"]}


@pytest.mark.parametrize("path", ["/apis/batch/v1/jobs", "/apis/a.example/v1/ajobs"])
def test_the_objects_of_a_group_outlive_that_another_groups_kind_is_forbidden(
    server: KubernetesServer, tmp_path: Path, path: str
):
    server.register("a.example", "v1", "ajobs", "Job")
    for each in ("batch", "a.example"):
        metadata = {"name": "one", "namespace": "default"}
        server.create({"apiVersion": f"{each}/v1", "kind": "Job", "metadata": metadata})
    site = Installation(tmp_path, {"edge": server}, connect_timeout=30.0, read_timeout=30.0, **JOBS)
    assert site.reconcile().complete

    def jobs() -> list[str]:
        return sorted(w.full_name for w in site.model.all("workload") if w.kind == "Job")

    assert jobs() == ["edge/default/Job.a.example/one", "edge/default/Job.batch/one"]
    head = site.head()
    server.fail(forbidden(), path=path, count=None)
    for _ in range(2):
        assert site.reconcile(allow_deletes=True).deleted == 0
    assert (len(jobs()), site.head()) == (2, head)
    site.close()


def test_a_dry_run_and_an_observed_kind_write_nothing(site: Installation, server: KubernetesServer):
    site.reconcile()
    server.create(thing("two"))
    assert [d.kind for d in site.reconcile(dry_run=True).differences] == ["custom_object"]
    assert names(site) == ALL
    site.conf.set_override("policy", {"custom_object": "observe"}, group="reconcile")
    site.reconcile()
    assert names(site) == ALL
    assert [(d.kind, d.policy) for d in site.drifts()] == [("custom_object", "observe")]


def test_a_kind_that_is_not_served_is_gone(site: Installation, server: KubernetesServer):
    """Its group has no other kind, so that discovery answers 404."""
    site.reconcile()
    server.unregister("athings")
    report = site.reconcile(allow_deletes=True)
    assert (report.complete, report.deleted, names(site)) == (True, 1, ALL[1:])


def test_a_kind_that_its_group_does_not_list_is_gone(site: Installation, server: KubernetesServer):
    site.reconcile()
    server.register("a.example", "v1", "more", "More")
    server.register("a.example", "v2", "more", "More")
    server.unregister("athings")
    report = site.reconcile(allow_deletes=True)
    assert (report.complete, report.deleted, names(site)) == (True, 1, ALL[1:])


@pytest.mark.parametrize("is_listed", [False, True])
def test_a_kind_that_another_version_serves_is_not_gone(site: Installation, server: KubernetesServer, is_listed: bool):
    """:param is_listed: another kind of the group is served at the old version."""
    site.reconcile()
    server.register("a.example", "v2", "athings", "Thing")
    server.register("a.example", "v1beta1", "athings", "Thing")
    if is_listed:
        server.register("a.example", "v1", "more", "More")
    server.unserve(server.registry.by_path("a.example", "v1", "athings"))
    report = site.reconcile(allow_deletes=True)
    reason = "the server does not serve the kind Thing in /apis/a.example/v1, but in v2, v1beta1"
    assert (report.complete, report.deleted, names(site)) == (False, 0, ALL)
    assert report.failures == {"Thing": reason}
    site.conf.set_override("kinds", ["a.example/Thing state=.status.phase size=.spec.size"], group="source_edge")
    report = site.reconcile(allow_deletes=True)
    assert (report.complete, report.differences, names(site)) == (True, (), ALL)


@pytest.mark.parametrize(
    ("path", "code"),
    [("/apis/a.example", 403), ("/apis/a.example", 503), ("/apis/a.example/v2", 503), ("/apis/a.example/v2", 404)],
)
def test_a_kind_is_not_gone_while_the_server_does_not_say_which_versions_have_it(
    site: Installation, server: KubernetesServer, path: str, code: int
):
    site.reconcile()
    server.register("a.example", "v2", "more", "More")
    server.unserve(server.registry.by_path("a.example", "v1", "athings"))
    fault = server.fail(internal_error(code), when=lambda request: request.path == path, count=None)
    report = site.reconcile(allow_deletes=True)
    assert (report.complete, report.deleted, names(site)) == (False, 0, ALL)
    assert str(code) in report.failures["Thing"]
    fault.stop()
    assert site.reconcile(allow_deletes=True).deleted == 1


def test_a_kind_of_the_core_group_is_never_gone(tmp_path: Path, server: KubernetesServer):
    site = Installation(tmp_path, {"edge": server}, kinds=["v1/ConfigMap"])
    server.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map"}})
    site.reconcile()
    server.unserve(server.registry.named("configmaps"))
    report = site.reconcile(allow_deletes=True)
    assert (report.deleted, names(site)) == (0, ["map"])
    assert report.failures == {"ConfigMap": "the server does not serve the kind ConfigMap in /api/v1"}
    site.close()


def test_the_delete_guard_refuses_what_discovery_lacks(site: Installation, server: KubernetesServer):
    site.reconcile()
    server.unregister("bthings")
    report = site.reconcile()
    assert (report.deleted, report.refused_deletes, names(site)) == (0, {"Thing.b.example": 4}, ALL)
    report = site.reconcile(allow_deletes=True)
    assert (report.deleted, names(site)) == (4, ["one"])


def test_the_delete_guard_counts_each_custom_kind_by_itself(site: Installation, server: KubernetesServer):
    """One of five custom objects is 20 percent of all of them, and all of its kind."""
    site.reconcile()
    server.unregister("athings")
    server.delete("bthings", "other-0")
    server.delete("Deployment", "vdu1")
    server.create(thing("other-9", "b.example"))
    server.create(deployment("vdu2", replicas=1))
    server.cluster.settle()
    report = site.reconcile()
    assert report.refused_deletes == {"Thing.a.example": 1, "Pod": 1, "Deployment": 1, "ReplicaSet": 1}
    assert names(site) == ["one", "other-1", "other-2", "other-3", "other-9"]
    assert report.refused_share("Thing.a.example") == "1 of 1"


def test_a_refused_custom_kind_holds_no_sync_of_a_vnf_instance_back(site: Installation, server: KubernetesServer):
    site.reconcile()
    site.register("v1", one_vdu())
    server.unregister("bthings")
    server.cluster.scale("Deployment", "vdu1", 2)
    server.cluster.settle()
    report = site.reconcile()
    assert report.refused_deletes == {"Thing.b.example": 4}
    assert site.vnf("v1").scale_level == {"vdu1_aspect": 1}


def test_a_kind_of_a_cluster_that_is_followed_in_part_is_gone_whatever_its_namespaces(
    site: Installation, server: KubernetesServer
):
    site.conf.set_override("namespaces", ["default"], group="source_edge")
    site.reconcile()
    assert names(site) == ALL  # those of b.example have no namespace
    server.unregister("bthings")
    assert site.reconcile(allow_deletes=True).deleted == 4


def test_a_discovery_that_fails_says_nothing_of_what_is_gone(site: Installation, server: KubernetesServer):
    site.reconcile()
    server.fail(internal_error(503), path="/apis/a.example/v1", count=None)
    report = site.reconcile(allow_deletes=True)
    assert (report.complete, report.deleted, names(site)) == (False, 0, ALL)
    assert list(report.failures) == ["Thing"]
    server.heal()
    server.fail(internal_error(404), path="/apis/a.example/v1/athings", count=None)
    report = site.reconcile(allow_deletes=True)
    assert (report.complete, report.deleted, names(site)) == (False, 0, ALL)


def test_the_sync_of_a_vnf_instance_lists_no_custom_objects(site: Installation, server: KubernetesServer):
    site.reconcile()
    site.register("v1", one_vdu())
    server.requests.clear()
    site.reconciler().sync_now("v1", dry_run=False)
    assert server.requests.count("list", "pods") == 1
    assert server.requests.count(resource="athings") == 0
    assert names(site) == ALL


def test_an_object_that_is_too_large_is_named_and_not_gone(
    site: Installation, server: KubernetesServer, monkeypatch: pytest.MonkeyPatch
):
    site.reconcile()
    monkeypatch.setattr(lister_watcher, "MAX_ANSWER_BYTES", 20_000)
    server.patch("athings", "one", {"spec": {"size": "x" * 20_000}})
    server.create(thing("two"))
    large = thing("large") | {"spec": {"size": "x" * 20_000}}
    server.create(large)
    uids = [server.get("athings", name)["metadata"]["uid"] for name in ("one", "large")]
    report = site.reconcile()
    assert (report.complete, report.deleted, names(site)) == (True, 0, [*ALL, "two"])
    names_of = dict(zip(uids, ("one", "large"), strict=True))
    assert report.unknown == {
        f"Thing.a.example {uid}": f"default/{name} has more than 20000 bytes" for uid, name in names_of.items()
    }
    assert site.reconcile().differences == ()
    server.delete("athings", "one")
    assert site.reconcile(allow_deletes=True).deleted == 1


def test_large_objects_are_listed_in_smaller_pages(
    site: Installation, server: KubernetesServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lister_watcher, "MAX_ANSWER_BYTES", 20_000)
    server.load(thing(f"large-{number}") | {"spec": {"size": "x" * 9_000}} for number in range(9))
    assert site.reconcile().complete
    assert len(names(site)) == 14
