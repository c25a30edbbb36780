# SPDX-License-Identifier: Apache-2.0
"""Faults happen as ordered: what, to whom, how often."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable

import pytest

from tests.unit.testing.kubernetes.conftest import DEPLOYMENTS, PODS, Client
from tests.waiting import wait_until
from watcher_sync.testing.kubernetes import (
    Action,
    Break,
    Cut,
    Delay,
    Hang,
    KubernetesServer,
    RawLine,
    Silence,
    error_event,
    forbidden,
    gone,
    internal_error,
    too_many_requests,
    unauthorized,
    version_too_large,
)
from watcher_sync.testing.kubernetes.builders import bare_pods, pod


@pytest.mark.parametrize(
    ("action", "status", "reason", "retry_after"),
    [
        (too_many_requests(7), 429, "TooManyRequests", "7"),
        (internal_error(), 500, "InternalError", None),
        (internal_error(503), 503, "ServiceUnavailable", None),
        (version_too_large(3), 504, "Timeout", "3"),
        (unauthorized(), 401, "Unauthorized", None),
        (forbidden(), 403, "Forbidden", None),
        (gone(), 410, "Expired", None),
    ],
)
def test_an_answer_is_given_once_and_then_no_more(
    server: KubernetesServer, api: Client, action: Action, status: int, reason: str, retry_after: str | None
) -> None:
    fault = server.fail(action, path="/api/v1")
    answer = api("GET", PODS)
    assert (answer.status, answer.json["reason"]) == (status, reason)
    assert answer.headers.get("retry-after") == retry_after
    assert api("GET", PODS).status == 200
    assert fault.hits == 1


def test_a_fault_keeps_to_its_path_verb_condition_and_turn(server: KubernetesServer, api: Client) -> None:
    server.load(bare_pods(3))
    server.fail(internal_error(), path="/apis/apps", verb="list")
    server.fail(gone(), when=lambda request: "continue" in request.query)
    server.fail(forbidden(), path="/version", count=2, after=1)
    assert api("GET", f"{DEPLOYMENTS}/x").status == 404
    assert api("GET", DEPLOYMENTS).status == 500
    page = api("GET", PODS, limit=1)
    assert page.status == 200
    assert api("GET", PODS, limit=1, continue_=page.json["metadata"]["continue"]).status == 410
    assert [api("GET", "/version").status for _ in range(5)] == [200, 403, 200, 403, 200]


def test_a_fault_without_a_count_lasts_until_it_is_stopped(server: KubernetesServer, api: Client) -> None:
    fault = server.fail(internal_error(), count=None)
    assert {api("GET", PODS).status for _ in range(5)} == {500}
    fault.stop()
    assert api("GET", PODS).status == 200


def test_a_delay_is_followed_by_the_answer(server: KubernetesServer, api: Client) -> None:
    server.fail(Delay(0.2), count=None)
    begin = time.monotonic()
    assert api("GET", PODS).status == 200
    assert time.monotonic() - begin >= 0.2


def test_a_request_that_hangs_is_never_answered(server: KubernetesServer, connect: Callable[..., Client]) -> None:
    fault = server.fail(Hang())
    with pytest.raises(TimeoutError):
        connect(timeout=0.3)("GET", PODS)
    wait_until(lambda: fault.hits)
    assert connect()("GET", PODS).status == 200


def test_a_list_is_cut_in_the_middle(server: KubernetesServer, api: Client) -> None:
    server.load(bare_pods(100))
    server.fail(Cut(0.5))
    with pytest.raises(http.client.IncompleteRead):
        api("GET", PODS)


@pytest.mark.parametrize("half_line", [False, True])
def test_a_watch_breaks_after_so_many_events(server: KubernetesServer, api: Client, half_line: bool) -> None:
    server.fail(Break(half_line=half_line), verb="watch", after=2)
    server.load(bare_pods(3))
    stream = api.watch()
    assert [stream.seen()[0] for _ in range(2)] == ["ADDED"] * 2
    if half_line:
        with pytest.raises(json.JSONDecodeError):
            stream.event()
        return
    with pytest.raises(http.client.IncompleteRead):
        stream.response.read()


def test_an_open_watch_that_is_idle_breaks_too(server: KubernetesServer, api: Client) -> None:
    stream = api.watch(resourceVersion=server.store.version)
    server.requests.wait_for_watches(1)
    server.fail(Break())
    with pytest.raises(http.client.IncompleteRead):
        stream.response.read()


@pytest.mark.slow
def test_a_silent_watch_stays_open_and_tells_nothing(server: KubernetesServer, connect: Callable[..., Client]) -> None:
    client = connect()
    stream = client.watch(resourceVersion=server.store.version, allowWatchBookmarks="true")
    server.requests.wait_for_watches(1)
    fault = server.fail(Silence())
    server.create(pod("a"))
    server.bookmark()
    client.connection.sock.settimeout(0.5)
    with pytest.raises(TimeoutError):
        stream.line()
    assert fault.hits == 1


def test_an_error_event_ends_the_stream(server: KubernetesServer, api: Client) -> None:
    server.fail(error_event(), after=1)
    server.load(bare_pods(2))
    stream = api.watch()
    assert stream.event()[0] == "ADDED"
    kind, status = stream.event()
    assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
    assert stream.line() == b""


def test_a_malformed_line_is_followed_by_good_ones(server: KubernetesServer, api: Client) -> None:
    server.fail(RawLine(), verb="watch")
    server.create(pod("a"))
    stream = api.watch()
    with pytest.raises(json.JSONDecodeError):
        stream.event()
    assert stream.seen() == ("ADDED", "a")


def test_all_faults_can_be_cleared(server: KubernetesServer, api: Client) -> None:
    server.fail(internal_error(), count=None)
    server.heal()
    assert api("GET", PODS).status == 200
