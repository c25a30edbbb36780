# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a request is said field by field, as problem details."""

from __future__ import annotations

import pytest


def test_a_filter_on_an_unknown_field_says_which_fields_can_be_filtered(client, problem):
    document = problem(client.simulate_get("/v1/instances", params={"colour": "x"}), 400)
    assert document["errors"][0]["pointer"] == "/colour"
    assert "host" in document["detail"]
    assert "project_id" in document["detail"]


def test_a_limit_above_the_maximum_says_the_maximum(client, problem):
    document = problem(client.simulate_get("/v1/instances", params={"limit": 1001}), 400)
    assert document["errors"][0]["pointer"] == "/limit"
    assert "1000" in document["detail"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("limit=0", "/limit"),
        ("limit=ten", "/limit"),
        ("limit=1&limit=2", "/limit"),
        ("sort=metadata", "/sort"),
        ("sort=vcpus&marker=x,i", "/marker"),
        ("vcpus=gt:x", "/vcpus"),
        ("vcpus=gte:1&vcpus=lt:2&vcpus=eq:1&vcpus=eq:1&vcpus=eq:1", "/vcpus"),
        ("locked=maybe", "/locked"),
        ("locked=gt:true", "/locked"),
        ("created_at=gt:2026-02-30T00:00:00Z", "/created_at"),
        ("ip_addresses=gt:1", "/ip_addresses"),
        ("metadata=x", "/metadata"),
        ("metadata[a]=gt:1", "/metadata/a"),
        ("metadata[]=1", "/metadata"),
        ("metadata[a%22b]=1", "/metadata"),
        ("metadata[a]=1&metadata=x", "/metadata"),
        ("metadata=x&metadata[a]=1", "/metadata"),
        ("metadata[a=1", "/metadata[a"),
        ("host[a]=1", "/host[a]"),
        ("name=", "/name"),
        ("&".join(f"metadata[{n}]=1" for n in range(11)), "/metadata"),
        ("name=in:" + ",".join("x" * 101), "/name"),
        ("name=" + "x" * 2001, "/name"),
        ("sort=", "/sort"),
        ("fields=id,nonsense", "/fields/1"),
        ("marker=", "/marker"),
        ("host=%00", "/host"),
    ],
)
def test_a_wrong_parameter_is_pointed_at(client, problem, query, pointer):
    document = problem(client.simulate_get("/v1/instances", query_string=query), 400)
    assert document["errors"][0]["in"] == "query"
    assert document["errors"][0]["pointer"] == pointer


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", ["/v1/instances/none", "/v1/nothing", "/v2", "/v1/instances/none/history", "/v1/instances/%00"]
)
def test_what_does_not_exist_is_404(client, problem, path):
    problem(client.simulate_get(path), 404)


def test_a_method_that_is_not_possible_is_405_and_says_which_are(client, problem):
    result = client.simulate_delete("/v1/instances")
    problem(result, 405)
    assert "GET" in result.headers["allow"]


def test_an_answer_that_is_not_accepted_is_406(client, problem):
    problem(client.simulate_get("/v1/instances", headers={"Accept": "text/html"}), 406)


def test_a_failure_inside_is_500_without_a_word_of_it(client, problem, store):
    store.tables.entities["instance"].columns["id"]
    broken = store.tables.entities.pop("instance")
    try:
        document = problem(client.simulate_get("/v1/instances"), 500)
    finally:
        store.tables.entities["instance"] = broken
    assert "Traceback" not in str(document)
    assert "KeyError" not in str(document)


def test_without_its_database_the_api_answers_503(client, problem, store):
    with store.database.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE journal_head RENAME TO away")
    result = client.simulate_get("/v1/instances")
    problem(result, 503)
    assert result.headers["retry-after"]


@pytest.mark.slow
def test_without_authentication_only_this_machine_is_served(client, problem):
    problem(client.simulate_get("/v1", remote_addr="192.0.2.7"), 403)
    problem(client.simulate_get("/v1", host="attacker.example"), 403)
    problem(client.simulate_get("/v1", headers={"Origin": "http://attacker.example"}), 403)
    assert client.simulate_get("/v1", remote_addr="127.0.0.1").status_code == 200
