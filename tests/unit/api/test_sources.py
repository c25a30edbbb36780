# SPDX-License-Identifier: Apache-2.0
"""What the engines tell about their sources, and the drifts."""

from __future__ import annotations

import datetime
import re

import msgspec
import pytest

from tests.simulated import by_facet, telling
from tests.simulated import told as occurrence
from tests.unit.api.conftest import Client
from tests.unit.extensions.vnf.api.test_instances import DEMO
from watcher_sync.api.edge import healthcheck, metrics
from watcher_sync.api.operator import sources
from watcher_sync.api.service import Service
from watcher_sync.assembly.api import make_application
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.extensions.kubernetes.handler.handler import KubernetesHandler
from watcher_sync.model.changes import Upsert
from watcher_sync.model.scopes import EntityScope
from watcher_sync.storage.drifts import FieldDifference, replace_drifts
from watcher_sync.storage.groups.source_status import SourceRow, list_sources, mark_removed, write_sources


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
    assert "refused" in dcm["problem"]
    assert dcm["last_event_age"] is None
    assert (nova["source"], nova["fresh"], nova["problem"], nova["lag"]) == ("nova", True, "", 3)
    assert 3600 <= nova["last_event_age"] < 3700
    assert client.simulate_get("/v1/sources/nova").json["state"] == "connected"


def test_each_source_says_by_how_many_seconds_the_model_is_behind(client, store):
    now = datetime.datetime.now(datetime.UTC)
    ago = now - datetime.timedelta(seconds=90)
    common = {"engine_group": "default", "host": "here", "pid": 1, "since": now, "updated_at": now}
    write_sources(
        store.database,
        [
            SourceRow(source="current", state="connected", current_until=now, **common),
            SourceRow(source="late", state="disconnected", current_until=ago, **common),
            SourceRow(source="new", state="starting", **common),
        ],
    )
    current, late, new = client.simulate_get("/v1/sources").json["sources"]
    assert (current["behind_seconds"], new["behind_seconds"]) == (0, None)
    assert 90 <= late["behind_seconds"] < 120
    assert datetime.datetime.fromisoformat(late["current_until"]) == ago


@pytest.mark.parametrize("state", ["starting", "disconnected", "failed"])
def test_a_source_that_is_not_connected_is_not_fresh_from_the_first_second(client, store, state):
    now = datetime.datetime.now(datetime.UTC)
    row = SourceRow(
        source="edge", state=state, detail="refused", engine_group="default", host="here", pid=1, since=now,
        updated_at=now,
    )  # fmt: skip
    write_sources(store.database, [row])
    (edge,) = client.simulate_get("/v1/sources").json["sources"]
    assert (edge["state"], edge["fresh"]) == (state, False)
    assert re.fullmatch(rf"{state} for \d+ s: refused", edge["problem"])
    health = client.simulate_get("/healthcheck")
    assert health.status_code == 200, "a short interruption is borne"
    assert "fresh" not in health.text


def test_deletions_that_are_held_back_are_a_reason_why_a_source_is_not_fresh(client, store):
    now = datetime.datetime.now(datetime.UTC)
    held = "The delete guard refuses deletions in nova/nova: 10 of 10 instance"
    common = {"engine_group": "default", "host": "here", "pid": 1, "since": now, "updated_at": now}
    write_sources(store.database, [SourceRow(source="nova", state="connected", notes=held, **common)])
    (nova,) = client.simulate_get("/v1/sources").json["sources"]
    assert (nova["fresh"], nova["problem"]) == (False, held)
    assert client.simulate_get("/healthcheck").status_code == 200


@pytest.mark.slow
def test_an_unknown_source_is_404(client, told, problem):
    problem(client.simulate_get("/v1/sources/nothing"), 404)


def test_drifts_have_pages_and_are_filtered(client, store):
    now = datetime.datetime.now(datetime.UTC)
    found = [
        FieldDifference(kind="instance", entity_id=str(i), field="host", model_value="a", live_value="b", policy="heal")
        for i in range(3)
    ]
    replace_drifts(store.database, found, source="nova", kinds=["instance"], now=now)
    first = client.simulate_get("/v1/drifts", params={"limit": 2}).json
    rest = client.simulate_get("/v1/drifts", params={"limit": 2, "marker": first["next_marker"]}).json
    assert [d["entity_id"] for d in first["drifts"] + rest["drifts"]] == ["0", "1", "2"]
    assert rest["next"] is None
    assert client.simulate_get("/v1/drifts", params={"kind": "aggregate"}).json["drifts"] == []
    assert len(client.simulate_get("/v1/drifts", params={"source": "nova"}).json["drifts"]) == 3


@pytest.mark.slow
@pytest.mark.parametrize("ahead", [-3600, -30, 30, 3600])
def test_the_clock_of_the_database_decides_what_is_fresh(store, conf, told, monkeypatch, ahead):
    """The rows have it, too, so it does not matter whether this machine's clock is right."""
    then = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=ahead)
    common = {"engine_group": "default", "host": "here", "pid": 1, "since": then, "updated_at": then}
    both = [SourceRow(source=name, state="connected", current_until=then, **common) for name in ("nova", "dcm")]
    write_sources(store.database, both)
    conf.set_override("metrics", True, group="api")
    client = Client(make_application(conf, store))
    for module in (sources, metrics, healthcheck):
        monkeypatch.setattr(module, "read_clock", lambda database: then + datetime.timedelta(seconds=1))
    for source in client.simulate_get("/v1/sources").json["sources"]:
        assert (source["fresh"], source["behind_seconds"]) == (True, 0)
    assert client.simulate_get("/v1/sources/nova").json["fresh"]
    assert 'watcher_sync_api_source_stale{source="nova"} 0.0' in client.simulate_get("/metrics").text
    assert client.simulate_get("/healthcheck").status_code == 200


