# SPDX-License-Identifier: Apache-2.0
"""The quarantine over REST: list, show, replay, drop."""

from __future__ import annotations

import pytest

from watcher_sync.commit.batch import Batch
from watcher_sync.events import Event


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


def test_an_event_is_shown_whole(client, quarantined):
    rows = client.simulate_get("/v1/quarantine").json["quarantine"]
    shown = [client.simulate_get(f"/v1/quarantine/{row['id']}").json for row in rows]
    assert [shown[0]["data"], shown[1]["text"], shown[2]["base64"]] == [{"nonsense": 1}, "{", "/w=="]


def test_what_is_refused_again_stays(client, quarantined):
    rows = client.simulate_get("/v1/quarantine").json["quarantine"]
    result = client.simulate_post(f"/v1/quarantine/{rows[0]['id']}/replay")
    assert result.json["outcome"] == "quarantined"
    assert len(client.simulate_get("/v1/quarantine").json["quarantine"]) == 3


def test_what_a_handler_learned_to_read_is_applied_and_gone(client, cycle, conf, store):
    from tests.unit.api.conftest import Client
    from tests.unit.api.test_cloud_events import Told
    from watcher_sync.api.app import make_app
    from watcher_sync.api.service import Service
    from watcher_sync.dispatch import Dispatcher

    body = b'{"specversion":"1.0","id":"1","source":"s","type":"told.aggregate","subject":"a","data":{"name":"x"}}'
    cycle.run(
        Batch(events=[Event(id="1", type="undecodable", source="replay", data=body, undecodable="not yet known")])
    )
    client = Client(make_app(Service(conf, store), Dispatcher([("told", Told())])))
    row = client.simulate_get("/v1/quarantine").json["quarantine"][0]
    assert client.simulate_post(f"/v1/quarantine/{row['id']}/replay").json == {"outcome": "applied", "seq": 1}
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
