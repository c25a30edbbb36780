# SPDX-License-Identifier: Apache-2.0
"""Quotas, rates, shares of the streams, and the cost of wrong or compressed input."""

from __future__ import annotations

import concurrent.futures
import gzip
import http.server
import json
import threading
import time
import tracemalloc
from typing import Annotated

import pytest

from tests.unit.api.conftest import Client
from watcher_sync.api.edge import rate_limits
from watcher_sync.api.edge.feed import Feed
from watcher_sync.api.edge.rate_limits import TokenBuckets
from watcher_sync.api.entities.writing import require_room
from watcher_sync.api.http.problems import Problem
from watcher_sync.api.http.validation import MAX_ERRORS, require_valid, validator
from watcher_sync.assembly.api import make_application
from watcher_sync.client.errors import UnexpectedResponse
from watcher_sync.commit.direct import DirectWriter
from watcher_sync.dispatch import Dispatcher
from watcher_sync.events import Event
from watcher_sync.extensions.kubernetes.source import connection as kubernetes
from watcher_sync.model.changes import Upsert
from watcher_sync.model.kinds import Entity, In, Kinds, kind
from watcher_sync.storage.database import database
from watcher_sync.storage.writing.store import Store

PATH = "/v1/service_type_instances"
VM = {"service_type": "vm"}
BATCH = {"Content-Type": "application/cloudevents-batch+json"}


def configured(conf, store, **options):
    for name, value in options.items():
        conf.set_override(name, value, group="api")
    return Client(make_application(conf, store))


def test_writes_above_the_rate_get_429_with_the_time_to_wait(conf, store, problem):
    client = configured(conf, store, write_rate=0.01, write_burst=3)
    for _ in range(3):
        assert client.simulate_post(PATH, json=VM).status_code == 201
    answer = client.simulate_post(PATH, json=VM)
    problem(answer, 429)
    assert 1 <= int(answer.headers["Retry-After"]) <= 100
    assert client.simulate_get(PATH).status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize("accept", ["text/event-stream", "text/*", "text/*, application/json;q=0.1"])
def test_streams_opened_above_the_rate_get_429(conf, store, problem, accept):
    client = configured(conf, store, stream_rate=0.01, stream_burst=2, stream_max_age=1)
    stream = {"Accept": accept}
    for _ in range(2):
        answer = client.simulate_get("/v1/events", headers=stream)
        assert answer.status_code == 200
        assert answer.headers["Content-Type"].startswith("text/event-stream")
    answer = client.simulate_get("/v1/events", headers=stream)
    problem(answer, 429)
    assert int(answer.headers["Retry-After"]) > 0
    assert client.simulate_get("/v1/events").status_code == 200


def test_long_polls_above_the_rate_of_streams_get_429(conf, store, problem):
    client = configured(conf, store, stream_rate=0.01, stream_burst=2, stream_max_age=1)
    for _ in range(2):
        assert client.simulate_get("/v1/events", params={"wait": 0.01}).status_code == 200
    answer = client.simulate_get("/v1/events", params={"wait": 0.01})
    problem(answer, 429)
    assert int(answer.headers["Retry-After"]) > 0
    problem(client.simulate_get("/v1/events", headers={"Accept": "text/event-stream"}), 429)
    assert client.simulate_get("/v1/events").status_code == 200


@pytest.mark.slow
def test_without_authentication_each_client_behind_a_trusted_proxy_has_its_own_limits(conf, store):
    rates = {"write_rate": 0.01, "write_burst": 1, "stream_rate": 0.01, "stream_burst": 1}
    client = configured(conf, store, noauth_allow_remote=True, trusted_proxies=["127.0.0.1"], **rates)
    first, second = ({"X-Forwarded-For": f"2001:db8:0:{number}::1"} for number in (1, 2))
    sibling = {"X-Forwarded-For": "2001:db8:0:1::2"}
    for headers, polled, written in ((first, 200, 201), (sibling, 429, 429), (second, 200, 201)):
        assert client.simulate_get("/v1/events", params={"wait": 0.01}, headers=headers).status_code == polled
        assert client.simulate_post(PATH, json=VM, headers=headers).status_code == written


