# SPDX-License-Identifier: Apache-2.0
"""Lists, items and histories."""

from __future__ import annotations

import datetime
import urllib.parse

import pytest

from tests.simulated import by_facet, telling, told
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.events import Event
from watcher_sync.model.changes import Delete, Upsert
from watcher_sync.testing.nova.cloud import CloudSimulator

pytestmark = pytest.mark.slow


def pages(client, path, plural, **params):
    """All entries of a list, page by page."""
    found = []
    url, first = path, True
    while url:
        assert len(found) < 10_000
        result = client.simulate_get(url, params=params if first else None)
        first = False
        assert result.status_code == 200, result.text
        found += result.json[plural]
        url = result.json["next"]
        if url:
            url, _, query = url.partition("?")
            params = dict(urllib.parse.parse_qsl(query))
            first = True
    return found


@pytest.mark.parametrize("limit", [1, 3, 1000])
@pytest.mark.parametrize("plural", ["instances", "compute_nodes", "aggregates"])
def test_the_pages_of_a_list_are_the_model_in_order_of_id(client, store, truth, plural, limit):
    kind = next(k for k in store.kinds.values() if k.plural == plural)
    found = pages(client, f"/v1/{plural}", plural, limit=limit)
    assert [e["id"] for e in found] == store.load().snapshot().ids(kind.name)
    assert len(found) > 2


def test_every_field_of_an_entity_is_shown_as_the_model_has_it(client, store, truth):
    dumped = {d["id"]: d for d in store.load().snapshot().dump("instance")}
    for entity in client.simulate_get("/v1/instances").json["instances"]:
        expected = dumped[entity["id"]]
        assert set(entity) == {*expected, "seq"}
        assert entity["host"] == expected["host"]
        assert entity["metadata"] == expected["metadata"]


def test_a_list_is_filtered_by_indexed_fields_and_by_elements_of_lists(client, store, truth):
    model = store.load().snapshot()
    host = next(i.host for i in model.all("instance") if i.host)
    found = client.simulate_get("/v1/instances", params={"host": host}).json["instances"]
    assert {e["id"] for e in found} == {e.id for e in model.by("instance", "host", host)}
    member = next(a.hosts[0] for a in model.all("aggregate") if a.hosts)
    found = client.simulate_get("/v1/aggregates", params={"hosts": member}).json["aggregates"]
    assert {e["id"] for e in found} == {e.id for e in model.by("aggregate", "hosts", member)}
    assert not client.simulate_get("/v1/aggregates", params={"hosts": member.upper()}).json["aggregates"]


@pytest.mark.parametrize("sort", ["host", "-host", "-id"])
@pytest.mark.parametrize("limit", [1, 4])
def test_a_sorted_list_has_each_entity_once_and_in_order(client, store, truth, sort, limit):
    found = pages(client, "/v1/instances", "instances", sort=sort, limit=limit)
    assert sorted(e["id"] for e in found) == store.load().snapshot().ids("instance")
    field = sort.lstrip("-")
    keys = [(e[field] is None, e[field] or "", e["id"]) for e in found]
    assert keys == sorted(keys, reverse=sort.startswith("-"))


def test_only_the_wanted_fields_are_shown(client, truth):
    found = client.simulate_get("/v1/instances", params={"fields": "id,host"}).json["instances"]
    assert all(set(e) == {"id", "host"} for e in found)


def test_an_item_has_its_version_as_etag_and_is_not_sent_again(client, store, truth):
    instance = next(store.load().snapshot().all("instance"))
    first = client.simulate_get(f"/v1/instances/{instance.id}")
    assert first.json["id"] == instance.id
    assert first.headers["etag"] == f'"{instance.seq}"'
    again = client.simulate_get(f"/v1/instances/{instance.id}", headers={"If-None-Match": first.headers["etag"]})
    assert again.status_code == 304
    assert not again.content
    assert client.simulate_get(f"/v1/instances/{instance.id}", headers={"If-None-Match": '"0"'}).status_code == 200


def test_the_history_of_an_entity_leads_to_what_it_is(client, store, truth):
    instance = next(i for i in store.load().snapshot().all("instance") if i.host)
    history = pages(client, f"/v1/instances/{instance.id}/history", "history", limit=2)
    assert history[0]["change"] == "created"
    assert all(row["delta"] for row in history)
    values = {}
    for row in history:
        values |= {field: new for field, (_, new) in row["delta"].items()}
    assert values["host"] == instance.host
    assert values["state"] == instance.state


