# SPDX-License-Identifier: Apache-2.0
"""Pages of lists and histories are bounded in bytes, and their markers reach every row."""

from __future__ import annotations

import functools

import pytest

from tests.simulated import NOON, telling, told
from tests.unit.api.conftest import Client
from watcher_sync.assembly.api import make_application
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.model.changes import Upsert
from watcher_sync.read import entity_reader
from watcher_sync.storage.drifts import FieldDifference, replace_drifts
from watcher_sync.storage.writing import journal

COUNT, SIZE = 45, 400_000
MAX_BYTES = 8_388_608 + 2 * SIZE


def committed(store, *told_of):
    """Commits (id, version, size) of entities, each in a batch of its own."""
    cycle = CommitCycle(store, store.load(), telling())
    for entity_id, version, size in told_of:
        spec = {"service_type": "vm", "spec": {"x": version[-1] * size}}
        cycle.run(Batch(events=[told(entity_id, Upsert("service_type_instance", entity_id, version, {"spec": spec}))]))


def pages(client, path, name, **query):
    """All pages of a list, by their markers."""
    found = []
    marker = {}
    while marker is not None:
        result = client.simulate_get(path, params={"limit": 1000, **query, **marker})
        assert result.status_code == 200, result.text
        assert len(result.content) <= MAX_BYTES
        assert result.json[name]
        found.append(result.json[name])
        marker = result.json["next_marker"] and {"marker": result.json["next_marker"]}
    return found


@pytest.fixture
def client(conf, store):
    return Client(make_application(conf, store))


@pytest.mark.slow
def test_a_list_ends_its_pages_at_their_bytes_and_its_markers_reach_every_row(client, store):
    ids = [f"i{n:02}" for n in range(COUNT)]
    committed(store, *((entity_id, "1", SIZE) for entity_id in ids))
    for sort in ("id", "-id", "service_type", "-provider_name"):
        found = pages(client, "/v1/service_type_instances", "service_type_instances", sort=sort)
        assert [row["id"] for page in found for row in page] == (ids[::-1] if sort[0] == "-" else ids)
        assert len(found) == 3
    small = client.simulate_get("/v1/service_type_instances?fields=id,status&limit=1000").json
    assert len(small["service_type_instances"]) == COUNT
    assert small["next_marker"] is None


def test_a_history_ends_its_pages_at_their_bytes_and_its_markers_reach_every_row(client, store):
    committed(store, *(("i", f"{n:03}", SIZE // 2) for n in range(COUNT)))  # A change has the old and the new document.
    found = pages(client, "/v1/service_type_instances/i/history", "history")
    assert [row["seq"] for page in found for row in page] == list(range(1, COUNT + 1))
    assert len(found) == 3


def test_a_page_has_at_least_one_row_and_the_last_one_has_no_marker(client, store, monkeypatch):
    monkeypatch.setattr(entity_reader, "bounded_page", functools.partial(entity_reader.bounded_page, max_bytes=1))
    committed(store, *((entity_id, "1", 10) for entity_id in "abc"))
    found = pages(client, "/v1/service_type_instances", "service_type_instances")
    assert [[row["id"] for row in page] for page in found] == [["a"], ["b"], ["c"]]
    with store.database.connect() as connection:
        assert [row.seq for row in journal.read_since(connection, store.tables, 0, 100, max_bytes=1)] == [1]


def registered(store, count):
    """Commits VNF instances, whose documents have the largest values twice."""
    cycle = CommitCycle(store, store.load(), telling())
    for n in range(count):
        facet = {"cluster": "c", "vnfd_id": f"d{n % 2}", "vdus": {}, "aspects": {}, "ext_cp_info": [{"x": SIZE * "y"}]}
        cycle.run(Batch(events=[told(n, Upsert("vnf_instance", f"v{n:02}", "1", {"registration": facet}))]))


@pytest.mark.parametrize("selectors", ["", "&all_fields", "&all_fields&filter=(eq,vnfdId,d1)", "&fields=id"])
def test_pages_of_vnf_instances_end_at_the_bytes_that_are_answered(client, store, selectors):
    registered(store, COUNT)
    wanted = [f"v{n:02}" for n in range(COUNT) if "d1" not in selectors or n % 2]
    first, found = f"/v1/vnf_instances?limit=1000{selectors}", []
    following = first
    while following:
        result = client.simulate_get(following)
        assert len(result.content) <= MAX_BYTES
        found += [row["id"] for row in result.json["vnf_instances"]]
        following = result.json["next"]
    assert found == wanted
    if "fields=" in selectors:
        assert client.simulate_get(first).json["next"] is None


def test_pages_of_sol003_end_at_the_bytes_that_are_answered(client, store):
    registered(store, COUNT)
    found, following = [], "/vnflcm/v2/vnf_instances?all_fields"
    while following:
        result = client.simulate_get(following)
        assert len(result.content) <= MAX_BYTES
        found += [row["id"] for row in result.json]
        link = result.headers.get("Link")
        following = link and link[1 : link.index(">")]
    assert found == [f"v{n:02}" for n in range(COUNT)]


def test_pages_of_drifts_end_at_their_bytes_and_their_markers_reach_every_one(client, store):
    value = [SIZE // 2 * "x"]
    found = [
        FieldDifference(kind="pod", entity_id=f"p{n:02}", field="a", model_value=value, live_value=value, policy="heal")
        for n in range(COUNT)
    ]
    replace_drifts(store.database, found, source="edge", kinds=["pod"], now=NOON)
    listed = pages(client, "/v1/drifts", "drifts", levels="true")
    assert [row["entity_id"] for page in listed for row in page] == [each.entity_id for each in found]
    assert len(listed) == 3


def test_a_list_of_watch_topics_beyond_a_page_is_refused_and_smaller_pages_have_them(client, store):
    base = "/management/v1alpha1/watchtopics"
    scope = {"kind": "*", "name": 600 * "x"}
    filters = [{"group": "*", "kind": "*", "name": f"{n:03}{597 * 'x'}", "scope": scope} for n in range(256)]
    for n in range(COUNT):
        assert client.simulate_post(base, json={"name": f"t{n:02}", "spec": {"filters": filters}}).status_code == 201
    for params in ({}, {"pageSize": COUNT}):
        refused = client.simulate_get(base, params=params)
        assert (refused.status_code, "ask for pages of at most" in refused.text) == (400, True), len(refused.content)
    found = [client.simulate_get(base, params={"page": page, "pageSize": 20}).json for page in (1, 2, 3)]
    assert [topic["name"] for page in found for topic in page] == [f"t{n:02}" for n in range(COUNT)]
