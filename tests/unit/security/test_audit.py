# SPDX-License-Identifier: Apache-2.0
"""Who changed what: the actor in the journal, request ids, the access log, the audit log and CADF notifications."""

from __future__ import annotations

import configparser
import io
import json
import logging
import queue
import re

import msgspec
import pytest
from oslo_config import cfg
from oslo_log import formatters
from oslo_log import log as oslo_logging
from oslo_service import backend

from tests.simulated import cloud, nova
from tests.syncing import syncing_with
from tests.unit.api import conftest as api
from tests.unit.api import test_keystone as keystone
from tests.unit.extensions.dcm.api.test_service_type_instances import PATH as SERVICES
from tests.unit.extensions.dcm.api.test_service_type_instances import VM
from tests.unit.extensions.vnf.api.test_instances import DEMO, PATH
from tests.unit.extensions.vnf.api.test_sync import Syncing
from tests.waiting import deadline
from watcher_sync.api.service import Service
from watcher_sync.assembly.api import make_routes
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.dispatch import load_handlers
from watcher_sync.exceptions import ConfigError
from watcher_sync.storage.stored.stored_events import RefusedEvent
from watcher_sync.storage.writing.commits import Commit
from watcher_sync.testing.dcm import publisher as dcm

backend.init_backend(backend.BackendType.THREADING)  # before oslo.messaging is imported

conf = api.conf
store = api.store
problem = api.problem
tokens = keystone.tokens

STRUCTURED = "application/cloudevents+json"
PROJECT, USER = "a" * 32, "u" * 32
CLOUD_EVENT = {**dcm.status(provider="kubevirt"), "data": {"id": "s1", "status": "RUNNING"}}


@pytest.fixture
def client(conf, store, tokens):
    conf.set_override("auth_strategy", "keystone", group="api")
    return api.Client(api.make_application(conf, store, extensions=syncing_with(Syncing(store))))


@pytest.fixture
def headers(tokens):
    """Those of an administrator, whose rights every write needs."""
    return tokens("admin", "member", "reader", project_id=PROJECT)


def journal(client, headers):
    return client.simulate_get("/v1/events", query_string="since=0", headers=headers).json["events"]


def test_every_write_by_the_api_has_its_actor_in_the_journal(client, headers):
    written = [
        client.simulate_post(SERVICES, json={"id": "s1", **VM}, headers=headers),
        client.simulate_put(f"{SERVICES}/s1", json={**VM, "instance_name": "new"}, headers=headers),
        client.simulate_post(
            "/v1/events", body=json.dumps(CLOUD_EVENT), headers={**headers, "Content-Type": STRUCTURED}
        ),
        client.simulate_delete(f"{SERVICES}/s1", headers=headers),
        client.simulate_put(f"{PATH}/a", json=DEMO, headers=headers),
        client.simulate_delete(f"{PATH}/a", headers=headers),
    ]
    assert [answer.status_code for answer in written] == [201, 200, 200, 204, 201, 204]
    written.insert(3, written[2])  # the event also binds its source
    rows = journal(client, headers)
    assert len(rows) == len(written)
    for row, answer in zip(rows, written, strict=True):
        request_id = answer.headers["X-OpenStack-Request-ID"]
        assert row["actor"] == {"id": USER, "project_id": PROJECT, "request_id": request_id}
    history = client.simulate_get(f"{SERVICES}/s1/history", headers=headers).json["history"]
    assert [row["actor"] for row in history] == [row["actor"] for row in rows if row["id"] == "s1"]


def test_a_replayed_event_has_the_actor_of_the_replay(client, headers, store):
    events, _ = cloud(seed=7, n=20)
    cycle = CommitCycle(store, store.load(), nova())
    cycle.run(Batch(events=events[1:]))
    before = len(journal(client, headers))
    recorded = msgspec.structs.replace(events[0], source="replay")  # a source that may be replayed by its name
    store.commit(Commit(generation=before, quarantined=[RefusedEvent(event=recorded, reason="made up", detail="")]))
    replayed = client.simulate_post("/v1/quarantine/1/replay", headers=headers)
    assert replayed.json["outcome"] == "applied", replayed.text
    rows = journal(client, headers)
    assert {row["actor"]["request_id"] for row in rows[before:]} == {replayed.headers["X-OpenStack-Request-ID"]}


