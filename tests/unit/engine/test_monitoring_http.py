# SPDX-License-Identifier: Apache-2.0
"""The engine's own port says what is wrong, and in figures what was done."""

from __future__ import annotations

import datetime
import http.client
import json
import logging
import resource
import socket
import threading
import time
from wsgiref.simple_server import WSGIRequestHandler

import pytest

from tests.services.servers import free_port
from tests.simulated import NOON, told
from tests.unit.engine.asking import ask, figures
from tests.unit.engine.conftest import Spoken, until
from tests.waiting import PATIENCE_SECONDS, deadline, wait_until
from watcher_sync.commit.suspects import Suspects, path_of
from watcher_sync.engine.monitoring_http import MonitoringServer, ThreadingServer, check_port, make_application
from watcher_sync.exceptions import ConfigError, DatabaseUnavailable
from watcher_sync.model.changes import Upsert
from watcher_sync.sources.base import SourceState, SourceStatus

pytestmark = pytest.mark.slow


def instance(entity_id, version="1"):
    return Upsert("instance", entity_id, version, {"state": {}, "details": {"name": entity_id}})


class Clock:
    """The time of day, until the test sets it."""

    def __init__(self):
        self.time = None

    def __call__(self):
        return self.time or datetime.datetime.now(datetime.UTC)


@pytest.fixture
def clock():
    return Clock()


def test_a_leading_engine_with_a_fresh_source_is_ready_and_an_ended_one_is_not_even_alive(run):
    running = run(Spoken())
    application = make_application(running.engine)
    assert until(lambda: ask(application, "/readyz")[0] == 200)
    assert ask(application, "/readyz") == (
        200,
        {
            "ready": True,
            "checks": {
                "database": {"ok": True},
                "lease": {"ok": True},
                "watchdog": {"ok": True},
                "suspects": {"ok": True},
                "sources": {"spoken": {"ok": True}},
            },
        },
    )
    assert ask(application, "/healthz") == (200, {"alive": True})
    assert running.stop()
    status, body = ask(application, "/readyz")
    assert (status, body["checks"]["lease"]["ok"]) == (503, False)
    assert ask(application, "/healthz") == (503, {"alive": False})


def test_an_engine_is_not_ready_until_what_ended_the_last_process_is_committed(run, conf):
    event = told(1, instance("a"))
    ended = Suspects(path_of(conf.state_path, conf.engine.group), conf.engine)
    ended.open()
    ended.begin([event])
    ended._release()  # as the end of a process does
    source = Spoken()
    application = make_application(run(source).engine)
    assert until(lambda: ask(application, "/readyz")[1]["checks"]["lease"]["ok"])
    status, body = ask(application, "/readyz")
    assert (status, body["checks"]["suspects"]["ok"]) == (503, False)
    assert "when the process ended are not committed yet: 1, such as" in body["checks"]["suspects"]["detail"]
    found = figures(ask(application, "/metrics")[1])
    assert (found["watcher_sync_unclean_ends_total"], found["watcher_sync_suspect_events"]) == ({(): 1.0}, {(): 1.0})
    source.say(event)
    assert until(lambda: ask(application, "/readyz")[0] == 200)
    assert figures(ask(application, "/metrics")[1])["watcher_sync_suspect_events"] == {(): 0.0}


def test_a_database_that_is_away_is_named_and_the_engine_stays_alive(run, store):
    source = Spoken()
    running = run(source)
    application = make_application(running.engine)
    assert until(lambda: ask(application, "/readyz")[0] == 200)
    plain = store.commit

    def away(commit):
        raise DatabaseUnavailable("gone fishing")

    store.commit = away
    source.say(told(1, instance("a")))
    assert until(lambda: ask(application, "/readyz")[0] == 503)
    database = ask(application, "/readyz")[1]["checks"]["database"]
    assert database == {"ok": False, "detail": "the database is unavailable: gone fishing"}
    assert ask(application, "/healthz")[0] == 200
    assert figures(ask(application, "/metrics")[1])["watcher_sync_database_up"] == {(): 0.0}
    store.commit = plain
    assert until(lambda: ask(application, "/readyz")[0] == 200)


