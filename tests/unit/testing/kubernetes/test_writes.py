# SPDX-License-Identifier: Apache-2.0
"""Writes: conflicts, generations, patches, subresources."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.testing.kubernetes.conftest import DEPLOYMENTS, MERGE, PODS, Client
from watcher_sync.testing.kubernetes import KubernetesServer
from watcher_sync.testing.kubernetes.builders import deployment, pod


def test_the_server_gives_names_uids_versions_and_generations(api: Client) -> None:
    made = api("POST", DEPLOYMENTS, {**deployment("x"), "metadata": {"generateName": "x-"}, "status": {"replicas": 9}})
    metadata = made.json["metadata"]
    assert made.status == 201
    assert metadata["name"].startswith("x-")
    assert len(metadata["name"]) == 7
    assert metadata["generation"] == 1
    assert metadata["uid"]
    assert "status" not in made.json


def test_a_name_that_is_taken_and_a_namespace_that_is_not_there_are_refused(api: Client) -> None:
    assert api("POST", PODS, pod("a")).status == 201
    taken = api("POST", PODS, pod("a"))
    assert (taken.status, taken.json["reason"]) == (409, "AlreadyExists")
    nowhere = api("POST", "/api/v1/namespaces/nowhere/pods", pod("a", namespace="nowhere"))
    assert (nowhere.status, nowhere.json["message"]) == (404, 'namespaces "nowhere" not found')


def test_a_recreated_object_has_another_uid(server: KubernetesServer) -> None:
    first = server.create(pod("a"))
    server.delete("pod", "a")
    assert server.create(pod("a"))["metadata"]["uid"] != first["metadata"]["uid"]


def test_an_update_of_an_old_version_is_a_conflict_and_one_without_a_version_is_not(
    server: KubernetesServer, api: Client
) -> None:
    old = server.create(deployment("x"))
    server.cluster.scale("deployment", "x", 2)
    conflict = api("PUT", f"{DEPLOYMENTS}/x", old)
    assert (conflict.status, conflict.json["reason"]) == (409, "Conflict")
    del old["metadata"]["resourceVersion"]
    assert api("PUT", f"{DEPLOYMENTS}/x", old).status == 200
    patch = {"metadata": {"resourceVersion": "1"}, "spec": {"replicas": 7}}
    assert api("PATCH", f"{DEPLOYMENTS}/x", patch, MERGE).status == 409


def test_an_update_that_changes_nothing_writes_nothing(server: KubernetesServer, api: Client) -> None:
    same = server.create(deployment("x"))
    version = server.store.version
    assert api("PUT", f"{DEPLOYMENTS}/x", same).json == same
    assert server.store.version == version


def test_the_generation_counts_changes_of_the_spec_alone(server: KubernetesServer, api: Client) -> None:
    server.create(deployment("x"))
    api("PATCH", f"{DEPLOYMENTS}/x", {"metadata": {"labels": {"a": "b"}}}, MERGE)
    assert server.get("deployment", "x")["metadata"]["generation"] == 1
    api("PATCH", f"{DEPLOYMENTS}/x", {"spec": {"replicas": 5}}, MERGE)
    assert server.get("deployment", "x")["metadata"]["generation"] == 2


def test_the_status_is_written_through_its_subresource_only(server: KubernetesServer, api: Client) -> None:
    server.create(deployment("x", replicas=2))
    both = {"spec": {"replicas": 3}, "status": {"readyReplicas": 1}}
    api("PATCH", f"{DEPLOYMENTS}/x", both, MERGE)
    assert "status" not in server.get("deployment", "x")
    api("PATCH", f"{DEPLOYMENTS}/x/status", {**both, "spec": {"replicas": 9}}, MERGE)
    obj = server.get("deployment", "x")
    assert (obj["spec"]["replicas"], obj["status"]) == (3, {"readyReplicas": 1})


def test_scale_is_read_and_written_with_its_version_checked(server: KubernetesServer, api: Client) -> None:
    server.create(deployment("x", replicas=2))
    scale = api("GET", f"{DEPLOYMENTS}/x/scale").json
    assert (scale["kind"], scale["spec"], scale["status"]["selector"]) == ("Scale", {"replicas": 2}, "app=x")
    scale["spec"]["replicas"] = 4
    assert api("PUT", f"{DEPLOYMENTS}/x/scale", scale).status == 200
    assert api("PUT", f"{DEPLOYMENTS}/x/scale", scale).status == 409
    assert api("PATCH", f"{DEPLOYMENTS}/x/scale", {"spec": {"replicas": 1}}, MERGE).json["spec"]["replicas"] == 1
    assert api("PATCH", f"{DEPLOYMENTS}/x/scale", {"spec": {"replicas": -1}}, MERGE).status == 422
    assert api("GET", f"{PODS}/x/scale").status == 404


CONTAINERS = [{"name": "main", "image": "registry.example/app:1"}, {"name": "side", "image": "s:1"}]


@pytest.mark.parametrize(
    ("media_type", "patch", "expected"),
    [
        ("merge-patch", {"spec": {"containers": [{"name": "side", "image": "s:2"}]}}, {"side": "s:2"}),
        (
            "strategic-merge-patch",
            {"spec": {"$setElementOrder/containers": [], "containers": [{"name": "side", "image": "s:2"}]}},
            {"main": "registry.example/app:1", "side": "s:2"},
        ),
        (
            "json-patch",
            [
                {"op": "test", "path": "/spec/containers/1/name", "value": "side"},
                {"op": "replace", "path": "/spec/containers/1/image", "value": "s:3"},
                {"op": "add", "path": "/spec/containers/-", "value": {"name": "new", "image": "n:1"}},
                {"op": "remove", "path": "/spec/containers/0"},
            ],
            {"side": "s:3", "new": "n:1"},
        ),
    ],
)
def test_patches_do_what_their_kind_says(
    server: KubernetesServer, api: Client, media_type: str, patch: Any, expected: dict[str, str]
) -> None:
    server.create({**pod("a"), "spec": {"containers": CONTAINERS}})
    kind = {"Content-Type": f"application/{media_type}+json"}
    changed = api("PATCH", f"{PODS}/a", patch, kind)
    assert {each["name"]: each["image"] for each in changed.json["spec"]["containers"]} == expected


@pytest.mark.parametrize(
    ("media_type", "patch", "status"),
    [
        ("application/json-patch+json", [{"op": "test", "path": "/kind", "value": "Node"}], 422),
        ("application/json-patch+json", [{"op": "remove", "path": "/spec/nothing"}], 422),
        ("application/json-patch+json", {}, 400),
        ("text/plain", {}, 415),
    ],
)
def test_patches_that_cannot_be_applied_change_nothing(
    server: KubernetesServer, api: Client, media_type: str, patch: Any, status: int
) -> None:
    server.create(pod("a"))
    version = server.store.version
    assert api("PATCH", f"{PODS}/a", patch, {"Content-Type": media_type}).status == status
    assert server.store.version == version


def test_an_apply_creates_what_is_not_there_and_changes_what_is(server: KubernetesServer, api: Client) -> None:
    kind = {"Content-Type": "application/apply-patch+yaml"}
    assert api("PATCH", f"{DEPLOYMENTS}/x", deployment("x"), kind).status == 201
    assert api("PATCH", f"{DEPLOYMENTS}/x", deployment("x", replicas=3), kind).status == 200
    assert server.get("deployment", "x")["spec"]["replicas"] == 3


def test_a_body_that_is_not_json_or_of_another_kind_is_a_bad_request(api: Client) -> None:
    assert api("POST", PODS, deployment("x")).status == 400
    assert api("POST", PODS, 7).status == 400
    api.connection.request("POST", PODS, b"{")
    assert api.connection.getresponse().status == 400
