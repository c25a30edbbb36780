# SPDX-License-Identifier: Apache-2.0
"""The quarantine over REST: list, show, replay, drop."""

from __future__ import annotations

import pytest

from watcher_sync.commit.batch import Batch
from watcher_sync.events import Event
from watcher_sync.exceptions import InvalidEvent


@pytest.fixture
def quarantined(cycle):
    """Three events that no handler can apply."""
    cycle.run(
        Batch(
            events=[
                Event(id="1", type="instance.create.end", source="nova", data={"nonsense": 1}),
                Event(id="2", type="undecodable", source="nova", data=b"{", undecodable="no JSON"),
                Event(id="3", type="undecodable", source="nova", data=b"\xff", undecodable="no text"),
            ]
        )
    )


def test_the_list_has_pages(client, quarantined):
    first = client.simulate_get("/v1/quarantine", params={"limit": 2}).json
    assert [e["event_id"] for e in first["quarantine"]] == ["1", "2"]
    rest = client.simulate_get("/v1/quarantine", params={"limit": 2, "marker": first["next_marker"]}).json
    assert [e["event_id"] for e in rest["quarantine"]] == ["3"]
    assert rest["next"] is None


def test_the_latest_are_first_on_request_and_of_one_reason(client, quarantined):
    pages = [client.simulate_get("/v1/quarantine", params={"limit": 2, "sort": "-id"}).json]
    pages.append(client.simulate_get(pages[0]["next"]).json)
    assert [e["event_id"] for page in pages for e in page["quarantine"]] == ["3", "2", "1"]
    one = client.simulate_get("/v1/quarantine", params={"reason": "no JSON", "source": "nova"}).json
    assert [e["event_id"] for e in one["quarantine"]] == ["2"]
    assert client.simulate_get("/v1/quarantine", params={"source": "dcm"}).json["quarantine"] == []


def test_the_reasons_have_the_true_counts_and_the_latest_is_first(client, cycle, quarantined):
    whys = (
        "id is missing (100%_d, sequence 7)",
        "id is missing (100%_d, sequence 1091)",
        "id is missing (100xd, sequence 8)",
    )
    again = [
        Event(id=str(n), type="undecodable", source="nova", data=b"{%d" % n, undecodable=whys[n]) for n in range(3)
    ]
    cycle.run(Batch(events=again[2:] + again[:2]))
    answer = client.simulate_get("/v1/quarantine_reasons", params={"limit": 2}).json
    assert answer["total"] == 6
    assert [(r["reason"], r["source"], r["count"]) for r in answer["reasons"]] == [
        ("id is missing (#%_d, sequence #)", "nova", 2),
        (whys[2], "nova", 1),
    ]
    newest = client.simulate_get(
        "/v1/quarantine", params={"sort": "-id", "reason": answer["reasons"][0]["reason"]}
    ).json
    assert [e["reason"] for e in newest["quarantine"]] == [whys[1], whys[0]]
    assert answer["reasons"][0]["newest_id"] == newest["quarantine"][0]["id"]


def test_an_event_is_shown_whole(client, quarantined):
    rows = client.simulate_get("/v1/quarantine").json["quarantine"]
    shown = [client.simulate_get(f"/v1/quarantine/{row['id']}").json for row in rows]
    assert [shown[0]["data"], shown[1]["text"], shown[2]["base64"]] == [{"nonsense": 1}, "{", "/w=="]


def test_what_is_refused_again_stays(client, quarantined):
    rows = client.simulate_get("/v1/quarantine").json["quarantine"]
    result = client.simulate_post(f"/v1/quarantine/{rows[0]['id']}/replay")
    assert result.json["outcome"] == "quarantined"
    (first, *others) = client.simulate_get("/v1/quarantine").json["quarantine"]
    assert [{**first, "reason": ""}, *others] == [{**rows[0], "reason": ""}, *rows[1:]]
    assert result.json["reason"] == first["reason"] != rows[0]["reason"]


def test_what_is_refused_again_keeps_its_id_its_times_its_subject_and_its_sequence(client, cycle, conf, store):
    from tests.unit.api.conftest import Client
    from watcher_sync.api.service import Service
    from watcher_sync.assembly.api import make_app
    from watcher_sync.dispatch import Dispatcher

    class Refusing:
        events = {"told": "told"}  # noqa: RUF012 - as plugins write it

        def told(self, event, view):
            raise InvalidEvent("the new reason")

    body = b'{"specversion":"1.0","id":"1","source":"s","type":"told","subject":"other","data":{}}'
    given = {"type": "undecodable", "source": "replay", "subject": "dcm.vm", "sequence": (7, 42), "deliveries": 3}
    cycle.run(Batch(events=[Event(id="1", data=body, undecodable="not yet known", **given)]))
    client = Client(make_app(Service(conf, store), Dispatcher([("told", Refusing())])))
    (before,) = client.simulate_get("/v1/quarantine").json["quarantine"]
    for _ in range(2):
        answer = client.simulate_post(f"/v1/quarantine/{before['id']}/replay").json
        assert (answer["outcome"], answer["reason"]) == ("quarantined", "the new reason")
    (after,) = client.simulate_get("/v1/quarantine").json["quarantine"]
    assert after == {**before, "reason": "the new reason"}


def test_what_a_handler_learned_to_read_is_applied_and_gone(client, cycle, conf, store):
    from tests.unit.api.conftest import Client
    from tests.unit.api.test_cloud_events import Told
    from watcher_sync.api.service import Service
    from watcher_sync.assembly.api import make_app
    from watcher_sync.dispatch import Dispatcher

    body = b'{"specversion":"1.0","id":"1","source":"s","type":"told.aggregate","subject":"a","data":{"name":"x"}}'
    cycle.run(
        Batch(events=[Event(id="1", type="undecodable", source="replay", data=body, undecodable="not yet known")])
    )
    client = Client(make_app(Service(conf, store), Dispatcher([("told", Told())])))
    row = client.simulate_get("/v1/quarantine").json["quarantine"][0]
    assert client.simulate_post(f"/v1/quarantine/{row['id']}/replay").json == {
        "outcome": "applied",
        "seq": 1,
        "reason": None,
    }
    assert client.simulate_get("/v1/quarantine").json["quarantine"] == []
    assert client.simulate_get("/v1/aggregates/a").json["name"] == "x"


def test_what_is_dropped_is_gone(client, quarantined, problem):
    row = client.simulate_get("/v1/quarantine").json["quarantine"][0]
    assert client.simulate_delete(f"/v1/quarantine/{row['id']}").status_code == 204
    problem(client.simulate_get(f"/v1/quarantine/{row['id']}"), 404)
    problem(client.simulate_delete(f"/v1/quarantine/{row['id']}"), 404)
    problem(client.simulate_post(f"/v1/quarantine/{row['id']}/replay"), 404)
    problem(client.simulate_get("/v1/quarantine/99999999999999999999999"), 404)
    problem(client.simulate_get("/v1/quarantine/x"), 404)
