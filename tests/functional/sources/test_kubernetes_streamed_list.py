# SPDX-License-Identifier: Apache-2.0
"""A streamed list that fails, and the status of ReplicaSets, over real HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.functional.sources.reflecting import PODS, Engine, following, only, wait_for_truth, wait_until
from watcher_sync.model.vnf.matching import is_settling, read_vdu
from watcher_sync.sources.kubernetes.progress import Phase
from watcher_sync.testing.kubernetes import (
    Break,
    KubernetesServer,
    RawLine,
    Request,
    Silence,
    error_event,
    forbidden,
    internal_error,
)
from watcher_sync.testing.kubernetes.builders import bare_pods, pod, replica_set

FAULTS = {
    "410": error_event(410),
    "500": error_event(500, "InternalError", "etcd has a cold"),
    "429": error_event(429, "TooManyRequests", "try again later"),
    "403": error_event(403, "Forbidden", "no"),
    "504": error_event(504, "Timeout", "too large resource version"),
    "broken": Break(),
    "broken within a line": Break(half_line=True),
    "no JSON": RawLine(b"no JSON\n"),
    "an unknown object": RawLine(b'{"type":"ADDED","object":{"kind":"Pod","metadata":{}}}\n'),
    "refused with 500": internal_error(),
    "refused with 403": forbidden(),
}


def streams_list(request: Request) -> bool:
    return "sendInitialEvents" in request.query


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_a_streamed_list_that_ends_with_any_error_is_a_list_and_a_watch_at_once(engine, tmp_path, fault):
    with KubernetesServer() as server:
        server.load(bare_pods(30))
        after = 0 if fault.startswith("refused") else 10
        server.fail(FAULTS[fault], verb="watch", path=PODS, when=streams_list, count=None, after=after)
        with following(server, tmp_path, engine, backoff_max=30) as source:
            reflector = only(source)
            wait_until(lambda: reflector.progress.phase is Phase.WATCHING)
            assert server.requests.count("list") == 1, "without a second attempt"
            server.create(pod("one-more"))
            wait_for_truth(server, engine)


def test_a_streamed_list_that_falls_silent_is_left_after_its_time(engine, tmp_path):
    with KubernetesServer() as server:
        server.load(bare_pods(5))
        server.fail(Silence(), verb="watch", path=PODS, when=streams_list, count=None, after=2)
        with following(server, tmp_path, engine):
            server.create(pod("one-more"))
            wait_for_truth(server, engine)


def test_after_a_failed_streamed_list_the_next_one_is_streamed_again(engine, tmp_path):
    with KubernetesServer() as server:
        server.create(pod("a"))
        fault = server.fail(error_event(500), verb="watch", path=PODS, when=streams_list, count=1)
        with following(server, tmp_path, engine) as source:
            assert (fault.hits, server.requests.count("list")) == (1, 1)
            server.fail(error_event(410), path=PODS)
            wait_until(lambda: only(source).progress.relists == 2)
            assert server.requests.count("list") == 1


def vdu_of(engine: Engine, name: str) -> Any:
    return read_vdu(
        engine.snapshot(), cluster="edge", namespace="default", workload={"kind": "ReplicaSet", "name": name}
    )


@pytest.mark.parametrize("watch_list", [True, False])
def test_a_replica_set_that_a_vdu_names_has_its_status_and_settles(engine, tmp_path, watch_list):
    with KubernetesServer() as server:
        server.create(replica_set("vdu1", replicas=2))
        server.cluster.add_nodes(1)
        server.cluster.settle()
        with following(server, tmp_path, engine, resources=["pods", "replicasets"], watch_list=watch_list):
            wait_for_truth(server, engine)
            vdu = vdu_of(engine, "vdu1")
            assert (len(vdu.counted()), vdu.wanted, is_settling(vdu)) == (2, 2, False)
            server.cluster.scale("ReplicaSet", "vdu1", 3)
            server.cluster.settle()
            wait_for_truth(server, engine)
            vdu = vdu_of(engine, "vdu1")
            assert (len(vdu.counted()), vdu.wanted, is_settling(vdu)) == (3, 3, False)
            (found,) = engine.snapshot().by("workload", "full_name", "edge/default/ReplicaSet/vdu1")
            assert (found.generation, found.observed_generation, found.ready_replicas) == (2, 2, 3)
            assert found.updated_replicas == 3, "the pods that its controller has made"
