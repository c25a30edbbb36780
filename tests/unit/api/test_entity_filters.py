# SPDX-License-Identifier: Apache-2.0
"""Filters in the query of a list; what they find is compared on each database in tests/functional/storage."""

from __future__ import annotations

import datetime

import hypothesis
import jsonschema
import msgspec
import pytest
import sqlalchemy as sa
from hypothesis import strategies as st

from tests.simulated import by_facet, telling, told
from watcher_sync.api.entities import entity_filters
from watcher_sync.client.commands.cells import cell
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.model.changes import Upsert
from watcher_sync.model.kinds import Kind
from watcher_sync.read.filters import FieldCondition
from watcher_sync.testing.kinds import builtin_kinds

SERVERS = {
    "a": {"name": "web-1", "vcpus": 2, "state": "active", "metadata": {"app": "web", "tier": "in:1"}},
    "b": {"name": "web-2", "vcpus": 4, "state": "error", "metadata": {"app": "db"}},
    "c": {"name": "Web,3", "vcpus": 8, "state": "active", "locked": True, "metadata": {}},
    "d": {"name": "in:x", "vcpus": None, "created_at": "2026-03-01T12:00:00Z"},
}


@pytest.fixture
def servers(store):
    changes = []
    for entity_id, values in SERVERS.items():
        made = builtin_kinds()["instance"].from_json(values)
        changes.append(Upsert("instance", entity_id, "1", by_facet("instance", **made)))
    pod = {
        "cluster": "edge",
        "name": "p",
        "namespace": "n",
        "labels": {"app.kubernetes.io/name": "upf"},
        "ready": False,
    }
    changes.append(Upsert("pod", "p", "1", by_facet("pod", **pod)))
    CommitCycle(store, store.load(), telling()).run(Batch(events=[told(1, *changes)]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("state=active", "ac"),
        ("state=neq:active", "bd"),
        ("state=in:active,error", "abc"),
        ("state=nin:active,error", "d"),
        ("state=ACTIVE", "ac"),
        ("state=in:Active,ERROR", "abc"),
        ("state=neq:Active", "bd"),
        ("state=prefix:act", "ac"),
        ("name=prefix:web", "ab"),
        ("name=prefix:Web", "c"),
        ('name=in:"Web,3",web-1', "ac"),
        ("name=eq:in:x", "d"),
        ("name=Web,3", "c"),
        ("vcpus=4", "b"),
        ("vcpus=gt:2", "bc"),
        ("vcpus=gte:2&vcpus=lt:8", "ab"),
        ("vcpus=in:2,8", "ac"),
        ("locked=true", "c"),
        ("locked=neq:true", "abd"),
        ("locked=True", "c"),
        ("created_at=gte:2026-03-01T12:00:00Z", "d"),
        ("created_at=lt:2026-03-01T12:00:00", ""),
        ("created_at=2026-03-01T13:00:00%2B01:00", "d"),
        ("metadata[app]=web", "a"),
        ("metadata[app]=neq:web", "bcd"),
        ("metadata[app]=in:web,db&state=error", "b"),
        ("metadata[tier]=eq:in:1", "a"),
        ("metadata[app]=prefix:w&metadata[tier]=prefix:in", "a"),
        ("id=gt:b", "cd"),
        ("state=active&vcpus=gt:2&name=prefix:W", "c"),
    ],
)
def test_a_filter_finds_what_it_says(client, servers, query, found):
    result = client.simulate_get("/v1/instances", query_string=query)
    assert result.status_code == 200, result.text
    assert "".join(entity["id"] for entity in result.json["instances"]) == found


def test_labels_with_dots_and_slashes_and_states_of_pods_are_filtered(client, servers):
    for query in ("labels[app.kubernetes.io/name]=upf", "ready=false", "ready=neq:true&cluster=edge"):
        assert len(client.simulate_get("/v1/pods", query_string=query).json["pods"]) == 1
    assert not client.simulate_get("/v1/pods", query_string="labels[name]=upf").json["pods"]


def test_the_next_page_has_the_same_filters(client, servers):
    query = "vcpus=gte:2&vcpus=lt:9&metadata[app]=neq:x&limit=1"
    found = []
    while query is not None:
        page = client.simulate_get("/v1/instances", query_string=query).json
        found += [entity["id"] for entity in page["instances"]]
        query = page["next"] and page["next"].partition("?")[2]
    assert found == ["a", "b", "c"]


def test_a_list_with_versions_has_the_same_filters(client, servers):
    page = client.simulate_get("/v1/instances", query_string="versions=true&name=prefix:web&vcpus=gt:2").json
    assert [entity["id"] for entity in page["instances"]] == ["b"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "detail"),
    [
        (
            "vcpus=many",
            "vcpus: is not a whole number, alone or after one of eq:, neq:, gt:, gte:, lt:, lte:; or several",
        ),
        ("metadata[app]=gt:4", "metadata/app: is not a text, alone or after one of eq:, neq:, prefix:"),
        ("locked=1", "locked: is not true or false, in any case, alone or after one of eq:, neq:"),
        ("created_at=yesterday", "created_at: is not a time such as 2026-01-31T12:00:00Z"),
    ],
)
def test_a_wrong_filter_says_what_is_right(client, problem, query, detail):
    assert problem(client.simulate_get("/v1/instances", query_string=query), 400)["detail"].startswith(detail)


