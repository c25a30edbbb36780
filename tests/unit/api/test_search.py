# SPDX-License-Identifier: Apache-2.0
"""``GET /v1/search``: names and ids of all kinds."""

from __future__ import annotations

import pytest
from keystonemiddleware.fixture import AuthTokenFixture

from tests.simulated import by_facet, telling, told
from tests.unit.security.callers import OTHER, OWN, Api
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.model.changes import Upsert

ENTITIES = [
    Upsert("instance", "i1", "1", by_facet("instance", name="web-1", project_id=OWN)),
    Upsert("instance", "web", "1", by_facet("instance", name="other", project_id=OWN)),
    Upsert("instance", "i3", "1", by_facet("instance", name="my-web", project_id=OTHER)),
    Upsert("pod", "p1", "1", by_facet("pod", name="web", namespace="n", cluster="c", project_id=OTHER)),
    Upsert("cluster", "webs", "1", by_facet("cluster", state="connected")),
    Upsert("compute_node", "h1", "1", by_facet("compute_node", hypervisor_hostname="web.example")),
]


@pytest.fixture
def entities(store):
    CommitCycle(store, store.load(), telling()).run(Batch(events=[told(1, *ENTITIES)]))


def found(result):
    assert result.status_code == 200, result.text
    return [(hit["kind"], hit["id"]) for hit in result.json["results"]]


def test_whole_names_and_ids_come_first_then_beginnings_then_other_parts(client, entities):
    hits = found(client.simulate_get("/v1/search", params={"q": "web"}))
    assert set(hits[:2]) == {("instance", "web"), ("pod", "p1")}
    assert set(hits[2:5]) == {("instance", "i1"), ("cluster", "webs"), ("compute_node", "h1")}
    assert hits[5:] == [("instance", "i3")]
    assert not found(client.simulate_get("/v1/search", params={"q": "WEB"}))


def test_a_kind_and_a_limit_restrict_the_results(client, entities):
    assert found(client.simulate_get("/v1/search", params={"q": "web", "kind": "pod"})) == [("pod", "p1")]
    result = client.simulate_get("/v1/search", params={"q": "web", "limit": 2})
    assert len(found(result)) == 2
    assert result.json["more"] is True
    assert client.simulate_get("/v1/search", params={"q": "web-1"}).json["more"] is False


@pytest.mark.slow
@pytest.mark.parametrize("text", ["%", "_", "we_", "%1", "\\", "'", '"', "!"])
def test_no_character_is_a_wildcard(client, entities, text):
    assert not found(client.simulate_get("/v1/search", params={"q": text}))


def test_without_a_text_or_with_a_nul_it_is_400(client, problem, entities):
    assert problem(client.simulate_get("/v1/search"), 400)["errors"][0]["pointer"] == "/q"
    problem(client.simulate_get("/v1/search", query_string="q=a%00"), 400)
    problem(client.simulate_get("/v1/search", query_string="q=" + "a" * 256), 400)


@pytest.fixture
def api(conf, store):
    with AuthTokenFixture() as fixture:
        yield Api(conf, store, fixture)


OF_OWN = {("instance", "i1"), ("instance", "web")}
OF_OTHER = {("instance", "i3"), ("pod", "p1")}
HOSTS = {("cluster", "webs"), ("compute_node", "h1")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("caller", "expected"),
    [
        ("member", OF_OWN),
        ("reader", OF_OWN),
        ("stranger", OF_OTHER),
        ("admin", OF_OWN | OF_OTHER | HOSTS),
        ("system_reader", OF_OWN | OF_OTHER | HOSTS),
    ],
)
def test_a_caller_finds_what_it_may_list(api, entities, caller, expected):
    assert set(found(api(caller, "GET", "/v1/search", params={"q": "web"}))) == expected


@pytest.mark.slow
def test_who_may_list_nothing_may_not_search(api, entities):
    assert api("nobody", "GET", "/v1/search", params={"q": "web"}).status_code == 401
    assert api("service", "GET", "/v1/search", params={"q": "web"}).status_code == 403


@pytest.mark.slow
@pytest.mark.parametrize(
    "query",
    [
        "name=prefix:my", f"project_id={OTHER}", f"project_id=in:{OTHER},{OWN}&name=my-web", f"project_id=neq:{OWN}",
        f"project_id=gt:{OWN}", f"project_id=prefix:{OTHER[:3]}", "id=i3", f"project_id={OWN}&project_id={OTHER}",
    ],
)  # fmt: skip
def test_no_filter_tells_of_entities_of_another_project(api, entities, query):
    result = api("member", "GET", "/v1/instances", query_string=query)
    assert result.status_code == 403 or result.json["instances"] == [], result.text
    result = api("stranger", "GET", "/v1/instances", query_string="name=prefix:w")
    assert result.json["instances"] == []


@pytest.mark.slow
@pytest.mark.parametrize("query", ["host=prefix:h", "fault_message=neq:x", "sort=node", "node=in:a,b"])
def test_a_field_that_tells_of_hosts_cannot_be_filtered_by_a_member(api, entities, query):
    assert api("member", "GET", "/v1/instances", query_string=query).status_code == 403
    assert api("admin", "GET", "/v1/instances", query_string=query).status_code == 200


def test_a_name_is_unique_within_what_the_caller_sees(api, store, entities):
    same = Upsert("instance", "i9", "1", by_facet("instance", name="web-1", project_id=OTHER))
    CommitCycle(store, store.load(), telling()).run(Batch(events=[told(2, same)]))
    path = "/v1/instances/web-1"
    assert api("member", "GET", path, params={"by": "name"}).json["id"] == "i1"
    assert api("stranger", "GET", path, params={"by": "name"}).json["id"] == "i9"
    both = api("admin", "GET", path, params={"by": "name"})
    assert (both.status_code, both.json["ids"]) == (409, ["i1", "i9"])
    assert api("member", "GET", "/v1/instances/my-web", params={"by": "name"}).status_code == 404
