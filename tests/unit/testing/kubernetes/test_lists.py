# SPDX-License-Identifier: Apache-2.0
"""Lists: versions, pages, selectors."""

from __future__ import annotations

import pytest

from tests.unit.testing.kubernetes.conftest import PODS, Client
from watcher_sync.testing.kubernetes import KubernetesServer
from watcher_sync.testing.kubernetes.builders import bare_pods, pod


def test_a_list_bears_the_version_of_the_whole_store_and_a_kind_of_its_own(
    server: KubernetesServer, api: Client
) -> None:
    server.create(pod("a"))
    listed = api("GET", PODS).json
    assert (listed["kind"], listed["apiVersion"]) == ("PodList", "v1")
    assert listed["metadata"] == {"resourceVersion": str(server.store.version)}
    assert "kind" not in listed["items"][0]


def test_pages_are_of_one_snapshot_whatever_is_written_between_them(server: KubernetesServer, api: Client) -> None:
    server.load(bare_pods(5))
    first = api("GET", PODS, limit=2)
    server.delete("pod", "pod-000003", gracePeriodSeconds=0)
    server.create(pod("pod-000002b"))
    server.patch("pod", "pod-000004", {"metadata": {"labels": {"new": "yes"}}})
    second = api("GET", PODS, limit=2, continue_=first.json["metadata"]["continue"])
    third = api("GET", PODS, limit=2, continue_=second.json["metadata"]["continue"])
    assert first.names + second.names + third.names == [f"pod-{number:06d}" for number in range(5)]
    assert first.json["metadata"]["remainingItemCount"] == 3
    assert {page.json["metadata"]["resourceVersion"] for page in (first, second, third)} == {
        first.json["metadata"]["resourceVersion"]
    }
    assert "continue" not in third.json["metadata"]
    assert "new" not in third.json["items"][0]["metadata"]["labels"]


@pytest.mark.parametrize("how", ["expire_pages", "compact"])
def test_a_page_that_has_expired_is_gone(server: KubernetesServer, api: Client, how: str) -> None:
    server.load(bare_pods(3))
    token = api("GET", PODS, limit=1).json["metadata"]["continue"]
    server.create(pod("other"))
    getattr(server, how)()
    answer = api("GET", PODS, limit=1, continue_=token)
    assert (answer.status, answer.json["reason"]) == (410, "Expired")


def test_a_continue_token_of_another_origin_is_refused(api: Client) -> None:
    assert api("GET", PODS, limit=1, continue_="nonsense").status == 400


def test_an_exact_version_is_answered_from_the_history(server: KubernetesServer, api: Client) -> None:
    server.create(pod("a"))
    then = server.store.version
    server.create(pod("b"))
    server.delete("pod", "a")
    exact = {"resourceVersion": then, "resourceVersionMatch": "Exact"}
    assert api("GET", PODS, **exact).names == ["a"]
    assert api("GET", PODS, resourceVersion=then, limit=5).names == ["a"]
    assert api("GET", PODS, resourceVersion=then).names == ["b"]
    assert api("GET", PODS, resourceVersion=0).names == ["b"]
    server.compact()
    assert api("GET", PODS, **exact).status == 410


def test_a_version_that_is_yet_to_come_is_too_large(server: KubernetesServer, api: Client) -> None:
    answer = api("GET", PODS, resourceVersion=server.store.version + 1)
    assert (answer.status, answer.json["reason"], answer.headers["retry-after"]) == (504, "Timeout", "1")
    assert answer.json["details"]["retryAfterSeconds"] == 1
    assert answer.json["details"]["causes"][0]["message"] == "Too large resource version"


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("app=a", ["one", "two"]),
        ("app==a,tier!=db", ["two"]),
        ("app in (a,b),!tier", ["two"]),
        ("tier", ["one", "three"]),
        ("app notin (a)", ["four", "three"]),
        ("", ["four", "one", "three", "two"]),
    ],
)
def test_label_selectors_choose(server: KubernetesServer, api: Client, labels: str, expected: list[str]) -> None:
    server.create(pod("one", labels={"app": "a", "tier": "db"}))
    server.create(pod("two", labels={"app": "a"}))
    server.create(pod("three", labels={"app": "b", "tier": "db"}))
    server.create(pod("four"))
    assert api("GET", PODS, labelSelector=labels).names == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("metadata.name=one", ["one"]),
        ("metadata.namespace=other", ["three"]),
        ("spec.nodeName=n1,status.phase!=Pending", ["one"]),
        ("status.phase=Pending", ["three", "two"]),
    ],
)
def test_field_selectors_choose(server: KubernetesServer, api: Client, fields: str, expected: list[str]) -> None:
    server.create(pod("one", node="n1", phase="Running"))
    server.create(pod("two", node="n1"))
    server.create(pod("three", namespace="other"))
    assert sorted(api("GET", "/api/v1/pods", fieldSelector=fields).names) == expected


@pytest.mark.parametrize("query", [{"labelSelector": "a=(b"}, {"fieldSelector": "spec.color=red"}, {"limit": "x"}])
def test_what_is_not_a_selector_or_a_number_is_a_bad_request(api: Client, query: dict[str, str]) -> None:
    assert api("GET", PODS, **query).status == 400


def test_pages_of_a_selection_hold_as_many_as_asked_for(server: KubernetesServer, api: Client) -> None:
    server.load(bare_pods(400))
    first = api("GET", PODS, labelSelector="app=app-1", limit=3)
    second = api("GET", PODS, labelSelector="app=app-1", limit=3, continue_=first.json["metadata"]["continue"])
    assert first.names + second.names == ["pod-000001", "pod-000101", "pod-000201", "pod-000301"]
    assert "remainingItemCount" not in first.json["metadata"]


def test_a_namespace_is_not_mistaken_for_one_that_begins_like_it(server: KubernetesServer, api: Client) -> None:
    for namespace in ("a", "a-b", "a0", "ab"):
        server.create(pod(namespace, namespace=namespace))
    assert api("GET", "/api/v1/namespaces/a/pods").names == ["a"]
    assert len(api("GET", "/api/v1/pods").names) == 4
