# SPDX-License-Identifier: Apache-2.0
"""A subscription belongs to the project of its instance: three projects, and what each learns of the others'."""

from __future__ import annotations

import json

import pytest
from keystonemiddleware.fixture import AuthTokenFixture

from tests.unit.api.conftest import conf, problem, store  # noqa: F401 - fixtures
from tests.unit.extensions.vnf.api.test_instances import DEMO, demo, written
from tests.unit.security.callers import NODE, OTHER, OWN, SERVER, Api, token
from watcher_sync.extensions.webhooks.secrets import new_key
from watcher_sync.extensions.webhooks.subscriptions import Subscriptions
from watcher_sync.model.changes import Upsert

pytestmark = pytest.mark.slow

THIRD = "c" * 32
BASE = f"/v1/instance/{SERVER}/status/subscription"
ABSENT = "/v1/instance/does-not-exist/status/subscription"
BODY = {"name": "one", "callback-url": "https://receiver.example.com/hook?key=1"}
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
def api(conf, store):  # noqa: F811
    conf.set_override("secret_keys", [new_key()], group="outlet_webhook")
    with AuthTokenFixture() as fixture:
        api = Api(conf, store, fixture)
        api.fill()
        api._headers["third"] = token(fixture, ["member", "reader"], project_id=THIRD)
        yield api


@pytest.fixture
def rows(store):  # noqa: F811
    return Subscriptions(store.database, store.tables)


def server(api, entity_id, project_id):
    """Another server, of a project."""
    facets = {"state": {"state": "active"}, "details": {"project_id": project_id}, "placement": {"host": NODE}}
    written(api.cycle, Upsert("instance", entity_id, "1", facets))
    return f"/v1/instance/{entity_id}/status/subscription"


def answered(result, *names):
    """The status and the text of an answer, without the names and the id of the request."""
    text = result.text.replace(result.headers["X-OpenStack-Request-ID"], "REQUEST")
    for name in names:
        text = text.replace(name, "NAME")
    return result.status_code, text


def requests_of(name="one"):
    """Every request on a subscription: method, path below the list, body."""
    return [
        ("GET", f"/{name}", None),
        ("PUT", f"/{name}", {**BODY, "name": name}),
        ("DELETE", f"/{name}", None),
        ("POST", f"/{name}/test", None),
        ("POST", f"/{name}/replay", {"since": 0}),
        ("GET", f"/{name}/deliveries", None),
    ]


@pytest.mark.parametrize("caller", ["stranger", "third"])
def test_anothers_instance_and_its_subscriptions_do_not_exist(api, caller):
    assert api("member", "POST", BASE, json=BODY).status_code == 201
    for method, path, body in [("GET", "", None), ("POST", "", BODY), *requests_of()]:
        there = answered(api(caller, method, f"{BASE}{path}", json=body), SERVER)
        assert there == answered(api(caller, method, f"{ABSENT}{path}", json=body), "does-not-exist"), (method, path)
        assert there[0] == 404
    assert api(caller, "GET", BASE.removesuffix("/subscription")).status_code == 404
    assert api(caller, "GET", "/v1/subscriptions").json["subscriptions"] == []
    assert [one["name"] for one in api("member", "GET", BASE).json] == ["one"]


def test_each_project_lists_its_own_subscriptions(api):
    paths = {"member": BASE, "stranger": server(api, "s2", OTHER), "third": server(api, "s3", THIRD)}
    for caller, path in paths.items():
        assert api(caller, "POST", path, json=BODY).status_code == 201
    everything = {one["project-id"] for one in api("admin", "GET", "/v1/subscriptions").json["subscriptions"]}
    assert everything == {OWN, OTHER, THIRD}
    for caller, project_id in (("member", OWN), ("stranger", OTHER), ("third", THIRD)):
        (one,) = api(caller, "GET", "/v1/subscriptions").json["subscriptions"]
        assert one["project-id"] == project_id
        assert api(caller, "GET", "/v1/subscriptions?all_projects=true").status_code == 403
    (own,) = api("admin", "GET", "/v1/subscriptions?all_projects=false").json["subscriptions"]
    assert own["project-id"] == OWN
    assert len(api("system_reader", "GET", "/v1/subscriptions?all_projects=true").json["subscriptions"]) == 3
    assert api("system_reader", "GET", "/v1/subscriptions?all_projects=false").json["subscriptions"] == []


