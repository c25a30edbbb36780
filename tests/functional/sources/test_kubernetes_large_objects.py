# SPDX-License-Identifier: Apache-2.0
"""Lists of large objects are read in smaller pages, and an object that is too large costs only itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.functional.sources.reflecting import PODS, Engine, following, listed, only
from tests.waiting import wait_until
from watcher_sync.events import Event
from watcher_sync.extensions.kubernetes.source import lister_watcher, watch_stream
from watcher_sync.extensions.kubernetes.wire.custom_kinds import parse_entries
from watcher_sync.testing.kubernetes import KubernetesServer, error_event
from watcher_sync.testing.kubernetes.builders import pod

MOST = 100_000
"""Bytes of an answer, and of an event."""


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lister_watcher, "MAX_ANSWER_BYTES", MOST)
    monkeypatch.setattr(watch_stream, "_MAX_LINE_BYTES", MOST)


@pytest.fixture
def engine() -> Engine:
    return Engine()


def large(name: str, size: int) -> dict[str, Any]:
    obj = pod(name, phase="Running")
    obj["spec"]["large"] = "x" * size
    return obj


def refused(engine: Engine) -> list[Event]:
    return [event for event in list(engine.events) if event.undecodable is not None]


REASON = f"pods: default/big has more than {MOST} bytes"


def test_a_page_that_is_too_large_is_halved_until_it_fits_once(engine: Engine, tmp_path: Path) -> None:
    with KubernetesServer() as server:
        server.load(large(f"pod-{number:03d}", 10_000) for number in range(50))
        with following(server, tmp_path, engine, watch_list=False, page_size=500):
            assert len(engine.names()) == 50
            limits = [int(query["limit"]) for query in listed(server)]
            assert limits == [500, 250, 125, 62, 31, 15, *[7] * 8]
            server.requests.clear()
            server.fail(error_event(), path=PODS, when=lambda request: "resourceVersion" in request.query)
            wait_until(lambda: engine.types().count("listed") == 2)
            assert {query["limit"] for query in listed(server)} == {"7"}
            assert refused(engine) == []


@pytest.mark.parametrize("watch_list", [True, False])
def test_an_object_that_is_too_large_costs_itself_and_is_named_once(
    engine: Engine, tmp_path: Path, watch_list: bool
) -> None:
    with KubernetesServer() as server:
        server.load([pod("a", phase="Running"), large("big", 2 * MOST), pod("c", phase="Running")])
        with following(server, tmp_path, engine, watch_list=watch_list) as source:
            assert engine.names() == ["a", "c"]
            assert [event.undecodable for event in refused(engine)] == [REASON]
            assert only(source).objects.count == 3
            server.fail(error_event(), path=PODS, when=lambda request: "resourceVersion" in request.query)
            wait_until(lambda: engine.types().count("listed") == 2)
            assert len(refused(engine)) == 1
            server.patch("pod", "big", {"spec": {"large": ""}})
            wait_until(lambda: engine.names() == ["a", "big", "c"])
            server.delete("pod", "big", gracePeriodSeconds=0)
            wait_until(lambda: engine.names() == ["a", "c"])
            assert len(refused(engine)) == 1


def test_an_object_that_grows_too_large_remains_unchanged_and_the_watch_goes_on(engine: Engine, tmp_path: Path) -> None:
    with KubernetesServer() as server:
        server.load([pod("a", phase="Running"), pod("big", phase="Running")])
        with following(server, tmp_path, engine, watch_list=False):
            server.patch("pod", "big", {"spec": {"large": "x" * 2 * MOST}})
            server.create(pod("c"))
            wait_until(lambda: engine.names() == ["a", "big", "c"])
            wait_until(lambda: [event.undecodable for event in refused(engine)] == [REASON])
            assert engine.types().count("listed") == 2
            server.delete("pod", "a", gracePeriodSeconds=0)
            wait_until(lambda: engine.names() == ["big", "c"])
            assert "absent" not in engine.types()


def test_a_custom_object_that_was_too_large_is_known_once_it_fits(engine: Engine, tmp_path: Path) -> None:
    kinds = ["a.example/v1/Thing"]
    engine.handler.custom_kinds = {("edge", kind.title.lower()): kind for kind in parse_entries(kinds)}
    with KubernetesServer() as server:
        server.register("a.example", "v1", "things", "Thing")
        server.create({"apiVersion": "a.example/v1", "kind": "Thing", "metadata": {"name": "big"}, "x": "x" * 2 * MOST})
        with following(server, tmp_path, engine, kinds=kinds, watch_list=False):
            assert len(refused(engine)) == 1
            server.patch("things", "big", {"x": ""})
            wait_until(lambda: [each.name for each in engine.snapshot().all("custom_object")] == ["big"])


def test_an_object_of_three_megabytes_passes(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    entry = {"manager": "m", "operation": "Update", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:x": "y" * 10_000}}
    obj = large("big", 1_000_000)
    obj["metadata"] |= {"managedFields": [entry] * 100, "annotations": {"large": "z" * 1_000_000}}
    with KubernetesServer() as server:
        server.create(obj)
        with following(server, tmp_path, engine, watch_list=False):
            assert engine.names() == ["big"]
            server.patch("pod", "big", {"metadata": {"labels": {"new": "yes"}}})
            wait_until(lambda: [e.labels for e in engine.snapshot().all("pod")] == [{"new": "yes"}])
    assert refused(engine) == []
