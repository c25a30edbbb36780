# SPDX-License-Identifier: Apache-2.0
"""A project sees its own watch topics, and by any topic only what it sees of the model elsewhere."""

from __future__ import annotations

import pytest
from keystonemiddleware.fixture import AuthTokenFixture

from tests.unit.api.conftest import conf, store  # noqa: F401 - fixtures
from tests.unit.security.callers import NODE, OWN, SERVER, Api
from watcher_sync.extensions.watch.topic_rows import WatchPositions

BASE = "/management/v1alpha1/watchtopics"
ALL = {"filters": [{"group": "*", "kind": "*"}]}


@pytest.fixture
def api(conf, store):  # noqa: F811
    with AuthTokenFixture() as fixture:
        api = Api(conf, store, fixture)
        api.fill()
        yield api


def create(api, caller, name, spec=ALL):
    return api(caller, "POST", BASE, json={"name": name, "spec": spec})


def events(api, caller, name, **params):
    result = api(caller, "GET", f"/events{BASE}/{name}", params={"pageSize": 1000, **params})
    assert result.status_code == 200, result.text
    return result.json


def names(api, caller):
    return [topic["name"] for topic in api(caller, "GET", BASE).json]


def test_a_topic_of_another_project_does_not_exist(api):
    assert create(api, "member", "own").status_code == 201
    unknown = api("stranger", "GET", f"{BASE}/absent").status_code
    for method, path in (("GET", f"{BASE}/own"), ("DELETE", f"{BASE}/own"), ("GET", f"/events{BASE}/own")):
        assert api("stranger", method, path).status_code == unknown == 404
    assert names(api, "stranger") == []
    assert names(api, "reader") == names(api, "system_reader") == ["own"]


def test_a_name_that_another_project_uses_is_free_and_each_project_has_its_own_topic(api):
    narrow = {"filters": [{"group": "compute", "kind": "Instance"}]}
    ours = create(api, "member", "federation").json
    theirs = create(api, "stranger", "federation", narrow)
    assert theirs.status_code == 201
    for caller, made in (("member", ours), ("reader", ours), ("stranger", theirs.json)):
        assert api(caller, "GET", f"{BASE}/federation").json == made
    for caller in ("member", "stranger"):
        assert create(api, caller, "federation").status_code == 409
        assert names(api, caller) == ["federation"]
    assert api("stranger", "DELETE", f"{BASE}/federation").status_code == 204
    assert api("member", "GET", f"{BASE}/federation").json == ours
    assert api("stranger", "GET", f"{BASE}/federation").status_code == 404


def test_who_sees_all_projects_has_the_own_topic_of_a_name_and_asks_for_others_by_id(api):
    ours, theirs = create(api, "member", "t").json, create(api, "stranger", "t").json
    ids = [topic["metadata"]["id"] for topic in (ours, theirs)]
    assert api("admin", "GET", f"{BASE}/t").json == ours
    for caller, deletes in (("system_reader", 403), ("system_admin", 409)):
        refused = api(caller, "GET", f"{BASE}/t")
        assert (refused.status_code, "Several projects" in refused.json["detail"]) == (409, True)
        assert api(caller, "GET", f"/events{BASE}/t").status_code == 409
        assert [api(caller, "GET", f"{BASE}/{id}").json for id in ids] == [ours, theirs]
        assert api(caller, "DELETE", f"{BASE}/t").status_code == deletes
    for caller in ("member", "stranger"):
        foreign = ids[1] if caller == "member" else ids[0]
        for method, path in (("GET", BASE), ("DELETE", BASE), ("GET", f"/events{BASE}")):
            assert api(caller, method, f"{path}/{foreign}").status_code == 404
    assert api("system_admin", "DELETE", f"{BASE}/{ids[1]}").status_code == 204
    assert api("system_admin", "GET", f"{BASE}/t").json == ours


def test_topics_without_a_project_have_names_of_their_own(api):
    assert create(api, "system_admin", "t").status_code == 201
    assert create(api, "system_admin", "t").status_code == 409
    assert create(api, "member", "t").status_code == 201
    assert [len(names(api, caller)) for caller in ("system_admin", "member", "stranger")] == [2, 1, 0]


def test_a_reader_of_the_project_sees_a_topic_and_does_not_delete_it(api):
    create(api, "member", "own")
    assert api("reader", "GET", f"{BASE}/own").status_code == 200
    assert api("reader", "DELETE", f"{BASE}/own").status_code == 403
    assert api("admin", "DELETE", f"{BASE}/own").status_code == 204


