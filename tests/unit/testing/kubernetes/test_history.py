# SPDX-License-Identifier: Apache-2.0
"""Any history of writes: what was, is found again, and who watched, knows it."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from watcher_sync.testing.kubernetes import KubernetesServer
from watcher_sync.testing.kubernetes.builders import pod
from watcher_sync.testing.kubernetes.resources import PODS
from watcher_sync.testing.kubernetes.views import Whole
from watcher_sync.testing.kubernetes.watching import Watch, WatchQuery

WRITES = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 2)), max_size=40)
"""A name, and what its pod's label becomes; 0: it is deleted."""


def write(server: KubernetesServer, name: str, label: int) -> None:
    there = server.store.find(PODS, "default", name) is not None
    if not label:
        if there:
            server.delete("pod", name)
    elif there:
        server.patch("pod", name, {"metadata": {"labels": {"x": str(label)}}})
    else:
        server.create(pod(name, labels={"x": str(label)}))


def truth(server: KubernetesServer) -> dict[str, Any]:
    return {item["metadata"]["name"]: item for item in server.pods()}


@given(WRITES)
@settings(max_examples=50, deadline=None)
def test_every_version_within_the_history_is_found_as_it_was(writes: list[tuple[str, int]]) -> None:
    server = KubernetesServer()
    recorded = {server.store.version: truth(server)}
    for name, label in writes:
        write(server, name, label)
        recorded[server.store.version] = truth(server)
    for version, was in recorded.items():
        snapshot = server.store.snapshot(PODS, version)
        assert {item.name: item.decoded() for item in snapshot.items} == was


@given(WRITES, st.integers(0, 40), st.sampled_from(["", "x=1", "x!=1"]))
@settings(max_examples=100, deadline=None)
def test_a_list_and_the_watch_from_its_version_are_the_truth(
    writes: list[tuple[str, int]], listed_after: int, labels: str
) -> None:
    server = KubernetesServer()

    def chosen() -> dict[str, Any]:
        items = truth(server).items()
        return {
            name: item
            for name, item in items
            if not labels or (item["metadata"]["labels"]["x"] == "1") is (labels == "x=1")
        }

    for name, label in writes[:listed_after]:
        write(server, name, label)
    known, version = chosen(), server.store.version
    for name, label in writes[listed_after:]:
        write(server, name, label)
    query = WatchQuery(version=str(version), label_selector=labels, timeout=0.0)
    watch = Watch(server.store, PODS, query, Whole(), bookmark_interval=60.0)
    while (lines := watch.wait(lambda: True)) is not None:
        for event in map(json.loads, lines):
            name = event["object"]["metadata"]["name"]
            assert (name in known) is (event["type"] != "ADDED")
            if event["type"] == "DELETED":
                del known[name]
            else:
                known[name] = event["object"]
    assert known == chosen()


def test_the_log_is_cut_to_the_history_limit() -> None:
    server = KubernetesServer(history_limit=10)
    server.create(pod("a"))
    for number in range(500):
        server.patch("pod", "a", {"metadata": {"labels": {"n": str(number)}}})
    assert len(server.store.events_after(PODS, server.store.oldest)) == 10
    assert server.store.oldest == server.store.version - 10
