# SPDX-License-Identifier: Apache-2.0
"""What the engines tell about their sources, and the drifts."""

from __future__ import annotations

import datetime

import pytest

from watcher_sync.storage.drifts import Difference, replace_drifts
from watcher_sync.storage.source_status import SourceRow, write_sources


@pytest.fixture
def told(store):
    now = datetime.datetime.now(datetime.UTC)
    long_ago = now - datetime.timedelta(hours=1)
    common = {"engine_group": "default", "host": "here", "pid": 1, "updated_at": now}
    write_sources(
        store.database,
        [
            SourceRow(source="dcm", state="disconnected", since=long_ago, detail="refused", **common),
            SourceRow(source="nova", state="connected", since=long_ago, last_event_at=long_ago, lag=3, **common),
        ],
    )


def test_each_source_has_its_state_its_lag_and_the_age_of_its_last_event(client, told):
    dcm, nova = client.simulate_get("/v1/sources").json["sources"]
    assert (dcm["source"], dcm["fresh"]) == ("dcm", False)
    assert "refused" in dcm["trouble"]
    assert dcm["last_event_age"] is None
    assert (nova["source"], nova["fresh"], nova["trouble"], nova["lag"]) == ("nova", True, "", 3)
    assert 3600 <= nova["last_event_age"] < 3700
    assert client.simulate_get("/v1/sources/nova").json["state"] == "connected"


def test_a_source_that_nobody_knows_is_404(client, told, problem):
    problem(client.simulate_get("/v1/sources/nothing"), 404)


def test_drifts_have_pages_and_are_filtered(client, store):
    now = datetime.datetime.now(datetime.UTC)
    found = [
        Difference(kind="instance", entity_id=str(i), field="host", model_value="a", live_value="b", policy="heal")
        for i in range(3)
    ]
    replace_drifts(store.database, found, source="nova", kinds=["instance"], now=now)
    first = client.simulate_get("/v1/drifts", params={"limit": 2}).json
    rest = client.simulate_get("/v1/drifts", params={"limit": 2, "marker": first["next_marker"]}).json
    assert [d["entity_id"] for d in first["drifts"] + rest["drifts"]] == ["0", "1", "2"]
    assert rest["next"] is None
    assert client.simulate_get("/v1/drifts", params={"kind": "aggregate"}).json["drifts"] == []
    assert len(client.simulate_get("/v1/drifts", params={"source": "nova"}).json["drifts"]) == 3
