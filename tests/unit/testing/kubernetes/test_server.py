# SPDX-License-Identifier: Apache-2.0
"""The server around the objects: discovery, views, compression, tokens, counts, death and return."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

from tests.unit.testing.kubernetes.conftest import DEPLOYMENTS, PODS, Client
from watcher_sync.testing.kubernetes import KubernetesServer
from watcher_sync.testing.kubernetes.builders import bare_pods, deployment, pod


def test_discovery_names_every_type_and_its_subresources(api: Client) -> None:
    assert api("GET", "/api").json["versions"] == ["v1"]
    groups = {group["name"] for group in api("GET", "/apis").json["groups"]}
    assert groups == {"apps", "batch"}
    assert api("GET", "/apis/apps").json["preferredVersion"]["groupVersion"] == "apps/v1"
    names = {entry["name"] for entry in api("GET", "/apis/apps/v1").json["resources"]}
    assert {"deployments", "deployments/scale", "deployments/status", "replicasets", "statefulsets"} <= names
    assert {"pods", "namespaces", "nodes"} <= {each["name"] for each in api("GET", "/api/v1").json["resources"]}
    assert api("GET", "/version").json["major"] == "1"
    assert api("GET", "/readyz").raw == b"ok"


@pytest.mark.parametrize(
    "path", ["/", "/nope", "/api/v2", "/api/v1/cats", "/apis/cats.example", "/api/v1/pods/a/b/c/d"]
)
def test_what_is_not_there_is_not_found(api: Client, path: str) -> None:
    answer = api("GET", path)
    assert (answer.status, answer.json["kind"]) == (404, "Status")


def test_a_method_without_a_meaning_is_not_allowed(api: Client) -> None:
    assert api("POST", "/api/v1/pods", pod("a")).status == 405
    assert api("PUT", PODS, pod("a")).status == 405


def test_any_further_type_is_served_in_full(server: KubernetesServer, api: Client) -> None:
    server.register("cats.example", "v1alpha1", "cats", "Cat")
    path = "/apis/cats.example/v1alpha1/namespaces/default/cats"
    cat = {"apiVersion": "cats.example/v1alpha1", "kind": "Cat", "metadata": {"name": "tom"}, "spec": {"legs": 4}}
    stream = Client(server).watch(path, resourceVersion=server.store.version)
    assert api("POST", path, cat).status == 201
    assert api("GET", path).json["kind"] == "CatList"
    assert stream.seen() == ("ADDED", "tom")
    assert "cats.example" in {group["name"] for group in api("GET", "/apis").json["groups"]}
    assert server.get("cat", "tom")["spec"] == {"legs": 4}


def test_metadata_alone_is_sent_to_those_who_ask_for_it(server: KubernetesServer, api: Client) -> None:
    server.create(deployment("x"))
    accept = {"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"}
    listed = api("GET", DEPLOYMENTS, headers=accept).json
    assert listed["kind"] == "PartialObjectMetadataList"
    assert listed["items"] == [
        {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": server.get("deployment", "x")["metadata"],
        }
    ]
    accept = {"Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}
    assert api.watch(DEPLOYMENTS, accept).event()[1] == listed["items"][0]


def test_a_table_has_a_row_for_each_object(server: KubernetesServer, api: Client) -> None:
    server.create(pod("a", phase="Running", node="n"))
    table = api("GET", PODS, headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}).json
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Ready", "Status", "Restarts", "Age"]
    assert table["rows"][0]["cells"][:4] == ["a", "1/1", "Running", "0"]


def test_large_bodies_are_compressed_for_those_who_accept_it(server: KubernetesServer, api: Client) -> None:
    server.load(bare_pods(500))
    packed = api("GET", PODS, headers={"Accept-Encoding": "gzip"})
    plain = api("GET", PODS)
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.json == plain.json
    assert len(packed.raw) < len(plain.raw) / 4
    assert "content-encoding" not in api("GET", DEPLOYMENTS, headers={"Accept-Encoding": "gzip"}).headers


def test_a_token_is_asked_for(server: KubernetesServer, api: Client, tmp_path: pathlib.Path) -> None:
    server.token = "secret"  # noqa: S105
    assert api("GET", PODS).status == 401
    config = json.loads(pathlib.Path(server.kubeconfig(tmp_path / "kubeconfig")).read_text())
    token = config["users"][0]["user"]["token"]
    assert api("GET", PODS, headers={"Authorization": f"Bearer {token}"}).status == 200


def test_a_kubeconfig_leads_to_the_server(server: KubernetesServer, tmp_path: pathlib.Path) -> None:
    config = json.loads(pathlib.Path(server.kubeconfig(tmp_path / "kubeconfig", context="edge")).read_text())
    assert config["current-context"] == "edge"
    assert config["clusters"] == [{"name": "edge", "cluster": {"server": server.url}}]


def test_requests_are_counted_by_verb_and_resource(
    server: KubernetesServer, api: Client, connect: Callable[..., Client]
) -> None:
    api("GET", PODS, limit=500)
    api("GET", f"{PODS}/a")
    api("GET", DEPLOYMENTS)
    api("POST", PODS, pod("a"))
    connect().watch()
    server.requests.wait_for_watches(1, "pods")
    assert server.requests.count("list", "pods") == 1
    assert server.requests.count("list") == 2
    assert server.requests.count(resource="pods") == 4
    assert server.requests.count("watch", "deployments") == 0
    assert server.requests.last()[0].query == {"limit": "500"}
    server.requests.clear()
    assert server.requests.count() == 0


def test_a_server_that_died_comes_back_on_its_port_with_its_objects(
    server: KubernetesServer, connect: Callable[..., Client]
) -> None:
    server.create(pod("a"))
    url, version = server.url, server.store.version
    stream = connect().watch(resourceVersion=version)
    server.requests.wait_for_watches(1)
    server.stop()
    assert stream.line() == b""
    with pytest.raises(ConnectionRefusedError):
        connect()("GET", PODS)
    server.start()
    assert server.url == url
    assert connect()("GET", PODS).names == ["a"]


def test_nothing_of_a_stopped_server_listens_or_holds_a_connection() -> None:
    with KubernetesServer() as server:
        where = urlsplit(server.url)
        Client(server)("GET", "/version")
    with pytest.raises(ConnectionRefusedError):
        Client(server)("GET", "/version")
    assert where.port


@pytest.mark.slow
def test_a_page_of_many_pods_is_quick_and_so_is_all_of_them(server: KubernetesServer, api: Client) -> None:
    """A hundred thousand behave likewise; so many take the suite too long."""
    server.load(bare_pods(10_000))
    seen, token = 0, ""
    while True:
        page = api("GET", PODS, limit=500, **({"continue_": token} if token else {})).json
        seen += len(page["items"])
        token = page["metadata"].get("continue", "")
        if not token:
            break
    assert seen == 10_000
    assert len(api("GET", PODS).names) == 10_000


def test_versions_of_a_type_have_the_same_objects_and_one_may_cease(server: KubernetesServer, api: Client) -> None:
    old = server.register("a.example", "v1beta1", "things", "Thing")
    server.register("a.example", "v1", "things", "Thing")
    made = server.create({"apiVersion": "a.example/v1beta1", "kind": "Thing", "metadata": {"name": "one"}})
    path = "/apis/a.example/{}/namespaces/default/things"
    new = api("GET", path.format("v1") + "/one").json
    assert new == made | {"apiVersion": "a.example/v1"}
    group = api("GET", "/apis/a.example").json
    assert [each["version"] for each in group["versions"]] == ["v1", "v1beta1"]
    assert group["preferredVersion"]["version"] == "v1"
    watch = api.watch(path.format("v1beta1"), resourceVersion=str(server.store.version))
    server.unserve(old)
    assert watch.line() == b""
    assert api("GET", path.format("v1beta1")).status == 404
    assert api("GET", "/apis/a.example/v1beta1").status == 404
    assert [each["version"] for each in api("GET", "/apis/a.example").json["versions"]] == ["v1"]
    assert api("GET", path.format("v1")).names == ["one"]


def test_a_token_is_good_for_a_smaller_page_and_for_metadata_alone(server: KubernetesServer, api: Client) -> None:
    server.load(bare_pods(4))
    token = api("GET", PODS, limit=2).json["metadata"]["continue"]
    accept = {"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}
    third = api("GET", PODS, headers=accept, limit=1, continue_=token)
    assert (third.json["kind"], third.names) == ("PartialObjectMetadataList", ["pod-000002"])
    assert third.json["items"][0].keys() == {"kind", "apiVersion", "metadata"}
    assert api("GET", PODS, limit=2, continue_=third.json["metadata"]["continue"]).names == ["pod-000003"]