def test_a_reader_of_another_project_does_not_see_the_actor(client, headers, tokens):
    client.simulate_put(f"{SERVICES}/s1", json=VM, headers=headers)
    for project, shown in ((PROJECT, True), ("b" * 32, False)):
        reader = tokens("reader", project_id=project)
        answer = client.simulate_get(f"{SERVICES}/s1/history", headers=reader)
        if answer.status_code == 200:
            assert [row["actor"] is not None for row in answer.json["history"]] == [shown]
        assert shown or USER not in answer.text


REQUEST_ID = re.compile(r"req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def test_every_answer_and_every_problem_has_the_id_of_its_request(client, headers, problem):
    answers = [
        client.simulate_get("/v1/instances", headers=headers),
        client.simulate_get("/v1/instances"),
        client.simulate_get("/no/such/path", headers=headers),
        client.simulate_get("/healthcheck"),
        client.simulate_put(f"{PATH}/a", json={}, headers=headers),
    ]
    assert [answer.status_code for answer in answers] == [200, 401, 404, 200, 400]
    ids = [answer.headers["X-OpenStack-Request-ID"] for answer in answers]
    assert all(REQUEST_ID.fullmatch(request_id) for request_id in ids)
    assert len(set(ids)) == len(ids)
    for answer in (answers[1], answers[2], answers[4]):
        assert problem(answer, answer.status_code)["request_id"] == answer.headers["X-OpenStack-Request-ID"]


@pytest.mark.parametrize("given", ["req-1", "x" * 5000, "req-" + "A" * 36, "req-00000000-0000-0000-0000-00000000000g"])
def test_an_id_of_the_caller_in_another_form_is_ignored(client, headers, given, logged):
    answer = client.simulate_get("/v1/instances", headers={**headers, "X-OpenStack-Request-ID": given})
    own = answer.headers["X-OpenStack-Request-ID"]
    assert REQUEST_ID.fullmatch(own)
    assert given not in "".join(logged()).replace(own, "")  # our own id begins with "req-1" now and then


def test_the_id_of_the_caller_is_the_global_id_in_the_logs(client, headers, logged):
    given = "req-00000000-0000-0000-0000-000000000001"
    answer = client.simulate_get("/v1/instances", headers={**headers, "X-OpenStack-Request-ID": given})
    own = answer.headers["X-OpenStack-Request-ID"]
    assert own != given
    line = logged()[-1]
    assert f"[{given} {own} {USER} {PROJECT}" in line


@pytest.fixture
def logged():
    """The lines that oslo.log writes with the default formats."""
    settings = cfg.ConfigOpts()
    oslo_logging.register_options(settings)
    settings([], default_config_files=[], default_config_dirs=[])
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatters.ContextFormatter(config=settings, project="watcher-sync", version="1"))
    logger = logging.getLogger("watcher_sync")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield lambda: stream.getvalue().splitlines()
    logger.removeHandler(handler)
    logger.setLevel(before)


def test_the_access_log_has_a_line_for_each_request_and_no_secret(client, headers, logged):
    client.simulate_put(f"{PATH}/a", json=DEMO, headers=headers)
    lease = client.simulate_post(
        f"{PATH}/a/operations", json={"operation": "SCALE", "holder": "lcm"}, headers=headers
    ).json
    own = {**headers, "Operation-Secret": lease["secret"], "Operation-Token": str(lease["token"])}
    client.simulate_put(f"{PATH}/a/operations/{lease['id']}", headers=own)
    client.simulate_put(f"{PATH}/a", json=DEMO, headers=own)
    client.simulate_delete(f"{PATH}/a/operations/{lease['id']}", query_string="state=FAILED", headers=own)
    answer = client.simulate_get("/v1/vnf_instances", query_string="name=hidden", headers=headers)
    lines = logged()
    access = [line for line in lines if " watcher_sync.access " in line]
    assert len(access) == 6
    expected = f'"GET /v1/vnf_instances" status: {answer.status_code} bytes: {len(answer.content)} ms: '
    assert expected in access[-1]
    request_id = answer.headers["X-OpenStack-Request-ID"]
    assert f"user: {USER} project: {PROJECT} request: {request_id}" in access[-1]
    text = "\n".join(lines)
    for secret in (lease["secret"], headers["X-Auth-Token"], "hidden"):
        assert secret not in text


