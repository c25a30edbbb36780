# SPDX-License-Identifier: Apache-2.0
"""What a client reads is what the API has."""

from __future__ import annotations

import datetime

import pytest

from tests.unit.client.conftest import served
from watcher_sync.assembly.api import make_application
from watcher_sync.client import Change, InvalidId, NotFound, UnknownKind, connect
from watcher_sync.commit.batch import Batch
from watcher_sync.events import Event
from watcher_sync.storage.drifts import FieldDifference, replace_drifts

pytestmark = pytest.mark.slow

NOON = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)


@pytest.fixture
def quarantined(cycle):
    cycle.run(
        Batch(
            events=[
                Event(id="1", type="instance.create.end", source="nova", data={"nonsense": 1}),
                Event(id="2", type="undecodable", source="nova", data=b"{", undecodable="no JSON"),
                Event(id="3", type="undecodable", source="nova", data=b"\xff", undecodable="no text"),
            ]
        )
    )


def test_a_list_has_every_entity_once(client, truth):
    ids = [entity["id"] for entity in client.entities("instance")]
    assert ids == sorted(truth["instance"])


def test_pages_of_any_size_make_the_same_list(conf, store, truth):
    conf.set_override("max_limit", 3, group="api")  # less than the client asks for at first
    with served(make_application(conf, store)) as url:
        client = connect(url)
        ids = [entity["id"] for entity in client.entities("instance")]
        assert [len(page.entities) for page in client.entity_pages("instance", limit=7)] == [3, 3, 1]
    assert ids == sorted(truth["instance"])
    assert len(ids) > 3


def test_a_limit_is_of_all_pages_together_and_a_marker_goes_on_after_it(client, truth):
    ids = sorted(truth["instance"])
    assert [e["id"] for e in client.entities("instance", limit=2)] == ids[:2]
    assert [e["id"] for e in client.entities("instance", marker=ids[1], limit=2)] == ids[2:4]


def test_filters_fields_and_sort_are_those_of_the_api(client, truth):
    host = next(i["host"] for i in truth["instance"].values() if i["host"])
    found = list(client.entities("instances", filters={"host": host}, fields=("id", "host"), sort="-id"))
    expected = sorted((i for i, values in truth["instance"].items() if values["host"] == host), reverse=True)
    assert found == [{"id": i, "host": host} for i in expected]


@pytest.mark.parametrize("name", ["compute_node", "compute-node", "compute_nodes", "compute-nodes"])
def test_a_kind_is_known_by_its_name_and_its_plural(client, name):
    assert client.kind(name) == "compute_node"


def test_the_refusal_of_an_unknown_kind_names_the_known_kinds(client):
    with pytest.raises(UnknownKind, match=r"'rack'.*aggregate, cluster, compute_node, custom_object, instance"):
        list(client.entities("rack"))


def test_one_entity_has_its_fields_and_its_history(client, truth):
    entity_id, values = next(iter(truth["instance"].items()))
    assert client.entity("instance", entity_id, fields=("name",)) == {"name": values["name"]}
    history = list(client.history("instance", entity_id))
    assert history[0].change == "created"
    assert all(isinstance(change, Change) and change.id == entity_id for change in history)
    assert [c.seq for c in history] == sorted(c.seq for c in history)
    assert list(client.history("instance", entity_id, marker=str(history[0].seq))) == history[1:]


def test_an_id_is_one_segment_of_the_path_whatever_is_in_it(client):
    for entity_id in ("a b", "%2e%2e", "...", "?x=1", "ü", "#", ";", "a\\b"):
        with pytest.raises(NotFound, match=r"^instance "):
            client.entity("instance", entity_id)


@pytest.mark.slow
@pytest.mark.parametrize("entity_id", ["", ".", "..", "a//b", "../../versions"])
def test_an_id_that_would_be_another_path_is_not_asked_for(client, entity_id):
    with pytest.raises(InvalidId):
        client.entity("instance", entity_id)
    with pytest.raises(InvalidId):
        client.delete_service_type_instance(entity_id)


def test_an_id_with_a_slash_is_asked_for(client):
    with pytest.raises(NotFound, match=r"^instance a/b does not exist"):
        client.entity("instance", "a/b")
    with pytest.raises(NotFound, match=r"^instance a/b does not exist"):
        list(client.history("instance", "a/b"))
    with pytest.raises(InvalidId):
        client.delete_service_type_instance("a/b")


def test_the_endpoint_may_end_with_the_version_and_a_slash(url, truth):
    for tail in ("", "/", "/v1", "/v1/"):
        assert len(list(connect(url + tail).entities("compute_node"))) == len(truth["compute_node"])


@pytest.mark.slow
def test_drifts_are_typed(client, store):
    difference = FieldDifference(
        kind="instance", entity_id="i", field="host", model_value="a", live_value="b", policy="heal"
    )
    replace_drifts(store.database, [difference], source="nova", kinds=["instance"], now=NOON)
    (drift,) = client.drifts(kind="instance", source="nova")
    assert (drift.entity_id, drift.field, drift.model_value, drift.live_value) == ("i", "host", "a", "b")
    assert drift.since == NOON
    assert list(client.drifts(source="edge")) == []


def test_quarantine_is_listed_shown_replayed_and_dropped(client, quarantined):
    listed = list(client.quarantine())
    assert [event.event_id for event in listed] == ["1", "2", "3"]
    shown = [client.quarantined(event.id) for event in listed]
    assert [shown[0].data, shown[1].text, shown[2].base64] == [{"nonsense": 1}, "{", "/w=="]
    assert client.replay(listed[0].id).outcome == "quarantined"
    for event in client.quarantine():
        client.drop(event.id)
    assert list(client.quarantine()) == []
    with pytest.raises(NotFound, match="does not exist"):
        client.drop(listed[1].id)
