# SPDX-License-Identifier: Apache-2.0
"""What goes wrong between a reflector and its API server, each fault by name, over real HTTP.

Each test ends with the same sentence: the model is what the server has.
"""

from __future__ import annotations

import json
import logging
import random
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.functional.sources.reflecting import PODS, Engine, following, listed, only, wait_for_truth
from tests.waiting import wait_until
from watcher_sync.extensions.kubernetes.source import reflector
from watcher_sync.extensions.kubernetes.source.progress import Phase
from watcher_sync.sources.base import SourceState
from watcher_sync.testing.kubernetes import (
    Answer,
    ApiError,
    Break,
    Close,
    Cut,
    Hang,
    KubernetesServer,
    RawLine,
    Silence,
    error_event,
    forbidden,
    gateway_page,
    gone,
    internal_error,
    too_many_requests,
    unauthorized,
    version_too_large,
)
from watcher_sync.testing.kubernetes.builders import bare_pods, deployment, pod, stateful_set

ALL = ["pods", "deployments", "replicasets", "statefulsets", "daemonsets"]


@pytest.fixture
def engine() -> Engine:
    return Engine()


def test_410_within_the_stream_is_a_relist_that_finds_what_is_absent(engine, tmp_path):
    with KubernetesServer() as server:
        server.load(bare_pods(5))
        with following(server, tmp_path, engine, watch_list=False) as source:
            # What the next requests meet first: the source makes them as soon as the watch breaks.
            server.fail(gone(), verb="watch", path=PODS)
            hold = server.fail(Answer(ApiError(503, "ServiceUnavailable", "wait")), verb="list", count=None)
            server.fail(Break(), path=PODS)
            wait_until(lambda: hold.hits)
            uid = server.get("Pod", "pod-000002")["metadata"]["uid"]
            server.delete("Pod", "pod-000002", gracePeriodSeconds=0)
            server.create(pod("new"))
            server.patch("Pod", "pod-000001", {"metadata": {"labels": {"x": "y"}}})
            before = len(engine.events)
            hold.stop()
            wait_for_truth(server, engine)
            told = [(e.type, e.subject) for e in engine.events[before:] if e.type.startswith("kubernetes.pod.")]
            assert sorted(told) == [
                ("kubernetes.pod.absent", ""),
                ("kubernetes.pod.added", "new"),
                ("kubernetes.pod.listed", ""),
                ("kubernetes.pod.modified", "pod-000001"),
            ]
            (absent,) = [e for e in engine.events[before:] if e.type == "kubernetes.pod.absent"]
            assert json.loads(absent.data) == {"metadata": {"uid": uid}}
            wait_until(lambda: only(source).progress.relists == 2)  # counted after the events


@pytest.mark.parametrize("watch_list", [True, False])
def test_410_as_an_error_event_is_a_relist_at_once(engine, tmp_path, watch_list):
    with (
        KubernetesServer() as server,
        following(server, tmp_path, engine, watch_list=watch_list, backoff_max=30) as source,
    ):
        server.create(pod("a"))
        wait_for_truth(server, engine)
        server.fail(error_event(410), path=PODS)
        wait_until(lambda: only(source).progress.relists == 2)
        server.create(pod("b"))
        wait_for_truth(server, engine)


def test_a_server_that_always_says_410_is_not_asked_in_a_hot_loop(engine, tmp_path):
    with KubernetesServer() as server:
        fault = server.fail(gone(), verb="watch", path=PODS, count=None)
        with following(server, tmp_path, engine, synced=False, watch_list=False, backoff_max=1) as source:
            wait_until(lambda: only(source).progress.relists >= 3)
            before, began = server.requests.count(), time.monotonic()
            wait_until(lambda: time.monotonic() - began > 1.0)
            assert server.requests.count() - before < 12 * (time.monotonic() - began)  # wait: a rate; load lowers it
            fault.stop()
            server.create(pod("a"))
            wait_for_truth(server, engine)


@pytest.mark.parametrize("code", [500, 503])
def test_another_error_event_backs_off_and_resumes_without_a_relist(engine, tmp_path, code):
    with KubernetesServer() as server, following(server, tmp_path, engine) as source:
        server.fail(error_event(code, "InternalError", "etcd has a cold"), path=PODS, count=2)
        wait_until(lambda: only(source).progress.resumptions)
        server.create(pod("a"))
        wait_for_truth(server, engine)
        assert only(source).progress.relists == 1