def test_a_write_is_in_the_audit_log_even_without_an_access_log_and_without_a_journal_row(
    conf, store, tokens, headers, logged
):
    conf.set_override("access_log", False, group="api")
    conf.set_override("auth_strategy", "keystone", group="api")
    client = api.Client(api.make_application(conf, store))
    event = cloud(seed=7, n=1)[0][0]
    store.commit(Commit(generation=0, quarantined=[RefusedEvent(event=event, reason="made up", detail="")]))
    assert client.simulate_delete("/v1/quarantine/1", headers=headers).status_code == 204
    client.simulate_get("/v1/quarantine", headers=headers)
    client.simulate_delete("/v1/quarantine/1", headers=tokens("reader", user_id="r" * 32))
    assert not [line for line in logged() if " watcher_sync.access " in line]
    lines = [line for line in logged() if " watcher_sync.audit " in line]
    assert len(lines) == 2
    assert f'"DELETE /v1/quarantine/1" status: 204 user: {USER} project: {PROJECT} request: req-' in lines[0]
    assert f'"DELETE /v1/quarantine/1" status: 403 user: {"r" * 32}' in lines[1]


def test_a_forged_identity_is_in_no_log(conf, store, logged):
    client = api.Client(api.make_application(conf, store))
    forged = dict.fromkeys(("X-User-Id", "X-Project-Id", "X-User-Name"), "impostor")
    for path in ("/healthcheck", "/v1/instances", "/nothing"):
        client.simulate_get(path, headers=forged)
    text = "".join(logged())
    assert "impostor" not in text
    assert "user: noauth" in text


@pytest.mark.slow
def test_a_cadf_notification_of_a_write_goes_out(conf, store, tokens, headers):
    conf.set_override("auth_strategy", "keystone", group="api")
    conf.set_override("audit", True, group="api")
    conf.set_override("audit_map_file", "etc/watcher-sync/api_audit_map.conf", group="api")
    import oslo_messaging

    url = "kombu+memory:////"
    transport = oslo_messaging.get_notification_transport(conf, url=url)
    conf.set_override("driver", ["messagingv2"], group="oslo_messaging_notifications")
    conf.set_override("transport_url", url, group="oslo_messaging_notifications")
    client = api.Client(api.make_application(conf, store))
    received = queue.Queue()

    class Endpoint:
        def info(self, _context, _publisher, event_type, payload, _metadata):
            received.put((event_type, payload))

    targets = [oslo_messaging.Target(topic="notifications")]
    listener = oslo_messaging.get_notification_listener(transport, targets, [Endpoint()], executor="threading")
    listener.start()
    try:
        answer = client.simulate_put(f"{PATH}/a", json=DEMO, headers=headers)
        client.simulate_get(f"{PATH}/a", headers=headers)
        found = [received.get(timeout=deadline(60)) for _ in range(2)]
    finally:
        listener.stop()
        listener.wait()
    assert [event_type for event_type, _ in found] == ["audit.http.request", "audit.http.response"]
    payload = found[1][1]
    assert (payload["action"], payload["outcome"]) == ("update", "success")
    assert payload["initiator"]["id"] == USER
    assert payload["initiator"]["project_id"] == PROJECT
    assert payload["initiator"]["request_id"] == answer.headers["X-OpenStack-Request-ID"]
    assert payload["requestPath"] == f"{PATH}/a"
    assert headers["X-Auth-Token"] not in str(payload)
    assert received.empty()


def test_the_map_of_the_audit_knows_every_path_of_the_api(conf, store):
    known = configparser.ConfigParser()
    known.read("etc/watcher-sync/api_audit_map.conf")
    words = {*known["path_keywords"], *known["custom_actions"]}
    routes = make_routes(Service(conf, store), load_handlers(conf))
    paths = {template for template, _ in routes if template.startswith("/v1")}
    assert {word for path in paths for word in path.split("/") if word and "{" not in word} <= words


def test_an_audit_without_a_map_is_refused_at_the_start(conf, store):
    conf.set_override("audit", True, group="api")
    conf.set_override("audit_map_file", "/no/such/file", group="api")
    with pytest.raises(ConfigError, match=r"\[api\] audit_map_file: /no/such/file: No such file"):
        api.make_application(conf, store)