@pytest.mark.parametrize(
    ("filters", "detail"),
    [
        ([*(f"metadata[m{n}]=neq:x" for n in range(10)), *(f"extra_specs[m{n}]=neq:x" for n in range(10))], ""),
        (
            [*(f"metadata[m{n}]=neq:x" for n in range(10)), *(f"extra_specs[m{n}]=neq:x" for n in range(10)), "name=a"],
            "more than 20 filters",
        ),
        ([f"name=nin:{','.join('abcde' * 10)}", f"host=nin:{','.join('abcde' * 10)}"], ""),
        ([f"name=nin:{','.join('abcde' * 10)}", f"host=nin:{','.join('abcde' * 10)}", "id=a"], "more than 100 values"),
    ],
)
def test_the_filters_of_a_request_are_bounded_in_number_and_values(client, servers, problem, filters, detail):
    result = client.simulate_get("/v1/instances", query_string="&".join(filters))
    if detail:
        assert detail in problem(result, 400)["errors"][0]["detail"]
    else:
        assert result.status_code == 200, result.text


def test_a_value_that_a_field_never_has_is_refused_with_those_that_it_has(client, problem):
    detail = problem(client.simulate_get("/v1/compute_nodes", query_string="status=enabeld"), 400)["detail"]
    assert detail.startswith("status: is not one of enabled, disabled")


MOMENT = datetime.datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=datetime.UTC)
PRINTED = {
    bool: (True, False),
    int: (0, -7, 10**18 - 1),
    float: (1.0, -0.5, 0.1 + 0.2, 1 / 3_000, 9_007_199_254_740_993.0, 1e16, 1.5e300, 5e-324),
    str: ("None", "True", "e+16", "a, b", "4.0"),
    datetime.datetime: (MOMENT, MOMENT.replace(microsecond=0)),
}
"""Type of a field -> values of it."""


@pytest.mark.parametrize(("python", "value"), [(python, value) for python in PRINTED for value in PRINTED[python]])
@pytest.mark.parametrize("operator", ["", "eq:", "neq:"])
def test_what_the_client_prints_for_a_value_is_a_filter_for_it(python, value, operator):
    kind, field = _field_of_type(python)
    printed = str(cell(value, field))
    for text in {printed, printed.upper(), printed.lower()} if python is bool else {printed}:
        given = {field: [operator + text]}
        jsonschema.validate(given[field], entity_filters.parameters(kind)[field])
        (found,) = entity_filters.conditions(kind, given, [field])
        assert (found.operator, found.values) == (operator.rstrip(":") or "eq", (value,))


@hypothesis.given(st.floats(allow_nan=False, allow_infinity=False))
@hypothesis.example(-4.7066933153097246e-05)
def test_each_number_as_python_and_as_the_api_write_it_is_a_filter_for_it(number):
    kind, field = _field_of_type(float)
    for text in (repr(number), msgspec.json.encode(number).decode()):
        jsonschema.validate([text], entity_filters.parameters(kind)[field])
        assert [each.values for each in entity_filters.conditions(kind, {field: [text]}, [field])] == [(number,)]


def _field_of_type(python: type) -> tuple[Kind, str]:
    """A kind with a field of this type, which has no vocabulary."""
    fields = ((kind, field) for kind in builtin_kinds().values() for field in kind.fields.values())
    return next((kind, field.name) for kind, field in fields if field.python is python and not field.words)


def test_every_scalar_field_of_every_kind_is_a_filter(store):
    for kind in store.kinds.values():
        filters = entity_filters.parameters(kind)
        assert {"id"} | {f.name for f in kind.fields.values() if f.python is not list} <= set(filters)


@hypothesis.given(st.lists(st.text(max_size=10).map(lambda text: text.replace("\0", "")), min_size=1, max_size=5))
def test_texts_with_commas_and_quotation_marks_survive_a_list(texts):
    quoted = ",".join('"' + text.replace('"', '""') + '"' for text in texts)
    (condition,) = entity_filters.conditions(builtin_kinds()["instance"], {"name": ["in:" + quoted]}, ["name"])
    assert condition == FieldCondition("name", "in", tuple(texts))


@pytest.mark.slow
@hypothesis.given(st.text(max_size=40))
def test_any_text_is_a_filter(text):
    kind = builtin_kinds()["instance"]
    (condition,) = entity_filters.conditions(kind, {"name": [text]}, ["name"])
    if ":" not in text:
        assert condition == FieldCondition("name", "eq", (text.replace("\0", ""),))


def test_an_item_is_found_by_its_name_only_if_it_is_asked_for(client, servers, problem):
    found = client.simulate_get("/v1/instances/web-1", params={"by": "name"})
    assert (found.json["id"], found.status_code) == ("a", 200)
    assert found.headers["etag"]
    problem(client.simulate_get("/v1/instances/web-1"), 404)
    problem(client.simulate_get("/v1/instances/WEB-1", params={"by": "name"}), 404)
    problem(client.simulate_get("/v1/clusters/edge", params={"by": "name"}), 400)


def test_a_name_of_several_is_409_and_the_problem_names_the_ids(client, cycle, store, servers, problem):
    extra = Upsert("instance", "e", "1", by_facet("instance", name="web-1"))
    CommitCycle(store, store.load(), telling()).run(Batch(events=[told(2, extra)]))
    document = problem(client.simulate_get("/v1/instances/web-1", params={"by": "name"}), 409)
    assert document["ids"] == ["a", "e"]
    assert "a, e" in document["detail"]


@pytest.mark.parametrize("value", ["nin:x,y", "neq:x", "in:x,y", "prefix:x"])
def test_a_filter_of_a_member_reads_the_document_of_a_row_twice_at_most(client, store, servers, value):
    read = []

    def counted(connection, _record):
        for name in ("json_extract", "json_type"):
            connection.create_function(name, 2, lambda *_, name=name: read.append(name) or "text")

    store.database.dispose()
    sa.event.listen(store.database, "connect", counted)
    assert client.simulate_get("/v1/instances", query_string=f"metadata[app]={value}").status_code == 200
    assert len(SERVERS) <= len(read) <= 2 * len(SERVERS)