def test_a_watch_that_brings_a_bookmark_and_then_an_error_each_time_is_a_relist(engine, tmp_path):
    with KubernetesServer(bookmark_interval=0.01) as server, following(server, tmp_path, engine) as source:
        fault = server.fail(error_event(500, "InternalError", "etcd has a cold"), path=PODS, count=None, after=1)
        server.bookmark()
        wait_until(lambda: only(source).progress.relists > 1)
        fault.stop()
        server.create(pod("a"))
        wait_for_truth(server, engine)


def test_each_watch_that_breaks_and_is_made_again_is_a_reconnection(engine, tmp_path):
    with KubernetesServer() as server, following(server, tmp_path, engine) as source:
        for number in range(1, 4):
            only(source).lister_watcher.cut()
            wait_until(lambda: source.status().reconnects == number)  # noqa: B023 - waits here and now
            server.create(pod(f"pod-{number}"))
            wait_for_truth(server, engine)
        assert "kubernetes.cluster.disconnected" not in [event.type for event in engine.events]
        assert only(source).progress.relists == 1
        assert source.status().reconnects == 3


def test_a_too_large_resource_version_is_waited_for(engine, tmp_path):
    with KubernetesServer() as server, following(server, tmp_path, engine) as source:
        fault = server.fail(version_too_large(retry_after=1), verb="watch", path=PODS)
        began = time.monotonic()
        server.fail(Break(), path=PODS)
        wait_until(lambda: fault.hits)
        server.create(pod("a"))
        wait_for_truth(server, engine)
        assert time.monotonic() - began > 0.9  # wait: the pause that the server asks for
        assert only(source).progress.relists == 1


@pytest.mark.parametrize("verb", ["list", "watch"])
def test_429_waits_as_long_as_retry_after_says(engine, tmp_path, verb):
    with KubernetesServer() as server:
        fault = server.fail(too_many_requests(retry_after=1), verb=verb, path=PODS)
        server.create(pod("a"))
        began = time.monotonic()
        with following(server, tmp_path, engine, synced=False, watch_list=verb == "watch"):
            wait_until(lambda: fault.hits)
            wait_for_truth(server, engine)
            assert time.monotonic() - began > 0.9  # wait: the pause that the server asks for


def test_a_server_that_asks_to_wait_is_not_asked_for_another_watch_meanwhile(engine, tmp_path):
    with KubernetesServer() as server, following(server, tmp_path, engine, backoff_max=0.1) as source:
        server.fail(too_many_requests(300), verb="list", count=None)
        server.fail(Break(), path=PODS)
        server.create(pod("a"))
        wait_until(lambda: only(source).progress.phase is Phase.FAILING)
        assert (server.requests.count("watch"), server.requests.count("list")) == (2, 1)


def test_a_half_open_connection_is_left_after_the_read_timeout(engine, tmp_path):
    timeouts = {"read_timeout": 0.5, "watch_list_timeout": 0.5}
    with KubernetesServer() as server, following(server, tmp_path, engine, **timeouts) as source:
        server.create(pod("a"))
        wait_for_truth(server, engine)
        fault = server.fail(Silence(), path=PODS)
        wait_until(lambda: fault.hits)
        server.create(pod("b"))
        wait_for_truth(server, engine)
        assert only(source).progress.relists == 1


def test_a_request_that_is_never_answered_is_left_after_the_read_timeout(engine, tmp_path):
    with KubernetesServer() as server:
        server.create(pod("a"))
        server.fail(Hang(), path=PODS, count=2)
        with following(server, tmp_path, engine, read_timeout=0.3, watch_list=False):
            wait_for_truth(server, engine)


def test_connections_are_kept_alive_by_probes(engine, tmp_path):
    with KubernetesServer() as server, following(server, tmp_path, engine) as source:
        options = source._connection._client.pool.connection_pool_kw["socket_options"]
        assert (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1) in options
        assert (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30) in options


def test_a_renewed_token_counts_before_the_former_one_is_refused(engine, tmp_path):
    with KubernetesServer(token="old") as server:
        server.create(pod("a"))
        with following(server, tmp_path, engine) as source:
            wait_until(lambda: engine.types("cluster").count("connected"))  # so that the version has been asked for
            server.token = "new"
            server.kubeconfig(tmp_path / "kubeconfig")
            before = server.requests.count("watch")
            server.fail(Break(), path=PODS)
            server.create(pod("b"))
            wait_for_truth(server, engine)
            assert server.requests.count("watch") == before + 1  # with the new token at once
            assert only(source).progress.relists == 1


