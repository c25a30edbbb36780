# SPDX-License-Identifier: Apache-2.0
"""Resources as Axway's agents read them after an event: ``/apis`` and the link of the event's payload."""

from __future__ import annotations

import datetime

import pytest

from tests.simulated import telling, told
from tests.unit.api.conftest import Client
from watcher_sync.assembly.api import make_application
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.model.changes import Delete, Upsert

NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
MEMBERS = {"group", "apiVersion", "kind", "name", "title", "metadata", "attributes", "tags", "spec"}
TOPICS = "/apis/management/v1/watchtopics"
SENT = {
    "group": "management",
    "apiVersion": "v1",
    "kind": "WatchTopic",
    "name": "all",
    "title": "all",
    "metadata": {"audit": {"createTimestamp": "0001-01-01T00:00:00.000+0000"}, "scope": {}},
    "attributes": None,
    "tags": None,
    "finalizers": None,
    "owner": None,
    "spec": {"description": "", "filters": [{"group": "*", "kind": "*", "name": "*", "type": ["created", "updated"]}]},
}
"""As the agents send it."""


FACETS = {
    "compute_node": ("n1", {"service": {"status": "enabled"}}),
    "aggregate": ("a1", {"state": {"name": "fast"}, "hosts": {"hosts": ["n1"]}}),
    "instance": (
        "i1",
        {
            "state": {"state": "active"},
            "details": {"project_id": "p", "name": "web", "created_at": NOON},
            "placement": {"host": "n1"},
            "resize": {"source_host": "n1"},
        },
    ),
    "cluster": ("edge", {"state": {"state": "connected"}}),
    "workload": ("w1", {"state": {"cluster": "edge", "namespace": "n", "name": "w"}}),
    "pod": ("edge/p/1", {"state": {"cluster": "edge", "namespace": "n", "name": "p", "owner_uid": "w1"}}),
    "provider": ("kubevirt", {"state": {"name": "kubevirt", "state": "available"}}),
}
"""Kind -> the id and the facets of an entity."""


@pytest.fixture
def written(store):
    """Writes one entity of each kind at once."""
    cycle = CommitCycle(store, store.load(), telling())
    upserts = [Upsert(kind, entity_id, "1", facets) for kind, (entity_id, facets) in FACETS.items()]
    cycle.run(Batch(events=[told(1, *upserts)]))
    return cycle
    return cycle


@pytest.fixture
def client(conf, store, written):
    return Client(make_application(conf, store))


@pytest.fixture
def created(client):
    """The creation of each, as the topic of everything has it."""
    assert client.simulate_post(TOPICS, json=SENT).status_code == 201
    found = client.simulate_get("/events/management/v1/watchtopics/all", params={"pageSize": 1000}).json
    assert {each["type"] for each in found} == {"ResourceCreated"}
    return {each["payload"]["kind"]: each["payload"] for each in found}


def resource(client, payload, **params):
    answer = client.simulate_get(f"/apis{payload['metadata']['selfLink']}", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json


def moment(text):
    """A time in the only form that agents read: milliseconds, and an offset of digits."""
    return datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%f%z") if len(text) == 29 and text[-1] != "Z" else None


def test_the_link_of_each_event_leads_to_its_resource(client, created):
    assert len(created) == len(FACETS)
    for payload in created.values():
        found = resource(client, payload)
        assert found.keys() == MEMBERS
        # Of the same state, so all that the event says is what the resource says.
        for member in ("group", "kind", "name", "attributes"):
            assert found[member] == payload[member]
        assert found["title"] == found["name"]
        assert (found["apiVersion"], found["tags"]) == ("v1", [])
        metadata = found["metadata"]
        assert metadata.keys() == {"id", "selfLink", "scope", "references", "audit"}
        assert {name: metadata[name] for name in metadata if name != "audit"} == payload["metadata"]
        assert moment(metadata["audit"]["createTimestamp"]) <= moment(metadata["audit"]["modifyTimestamp"])
        entity = client.simulate_get(payload["metadata"]["selfLink"]).json
        assert found["spec"] == entity
    assert resource(client, created["Instance"])["metadata"]["audit"]["createTimestamp"].startswith("2026-01-01T12:00")
    assert resource(client, created["Pod"])["metadata"]["scope"]["name"] == "edge"
    assert resource(client, created["Instance"])["metadata"]["references"][0]["type"] == "SOFT"


def test_a_resource_that_changed_has_the_times_of_its_creation_and_of_its_last_change(client, written, created):
    before = resource(client, created["ComputeNode"])["metadata"]["audit"]
    written.run(Batch(events=[told(2, Upsert("compute_node", "n1", "2", {"service": {"status": "disabled"}}))]))
    found = resource(client, created["ComputeNode"])
    assert found["attributes"]["status"] == "disabled"
    assert found["metadata"]["audit"]["createTimestamp"] == before["createTimestamp"]
    assert moment(found["metadata"]["audit"]["modifyTimestamp"]) >= moment(before["modifyTimestamp"])


def test_a_resource_whose_changes_were_purged_has_no_times_of_the_journal(client, store, created):
    with store.database.begin() as connection:
        connection.execute(store.tables.journal.delete())
    assert resource(client, created["ComputeNode"])["metadata"]["audit"] == {}


@pytest.mark.parametrize("fields", ["metadata", "name,spec", "kind,nothing"])
def test_fields_picks_top_level_members(client, created, fields):
    payload = created["Instance"]
    every, found = resource(client, payload), resource(client, payload, fields=fields)
    assert found == {name: every[name] for name in fields.split(",") if name in every}
    topic = client.simulate_get(f"{TOPICS}/all", params={"fields": fields})
    assert topic.status_code == 200
    assert topic.json.keys() == {name for name in fields.split(",") if name in MEMBERS}


def test_what_is_not_there_is_404(client):
    assert client.simulate_get("/apis/v1/instances/none").status_code == 404
    assert client.simulate_get("/apis/v1/nothing/none").status_code == 404
    assert client.simulate_get("/apis/v1/instances").status_code == 404


def test_topics_are_managed_below_apis(client):
    made = client.simulate_post(TOPICS, json=SENT)
    assert made.status_code == 201
    assert made.json.keys() == MEMBERS
    metadata = made.json["metadata"]
    assert metadata["selfLink"] == "/management/v1/watchtopics/all"
    assert metadata.keys() == {"id", "selfLink", "scope", "references", "audit"}
    assert moment(metadata["audit"]["createTimestamp"]) == moment(metadata["audit"]["modifyTimestamp"])
    assert client.simulate_get(f"{TOPICS}/all").json == made.json
    assert client.simulate_get("/management/v1/watchtopics/all").json == made.json
    assert client.simulate_get(TOPICS).json == [made.json]
    assert client.simulate_get("/apis/management/v1alpha1/watchtopics/all").json["apiVersion"] == "v1alpha1"
    # The agents send the document with the deletion, too.
    assert client.simulate_delete(f"{TOPICS}/all", json=made.json).status_code == 204
    assert client.simulate_get(f"{TOPICS}/all").status_code == 404


def test_a_deleted_resource_is_404(client, written, created):
    written.run(Batch(events=[told(2, Delete("pod", "edge/p/1", "2"))]))
    assert client.simulate_get(f"/apis{created['Pod']['metadata']['selfLink']}").status_code == 404
