# SPDX-License-Identifier: Apache-2.0
"""Tokens, roles and projects, through keystonemiddleware with its own fixture."""

from __future__ import annotations

import uuid

import falcon.testing
import pytest
from keystonemiddleware.fixture import AuthTokenFixture
from oslo_policy import policy

from tests.unit.api.conftest import Client
from tests.unit.extensions.dcm.api.test_service_type_instances import PATH, VM
from watcher_sync.assembly.api import make_application
from watcher_sync.conf import keystone

pytestmark = pytest.mark.slow

ELSEWHERE = "f" * 32


@pytest.fixture
def tokens():
    """Adds tokens; gives their headers."""
    with AuthTokenFixture() as fixture:

        def token(*roles, project_id=ELSEWHERE, user_id="u" * 32):
            made = uuid.uuid4().hex
            fixture.add_token_data(
                token_id=made,
                user_id=user_id,
                user_name="somebody",
                project_id=project_id,
                project_name="some",
                role_list=list(roles),
            )
            return {"X-Auth-Token": made}

        yield token


@pytest.fixture
def conf(conf):
    """With a Keystone that no test contacts, because the fixture knows all tokens."""
    conf.set_override("auth_strategy", "keystone", group="api")
    keystone.register_opts(conf)
    conf.set_override("auth_url", "http://keystone.invalid/v3", group=keystone.GROUP)
    return conf


@pytest.fixture
def client(conf, store, tokens):
    return Client(make_application(conf, store))


def test_without_a_token_and_with_a_wrong_one_it_is_401(client, problem):
    result = client.simulate_get("/v1/compute_nodes")
    problem(result, 401)
    assert result.headers["www-authenticate"].startswith("Keystone")
    problem(client.simulate_get("/v1/compute_nodes", headers={"X-Auth-Token": "made-up"}), 401)
    problem(client.simulate_post(PATH, json=VM), 401)


def test_identity_headers_of_the_caller_are_not_believed(client, problem):
    forged = {"X-Identity-Status": "Confirmed", "X-Roles": "admin", "X-User-Id": "me"}
    problem(client.simulate_get("/v1/compute_nodes", headers=forged), 401)


def test_the_version_and_the_document_are_for_everybody(client):
    for path in ("/versions", "/v1", "/openapi.json"):
        assert client.simulate_get(path).status_code == 200


def test_a_reader_reads_and_cannot_write(client, truth, tokens, problem):
    headers = tokens("reader")
    assert client.simulate_get("/v1/instances", headers=headers).json["instances"] == []
    problem(client.simulate_post(PATH, json=VM, headers=headers), 403)
    problem(client.simulate_put(f"{PATH}/a", json=VM, headers=headers), 403)
    problem(client.simulate_delete(f"{PATH}/a", headers=headers), 403)
    for path in ("/v1/compute_nodes", "/v1/topology", "/v1/sources", "/v1/quarantine"):
        problem(client.simulate_get(path, headers=headers), 403)


def test_a_member_writes_and_cannot_bring_events_in(client, tokens, problem):
    headers = tokens("member")
    assert client.simulate_put(f"{PATH}/a", json=VM, headers=headers).status_code == 201
    problem(client.simulate_post("/v1/events", headers=headers), 403)
    problem(client.simulate_get("/v1/quarantine", headers=headers), 403)


def test_a_caller_without_a_role_of_ours_is_refused(client, tokens, problem):
    problem(client.simulate_get("/v1/compute_nodes", headers=tokens("heat_stack_user")), 403)


def test_a_project_sees_its_own_instances_and_no_others(client, store, truth, tokens, problem):
    instances = list(store.load().snapshot().all("instance"))
    mine = instances[0].project_id
    other = next((i for i in instances if i.project_id != mine), None)
    headers = tokens("reader", project_id=mine)
    found = client.simulate_get("/v1/instances", headers=headers).json["instances"]
    assert {e["id"] for e in found} == {i.id for i in instances if i.project_id == mine}
    assert client.simulate_get(f"/v1/instances/{instances[0].id}", headers=headers).status_code == 200
    assert client.simulate_get(f"/v1/instances/{instances[0].id}/history", headers=headers).status_code == 200
    if other is not None:
        problem(client.simulate_get(f"/v1/instances/{other.id}", headers=headers), 404)
    stranger = tokens("reader", "member")
    assert client.simulate_get("/v1/instances", headers=stranger).json["instances"] == []
    problem(client.simulate_get(f"/v1/instances/{instances[0].id}", headers=stranger), 404)
    problem(client.simulate_get(f"/v1/instances/{instances[0].id}/history", headers=stranger), 404)
    problem(client.simulate_get("/v1/instances", params={"project_id": mine}, headers=stranger), 403)
    everything = client.simulate_get("/v1/instances", headers=tokens("admin")).json["instances"]
    assert len(everything) == len(instances)


def test_the_history_of_a_deleted_instance_stays_with_its_project(client, store, truth, tokens, problem):
    alive = set(store.load().snapshot().ids("instance"))
    with store.database.connect() as connection:
        t = store.tables.journal
        rows = connection.execute(t.select().where(t.c.kind == "instance", t.c.change == "deleted")).all()
    row = next(r for r in rows if r.entity_id not in alive and "project_id" in r.delta)
    owner = row.delta["project_id"][0]
    path = f"/v1/instances/{row.entity_id}/history"
    assert client.simulate_get(path, headers=tokens("reader", project_id=owner)).json["history"]
    problem(client.simulate_get(path, headers=tokens("reader")), 404)


def test_a_policy_file_overrides_the_defaults(conf, store, tokens, problem, tmp_path):
    file = tmp_path / "policy.yaml"
    file.write_text('"compute_nodes:list": "role:reader"\n')
    conf.set_override("auth_strategy", "keystone", group="api")
    policy.Enforcer(conf)  # registers the options; a changed default would hold for every later test
    conf.set_override("policy_file", str(file), group="oslo_policy")
    client = Client(make_application(conf, store))
    assert client.simulate_get("/v1/compute_nodes", headers=tokens("reader")).status_code == 200
    problem(client.simulate_get("/v1/aggregates", headers=tokens("reader")), 403)


def test_the_page_is_for_everybody(client):
    for path in ("/", "/static/app.js"):
        assert client.simulate_get(path).status_code == 200


def test_a_stream_is_sent_as_it_comes_and_gives_its_place_back(conf, store, tokens, truth):
    conf.set_override("max_streams", 1, group="api")
    application = make_application(conf, store)
    headers = {"Accept": "text/event-stream", **tokens("admin")}
    for _ in range(3):
        environ = falcon.testing.create_environ("/v1/events", query_string="since=0", headers=headers)
        started = []
        body = application(environ, lambda status, headers, *_, reported=started: reported.append(status))
        chunks = iter(body)
        assert next(chunks).startswith(b"retry:")
        assert b"\ndata: " in next(chunks)
        assert started == ["200 OK"]
        body.close()


def test_versions_are_for_callers_who_see_everything(client, truth, tokens, problem):
    for path in ("/v1/instances", "/v1/aggregates"):
        problem(client.simulate_get(path, params={"versions": "true"}, headers=tokens("reader", "member")), 403)
        problem(client.simulate_get("/v1/states", headers=tokens("reader", "member")), 403)
        assert client.simulate_get("/v1/states", headers=tokens("admin")).json["states"]
        found = client.simulate_get(path, params={"versions": "true"}, headers=tokens("admin"))
        assert found.json[path.rpartition("/")[2]][0]["versions"]