def test_the_history_goes_back_from_the_latest_change_in_pages(client, store, truth):
    instance = next(i for i in store.load().snapshot().all("instance") if i.host)
    path = f"/v1/instances/{instance.id}/history"
    forward = pages(client, path, "history", limit=2)
    backward = pages(client, path, "history", limit=2, sort="-seq")
    assert len(forward) > 2
    assert backward == forward[::-1]
    before = client.simulate_get(path, params={"sort": "-seq", "marker": str(forward[1]["seq"])}).json["history"]
    assert before == forward[:1]


def test_long_values_of_a_history_are_named_and_not_sent_if_short_ones_are_asked_for(client, store):
    facets = by_facet("instance", name="n" * 255, metadata={"a": "x" * 5000}, vcpus=2)
    CommitCycle(store, store.load(), telling()).run(Batch(events=[told(1, Upsert("instance", "long", "1", facets))]))
    path = "/v1/instances/long/history"
    (whole,) = client.simulate_get(path).json["history"]
    assert "long_fields" not in whole
    (short,) = client.simulate_get(path, params={"values": "short"}).json["history"]
    assert short["long_fields"] == ["name", "metadata"]
    assert short["delta"] == {f: v for f, v in whole["delta"].items() if f not in short["long_fields"]}
    assert short["delta"]["vcpus"] == [None, 2]


def test_the_history_of_a_deleted_entity_is_still_there(client, store, truth):
    alive = set(store.load().snapshot().ids("instance"))
    with store.database.connect() as connection:
        t = store.tables.journal
        rows = connection.execute(t.select().where(t.c.kind == "instance", t.c.change == "deleted")).all()
    gone = next(row.entity_id for row in rows if row.entity_id not in alive)
    assert client.simulate_get(f"/v1/instances/{gone}").status_code == 404
    history = client.simulate_get(f"/v1/instances/{gone}/history").json["history"]
    assert history[-1]["change"] == "deleted"


def test_paging_while_events_arrive_shows_each_entity_that_stays_exactly_once(client, store, cycle):
    simulator = CloudSimulator(seed=3, hosts=5, instances=40)
    from watcher_sync.wire.envelopes import read_document

    def more(n):
        documents = simulator.history(n)
        cycle.run(Batch(events=[read_document(d, source="nova", number=i) for i, d in enumerate(documents)]))

    more(400)
    throughout = set(store.load().snapshot().ids("instance"))
    seen, marker = [], None
    while True:
        params = {"limit": 2} | ({"marker": marker} if marker else {})
        page = client.simulate_get("/v1/instances", params=params).json
        seen += [e["id"] for e in page["instances"]]
        marker = page["next_marker"]
        if marker is None:
            break
        more(20)
        throughout &= set(store.load().snapshot().ids("instance"))
    assert len(seen) == len(set(seen))
    assert throughout <= set(seen)
    assert len(throughout) > 5


@pytest.mark.parametrize("query", ["", "sort=name&", "sort=-name&filter=(eq,id,a)&"])
def test_a_marker_that_names_no_entity_is_404_and_that_of_a_deleted_one_is_a_position(client, store, problem, query):
    cycle = CommitCycle(store, store.load(), telling())
    cycle.run(Batch(events=[told(1, *(Upsert("vnf_instance", i, "1", {"registration": {"name": i}}) for i in "abc"))]))
    cycle.run(Batch(events=[told(2, Delete("vnf_instance", "b", "2"))]))
    named = "b,b" if "name" in query else "b"
    answer = client.simulate_get("/v1/vnf_instances", query_string=f"{query}marker={named}")
    assert answer.status_code == 200, answer.text
    answer = client.simulate_get("/v1/vnf_instances", query_string=f"{query}marker={named}onsense")
    assert problem(answer, 404)["detail"] == "marker: vnf_instance bonsense does not exist"


def test_a_list_sorted_by_long_names_with_any_characters_is_continued(client, store):
    names = ["日" * 255, "*", "*x", "%2C", "a,b", ",", "%", "100%", "é" * 255, "日" * 254 + ",", "", "~" * 255]
    cycle = CommitCycle(store, store.load(), telling())
    changes = [Upsert("instance", f"i{n}", "1", by_facet("instance", name=name)) for n, name in enumerate(names)]
    cycle.run(Batch(events=[told(1, *changes, Upsert("instance", "none", "1", by_facet("instance", name=None)))]))
    for sort in ("name", "-name"):
        seen, marker = [], None
        while len(seen) <= len(names) + 1:
            params = {"limit": 1, "sort": sort} | ({"marker": marker} if marker else {})
            answer = client.simulate_get("/v1/instances", params=params)
            assert answer.status_code == 200, answer.text
            seen += [entity["name"] for entity in answer.json["instances"]]
            marker = answer.json["next_marker"]
            if marker is None:
                break
            following = client.simulate_get(
                answer.json["next"].partition("?")[0], query_string=answer.json["next"].partition("?")[2]
            )
            assert following.status_code == 200
        assert sorted(seen, key=str) == sorted([*names, None], key=str)


