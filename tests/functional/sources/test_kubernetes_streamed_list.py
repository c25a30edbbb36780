# SPDX-License-Identifier: Apache-2.0
"""A streamed list that fails, and the status of ReplicaSets, over real HTTP."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from tests.functional.sources.reflecting import PODS, Engine, following, listed, make_source, only, wait_for_truth
from tests.waiting import deadline, wait_until
from watcher_sync.events import Event
from watcher_sync.extensions.kubernetes.source.options import ReflectorSettings
from watcher_sync.extensions.kubernetes.source.progress import Phase
from watcher_sync.extensions.kubernetes.source.reflector import Reflector
from watcher_sync.extensions.kubernetes.source.resources import KNOWN
from watcher_sync.extensions.kubernetes.source.target import read_target
from watcher_sync.extensions.vnf.model.matching import is_settling, read_vdu
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
            assert len(listed(server)) == 1, "without a second attempt"
            server.create(pod("one-more"))
            wait_for_truth(server, engine)


def test_a_streamed_list_that_falls_silent_is_left_after_its_time(engine, tmp_path):
    with KubernetesServer() as server:
        server.load(bare_pods(5))
        server.fail(Silence(), verb="watch", path=PODS, when=streams_list, count=None, after=2)
        with following(server, tmp_path, engine, watch_list_timeout=0.5):
            server.create(pod("one-more"))
            wait_for_truth(server, engine)


@pytest.mark.parametrize("watch_list", ["refused", "unavailable"])
def test_ten_minutes_after_a_failed_streamed_list_the_next_one_is_streamed_again(tmp_path, watch_list):
    clock = [1000.0]
    with KubernetesServer(watch_list=watch_list) as server:
        server.create(pod("a"))
        source = make_source(server.kubeconfig(tmp_path / "kubeconfig"), resources=["pods"])
        settings = ReflectorSettings(source="edge", cluster="edge", backoff_max=0.3)
        connection = read_target("edge", source.conf).connect()
        owner = OwnerOfReflector()
        reflector = Reflector(KNOWN["pods"], None, connection, settings, owner, monotonic=lambda: clock[0])
        reflector.start()
        try:
            for relists, seconds, streams, lists in ((1, 0, 1, 1), (2, 599, 1, 2), (3, 2, 2, 3)):
                clock[0] += seconds
                if relists > 1:
                    server.fail(error_event(410), path=PODS, count=1)
                wait_until(lambda n=relists: reflector.progress.relists == n)
                server.requests.wait_for_watches(1)
                asked = [r for r in server.requests.last() if streams_list(r)]
                assert (len(asked), len(listed(server))) == (streams, lists)
        finally:
            reflector.begin_stop()
            assert reflector.join(deadline(60))
            connection.close()


class OwnerOfReflector:
    """A source that takes every event."""

    is_disconnected = False

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def emit(self, events: Sequence[Event]) -> None:
        """Takes them."""

    def sequence(self) -> tuple[int, int]:
        """In the order of the calls."""
        return 1, next(self._numbers)

    def changed(self) -> None:
        """Takes no notice."""


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


def test_a_streamed_list_that_never_ends_is_a_list_and_a_watch_after_its_time(engine, tmp_path):
    """The server does not know the parameter, or a proxy drops the last bookmark; and the resource is busy."""
    with KubernetesServer(watch_list="ignored") as server:
        server.load(bare_pods(3))
        with following(server, tmp_path, engine, watch_list_timeout=0.5, synced=False) as source:
            reflector, numbers = only(source), itertools.count()

            def is_listed() -> bool:
                server.create(pod(f"busy-{next(numbers)}"))
                return reflector.progress.relists > 0

            wait_until(is_listed)
            assert len(listed(server)) == 1
            wait_for_truth(server, engine)
