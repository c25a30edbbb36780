# SPDX-License-Identifier: Apache-2.0
"""Bindings of sources to providers in the database: every engine and every API worker sees the same ones."""

from __future__ import annotations

import pytest

from tests.providers import event
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.dispatch import Dispatcher
from watcher_sync.extensions.dcm.handler.handler import DcmHandler
from watcher_sync.testing.dcm import publisher as dcm

PATH = "/v1/provider_bindings"


def said(source, instance_id, number):
    return event({**dcm.status(instance_id, event_id=f"e-{number}"), "source": source}, sequence=number)


def engine(store):
    return CommitCycle(store, store.load(), Dispatcher([("dcm", DcmHandler())]))


@pytest.fixture
def rows(client):
    for instance_id, provider in (("vm-1", "kubevirt-sp"), ("cl-1", "acm-sp")):
        body = {"service_type": "vm", "provider_name": provider}
        assert client.simulate_put(f"/v1/service_type_instances/{instance_id}", json=body).status_code == 201


def reasons(client):
    return [row["reason"] for row in client.simulate_get("/v1/quarantine").json["quarantine"]]


def test_an_engine_that_has_not_seen_the_binding_yet_obeys_it(client, store, rows):
    first, second = engine(store), engine(store)
    first.run(Batch(events=[said("kubevirt.localhost", "vm-1", 1), said("dcm/providers/acm", "cl-1", 2)]))
    second.run(Batch(events=[said("dcm/providers/acm", "vm-1", 3)]))
    assert len(reasons(client)) == 1
    listed = client.simulate_get(PATH, params={"provider_name": "kubevirt-sp"}).json["provider_bindings"]
    assert [(b["provider_name"], b["source"]) for b in listed] == [("kubevirt-sp", "kubevirt.localhost")]


def test_a_worker_of_the_api_obeys_and_makes_bindings(client, store, rows):
    headers = {"Content-Type": "application/cloudevents+json"}

    def post(source, instance_id, number):
        document = {**dcm.status(instance_id, event_id=f"e-{number}"), "source": source}
        answer = client.simulate_post("/v1/events", body=dcm.body_of(document), headers=headers)
        return answer.json["events"][0]["outcome"]

    engine(store).run(Batch(events=[said("kubevirt.localhost", "vm-1", 1)]))
    assert post("dcm/providers/acm", "cl-1", 2) == "applied"
    assert post("dcm/providers/acm", "vm-1", 3) == "quarantined"


def test_a_reset_lets_the_next_source_of_the_provider_in(client, store, rows):
    cycle = engine(store)
    cycle.run(Batch(events=[said("dcm/providers/acm", "vm-1", 1), said("kubevirt.localhost", "cl-1", 2)]))
    cycle.run(Batch(events=[said("kubevirt.localhost", "vm-1", 3)]))
    assert reasons(client) == [
        "unauthorised: source: 'kubevirt.localhost' is bound to the provider 'acm-sp', and not to 'kubevirt-sp'; "
        "see watcher-sync provider binding list"
    ]
    bindings = client.simulate_get(PATH).json["provider_bindings"]
    for binding in bindings:
        assert client.simulate_delete(f"{PATH}/{binding['id']}").status_code == 204
    assert client.simulate_delete(f"{PATH}/{bindings[0]['id']}").status_code == 404
    cycle.catch_up()
    cycle.run(Batch(events=[said("kubevirt.localhost", "vm-1", 4), said("dcm/providers/acm", "cl-1", 5)]))
    found = {(b["provider_name"], b["source"]) for b in client.simulate_get(PATH).json["provider_bindings"]}
    assert found == {("kubevirt-sp", "kubevirt.localhost"), ("acm-sp", "dcm/providers/acm")}
    assert len(reasons(client)) == 1


def test_a_redelivery_does_not_bind_again_after_a_reset(client, store, rows):
    cycle, old = engine(store), said("dcm/providers/acm", "vm-1", 1)
    cycle.run(Batch(events=[old]))
    (binding,) = client.simulate_get(PATH).json["provider_bindings"]
    client.simulate_delete(f"{PATH}/{binding['id']}")
    cycle.catch_up()
    cycle.run(Batch(events=[old]))
    assert client.simulate_get(PATH).json["provider_bindings"] == []
