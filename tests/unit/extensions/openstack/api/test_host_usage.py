# SPDX-License-Identifier: Apache-2.0
"""The fields ``used_*`` and ``free_*`` of compute nodes in answers."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tests.unit.api.test_topology import committing, host
from watcher_sync.extensions.openstack.read.host_usage import FIELDS
from watcher_sync.model.changes import Upsert

CAPACITY = {
    "vcpus": 8, "reserved_vcpus": 1, "vcpu_ratio": 2.0,
    "memory_mb": 4096, "reserved_memory_mb": 96, "memory_ratio": 1.0,
    "disk_gb": 100,
}  # fmt: skip
NAMES = tuple(FIELDS)


@pytest.fixture
def commit(store):
    return committing(store)


def server(number, host, source_host=None, version="1", **flavor):
    amounts = {"vcpus": 2, "memory_mb": 512, "disk_gb": 10, **flavor}
    facets = {"state": {}, "flavor": amounts, "placement": {"host": host}, "resize": {"source_host": source_host}}
    return Upsert("instance", f"{number:032x}", version, facets)


@pytest.fixture
def cloud(commit):
    commit(
        host("a", capacity=CAPACITY), host("b"), host("c"),
        server(1, "a"), server(2, "a"), server(3, "b", "a"), server(4, None), server(5, "c", vcpus=None),
    )  # fmt: skip


def listed(client, **params):
    nodes = client.simulate_get("/v1/compute_nodes", params=params).json["compute_nodes"]
    return {node["id"]: tuple(node[name] for name in NAMES if name in node) for node in nodes}


def test_a_list_has_what_instances_use_and_what_is_free(client, cloud):
    assert NAMES == ("used_vcpus", "used_memory_mb", "used_disk_gb", "free_vcpus", "free_memory_mb", "free_disk_gb")
    assert listed(client) == {
        "a": (6, 1536, 30, 8, 2464, None),
        "b": (2, 512, 10, None, None, None),
        "c": (None, 512, 10, None, None, None),
    }


def test_an_item_has_the_same_fields_as_its_list(client, cloud):
    found = {name: client.simulate_get(f"/v1/compute_nodes/{name}").json for name in ("a", "b", "c")}
    assert {name: tuple(node[field] for field in NAMES) for name, node in found.items()} == listed(client)


def test_the_fields_can_be_chosen_and_bring_no_other_field_with_them(client, cloud):
    (node, *_) = client.simulate_get("/v1/compute_nodes", params={"fields": "free_vcpus,id"}).json["compute_nodes"]
    assert node == {"id": "a", "free_vcpus": 8}
    assert client.simulate_get("/v1/compute_nodes/a", params={"fields": "used_vcpus"}).json == {"used_vcpus": 6}
    (node, *_) = client.simulate_get("/v1/compute_nodes", params={"fields": "used_disk_gb"}).json["compute_nodes"]
    assert node == {"used_disk_gb": 30}


def statements(store):
    seen = []
    sa.event.listen(store.database, "before_cursor_execute", lambda *args: seen.append(args[2]))
    return lambda: [text for text in seen if "instances" in text]


def test_a_list_costs_one_query_of_the_instances_for_all_hosts(client, cloud, store, commit):
    commit(*(host(f"more-{number}") for number in range(30)))
    asked = statements(store)
    assert len(listed(client)) == 33
    assert len(asked()) == 1


def test_a_list_of_other_fields_reads_no_instance(client, cloud, store):
    asked = statements(store)
    client.simulate_get("/v1/compute_nodes", params={"fields": "id,vcpus"})
    client.simulate_get("/v1/instances")
    assert not [text for text in asked() if "count(" in text.lower()]


def test_the_etag_of_a_host_changes_with_what_its_instances_use(client, cloud, commit):
    tag = client.simulate_get("/v1/compute_nodes/a").headers["ETag"]
    assert client.simulate_get("/v1/compute_nodes/a", headers={"If-None-Match": tag}).status_code == 304
    commit(server(1, "b", version="2"))
    answer = client.simulate_get("/v1/compute_nodes/a", headers={"If-None-Match": tag})
    assert (answer.status_code, answer.json["used_vcpus"]) == (200, 4)


def test_the_document_describes_the_fields(client):
    document = client.simulate_get("/openapi.json").json
    item = document["paths"]["/v1/compute_nodes/{entity_id}"]["get"]
    properties = item["responses"]["200"]["content"]["application/json"]["schema"]["properties"]
    assert properties["free_vcpus"] == FIELDS["free_vcpus"]
    instance = document["paths"]["/v1/instances/{entity_id}"]["get"]["responses"]["200"]["content"]["application/json"]
    assert "free_vcpus" not in instance["schema"]["properties"]


@pytest.mark.slow
def test_no_journal_row_has_them(client, cloud):
    changes = client.simulate_get("/v1/compute_nodes/a/history").json["history"]
    assert not [name for change in changes for name in change["delta"] if name in FIELDS]