def test_an_engine_that_another_leads_is_alive_and_not_ready(run, conf):
    conf.set_override("standby", True, group="engine")
    first = run(Spoken())
    assert until(lambda: first.engine.leading)
    first.lose_lease()
    application = make_application(first.engine)
    assert until(lambda: ask(application, "/readyz")[1]["checks"]["lease"]["ok"] is False)
    assert ask(application, "/readyz")[0] == 503
    assert ask(application, "/healthz")[0] == 200
    assert figures(ask(application, "/metrics")[1])["watcher_sync_leading"] == {(("group", "default"),): 0.0}


def test_a_source_without_connection_is_named_once_its_time_is_over(run, clock):
    source = Spoken()
    running = run(source)
    application = make_application(running.engine, now=clock)
    assert until(lambda: ask(application, "/readyz")[0] == 200)
    source.state = SourceState.DISCONNECTED
    assert until(lambda: running.engine.source_rows()[0].state == "disconnected")
    assert ask(application, "/readyz")[0] == 200
    # The engine builds its rows again for each request, so the test moves its clock and not their "since".
    source.status = lambda: SourceStatus(state=SourceState.DISCONNECTED, detail="no route")
    running.engine.store.time.observed = clock
    clock.time = running.engine.source_rows()[0].since + datetime.timedelta(seconds=61)
    status, body = ask(application, "/readyz")
    assert (status, body["checks"]["sources"]["spoken"]) == (
        503,
        {"ok": False, "detail": "disconnected for 61 s: no route"},
    )
    shown = figures(ask(application, "/metrics")[1])
    assert shown["watcher_sync_source_stale"] == {(("source", "spoken"),): 1.0}
    assert shown["watcher_sync_source_connected"] == {(("source", "spoken"),): 0.0}


def test_the_figures_are_those_of_the_work(run):
    source = Spoken()
    source.status = lambda: SourceStatus(state=SourceState.CONNECTED, lag=17, last_event_at=NOON, reconnects=3)
    running = run(source)
    application = make_application(running.engine)
    early = Upsert("instance", "never", "1", {"lock": {"locked": True}})
    bad = told(4, lambda view: ZeroDivisionError("a bug"))
    source.say(told(1, instance("a")), told(2, instance("b")), told(3, instance("a")), bad, told(5, early))
    assert until(lambda: len(source.acked) == 5)
    assert until(lambda: running.engine.stored_counts() is not None)
    running.engine._retention.count()
    shown = figures(ask(application, "/metrics")[1])
    outcomes = {dict(k)["outcome"]: v for k, v in shown["watcher_sync_events_total"].items() if v}
    by_outcome = {"applied": 2.0, "duplicate": 1.0, "quarantined": 1.0, "parked": 1.0}
    # The test's events say that they are of a source named test.
    assert outcomes == by_outcome
    assert {dict(k)["source"] for k in shown["watcher_sync_events_total"]} == {"spoken", "test"}
    assert shown["watcher_sync_entities"][(("kind", "instance"),)] == 2
    assert (shown["watcher_sync_journal_seq"], shown["watcher_sync_changes_total"]) == ({(): 2.0}, {(): 2.0})
    assert (shown["watcher_sync_quarantined_events"], shown["watcher_sync_parked_events"]) == ({(): 1.0}, {(): 1.0})
    spoken = (("source", "spoken"),)
    assert shown["watcher_sync_source_lag_events"] == {spoken: 17.0}
    test = (("source", "test"),)
    assert shown["watcher_sync_event_delay_seconds_count"] == {test: 5.0}
    assert shown["watcher_sync_event_delay_seconds_sum"][test] > 0
    assert shown["watcher_sync_source_reconnects_total"] == {spoken: 3.0}
    assert shown["watcher_sync_source_last_event_timestamp_seconds"] == {spoken: NOON.timestamp()}
    assert shown["watcher_sync_batch_events_count"] == {(): 1.0}
    assert shown["watcher_sync_batch_events_sum"] == {(): 5.0}
    assert shown["watcher_sync_batch_events_bucket"][(("le", "2.0"),)] == 0
    assert shown["watcher_sync_batch_events_bucket"][(("le", "5.0"),)] == 1
    assert shown["watcher_sync_commit_seconds_count"] == shown["watcher_sync_commits_total"]
    assert 0 < shown["watcher_sync_commit_seconds_sum"][()] <= shown["watcher_sync_batch_seconds_sum"][()]