@pytest.fixture
def left_behind(store):
    """A pod of a cluster that no engine follows any more, and one of another cluster."""
    cycle = CommitCycle(store, store.load(), telling())
    pods = [Upsert("pod", uid, "1", by_facet("pod", name=uid, cluster=uid)) for uid in ("edge", "core")]
    cycle.run(Batch(events=[occurrence(1, *pods)]))
    now = datetime.datetime.now(datetime.UTC)
    common = {"engine_group": "default", "host": "here", "pid": 1, "since": now, "updated_at": now}
    scopes = {name: msgspec.json.encode(KubernetesHandler().scopes(name)).decode() for name in ("edge", "core")}
    rows = [SourceRow(source=name, state="connected", scopes=text, **common) for name, text in scopes.items()]
    write_sources(store.database, rows)
    mark_removed(store.database, "default", ["core"], now)


def test_a_removed_source_is_listed_with_the_number_of_its_entities(client, left_behind):
    core, edge = client.simulate_get("/v1/sources").json["sources"]
    assert (core["state"], core["fresh"], core["entities"]) == ("connected", True, None)
    assert (edge["state"], edge["fresh"], edge["entities"]) == ("removed", False, 1)
    assert edge["problem"].startswith("removed from the configuration; 1 entities remain")
    assert client.simulate_get("/v1/sources/edge").json["entities"] == 1


def test_the_entities_of_a_removed_source_are_marked(client, left_behind):
    listed = {pod["id"]: pod for pod in client.simulate_get("/v1/pods").json["pods"]}
    assert listed["edge"]["source_removed"] is True
    assert "source_removed" not in listed["core"]
    assert client.simulate_get("/v1/pods/edge").json["source_removed"] is True
    assert "source_removed" not in client.simulate_get("/v1/pods/core").json
    chosen = client.simulate_get("/v1/pods", query_string="fields=id,name").json["pods"]
    assert chosen[0].keys() == {"id", "name"}


def test_an_entity_has_another_etag_while_its_source_is_removed(conf, client, store, left_behind):
    marked = client.simulate_get("/v1/pods/edge").headers["ETag"]
    assert client.simulate_get("/v1/pods/edge", headers={"If-None-Match": marked}).status_code == 304
    edge = next(row for row in list_sources(store.database, removed=True) if row.source == "edge")
    write_sources(store.database, [msgspec.structs.replace(edge, state="connected")])
    later = Client(make_application(conf, store))  # which has not read the sources yet
    assert later.simulate_get("/v1/pods/edge", headers={"If-None-Match": marked}).status_code == 200


def test_the_removed_sources_are_read_every_few_seconds(conf, store, left_behind):
    now = [0.0]
    service = Service(conf, store, monotonic=lambda: now[0])
    pod = {"id": "core", "cluster": "core"}
    assert not is_removed(service, pod)
    mark_removed(store.database, "default", [], datetime.datetime.now(datetime.UTC))
    assert not is_removed(service, pod)
    now[0] = 6.0
    assert is_removed(service, pod)


def is_removed(service: Service, pod: dict[str, str]) -> bool:
    removed = service.removed_of("pod")
    return removed is not None and removed.has(pod)


@pytest.fixture(params=["service_type_instances", "vnf_instances"])
def written(request, client, store):
    """The path and the body of an entity that is written in the API. It is that of a plugin's removed source."""
    now = datetime.datetime.now(datetime.UTC)
    scope = EntityScope(kind=request.param.removesuffix("s"), field="id", value="edge:", is_prefix=True)
    scopes = msgspec.json.encode([scope]).decode()
    common = {"engine_group": "default", "host": "here", "pid": 1, "since": now, "updated_at": now}
    write_sources(store.database, [SourceRow(source="edge", state="connected", scopes=scopes, **common)])
    mark_removed(store.database, "default", [], now)
    path = f"/v1/{request.param}/edge:a"
    body = {"service_type": "vm"} if request.param == "service_type_instances" else DEMO
    assert client.simulate_put(path, json=body).status_code == 201
    return path, body


@pytest.mark.slow
def test_the_etag_of_a_marked_entity_holds_in_a_write(client, problem, written):
    path, body = written
    shown = client.simulate_get(path)
    assert shown.json["source_removed"] is True
    renamed = body | ({"instance_name": "new"} if "service_type" in body else {"name": "new"})
    stale = {"If-Match": shown.headers["ETag"]}
    answer = client.simulate_put(path, json=renamed, headers=stale)
    assert answer.status_code == 200, answer.text
    problem(client.simulate_put(path, json=body, headers=stale), 412)
    problem(client.simulate_delete(path, headers=stale), 412)
    assert client.simulate_put(path, json=body, headers={"If-Match": answer.headers["ETag"]}).status_code == 200
    now = client.simulate_get(path).headers["ETag"]
    problem(client.simulate_put(path, json=renamed, headers={"If-None-Match": now}), 412)
    listed = f'"1", {now}'
    assert client.simulate_delete(path, headers={"If-Match": listed}).status_code == 204


@pytest.mark.slow
def test_the_mark_of_a_removed_source_changes_the_etag_of_a_read(client, written):
    path, _ = written
    marked = client.simulate_get(path).headers["ETag"]
    plain = client.simulate_get(path, params={"fields": "id"}).headers["ETag"]
    assert marked != plain
    assert client.simulate_get(path, headers={"If-None-Match": marked}).status_code == 304
    assert client.simulate_get(path, headers={"If-None-Match": plain}).status_code == 200
