# SPDX-License-Identifier: Apache-2.0
"""CloudEvents over HTTP, into the same pipeline as every other event."""

from __future__ import annotations

import json
from typing import ClassVar

import pytest

from tests.simulated import NOON
from tests.unit.api.conftest import Client
from watcher_sync.api.app import make_app
from watcher_sync.api.service import Service
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


def test_a_binary_event_has_its_attributes_in_headers(client):
    headers = {
        "Content-Type": "application/json", "ce-specversion": "1.0", "ce-id": "1", "ce-source": "somewhere",
        "ce-type": "told.aggregate", "ce-subject": "caf%C3%A9",
    }  # fmt: skip
    result = client.simulate_post("/v1/events", body=b'{"name": "one"}', headers=headers)
    assert outcomes(result) == ["applied"]
    assert client.simulate_get("/v1/aggregates/caf%C3%A9").json["name"] == "one"


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
    document = problem(client.simulate_post("/v1/events", body=json.dumps(event() | change), headers=STRUCTURED), 400)
    assert document["errors"][0]["pointer"] == pointer
    batch = json.dumps([event(), event("2") | change])
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