def test_a_member_receives_what_its_project_owns_and_nothing_that_names_a_host(api):
    create(api, "member", "own")
    found = events(api, "member", "own")
    assert SERVER in {event["payload"]["metadata"]["id"] for event in found}
    assert {event["organization"]["id"] for event in found} == {OWN}
    assert NODE not in str(found)
    everything = events(api, "admin", "own")
    assert len(everything) > len(found)
    assert NODE in str(everything)


def test_a_filter_for_a_host_tells_a_member_nothing(api):
    spec = {"filters": [{"group": "compute", "kind": "Instance", "scope": {"kind": "ComputeNode", "name": NODE}}]}
    create(api, "member", "host", spec)
    assert events(api, "member", "host") == []
    assert [event["payload"]["metadata"]["id"] for event in events(api, "admin", "host")] == [SERVER]


def test_the_pages_of_one_caller_do_not_move_those_of_another(api):
    create(api, "member", "own")
    everything = {caller: events(api, caller, "own") for caller in ("admin", "member")}
    for page in (1, 2, 3):
        for caller, expected in everything.items():
            found = events(api, caller, "own", page=page, pageSize=2, query="sequenceID>0")
            assert found == expected[2 * page - 2 : 2 * page]


def test_the_position_is_that_of_the_caller(api, store):  # noqa: F811
    topic_id = create(api, "member", "own").json["metadata"]["id"]
    events(api, "member", "own")
    positions = WatchPositions(store.database, store.tables)
    with store.database.connect() as connection:
        (row,) = connection.execute(store.tables.watch_positions.select()).all()
    assert (row.topic_id, row.tenant) == (topic_id, OWN)
    assert positions.find(topic_id, row.tenant, row.subject) == row.sequence
    assert positions.find(topic_id, "b" * 32, row.subject) is None


def bearer(api, caller):
    return {"Authorization": f"Bearer {api.headers(caller)['X-Auth-Token']}"}


def test_a_bearer_token_is_a_token_of_keystone_for_topics_and_their_events(api):
    """Agents of the dialect send no other header."""
    create(api, "member", "own")
    other = "/management/v1/watchtopics"
    for path in (BASE, f"{BASE}/own", f"/events{BASE}/own", other, f"{other}/own", f"/events{other}/own"):
        assert api("nobody", "GET", path, headers=bearer(api, "member")).status_code == 200
        assert api("nobody", "GET", path).status_code == 401
        assert api("nobody", "GET", path, headers={"Authorization": "Bearer made-up"}).status_code == 401
        assert api("nobody", "GET", path, headers={"Authorization": "Basic eDp5"}).status_code == 401
    assert api("nobody", "GET", f"{BASE}/own", headers=bearer(api, "stranger")).status_code == 404


def test_a_bearer_token_is_none_on_another_path(api):
    for path in ("/v1/instances", "/management/v1alpha1/watchtopicsx", "/events"):
        assert api("nobody", "GET", path, headers=bearer(api, "admin")).status_code in (401, 404)
    assert api("nobody", "GET", "/v1/instances", headers=bearer(api, "admin")).status_code == 401


def test_x_auth_token_precedes_a_bearer_token(api):
    create(api, "member", "own")
    assert api("stranger", "GET", f"{BASE}/own", headers=bearer(api, "member")).status_code == 404


def test_a_resource_has_what_its_entity_shows_the_caller(api):
    """The policy and the visibility are those of the entity's own path."""
    for caller, status in (("nobody", 401), ("stranger", 404), ("member", 200), ("admin", 200)):
        assert api(caller, "GET", f"/v1/instances/{SERVER}").status_code == status
        assert api(caller, "GET", f"/apis/v1/instances/{SERVER}").status_code == status
    assert api("member", "GET", f"/v1/compute_nodes/{NODE}").status_code == 403
    assert api("member", "GET", f"/apis/v1/compute_nodes/{NODE}").status_code == 403
    seen, everything = (api(caller, "GET", f"/apis/v1/instances/{SERVER}") for caller in ("member", "admin"))
    assert NODE not in seen.text
    assert seen.json["metadata"]["scope"]["name"] == ""
    assert everything.json["metadata"]["scope"]["name"] == NODE
    assert seen.json["spec"] == api("member", "GET", f"/v1/instances/{SERVER}").json


def test_a_bearer_token_is_a_token_of_keystone_below_apis(api):
    create(api, "member", "own")
    for path in (f"/apis/v1/instances/{SERVER}", "/apis/management/v1/watchtopics/own"):
        assert api("nobody", "GET", path, headers=bearer(api, "member")).status_code == 200
        assert api("nobody", "GET", path).status_code == 401
        assert api("nobody", "GET", path, headers=bearer(api, "stranger")).status_code == 404
