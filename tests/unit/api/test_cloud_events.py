# SPDX-License-Identifier: Apache-2.0
"""CloudEvents over HTTP, into the same pipeline as every other event."""

from __future__ import annotations

import json
from typing import ClassVar

import pytest

from tests.simulated import NOON
from tests.unit.api.conftest import Client
from watcher_sync.api.service import Service
from watcher_sync.assembly.api import make_app
from watcher_sync.dispatch import Dispatcher
from watcher_sync.exceptions import InvalidEvent
from watcher_sync.model.changes import Upsert

STRUCTURED = {"Content-Type": "application/cloudevents+json"}
BATCHED = {"Content-Type": "application/cloudevents-batch+json"}


class Told:
    """An aggregate by its name."""

    events: ClassVar = {"told.aggregate": "told"}

    def told(self, event, view):
        if "name" not in event.read():
            raise InvalidEvent("no name")
        yield Upsert("aggregate", event.subject, event.id, {"state": {"name": event.read()["name"]}})


@pytest.fixture
def client(conf, store):
    return Client(make_app(Service(conf, store), Dispatcher([("told", Told())])))


def event(event_id="1", subject="a", name="one", **more):
    return {
        "specversion": "1.0", "id": event_id, "source": "somewhere", "type": "told.aggregate", "subject": subject,
        "time": NOON.isoformat(), "data": {"name": name}, **more,
    }  # fmt: skip


def outcomes(result):
    assert result.status_code == 200, result.text
    return [e["outcome"] for e in result.json["events"]]


def test_a_structured_event_is_committed_when_it_is_answered(client):
    result = client.simulate_post("/v1/events", body=json.dumps(event()), headers=STRUCTURED)
    assert outcomes(result) == ["applied"]
    assert result.json["seq"] == 1
    assert client.simulate_get("/v1/aggregates/a").json["name"] == "one"
    row = client.simulate_get("/v1/events", params={"since": 0}).json["events"][0]
    assert (row["source"], row["event_id"], row["event_type"]) == ("api", "1", "told.aggregate")


def test_an_event_that_is_sent_again_changes_nothing(client):
    body = json.dumps(event())
    results = [outcomes(client.simulate_post("/v1/events", body=body, headers=STRUCTURED)) for _ in range(3)]
    assert results == [["applied"], ["duplicate"], ["duplicate"]]


def test_a_batch_is_applied_in_order_and_each_event_has_its_outcome(client):
    batch = [event("2"), event("1"), event("3", type="nobody.cares"), event("4", subject="b", data={})]
    result = client.simulate_post("/v1/events", body=json.dumps(batch), headers=BATCHED)
    assert outcomes(result) == ["applied", "stale", "ignored", "quarantined"]
    kept = client.simulate_get("/v1/quarantine").json["quarantine"]
    assert [(e["event_id"], e["reason"]) for e in kept] == [("4", "no name")]


@pytest.mark.slow
def test_a_binary_event_has_its_attributes_in_headers(client):
    headers = {
        "Content-Type": "application/json", "ce-specversion": "1.0", "ce-id": "1", "ce-source": "somewhere",
        "ce-type": "told.aggregate", "ce-subject": "caf%C3%A9",
    }  # fmt: skip
    result = client.simulate_post("/v1/events", body=b'{"name": "one"}', headers=headers)
    assert outcomes(result) == ["applied"]
    assert client.simulate_get("/v1/aggregates/caf%C3%A9").json["name"] == "one"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"specversion": "0.3"}, "/specversion"),
        ({"id": ""}, "/id"),
        ({"id": 5}, "/id"),
        ({"time": "yesterday"}, "/time"),
        ({"time": "2026-13-01T00:00:00Z"}, "/time"),
        ({"data_base64": "%%%"}, "/data_base64"),
    ],
)
def test_what_is_no_cloud_event_is_refused_and_nothing_of_its_batch_applied(client, problem, change, pointer):
    changed = event() | change
    if "data_base64" in change:
        del changed["data"]
    document = problem(client.simulate_post("/v1/events", body=json.dumps(changed), headers=STRUCTURED), 400)
    assert document["errors"][0]["pointer"] == pointer
    batch = json.dumps([event(), changed | {"id": change.get("id", "2")}])
    document = problem(client.simulate_post("/v1/events", body=batch, headers=BATCHED), 400)
    assert document["errors"][0]["pointer"] == f"/1{pointer}"
    assert client.simulate_get("/v1/aggregates").json["aggregates"] == []