def test_versions_are_those_of_the_model_and_ids_select_entities(client, store, truth):
    snapshot = store.load().snapshot()
    for kind in (store.kinds["instance"], store.kinds["compute_node"]):
        found = pages(client, f"/v1/{kind.plural}", kind.plural, limit=3, versions="true")
        assert [e["id"] for e in found] == snapshot.ids(kind.name)
        for entity in found:
            versions = zip(kind.facets, snapshot.get(kind.name, entity["id"]).versions, strict=True)
            assert entity["versions"] == {facet: version for facet, version in versions if version}
            assert set(entity) == {*kind.public, "seq", "versions"}
    wanted = snapshot.ids("instance")[1:3]
    params = {"ids": ",".join([*wanted, "none"]), "limit": 1}
    assert [e["id"] for e in pages(client, "/v1/instances", "instances", **params)] == wanted


def test_ids_may_have_commas_and_percent_signs(client, cycle):
    hosts = ("a,b", "100%25", "a", "ü/../x")
    for one in hosts:
        service = {"host": one, "binary": "nova-compute", "disabled": False, "forced_down": False}
        data = {f"nova_object.{name}": value for name, value in {"namespace": "nova", "data": service}.items()}
        data |= {"nova_object.name": "ServiceStatusPayload", "nova_object.version": "1.1"}
        time = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
        event = Event(id=one, type="service.create", source="nova", origin=f"nova-compute:{one}", time=time, data=data)
        cycle.run(Batch(events=[event]))
    for one in hosts:
        quoted = urllib.parse.quote(one, safe="")
        found = client.simulate_get("/v1/compute_nodes", params={"ids": quoted})
        assert [e["id"] for e in found.json["compute_nodes"]] == [one]


def test_entities_with_versions_have_the_values_of_the_list(client, store, truth):
    for kind in (store.kinds["instance"], store.kinds["compute_node"], store.kinds["aggregate"]):
        plain = {each["id"]: each for each in pages(client, f"/v1/{kind.plural}", kind.plural)}
        for entity in pages(client, f"/v1/{kind.plural}", kind.plural, versions="true"):
            assert {name: entity[name] for name in (*kind.public, "seq")} == {
                name: plain[entity["id"]][name] for name in (*kind.public, "seq")
            }


def test_a_list_with_versions_has_one_order(client, truth):
    sorted_by_id, other = (
        client.simulate_get("/v1/instances", params={"versions": "true", "sort": sort}).json["instances"]
        for sort in ("id", "-host")
    )
    assert sorted_by_id == other


def test_changed_states_are_those_of_the_lists_with_versions(client, store, truth):
    listed = {
        kind: {each["id"]: each for each in pages(client, f"/v1/{plural}", plural, versions="true")}
        for kind, plural in (("instance", "instances"), ("compute_node", "compute_nodes"), ("aggregate", "aggregates"))
    }
    found, since, head, deleted = {}, 0, 1, set()
    while since < head:
        answer = client.simulate_get("/v1/states", params={"since": since, "limit": 3}).json
        for kind, entities in answer["states"].items():
            found.setdefault(kind, {}).update((each["id"], each) for each in entities)
        deleted |= {(each["kind"], each["id"]) for each in answer["deleted"]}
        since, head = answer["next_since"], answer["head"]
    assert found == listed
    assert head == store.load().generation
    assert deleted
    assert not any(entity_id in listed.get(kind, {}) for kind, entity_id in deleted)


def test_a_request_for_changed_states_has_bounds(client, truth, problem):
    path = "/v1/states"
    head = client.simulate_get(path, params={"since": 0}).json["head"]
    assert client.simulate_get(path, params={"since": head}).json["states"] == {}
    problem(client.simulate_get(path, params={"since": head + 1}), 410)
    problem(client.simulate_get(path, params={"limit": 10_001}), 400)
    problem(client.simulate_get(path, params={"limit": 0}), 400)


def test_versions_are_of_whole_entities(client, truth):
    found = client.simulate_get("/v1/instances", params={"versions": "true", "fields": "id"}).json["instances"]
    assert all(len(entity) > 10 for entity in found)
