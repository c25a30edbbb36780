# SPDX-License-Identifier: Apache-2.0
"""Writing instances of service types."""

from __future__ import annotations

from typing import ClassVar

import pytest

from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.dispatch import Dispatcher
from watcher_sync.events import Event
from watcher_sync.exceptions import NotYet
from watcher_sync.model.changes import Upsert

PATH = "/v1/service_type_instances"
VM = {"service_type": "vm", "instance_name": "one", "spec": {"vcpus": 2}, "provider_name": "kubevirt"}


class Provider:
    """Says the status of what exists already."""

    events: ClassVar = {"dcm.vm": "told"}

    def told(self, event, view):
        if view.get("service_type_instance", event.subject) is None:
            raise NotYet("service_type_instance", event.subject)
        yield Upsert("service_type_instance", event.subject, event.id, {"status": {"status": event.read()}})


def status(entity_id, value, version="1"):
    return Event(id=version, type="dcm.vm", source="dcm", subject=entity_id, data=value)


@pytest.fixture
def provider(store):
    """An engine that listens to the provider, with a replica of its own."""
    return CommitCycle(store, store.load(), Dispatcher([("provider", Provider())]))


def test_what_is_made_can_be_read_by_everybody_who_follows_the_journal(client, store, provider):
    made = client.simulate_post(PATH, json=VM)
    assert made.status_code == 201, made.text
    assert {k: made.json[k] for k in VM} == VM
    assert made.json["created_at"] == made.json["updated_at"]
    found = client.simulate_get(made.headers["location"])
    assert found.json == made.json
    assert found.headers["etag"] == made.headers["etag"] == f'"{made.json["seq"]}"'
    provider.catch_up()
    assert provider.model.get("service_type_instance", made.json["id"]).spec == VM["spec"]
    assert provider.model.get("service_type_instance", made.json["id"]) == next(
        store.load().snapshot().all("service_type_instance")
    )


def test_an_engine_whose_replica_is_behind_commits_on_top(client, store, provider):
    made = client.simulate_put(f"{PATH}/a", json=VM)
    provider.run(Batch(events=[status("a", "RUNNING")]))
    assert provider.stats.conflicts == 1
    shown = client.simulate_get(f"{PATH}/a").json
    assert shown["status"] == "RUNNING"
    assert shown["seq"] > made.json["seq"]
    replaced = client.simulate_put(f"{PATH}/a", json={"service_type": "vm"})
    assert replaced.status_code == 200
    assert replaced.json["status"] == "RUNNING"
    assert replaced.json["spec"] is None
    assert replaced.json["created_at"] == made.json["created_at"]


def test_a_parked_event_is_applied_when_its_instance_is_made(store, conf, provider):
    from tests.unit.api.conftest import Client
    from watcher_sync.api.service import Service
    from watcher_sync.assembly.api import make_app

    provider.run(Batch(events=[status("a", "RUNNING")]))
    client = Client(make_app(Service(conf, store), provider.dispatcher))
    made = client.simulate_put(f"{PATH}/a", json=VM)
    assert made.status_code == 201
    assert made.json["status"] is None
    provider.catch_up()  # as the engine does within [database] journal_poll_interval
    assert client.simulate_get(f"{PATH}/a").json["status"] == "RUNNING"
    with store.database.connect() as connection:
        assert connection.execute(store.tables.parked.select()).all() == []
    assert [r["change"] for r in client.simulate_get(f"{PATH}/a/history").json["history"]] == ["created", "updated"]


def test_of_two_writers_who_read_the_same_version_one_is_refused(client, problem):
    tag = client.simulate_put(f"{PATH}/a", json=VM).headers["etag"]
    first = client.simulate_put(f"{PATH}/a", json={**VM, "spec": {"vcpus": 4}}, headers={"If-Match": tag})
    assert first.status_code == 200
    problem(client.simulate_put(f"{PATH}/a", json=VM, headers={"If-Match": tag}), 412)
    problem(client.simulate_delete(f"{PATH}/a", headers={"If-Match": tag}), 412)
    assert client.simulate_get(f"{PATH}/a").json["spec"] == {"vcpus": 4}
    assert client.simulate_delete(f"{PATH}/a", headers={"If-Match": first.headers["etag"]}).status_code == 204


def test_if_none_match_makes_and_never_replaces(client, problem):
    headers = {"If-None-Match": "*"}
    assert client.simulate_put(f"{PATH}/a", json=VM, headers=headers).status_code == 201
    problem(client.simulate_put(f"{PATH}/a", json=VM, headers=headers), 412)


def test_to_say_the_same_again_writes_nothing(client):
    made = client.simulate_put(f"{PATH}/a", json=VM)
    again = client.simulate_put(f"{PATH}/a", json=VM)
    assert again.status_code == 200
    assert again.json == made.json
    assert len(client.simulate_get(f"{PATH}/a/history").json["history"]) == 1


def test_what_exists_is_not_made_again(client, problem):
    client.simulate_post(PATH, json={"id": "a", **VM})
    problem(client.simulate_post(PATH, json={"id": "a", **VM}), 409)


def test_a_deletion_is_final(client, problem):
    client.simulate_put(f"{PATH}/a", json=VM)
    assert client.simulate_delete(f"{PATH}/a").status_code == 204
    problem(client.simulate_get(f"{PATH}/a"), 404)
    problem(client.simulate_delete(f"{PATH}/a"), 404)
    problem(client.simulate_put(f"{PATH}/a", json=VM), 409)
    assert [r["change"] for r in client.simulate_get(f"{PATH}/a/history").json["history"]] == ["created", "deleted"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/service_type"),
        ({"service_type": 5}, "/service_type"),
        ({"service_type": ""}, "/service_type"),
        ({"service_type": "vm\0"}, "/service_type"),
        ({"service_type": "vm", "spec": []}, "/spec"),
        ({"service_type": "vm", "status": "RUNNING"}, "/status"),
        ({"service_type": "vm", "id": "a/b"}, "/id"),
        ({"service_type": "vm", "a/b~c": 1}, "/a~1b~0c"),
        ([], ""),
    ],
)
def test_a_wrong_field_is_pointed_at(client, problem, body, pointer):
    document = problem(client.simulate_post(PATH, json=body), 400)
    assert [e["pointer"] for e in document["errors"]] == [pointer]
    assert document["errors"][0]["in"] == "body"
    assert client.simulate_get(PATH).json["service_type_instances"] == []


def test_a_body_that_is_no_json_or_too_large_or_of_another_type_is_refused(client, problem, conf):
    json = {"Content-Type": "application/json"}
    problem(client.simulate_post(PATH, body=b"{", headers=json), 400)
    problem(client.simulate_post(PATH, body=b"", headers=json), 400)
    problem(client.simulate_post(PATH, body=b"x=1", headers={"Content-Type": "text/plain"}), 415)
    problem(client.simulate_post(PATH, body=b"{" + b" " * conf.api.max_body_bytes, headers=json), 413)


def test_the_agent_of_an_instance_is_written_shown_and_removed(client):
    path = "/v1/service_type_instances/i-agent"
    assert (
        client.simulate_put(path, json={"service_type": "vm", "agent_name": "agent-1"}).json["agent_name"] == "agent-1"
    )
    assert client.simulate_get(path, params={"fields": "agent_name"}).json == {"agent_name": "agent-1"}
    assert client.simulate_put(path, json={"service_type": "vm"}).json["agent_name"] is None