def test_a_subscription_belongs_to_the_project_of_the_instance_whichever_caller_creates_it(api, rows):
    for number, caller in enumerate(("member", "admin", "system_admin")):
        made = api(caller, "POST", BASE, json={**BODY, "name": f"n{number}"})
        assert made.json["project-id"] == OWN
        assert rights(rows, f"n{number}") == (caller != "member",) * 2


def rights(rows, name="one"):
    stored = rows.find(SERVER, name)[0]
    return stored.sees_admin_only, stored.sees_all_projects


@pytest.mark.parametrize("owner", ["member", "admin", "system_admin"])
@pytest.mark.parametrize("writer", ["member", "admin", "system_admin"])
def test_a_writer_never_lifts_the_rights_of_a_subscription_and_never_becomes_its_owner(api, rows, owner, writer):
    assert api(owner, "POST", BASE, json=BODY).status_code == 201
    before = rows.find(SERVER, "one")[0]
    assert api(writer, "PUT", f"{BASE}/one", json={**BODY, "payload": "full"}).status_code == 200
    after = rows.find(SERVER, "one")[0]
    assert after.payload == "full"
    assert rights(rows) == ("member" not in (owner, writer),) * 2
    assert (after.user_id, after.project_id) == (before.user_id, before.project_id)


@pytest.mark.parametrize("call", [("POST", "/one/replay", {"since": 0}), ("POST", "/one/test", None)])
def test_an_administrator_who_replays_or_tests_a_subscription_leaves_its_rights(api, rows, call):
    assert api("member", "POST", BASE, json=BODY).status_code == 201
    before = rows.find(SERVER, "one")[0]
    method, path, body = call
    assert api("admin", method, f"{BASE}{path}", json=body).status_code == 202
    assert rights(rows) == (False, False)
    assert rows.find(SERVER, "one")[0].user_id == before.user_id


def test_the_owner_of_a_subscription_may_lift_its_rights_with_a_role_that_it_got(api, rows):
    assert api("admin", "POST", BASE, json=BODY).status_code == 201
    assert api("member", "PUT", f"{BASE}/one", json=BODY).status_code == 200
    assert rights(rows) == (False, False)
    assert api("system_admin", "PUT", f"{BASE}/one", json=BODY).status_code == 200
    assert rights(rows) == (False, False)
    assert api("admin", "PUT", f"{BASE}/one", json=BODY).status_code == 200
    assert rights(rows) == (True, True)


def test_an_instance_without_a_project_is_for_administrators(api, rows):
    path = server(api, "nobodys", None)
    assert api("member", "POST", path, json=BODY).status_code == 404
    made = api("system_admin", "POST", path, json=BODY)
    assert (made.status_code, made.json["project-id"]) == (201, None)
    assert api("member", "GET", f"{path}/one").status_code == 404
    assert api("system_reader", "GET", f"{path}/one").status_code == 200
    assert api("system_reader", "DELETE", f"{path}/one").status_code == 403


def test_a_reader_sees_subscriptions_without_the_query_of_the_callback_and_changes_none(api):
    assert api("member", "POST", BASE, json=BODY).json["callback-url"].endswith("?key=1")
    for caller in ("reader", "system_reader"):
        shown = [
            api(caller, "GET", f"{BASE}/one").json,
            api(caller, "GET", BASE).json[0],
            api(caller, "GET", "/v1/subscriptions").json["subscriptions"][0],
        ]
        assert {one["callback-url"] for one in shown} == {"https://receiver.example.com/hook"}
        for method, path, body in requests_of():
            if method != "GET":
                assert api(caller, method, f"{BASE}{path}", json=body).status_code == 403
    assert api("admin", "GET", f"{BASE}/one").json["callback-url"].endswith("?key=1")


def test_a_field_that_tells_of_hosts_is_no_filter_of_a_project(api):
    body = {**BODY, "fields": ["state", "host"]}
    refused = api("member", "POST", BASE, json=body)
    assert refused.status_code == 403
    assert "admin_only_fields" in refused.text
    assert api("admin", "POST", BASE, json=body).status_code == 201