def test_no_label_holds_an_id(run):
    source = Spoken()
    running = run(source)
    source.say(*(told(n, instance(f"instance-{n}")) for n in range(50)))
    assert until(lambda: len(source.acked) == 50)
    text = ask(make_application(running.engine), "/metrics")[1]
    assert "instance-" not in text
    labels = {name for samples in figures(text).values() for key in samples for name, _ in key}
    assert labels == {"source", "table", "outcome", "kind", "group", "le", "version"}


def test_two_engines_of_one_process_do_not_mix_their_figures(run, conf):
    conf.set_override("standby", True, group="engine")
    # An engine recognises its lease by the name of its process, so two in one process have names of their own.
    first, second = (run(Spoken(), lease_seconds=PATIENCE_SECONDS, holder=name) for name in ("one", "two"))
    assert until(lambda: first.engine.leading or second.engine.leading)
    led = [figures(ask(make_application(r.engine), "/metrics")[1])["watcher_sync_leading"] for r in (first, second)]
    assert sorted(next(iter(one.values())) for one in led) == [0.0, 1.0]


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/", "GET", 404),
        ("/metrics/", "GET", 404),
        ("/healthz", "HEAD", 200),
        ("/metrics", "HEAD", 200),
        ("/metrics", "POST", 405),
        ("/readyz", "DELETE", 405),
    ],
)
def test_anything_else_is_refused(run, path, method, status):
    assert ask(make_application(run(Spoken()).engine), path, method)[0] == status


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_the_port_answers_over_http_and_is_closed_by_the_stop(run, conf, host):
    port = free_port(host)
    conf.set_override("port", port, group="monitoring")
    conf.set_override("host", host, group="monitoring")
    check_port(conf)
    opened = MonitoringServer(conf, make_application(run(Spoken()).engine))
    opened.start()
    try:
        assert until(lambda: _get(host, port, "/readyz") is not None)
        assert until(lambda: _get(host, port, "/readyz")[0] == 200)
        with pytest.raises(
            ConfigError, match=rf"\[monitoring\] host, port: cannot listen on {host} port {port}: .*in use"
        ):
            check_port(conf)
    finally:
        opened.stop()
    assert _get(host, port, "/readyz") is None


def test_without_a_port_nothing_is_opened(run, conf):
    check_port(conf)
    closed = MonitoringServer(conf, make_application(run(Spoken()).engine))
    closed.start()
    assert not closed._thread.is_alive()
    closed.stop()


def test_a_port_that_is_taken_for_a_while_is_opened_when_it_is_free(run, conf, monkeypatch):
    monkeypatch.setattr("watcher_sync.engine.monitoring_http._RETRY_SECONDS", 0.05)
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        conf.set_override("port", port, group="monitoring")
        opened = MonitoringServer(conf, make_application(run(Spoken()).engine))
        opened.start()
    try:
        assert until(lambda: _get("127.0.0.1", port, "/healthz") == (200, {"alive": True}))
    finally:
        opened.stop()


def _get(host, port, path):
    connection = http.client.HTTPConnection(host, port, timeout=deadline(60))
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    except ConnectionError:
        return None
    finally:
        connection.close()


class CountingServer(ThreadingServer):
    """Counts its attempts to accept a connection."""

    attempts = 0

    def get_request(self):
        self.attempts += 1
        return super().get_request()


def test_a_server_without_a_descriptor_pauses_names_the_cause_once_and_answers_afterwards(caplog):
    caplog.set_level(logging.INFO, logger="watcher_sync")
    with CountingServer(("127.0.0.1", 0), WSGIRequestHandler) as server:
        server.set_app(lambda _environ, start_response: (start_response("204 No Content", []), [])[1])
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with socket.create_connection(server.server_address, deadline(30)) as waiting:
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))  # none is free below, whatever ends meanwhile
            try:
                thread.start()
                began = time.monotonic()
                wait_until(lambda: server.attempts >= 4)
                attempts, seconds = server.attempts, time.monotonic() - began
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            waiting.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert waiting.recv(100).startswith(b"HTTP/1.0 204")
        server.shutdown()
        thread.join(deadline(30))
    assert attempts <= 2 + seconds / 0.2
    address = f"127.0.0.1 port {server.server_address[1]}"
    problem, recovery = (text for record in caplog.records if address in (text := record.getMessage()))
    assert problem.startswith(f"Cannot accept connections on {address}")
    assert problem.endswith("Too many open files")
    assert recovery.startswith(f"Accepting connections on {address}")
