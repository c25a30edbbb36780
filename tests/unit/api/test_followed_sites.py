# SPDX-License-Identifier: Apache-2.0
"""Entities of a followed site: every operation that writes one is refused with 409, whatever the caller may do."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping

import pytest

from tests.providers import event
from tests.sites import follow
from tests.unit.extensions.vnf.api.test_instances import DEMO
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.commit.direct import DirectWriter
from watcher_sync.commit.entity_repair import reset, undelete
from watcher_sync.dispatch import Dispatcher
from watcher_sync.exceptions import FollowedEntity
from watcher_sync.extensions.dcm.handler.handler import DcmHandler
from watcher_sync.extensions.federation.handler.handler import FederationHandler
from watcher_sync.storage.groups.source_status import REMOVED, mark_removed
from watcher_sync.testing.dcm import publisher as dcm

INSTANCE = {"service_type": "vm"}
BODIES: Mapping[str, object] = {
    "put service_type_instances": INSTANCE,
    "put vnf_instances": DEMO,
    "post operations": {"operation": "SCALE", "holder": "lcm-1"},
}
"""By method and the last fixed part of the path."""


def test_each_operation_that_writes_an_entity_of_a_followed_site_is_refused(client, store, problem):
    follow(store, "north")
    paths = client.simulate_get("/openapi.json").json["paths"]
    asked = []
    for path, methods in paths.items():
        if "{entity_id}" not in path:
            continue
        for method in methods.keys() & {"post", "put", "delete", "patch"}:
            last = re.sub(r"/\{\w+\}", "", path).rpartition("/")[2]
            at = re.sub(r"\{(?!entity_id)\w+\}", "x", path).replace("{entity_id}", "r1:zz")
            found = problem(client.simulate_request(method.upper(), at, json=BODIES.get(f"{method} {last}", {})), 409)
            assert "belongs to the site r1 (source north); change it in its region" in found["detail"]
            asked.append(f"{method} {path}")
    assert len(asked) >= 9, asked


@pytest.mark.parametrize(("kind", "body"), [("service_type_instances", INSTANCE), ("vnf_instances", DEMO)])
def test_a_post_that_names_an_id_of_a_followed_site_is_refused_and_another_colon_is_not(
    client, store, problem, kind, body
):
    follow(store, "north")
    problem(client.simulate_post(f"/v1/{kind}", json={**body, "id": "r1:zz"}), 409)
    assert client.simulate_post(f"/v1/{kind}", json={**body, "id": "r11:zz"}).status_code == 201


def test_what_is_read_of_a_followed_site_stays_readable(client, store):
    assert client.simulate_put("/v1/vnf_instances/r1:zz", json=DEMO).status_code == 201
    follow(store, "north")
    for path in ("", "/history", "/operations"):
        assert client.simulate_get(f"/v1/vnf_instances/r1:zz{path}").status_code == 200


def test_the_ids_of_a_removed_source_are_free_when_it_is_forgotten(client, store, problem):
    follow(store, "north")
    path, body = "/v1/service_type_instances/r1:zz", {"service_type": "vm"}
    mark_removed(store.database, "g", [], datetime.datetime.now(datetime.UTC))
    problem(client.simulate_put(path, json=body), 409)
    follow(store, "north", site="other", state=REMOVED)
    assert client.simulate_put(path, json=body).status_code == 201


def test_an_event_of_another_source_changes_nothing_of_a_followed_site(client, store):
    row = {"service_type": "vm", "provider_name": "kubevirt-sp"}
    assert client.simulate_put("/v1/service_type_instances/r1:zz", json=row).status_code == 201
    follow(store, "north")
    store.sites.refresh()
    cycle = CommitCycle(store, store.load(), Dispatcher([("dcm", DcmHandler())]))
    said = [{**dcm.status(one, event_id=one), "source": "sp"} for one in ("r1:zz", "r1:new")]
    cycle.run(Batch(events=[event(each, sequence=number) for number, each in enumerate(said, 1)]))
    reasons = [each["reason"] for each in client.simulate_get("/v1/quarantine").json["quarantine"]]
    assert sorted(reasons) == [
        f"unauthorised: service_type_instance {one} belongs to the site r1 (source north); change it in its region"
        for one in ("r1:new", "r1:zz")
    ]
    assert client.simulate_get("/v1/service_type_instances/r1:zz").json["status"] is None


def test_a_posted_event_changes_nothing_of_a_followed_site(client, store):
    client.simulate_put("/v1/service_type_instances/r1:zz", json={"service_type": "vm", "provider_name": "p"})
    follow(store, "north")
    document = {**dcm.status("r1:zz", event_id="e"), "source": "sp"}
    client.simulate_post(
        "/v1/events", body=dcm.body_of(document), headers={"Content-Type": "application/cloudevents+json"}
    )
    assert client.simulate_get("/v1/service_type_instances/r1:zz").json["status"] is None
    assert "belongs to the site r1" in client.simulate_get("/v1/quarantine").json["quarantine"][0]["reason"]


@pytest.mark.parametrize("repair", [reset, undelete])
def test_an_administrator_repairs_no_entity_of_a_followed_site(client, store, repair):
    client.simulate_put("/v1/service_type_instances/r1:zz", json={"service_type": "vm"})
    follow(store, "north", "second")
    writer = DirectWriter(store, Dispatcher([("federation", FederationHandler())]))
    with pytest.raises(FollowedEntity, match=r"service_type_instance r1:zz .*source north, second"):
        repair(writer, store.kinds["service_type_instance"], "r1:zz")