def test_the_status_tells_a_project_of_no_host_and_of_no_other_project(api):
    vnf = api.made("vnf_instances", namespace="n")
    common = {"cluster": "edge", "namespace": "n", "node": NODE}
    workload = {"cluster": "edge", "namespace": "n", "project_id": OWN, "kind": "Deployment", "name": "vdu1"}
    written(
        api.cycle,
        Upsert("workload", "w", "1", {"state": workload}),
        Upsert("pod", "p1", "1", {"state": {**common, "project_id": OWN, "owner_uid": "w", "name": "p1"}}),
        Upsert("pod", "p2", "1", {"state": {**common, "project_id": OTHER, "owner_uid": "w", "name": "p2"}}),
    )
    path = f"/v1/instance/{vnf}/status?payload=full"
    shown = api("member", "GET", path)
    assert [one["id"] for one in shown.json["resourcesStatus"]] == ["p1", "w"]
    assert NODE not in shown.text
    assert [one["id"] for one in api("admin", "GET", path).json["resourcesStatus"]] == ["p1", "p2", "w"]
    assert NODE in api("admin", "GET", path).text


def test_an_own_instance_is_found_beside_one_of_another_project_with_the_same_id(api):
    """A tenant chooses the ids of VNF instances. That of another's server hides nothing."""
    theirs = {"id": SERVER, **demo(namespace="theirs")}
    assert api("stranger", "POST", "/v1/vnf_instances", json=theirs).status_code == 201
    status = f"/v1/instance/{SERVER}/status"
    assert api("member", "GET", status).json["request"]["kind"] == "instance"
    assert api("stranger", "GET", status).json["request"]["kind"] == "vnf_instance"
    assert api("stranger", "POST", BASE, json={**BODY, "name": "theirs"}).status_code == 201
    assert api("member", "POST", BASE, json=BODY).json["instance-kind"] == "instance"
    assert [one["name"] for one in api("member", "GET", BASE).json] == ["one"]
    assert [one["name"] for one in api("stranger", "GET", BASE).json] == ["theirs"]
    assert api("member", "GET", f"{BASE}/theirs").status_code == 404


def test_a_moved_instance_leaves_its_subscriptions_with_their_project(api):
    vnf = api.made("vnf_instances")
    path = f"/v1/instance/{vnf}/status/subscription"
    assert api("member", "POST", path, json=BODY).status_code == 201
    moved = api("admin", "PUT", f"/v1/vnf_instances/{vnf}", json={**DEMO, "project_id": OTHER})
    assert moved.status_code == 200
    assert api("stranger", "GET", path).json == []
    assert api("stranger", "GET", f"{path}/one").status_code == 404
    # The new owner may use the name, too.
    assert api("admin", "POST", path, json=BODY).status_code == 201
    assert [one["name"] for one in api("member", "GET", path).json] == ["one"]
    assert api("member", "DELETE", f"{path}/one").status_code == 202
    assert api("member", "GET", path).status_code == 404
    assert api("stranger", "GET", f"{path}/one").status_code == 200


def test_a_project_has_at_most_as_many_subscriptions_as_the_site_allows(api, conf, store, problem):  # noqa: F811
    conf.set_override("max_subscriptions_per_project", 2, group="outlet_webhook")
    with AuthTokenFixture() as fixture:
        api = Api(conf, store, fixture)
        for number in range(2):
            assert api("member", "POST", BASE, json={**BODY, "name": f"n{number}"}).status_code == 201
        refused = problem(api("admin", "POST", BASE, json=BODY), 403)
        assert (refused["quota"], refused["used"]) == (2, 2)
        assert api("member", "DELETE", f"{BASE}/n0").status_code == 202
        assert api("member", "POST", BASE, json=BODY).status_code == 201


def test_no_log_of_a_request_has_the_secret_or_the_callback(api, caplog):
    with caplog.at_level("DEBUG"):
        body = {**BODY, "secret": SECRET}
        assert api("member", "POST", BASE, json=body).status_code == 201
        assert api("member", "PUT", f"{BASE}/one", json=body).status_code == 200
        assert api("member", "POST", BASE, json={**body, "name": "two", "secret": SECRET[:-3]}).status_code == 400
        bad = {**body, "name": "two", "callback-url": "https://10.0.0.1/hook?key=1"}
        assert api("member", "POST", BASE, json=bad).status_code == 400
    logged = caplog.text + json.dumps([str(record.args) for record in caplog.records])
    assert BASE in logged
    assert SECRET[6:20] not in logged
    assert "key=1" not in logged