def test_401_again_backs_off(engine, tmp_path):
    with KubernetesServer() as server:
        server.create(pod("a"))
        fault = server.fail(unauthorized(), count=None)
        with following(server, tmp_path, engine, synced=False, backoff_max=0.5) as source:
            wait_until(lambda: source.status().state is SourceState.DISCONNECTED)
            wait_until(lambda: "401 Unauthorized" in source.status().detail)  # none while it tries again
            began, before = time.monotonic(), server.requests.count()
            wait_until(lambda: time.monotonic() - began > 1.0)
            assert server.requests.count() - before <= 12 * (time.monotonic() - began)  # wait: a rate; load lowers it
            fault.stop()
            wait_for_truth(server, engine)


def test_a_gateway_that_asks_for_a_login_is_no_watch_and_no_event(engine, tmp_path):
    with KubernetesServer() as server, following(server, tmp_path, engine) as source:
        fault = server.fail(gateway_page(), verb="watch", path=PODS, count=3)
        server.fail(Break(), path=PODS)
        wait_until(lambda: fault.hits == 3)
        server.create(pod("a"))
        wait_for_truth(server, engine)
        assert not [event for event in engine.events if event.undecodable]
        assert only(source).progress.relists == 1


def test_a_redirection_is_not_followed_and_its_target_is_reported_without_its_query(engine, tmp_path):
    moved = ApiError(302, "", "", headers={"Location": "https://login.example/start?state=secret"})
    with KubernetesServer() as server:
        fault = server.fail(Answer(moved), count=None)
        with following(server, tmp_path, engine, synced=False) as source:
            wait_until(lambda: source.status().detail == "302 the server redirects to https://login.example/start")
            fault.stop()
            server.create(pod("a"))
            wait_for_truth(server, engine)


@pytest.mark.parametrize("body", [b'{"message":"nicht verf\xfcgbar"}', b'{"message":' + b"[" * 100_000, b"\xff"])
def test_an_error_whose_body_cannot_be_read_counts_by_its_status(engine, tmp_path, body):
    with KubernetesServer() as server:
        fault = server.fail(gateway_page(503, body), count=None)
        with following(server, tmp_path, engine, synced=False) as source:
            wait_until(lambda: source.status().detail == "503 no message")
            fault.stop()
            server.create(pod("a"))
            wait_for_truth(server, engine)


@pytest.mark.parametrize("when", ["between", "at the end"])
def test_a_page_that_expires_restarts_the_list(engine, tmp_path, when):
    with KubernetesServer() as server:
        server.load(bare_pods(25))
        later = lambda request: "continue" in request.query  # noqa: E731 - a name for what it is
        server.fail(gone(), verb="list", when=later, count=1, after=0 if when == "between" else 1)
        with following(server, tmp_path, engine, watch_list=False, page_size=10) as source:
            wait_for_truth(server, engine)
            assert (engine.types().count("added"), engine.types().count("listed")) == (25, 1)
            assert only(source).progress.relists == 1


def test_a_list_that_expires_again_and_again_is_taken_at_once(engine, tmp_path):
    with KubernetesServer() as server:
        server.load(bare_pods(25))
        server.fail(gone(), verb="list", when=lambda request: "continue" in request.query, count=None)
        with following(server, tmp_path, engine, watch_list=False, page_size=10):
            wait_for_truth(server, engine)
            assert listed(server)[-1].get("limit") is None


@pytest.mark.parametrize(
    "fault", [forbidden(), internal_error(), Cut(0.5), Cut(0.99), Hang()], ids=["403", "500", "half", "cut", "hang"]
)
def test_a_list_that_failed_or_is_partial_says_nothing_is_gone(engine, tmp_path, fault):
    with KubernetesServer() as server:
        server.load(bare_pods(25))
        with following(server, tmp_path, engine, watch_list=False):
            wait_for_truth(server, engine)
        before = len(engine.events)
        ordered = server.fail(fault, verb="list", when=lambda request: "continue" in request.query, count=None)
        with following(
            server, tmp_path, engine, synced=False, watch_list=False, page_size=10, read_timeout=0.3
        ) as source:
            wait_until(lambda: ordered.hits >= 3)
            assert {e.type for e in engine.events[before:]} <= {
                "kubernetes.pod.added",
                "kubernetes.cluster.disconnected",
            }
            assert (len(engine.names()), source.has_synced) == (25, False)
            ordered.stop()
            server.heal()
            wait_until(lambda: source.has_synced)
            wait_for_truth(server, engine)