def test_a_binary_event_without_an_attribute_names_its_header(client, problem):
    headers = {"Content-Type": "application/json", "ce-specversion": "1.0", "ce-id": "1", "ce-source": "s"}
    document = problem(client.simulate_post("/v1/events", body=b"{}", headers=headers), 400)
    assert document["errors"] == [{"in": "header", "pointer": "/ce-type", "detail": "is missing"}]


def test_other_media_types_are_415(client, problem):
    result = client.simulate_post("/v1/events", body=b"<a/>", headers={"Content-Type": "application/xml"})
    problem(result, 415)


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        {"subject": None, "time": None, "datacontenttype": None, "dataschema": None, "data_base64": None},
        {"datacontenttype": "application/vnd.example+json"},
        {"time": "2026-01-02t03:04:05z"},
        {"time": "2026-01-02 03:04:05"},
        {"time": "0001-01-01T00:00:00Z"},
        {"time": "2016-12-31T23:59:60Z"},
        {"subject": ""},
        {"Com.Example_Extension": 7},
    ],
    ids=str,
)
def test_what_the_nats_source_takes_is_taken(client, more):
    document = event() | more
    outcome = "applied" if document["subject"] else "quarantined"
    assert outcomes(client.simulate_post("/v1/events", body=json.dumps(document), headers=STRUCTURED)) == [outcome]


def test_names_of_attributes_may_have_any_case(client):
    document = {name.title(): value for name, value in event().items()} | {"specVersion": "1.0"}
    del document["Specversion"]
    assert outcomes(client.simulate_post("/v1/events", body=json.dumps(document), headers=STRUCTURED)) == ["applied"]
    both = event() | {"ID": "2"}
    assert client.simulate_post("/v1/events", body=json.dumps(both), headers=STRUCTURED).status_code == 400


def test_an_empty_batch_is_done_at_once(client):
    result = client.simulate_post("/v1/events", body="[]", headers=BATCHED)
    assert (result.status_code, result.json) == (200, {"events": [], "seq": 0})


BINARY = {
    "ce-specversion": "1.0",
    "ce-id": "1",
    "ce-source": "somewhere",
    "ce-type": "told.aggregate",
    "ce-subject": "a",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "media",
    ["application/vnd.example+json", "Application/Problem+JSON; charset=utf-8", "text/json", "application/json"],
)
def test_the_data_of_a_binary_event_may_be_any_json(client, media):
    headers = BINARY | {"Content-Type": media}
    assert outcomes(client.simulate_post("/v1/events", body=b'{"name": "one"}', headers=headers)) == ["applied"]
    assert client.simulate_get("/v1/aggregates/a").json["name"] == "one"


def test_a_binary_event_without_data_needs_no_content_type(client):
    assert outcomes(client.simulate_post("/v1/events", headers=BINARY)) == ["quarantined"]


def test_header_values_of_a_binary_event_are_unquoted(client):
    headers = BINARY | {"Content-Type": "application/json", "ce-subject": r'"a \"b\""'}
    assert outcomes(client.simulate_post("/v1/events", body=b'{"name": "one"}', headers=headers)) == ["applied"]
    assert client.simulate_get("/v1/aggregates").json["aggregates"][0]["id"] == 'a "b"'


def test_a_header_that_is_percent_encoded_and_no_utf_8_is_refused_by_name(client, problem):
    headers = BINARY | {"Content-Type": "application/json", "ce-subject": "caf%E9"}
    document = problem(client.simulate_post("/v1/events", body=b"{}", headers=headers), 400)
    assert document["errors"][0]["pointer"] == "/ce-subject"


def test_data_together_with_data_base64_is_refused(client, problem):
    body = json.dumps(event() | {"data_base64": "e30="})
    document = problem(client.simulate_post("/v1/events", body=body, headers=STRUCTURED), 400)
    assert document["errors"][0]["pointer"] == ""


def test_a_posted_document_is_read_as_a_cloud_event_only(client):
    body = json.dumps(event() | {"event_type": "service.update", "publisher_id": "nova", "payload": {}})
    result = client.simulate_post("/v1/events", body=body, headers=STRUCTURED)
    assert outcomes(result) == ["applied"], "the other members are extensions"
