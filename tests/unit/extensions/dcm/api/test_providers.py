# SPDX-License-Identifier: Apache-2.0
"""DCM's events over HTTP: statuses, agents' warnings, and instances that show both."""

from __future__ import annotations

import json

import pytest

from tests.providers import seconds
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.dispatch import load_handlers
from watcher_sync.testing.dcm import publisher

PATH = "/v1/service_type_instances"
ROW = {"id": "i-1", "service_type": "vm", "provider_name": "kubevirt-1"}


@pytest.fixture
def post(client):
    """post(*documents) -> the outcome of each."""

    def send(*documents):
        headers = {"Content-Type": "application/cloudevents-batch+json"}
        result = client.simulate_post("/v1/events", body=json.dumps(documents), headers=headers)
        assert result.status_code == 200, result.text
        return [event["outcome"] for event in result.json["events"]]

    return send


def shown(client, entity_id="i-1"):
    return client.simulate_get(f"{PATH}/{entity_id}").json


def test_an_event_before_its_row_is_applied_when_the_row_is_posted(client, conf, store, post):
    engine = CommitCycle(store, store.load(), load_handlers(conf))
    assert post(publisher.status()) == ["parked"]
    assert client.simulate_post(PATH, json=ROW).status_code == 201
    engine.catch_up()
    row = shown(client)
    assert (row["status"], row["status_message"]) == ("RUNNING", "It runs.")
    assert row["status_updated_at"] == "2026-03-01T12:00:00Z"


def test_events_without_a_stream_are_ordered_by_their_time(client, post):
    client.simulate_post(PATH, json=ROW)
    later, earlier = (
        publisher.status(reported=t, event_id=t, time=seconds(at)) for t, at in (("STOPPED", 2), ("RUNNING", 1))
    )
    assert post(later, earlier, later) == ["applied", "stale", "duplicate"]
    assert shown(client)["status"] == "STOPPED"


def test_an_unknown_status_is_in_quarantine_with_a_reason(client, post):
    client.simulate_post(PATH, json=ROW)
    assert post(publisher.status(reported="LEVITATING")) == ["quarantined"]
    (row,) = client.simulate_get("/v1/quarantine").json["quarantine"]
    assert row["reason"].startswith("data.status: 'LEVITATING' is no status of vm")


def test_a_warning_is_shown_by_the_instances_that_are_there_and_those_that_come_later(client, post):
    client.simulate_post(PATH, json=ROW)
    assert post(publisher.health()) == ["applied"]
    client.simulate_post(PATH, json={**ROW, "id": "i-2"})
    client.simulate_post(PATH, json={**ROW, "id": "i-3", "provider_name": "other"})
    assert [shown(client, f"i-{i}")["provider_state"] for i in (1, 2, 3)] == ["degraded", "degraded", None]
    assert post(publisher.health("available", event_id="h-2", time=seconds(1))) == ["applied"]
    assert [shown(client, f"i-{i}")["provider_state"] for i in (1, 2, 3)] == ["available", "available", None]


def test_an_instance_that_is_given_to_another_provider_shows_that_ones_state(client, post):
    client.simulate_post(PATH, json=ROW)
    post(publisher.health("unavailable"), publisher.health("degraded", provider="other", event_id="h-2"))
    body = {"service_type": "vm", "provider_name": "other"}
    assert client.simulate_put(f"{PATH}/i-1", json=body).json["provider_state"] == "degraded"


@pytest.mark.slow
def test_providers_are_listed_and_found_by_their_state(client, post):
    post(publisher.health("unavailable"), publisher.health("degraded", provider="other", event_id="h-2"))
    (provider,) = client.simulate_get("/v1/providers", params={"state": "degraded"}).json["providers"]
    assert (provider["id"], provider["name"], provider["service_type"]) == ("other/vm", "other", "vm")
    assert provider["reason"] == "service provider health check failures exceeded threshold"