def test_initial_events_that_are_cut_say_nothing_is_gone(engine, tmp_path):
    with KubernetesServer() as server:
        server.load(bare_pods(25))
        with following(server, tmp_path, engine):
            wait_for_truth(server, engine)
        before = len(engine.events)
        server.fail(Break(), path=PODS, after=10, count=3)
        with following(server, tmp_path, engine) as source:
            wait_for_truth(server, engine)
            assert engine.types()[-1] == "listed"
            assert "kubernetes.pod.deleted" not in {e.type for e in engine.events[before:]}
            assert only(source).progress.relists == 1


def test_a_balancer_that_cuts_idle_watches_is_no_outage(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(reflector, "_BRIEF_SECONDS", 0.0)  # each watch counts as one that lasted
    with KubernetesServer() as server, following(server, tmp_path, engine, backoff_max=30) as source:
        fault = server.fail(Break(), path=PODS, count=8)
        wait_until(lambda: fault.hits == 8)
        server.create(pod("a"))
        wait_for_truth(server, engine)
        assert source.status().state is SourceState.CONNECTED
        assert "kubernetes.cluster.disconnected" not in {event.type for event in engine.events}


def test_a_server_that_names_no_pause_is_not_asked_in_a_hot_loop(engine, tmp_path):
    with KubernetesServer() as server:
        fault = server.fail(too_many_requests(0), count=None)
        with following(server, tmp_path, engine, synced=False, backoff_max=0.5):
            wait_until(lambda: fault.hits)
            began, before = time.monotonic(), fault.hits
            wait_until(lambda: time.monotonic() - began > 1.0)
            assert fault.hits - before <= 12 * (time.monotonic() - began)  # wait: a rate; load lowers it
            fault.stop()
            server.create(pod("a"))
            wait_for_truth(server, engine)


def test_watches_that_bring_something_and_end_at_once_are_no_hot_loop(engine, tmp_path):
    with KubernetesServer(bookmark_interval=0.001) as server, following(server, tmp_path, engine):
        fault = server.fail(Close(), path=PODS, after=1, count=None)
        wait_until(lambda: fault.hits > 1)
        began, before = time.monotonic(), fault.hits
        wait_until(lambda: time.monotonic() - began > 1.0)
        assert fault.hits - before <= 12 * (time.monotonic() - began)  # wait: a rate; load lowers it


@pytest.mark.parametrize("half_line", [False, True])
def test_a_watch_that_is_cut_goes_on_from_the_last_version(engine, tmp_path, half_line):
    with KubernetesServer() as server, following(server, tmp_path, engine) as source:
        fault = server.fail(Break(half_line), path=PODS, after=1, count=2)
        for number in range(10):
            server.create(pod(f"p{number}"))
        wait_for_truth(server, engine)
        assert fault.hits
        assert engine.types().count("added") == 10
        assert only(source).progress.relists == 1


def test_an_undecodable_event_arrives_with_its_bytes_and_the_truth_is_listed(engine, tmp_path):
    with KubernetesServer() as server, following(server, tmp_path, engine) as source:
        server.fail(RawLine(), path=PODS)
        server.create(pod("a"))
        wait_until(lambda: only(source).progress.relists == 2)
        wait_for_truth(server, engine)
        (bad,) = [e for e in engine.events if e.undecodable]
        assert bad.data == RawLine().line.rstrip()


def test_a_listing_with_an_object_that_cannot_be_read_says_nothing_is_gone(engine, tmp_path):
    with KubernetesServer() as server, following(server, tmp_path, engine) as source:
        server.create(pod("a"))
        wait_for_truth(server, engine)
        reflector, before = only(source), len(engine.events)
        seen: set[str] = set()
        event = reflector.objects.on_text(b'{"metadata":{"uid":7}}', seen)
        assert event is not None
        reflector._emit([event])
        reflector.complete_listing(str(server.store.version), seen)
        told = [e for e in engine.events[before:] if not e.type.startswith("kubernetes.cluster.")]  # another thread's
        assert [bool(e.undecodable) for e in told] == [True]
        assert source.has_synced  # by the listing before
        assert engine.names() == ["a"]


def test_an_api_server_that_dies_and_comes_back_with_other_objects(engine, tmp_path):
    with KubernetesServer() as server:
        server.load(bare_pods(10))
        with following(server, tmp_path, engine) as source:
            server.stop()
            wait_until(lambda: source.status().state is SourceState.DISCONNECTED)
            wait_until(lambda: engine.snapshot().get("cluster", "edge").state == "disconnected")
            for number in range(5):
                server.delete("Pod", f"pod-{number:06d}", gracePeriodSeconds=0)
            server.create(pod("new"))
            server.compact()
            server.start()
            wait_for_truth(server, engine)
            wait_until(lambda: engine.snapshot().get("cluster", "edge").state == "connected")
            assert source.status().reconnects == 1


def test_a_stateful_pod_that_is_made_again_under_its_name_is_another_pod(engine, tmp_path):
    with KubernetesServer() as server:
        server.create(stateful_set("db", replicas=2))
        server.cluster.settle()
        with following(server, tmp_path, engine, resources=ALL):
            wait_for_truth(server, engine)
            old = {p.name: p.id for p in engine.snapshot().all("pod")}
            server.cluster.kill("db-0")
            server.cluster.settle()
            wait_for_truth(server, engine)
            new = {p.name: p.id for p in engine.snapshot().all("pod")}
            assert (new["db-1"], new["db-0"] != old["db-0"]) == (old["db-1"], True)


def test_one_resource_that_we_may_not_read_costs_the_others_nothing(engine, tmp_path):
    with KubernetesServer() as server:
        server.create(pod("a"))
        server.fail(forbidden(), path="/apis/apps/v1/daemonsets", count=None)
        with following(server, tmp_path, engine, synced=False, resources=ALL) as source:
            wait_for_truth(server, engine)
            detail = wait_until(lambda: source.status().detail)
            wait_until(lambda: source.status().state is SourceState.CONNECTED)
            assert not source.has_synced
            assert detail.startswith("daemonsets: 403 Forbidden")


def the(engine):
    """The cluster, as the model has it."""
    return engine.snapshot().get("cluster", "edge")


def test_a_resource_that_cannot_be_listed_is_named_and_has_the_others_synced(engine, tmp_path):
    with KubernetesServer() as server:
        server.create(pod("a"))
        refused = server.fail(forbidden(), path="/apis/apps/v1/daemonsets", count=None)
        with following(server, tmp_path, engine, resources=ALL, stale_after=1) as source:
            wait_for_truth(server, engine)
            cluster = wait_until(lambda: the(engine).unlisted and the(engine))
            assert (cluster.state, cluster.has_synced, list(cluster.unlisted)) == ("connected", True, ["DaemonSet"])
            assert cluster.unlisted["DaemonSet"]["reason"].startswith("403 Forbidden")
            assert cluster.counts["Pod"] == 1
            refused.stop()
            server.heal()
            wait_until(lambda: the(engine).unlisted is None)
            assert source.has_synced


def test_all_of_a_dead_cluster_cannot_be_listed_and_its_last_sync_stays(engine, tmp_path):
    with KubernetesServer() as server:
        server.create(pod("a"))
        with following(server, tmp_path, engine, resources=ALL, stale_after=1):
            wait_for_truth(server, engine)
            before = wait_until(lambda: the(engine).last_sync_at and the(engine))
            server.stop()
            dead = wait_until(lambda: len(the(engine).unlisted or ()) == len(ALL) and the(engine))
            assert (dead.state, dead.last_sync_at) == ("disconnected", before.last_sync_at)
            assert all(why["since"] and why["reason"] for why in dead.unlisted.values())
            server.start()
            wait_until(lambda: the(engine).unlisted is None)


def test_a_dead_cluster_is_one_line_of_the_log(engine, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    with KubernetesServer() as server:
        server.create(pod("a"))
        server.stop()
        with following(server, tmp_path, engine, synced=False, resources=ALL, probe_interval=0.2) as source:
            failing = [reflector.progress for reflector in source.reflectors]
            wait_until(lambda: all(p.failing_since and p.failing_since.seconds > 3 for p in failing))
            wait_until(lambda: source.status().state is SourceState.DISCONNECTED)
            refused = [record for record in caplog.records if "refused" in record.getMessage()]
            assert [r.levelname for r in refused] == ["WARNING"], [r.getMessage() for r in refused]
            assert refused[0].getMessage().startswith("source edge: disconnected: NewConnectionError")
            server.start()
            wait_for_truth(server, engine)
            wait_until(lambda: any(r.getMessage() == "source edge: connected" for r in caplog.records))
        assert not any(r.getMessage().endswith(": recovered") for r in caplog.records)


def test_one_resource_that_fails_and_recovers_is_two_lines_of_the_log(engine, tmp_path, caplog):
    caplog.set_level(logging.INFO)

    def lines() -> list[str]:
        found = [r.getMessage() for r in caplog.records if "daemonsets" in r.getMessage()]
        return [line for line in found if "listing in pages" not in line]

    with KubernetesServer() as server:
        server.fail(forbidden(), path="/apis/apps/v1/daemonsets", count=None)
        with following(server, tmp_path, engine, synced=False, resources=ALL) as source:
            wait_until(lambda: source.status().state is SourceState.CONNECTED)
            (line,) = wait_until(lines)
            assert line.startswith("source edge: daemonsets: unavailable, retrying: 403 Forbidden")
            server.heal()
            wait_until(lambda: len(lines()) > 1)
            assert lines() == [line, "source edge: daemonsets: recovered"]


FAULTS = [
    lambda: Break(),
    lambda: Break(half_line=True),
    lambda: Silence(),
    lambda: RawLine(),
    lambda: error_event(410),
    lambda: error_event(500, "InternalError", "no"),
    lambda: Cut(0.5),
    lambda: Hang(),
    lambda: unauthorized(),
    lambda: gone(),
    lambda: internal_error(),
    lambda: internal_error(503),
    lambda: too_many_requests(0),
]


@pytest.mark.parametrize("examples", [4, pytest.param(12, marks=pytest.mark.rare)])
def test_whatever_goes_wrong_the_model_ends_in_the_servers_truth(examples):
    @settings(max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(seed=st.integers(0, 2**32), watch_list=st.booleans())
    def each(seed, watch_list):
        _break_and_heal(seed, watch_list)

    each()


def _break_and_heal(seed, watch_list):
    rng, engine = random.Random(seed), Engine()
    with tempfile.TemporaryDirectory() as folder, KubernetesServer(seed=seed, history_limit=200) as server:
        server.cluster.add_nodes(2)
        server.create(deployment("vdu1", replicas=3))
        server.create(stateful_set("db", replicas=2))
        server.cluster.settle()
        options = {"page_size": 3, "watch_list": watch_list, "backoff_max": 0.1}
        options |= {"read_timeout": 0.3, "watch_list_timeout": 0.5}
        with following(server, Path(folder), engine, synced=False, resources=ALL, **options):
            faults = []
            for _ in range(25):
                fault = server.fail(rng.choice(FAULTS)(), count=rng.randint(1, 3), after=rng.randint(0, 4))
                _move(server, rng)
                _look(lambda: fault.hits, 0.1)  # noqa: B023 - waits here and now
                faults.append(fault)
            wait_until(lambda: sum(fault.hits for fault in faults) >= 5, what="five faults")
            server.heal()
            wait_for_truth(server, engine)
            tops = {p.id: p.workload_uid for p in engine.snapshot().all("pod")}
            assert tops == _tops(server)


def _look(condition: Callable[[], object], seconds: float) -> None:
    """Wait until the condition is true, or it is time to go on."""
    goes_on_at = time.monotonic() + seconds  # wait: the next fault comes beside this one then
    while not condition() and time.monotonic() < goes_on_at:
        time.sleep(0.005)


def _move(server: KubernetesServer, rng: random.Random) -> None:
    """Something happens in the cluster."""
    names = [p["metadata"]["name"] for p in server.pods()]
    match rng.randrange(7):
        case 0:
            server.cluster.scale("Deployment", "vdu1", rng.randint(0, 5))
        case 1:
            server.cluster.rollout("Deployment", "vdu1", f"app:{rng.randrange(99)}")
        case 2 if names:
            server.cluster.kill(rng.choice(names))
        case 3 if names:
            server.cluster.restart(rng.choice(names))
        case 4:
            server.compact()
        case 5:
            server.expire_pages()
        case 6:
            server.bookmark()
    for _ in range(rng.randint(0, 3)):
        server.cluster.step()


def _tops(server: KubernetesServer) -> dict[str, str]:
    """Pod -> the uid at the top of its owners."""
    owners = {
        obj["metadata"]["uid"]: obj["metadata"].get("ownerReferences", [{}])[0].get("uid")
        for kind in ("Pod", "ReplicaSet")
        for obj in server.objects(kind)
    }
    return {
        pod["metadata"]["uid"]: owners.get(owners[pod["metadata"]["uid"]]) or owners[pod["metadata"]["uid"]]
        for pod in server.pods()
    }