def test_a_long_poll_that_finds_a_change_costs_nothing(conf, store, monkeypatch):
    client = configured(conf, store, stream_rate=0.01, stream_burst=1)
    wait = Feed.wait

    def wait_for_a_write(feed, since, seconds, epoch):
        assert client.simulate_post(PATH, json=VM).status_code == 201
        return wait(feed, since, seconds, epoch)

    monkeypatch.setattr(Feed, "wait", wait_for_a_write)
    for _ in range(3):
        answer = client.simulate_get("/v1/events", params={"wait": 20})
        assert answer.status_code == 200
        assert len(answer.json["events"]) == 1


def test_a_token_that_comes_back_does_not_exceed_the_bucket():
    buckets = TokenBuckets(0.1, 1, monotonic=lambda: 0.0)
    buckets.give_back(("a",))
    assert buckets.take(("a",)) == 0.0
    assert buckets.take(("a",)) > 0.0
    for _ in range(3):
        buckets.give_back(("a",))
    assert buckets.take(("a",)) == 0.0
    assert buckets.take(("a",)) > 0.0


def test_a_page_for_which_streams_are_acceptable_too_costs_no_stream(conf, store):
    client = configured(conf, store, stream_rate=0.01, stream_burst=1)
    pages = {"Accept": "application/json, text/event-stream;q=0.5"}
    for _ in range(3):
        assert client.simulate_get("/v1/events", headers=pages).status_code == 200


def test_each_identity_has_a_bucket_of_its_own_that_fills_again():
    now = [0.0]
    buckets = TokenBuckets(2.0, 1, monotonic=lambda: now[0])
    assert buckets.take(("user", "a", "p")) == 0.0
    assert buckets.take(("user", "a", "p")) == 0.5
    assert buckets.take(("user", "a", "q")) == 0.0
    now[0] = 0.5
    assert buckets.take(("user", "a", "p")) == 0.0


def test_the_buckets_of_many_identities_need_bounded_memory(monkeypatch):
    monkeypatch.setattr(rate_limits, "MAX_IDENTITIES", 100)
    buckets = TokenBuckets(1.0, 1)
    for number in range(1000):
        buckets.take(("address", str(number)))
    assert len(buckets) == 100


def test_an_identity_is_the_token_or_else_the_address():
    confirmed = {"HTTP_X_IDENTITY_STATUS": "Confirmed", "HTTP_X_USER_ID": "u", "HTTP_X_PROJECT_ID": "p"}
    assert rate_limits.identity_of({**confirmed, "REMOTE_ADDR": "::1"}) == ("user", "u", "p")
    forged = {**confirmed, "HTTP_X_IDENTITY_STATUS": "Invalid", "REMOTE_ADDR": "192.0.2.1"}
    assert rate_limits.identity_of(forged) == ("address", "192.0.2.1")


def test_one_identity_cannot_take_all_streams(store):
    feed = Feed(store.database, store.tables, slots=3, slots_per_identity=2, interval=1.0)
    mine = [feed.take_slot(("a",)) for _ in range(2)]
    with pytest.raises(Problem) as refused:
        feed.take_slot(("a",))
    assert refused.value.status == 429
    assert refused.value.headers["Retry-After"]
    other = feed.take_slot(("b",))
    with pytest.raises(Problem) as refused:
        feed.take_slot(("c",))
    assert refused.value.status == 503
    mine[0].release()
    feed.take_slot(("a",)).release()
    other.release()


@kind(name="vnf_instance", plural="vnf_instances", indexes=("project_id",))
class Owned(Entity, frozen=True, kw_only=True, gc=False):
    """A small kind with a project."""

    project_id: Annotated[str | None, In("state")] = None


@pytest.fixture
def owned(conf, tmp_path):
    conf.set_override("connection", f"sqlite:///{tmp_path / 'owned.sqlite'}", group="database")
    store = Store(database.open_database(conf), Kinds(Owned))
    store.tables.metadata.create_all(store.database)
    with store.database.begin() as connection:
        connection.execute(store.tables.journal_head.insert().values(id=1, seq=0))
    yield store
    store.close()
    store.database.dispose()


