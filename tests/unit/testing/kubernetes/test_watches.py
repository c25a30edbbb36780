# SPDX-License-Identifier: Apache-2.0
"""Watches: every event after a version, once and in order."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable

import pytest

from tests.unit.testing.kubernetes.conftest import PODS, Client
from watcher_sync.testing.kubernetes import KubernetesServer
from watcher_sync.testing.kubernetes.builders import deployment, pod

pytestmark = pytest.mark.slow

INITIAL = {
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
    "allowWatchBookmarks": "true",
}


def test_a_watch_tells_what_happened_after_the_version(server: KubernetesServer, api: Client) -> None:
    server.create(pod("before"))
    version = server.store.version
    server.create(pod("a"))
    server.create(deployment("none-of-ours"))
    server.create(pod("b", namespace="other"))
    stream = api.watch(resourceVersion=version)
    server.patch("pod", "a", {"metadata": {"labels": {"x": "y"}}})
    server.delete("pod", "a")
    events = [stream.event() for _ in range(3)]
    assert [kind for kind, _ in events] == ["ADDED", "MODIFIED", "DELETED"]
    versions = [int(obj["metadata"]["resourceVersion"]) for _, obj in events]
    assert versions == sorted(set(versions))
    assert versions[-1] == server.store.version
    assert events[0][1]["kind"] == "Pod"


@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}])
def test_a_watch_without_a_version_begins_with_what_is_there(
    server: KubernetesServer, api: Client, query: dict[str, str]
) -> None:
    server.create(pod("a"))
    stream = api.watch(**query)
    server.create(pod("b"))
    assert [stream.seen(), stream.seen()] == [("ADDED", "a"), ("ADDED", "b")]


def test_a_watch_from_before_the_history_is_gone(api: Client) -> None:
    with KubernetesServer(history_limit=2) as server:
        client = Client(server)
        version = server.store.version
        for name in "ab":
            server.create(pod(name))
        assert client("GET", PODS, watch=1, resourceVersion=version, timeoutSeconds=1).status == 200
        server.create(pod("c"))
        answer = client("GET", PODS, watch=1, resourceVersion=version)
        assert (answer.status, answer.json["reason"]) == (410, "Expired")


def test_initial_events_end_with_a_bookmark_that_says_so(server: KubernetesServer, api: Client) -> None:
    server.create(pod("a"))
    version = server.store.version
    stream = api.watch(**INITIAL)
    assert stream.seen() == ("ADDED", "a")
    kind, bookmark = stream.event()
    assert kind == "BOOKMARK"
    assert bookmark["metadata"] == {
        "resourceVersion": str(version),
        "annotations": {"k8s.io/initial-events-end": "true"},
    }
    server.create(pod("b"))
    assert stream.seen() == ("ADDED", "b")


def test_initial_events_are_refused_or_ignored_by_servers_without_them(server: KubernetesServer, api: Client) -> None:
    server.create(pod("a"))
    server.watch_list = "refused"
    assert api("GET", PODS, watch=1, **INITIAL).status == 422
    server.watch_list = "ignored"
    stream = api.watch(timeoutSeconds=1, **INITIAL)
    assert stream.seen() == ("ADDED", "a")
    kind, bookmark = stream.event()
    assert (kind, "annotations" in bookmark["metadata"]) == ("BOOKMARK", False)


def test_a_bookmark_comes_when_asked_for_and_names_a_version_without_events(
    server: KubernetesServer, api: Client
) -> None:
    stream = api.watch(resourceVersion=server.store.version, allowWatchBookmarks="true")
    server.requests.wait_for_watches(1)
    server.create(deployment("none-of-ours"))
    server.bookmark()
    kind, bookmark = stream.event()
    assert (kind, bookmark["kind"]) == ("BOOKMARK", "Pod")
    assert bookmark["metadata"]["resourceVersion"] == str(server.store.version)


def test_bookmarks_come_by_themselves_to_those_who_allow_them(server: KubernetesServer, api: Client) -> None:
    server.bookmark_interval = 0.01
    assert api.watch(resourceVersion=server.store.version, allowWatchBookmarks="true").event()[0] == "BOOKMARK"


def test_timeout_seconds_end_a_stream_in_good_order(server: KubernetesServer, api: Client) -> None:
    stream = api.watch(resourceVersion=server.store.version, timeoutSeconds=1)
    assert stream.line() == b""
    assert api("GET", "/version").status == 200  # on the same connection


def test_a_selector_turns_changes_into_arrivals_and_departures(server: KubernetesServer, api: Client) -> None:
    server.create(pod("a"))
    stream = api.watch(resourceVersion=server.store.version, labelSelector="x=y")
    for value in ("z", "y", "y", "z"):
        server.patch("pod", "a", {"metadata": {"labels": {"x": value}, "annotations": {"n": value}}})
    server.create(pod("b", labels={"x": "y"}))
    assert [stream.seen() for _ in range(3)] == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "b")]


def test_a_watch_whose_client_has_gone_ends(server: KubernetesServer, connect: Callable[..., Client]) -> None:
    client = connect()
    stream = client.watch(resourceVersion=server.store.version)
    server.requests.wait_for_watches(1)
    stream.response.close()
    client.connection.close()
    server.requests.wait_until_watches_end()
    assert server.requests.watches() == 0


def test_an_open_watch_that_is_overtaken_by_the_end_of_the_history_gets_an_error_event(
    server: KubernetesServer, api: Client
) -> None:
    stream = api.watch(resourceVersion=server.store.version)
    server.requests.wait_for_watches(1)
    with server.store.changed:  # it does not get a turn meanwhile
        server.create(pod("a"))
        server.compact()
    kind, status = stream.event()
    assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
    assert stream.line() == b""


def test_a_streamed_list_is_compressed_for_those_who_accept_it_event_by_event(
    server: KubernetesServer, api: Client
) -> None:
    server.create(pod("a"))
    stream = api.watch(headers={"Accept-Encoding": "gzip"}, **INITIAL)
    assert stream.response.headers["Content-Encoding"] == "gzip"

    def member() -> list[str]:
        lines = gzip.decompress(stream.response.read1()).splitlines()
        return [json.loads(line)["type"] for line in lines]

    assert member() == ["ADDED", "BOOKMARK"]
    server.create(pod("b"))
    assert member() == ["ADDED"]


def test_another_watch_is_not_compressed(server: KubernetesServer, api: Client) -> None:
    server.create(pod("a"))
    assert api.watch(headers={"Accept-Encoding": "gzip"}).seen() == ("ADDED", "a")
