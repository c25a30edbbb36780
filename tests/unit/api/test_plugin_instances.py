# SPDX-License-Identifier: Apache-2.0
"""An entity of a plugin's kind is an instance: it has a status, subscriptions, and references to what it depends on."""

from __future__ import annotations

from typing import Annotated

import pytest

from tests.migrated import migrate
from tests.unit.extensions.vnf.api.test_instances import written
from watcher_sync.model.changes import Upsert
from watcher_sync.model.kinds import Entity, In, Kinds, Reference, Text, kind
from watcher_sync.storage.database import database
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import BUILTIN

BODY = {"name": "one", "callback-url": "https://receiver.example.com/hook"}


@kind(
    "disk",
    plural="disks",
    indexes=("instance_ids",),
    references=(Reference("instance_ids", "instance", "attached_to"),),
)
class Disk(Entity, frozen=True, kw_only=True, gc=False):
    """A plugin's kind."""

    name: Annotated[Text | None, In("state")] = None
    status: Annotated[Text | None, In("state")] = None
    instance_ids: Annotated[list[str] | None, In("state")] = None


@pytest.fixture
def store(conf):
    store = Store(database.open_database(conf), Kinds(*BUILTIN, Disk))
    migrate(store)
    yield store
    store.close()
    store.database.dispose()


@pytest.fixture
def disk(cycle):
    """A disk that two servers use."""
    values = {"name": "data", "status": "available", "instance_ids": ["s1", "s2"]}
    written(cycle, Upsert("disk", "d", "1", {"state": values}))


def test_its_status_names_what_it_depends_on(client, disk):
    status = client.simulate_get("/v1/instance/d/status").json
    (resource,) = status["resourcesStatus"]
    assert (status["ready"], resource["kind"], resource["GVK"]["Kind"]) == (True, "disk", "disk")
    edge = {"field": "instance_ids", "relation": "attached_to", "kind": "instance"}
    assert resource["references"] == [{**edge, "id": "s1"}, {**edge, "id": "s2"}]


def test_it_has_subscriptions(client, disk):
    path = "/v1/instance/d/status/subscription"
    made = client.simulate_post(path, json={**BODY, "kinds": ["disk"], "fields": ["instance_ids"]})
    assert (made.status_code, made.json["instance-kind"]) == (201, "disk")
    assert [each["name"] for each in client.simulate_get(path).json] == ["one"]


def test_a_subscription_cannot_want_resources_of_another_kind(client, disk, problem):
    result = client.simulate_post("/v1/instance/d/status/subscription", json={**BODY, "kinds": ["pod"]})
    assert "the resources of a disk have the kinds disk, not pod" in problem(result, 400)["errors"][0]["detail"]