def test_concurrent_writes_cannot_pass_the_quota_of_a_project(owned):
    declared = owned.kinds["vnf_instance"]
    writer = DirectWriter(owned, Dispatcher([]))

    def create(number, project="p"):
        values = {"project_id": project}
        try:
            with writer.begin() as cycle:
                require_room(cycle, declared, None, values, 5)
                event = Event(id=f"{project}{number}", type="test", source="api")
                cycle.write(
                    event, [Upsert(declared.name, f"{project}{number}", cycle.next_version(), {"state": values})]
                )
        except Problem as exc:
            return exc.status
        return 201

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(create, range(20)))
    assert sorted(statuses) == [201] * 5 + [403] * 15
    assert create(1, "other") == 201


def test_a_body_with_a_hundred_thousand_wrong_entries_is_refused_soon():
    wrong = validator({"type": "array", "items": {"type": "object", "required": ["id"]}})
    began = time.thread_time()
    with pytest.raises(Problem) as refused:
        require_valid([{} for _ in range(100_000)], wrong, "body", "The body")
    assert time.thread_time() - began < 3
    assert len(refused.value.errors) == MAX_ERRORS == 10


def test_entries_in_excess_are_not_validated(client, problem):
    event = {"specversion": "1.0", "id": "1", "source": "s", "type": "t"}
    began = time.thread_time()
    answer = client.simulate_post("/v1/events", body=json.dumps([event] * 8000), headers=BATCH)
    assert time.thread_time() - began < 3
    assert problem(answer, 400)["errors"][0]["detail"] == "has more than 1000 entries"


class _Bomb(http.server.BaseHTTPRequestHandler):
    """Answers with 200 MB of spaces in 0.2 MB."""

    body = b""
    status = 200

    def do_GET(self):
        self.send_response(self.status)
        for name, value in (("Content-Encoding", "gzip"), ("Content-Length", str(len(self.body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format, *args):
        """Says nothing."""


@pytest.fixture(scope="module")
def bomb():
    _Bomb.body = gzip.compress(b" " * 200_000_000)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Bomb)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def bounded(function, most):
    tracemalloc.start()
    try:
        function()
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("status", [200, 500])
def test_a_compressed_answer_of_an_api_server_cannot_fill_the_memory(bomb, tmp_path, monkeypatch, status):
    monkeypatch.setattr(_Bomb, "status", status)
    file = tmp_path / "kubeconfig"
    cluster = {"name": "c", "cluster": {"server": bomb}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    file.write_text(
        json.dumps({"clusters": [cluster], "contexts": [context], "users": [{"name": "u", "user": {}}],
                    "current-context": "x"})
    )  # fmt: skip
    access = kubernetes.Access(kubeconfig=str(file))
    connection = kubernetes.ApiConnection(access, connect_timeout=60, read_timeout=60)
    most = kubernetes.MAX_ANSWER_BYTES if status == 200 else 1024 * 1024

    def read():
        with pytest.raises(kubernetes.TransportError, match=f"more than {most} bytes"):
            connection.read("/version")

    bounded(read, 2 * most + 20_000_000)
    connection.close()


@pytest.mark.slow
def test_a_compressed_answer_cannot_fill_the_memory_of_the_client(bomb, monkeypatch):
    from keystoneauth1 import adapter, noauth, session

    from watcher_sync.client import transport

    monkeypatch.setattr(transport, "MAX_ANSWER_BYTES", 10_000_000)
    client = transport.Transport(adapter.Adapter(session.Session(auth=noauth.NoAuth(endpoint=bomb))))

    def read():
        with pytest.raises(UnexpectedResponse, match="more than 10000000 bytes"):
            client.request("GET", "/v1")

    bounded(read, 40_000_000)


def test_a_body_that_ends_before_its_declared_length_is_400(client):
    text = b'{"service_type": "vm"}'
    headers = {"Content-Type": "application/json", "Content-Length": str(len(text) + 10)}
    answer = client.simulate_put("/v1/service_type_instances/a", body=text, headers=headers)
    assert (answer.status_code, answer.json["detail"]) == (400, "The body ends before its declared length")
