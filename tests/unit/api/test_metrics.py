# SPDX-License-Identifier: Apache-2.0
"""``/metrics`` of the API: engines, sources and drifts as the database has them, also without an engine."""

from __future__ import annotations

import datetime

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.unit.api.conftest import Client
from watcher_sync.assembly.api import make_application
from watcher_sync.storage.groups.engines import EngineRow, write_engine
from watcher_sync.storage.groups.source_status import SourceRow, write_sources

NOW = datetime.datetime.now(datetime.UTC)


@pytest.fixture
def client(conf, store):
    conf.set_override("metrics", True, group="api")
    return Client(make_application(conf, store))


def figures(client):
    answer = client.simulate_get("/metrics")
    assert answer.status_code == 200
    samples = [s for family in text_string_to_metric_families(answer.text) for s in family.samples]
    return {(s.name.removeprefix("watcher_sync_api_"), *s.labels.values()): s.value for s in samples}


def test_a_dead_engine_and_its_sources_are_seen(client, store):
    ago = NOW - datetime.timedelta(seconds=100)
    common = {"engine_group": "default", "host": "a", "pid": 1}
    engine = EngineRow(
        id="a/boot/1/2/3", release="1", since=ago, heartbeat_at=ago, seq=7, lag_seconds=0.0, sources=["nova"], **common
    )
    write_engine(store.database, engine)
    row = SourceRow(
        source="nova", state="connected", since=ago, updated_at=ago, current_until=ago, last_event_at=ago, **common
    )
    write_sources(store.database, [row])
    found = figures(client)
    states = {state: found["engines", "default", state] for state in ("leading", "standby", "gone")}
    assert states == {"leading": 0, "standby": 0, "gone": 1}
    assert (found["source_connected", "nova"], found["source_stale", "nova"]) == (1, 1)
    assert found["source_behind_seconds", "nova"] >= 100
    assert found["source_last_event_timestamp_seconds", "nova"] == ago.timestamp()
    assert found[("journal_seq",)] == 0


def test_without_a_database_there_are_no_figures(client, store):
    with store.database.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE engines RENAME TO away")
    assert client.simulate_get("/metrics").status_code == 503


def test_only_get_and_head_are_answered_and_only_if_it_is_enabled(client, conf, store, problem):
    assert client.simulate_head("/metrics").status_code == 200
    assert client.simulate_post("/metrics").status_code == 405
    conf.set_override("metrics", False, group="api")
    problem(Client(make_application(conf, store)).simulate_get("/metrics"), 404)
