# SPDX-License-Identifier: Apache-2.0
"""Runs between two complete ones: what Nova changed, and instances whose events are doubtful."""

from __future__ import annotations

import datetime
import time

import msgspec
import pytest

from tests.nova_sites import NovaSite, truth
from tests.simulated import by_facet
from tests.waiting import deadline
from watcher_sync.events import Event
from watcher_sync.exceptions import ReconcileError
from watcher_sync.extensions.openstack.handler.ordering import listed_version
from watcher_sync.extensions.openstack.liveness.rules import by_events
from watcher_sync.model.changes import Delete, Upsert, Version
from watcher_sync.testing.openstack import FakeOpenStack, Garbage, server_error
from watcher_sync.testing.openstack.http import ServiceHandler

pytestmark = pytest.mark.slow

CHANGES = "nova-changes"
_MINUTE = datetime.timedelta(minutes=1)


def test_changes_are_compared_without_a_list_of_everything(site: NovaSite, cloud: FakeOpenStack):
    site.reconcile()
    first, second, *_ = cloud.inventory.servers
    cloud.inventory.update_server(first, state="stopped", power_state="shutdown")
    cloud.inventory.delete_server(second)
    new = cloud.inventory.add_server("new", host="compute-0").id
    before = cloud.requests.count("os-services")
    report = site.reconcile(CHANGES)
    assert (report.complete, report.deleted) == (True, 1)
    assert site.instances() == truth(cloud)
    assert {(d.entity_id, d.field) for d in site.drifts() if d.field in ("", "state")} >= {
        (first, "state"), (second, ""), (new, ""),
    }  # fmt: skip
    assert cloud.requests.count("os-services") == before


def test_lists_that_no_event_reported_are_empty_if_the_server_has_none(site: NovaSite, cloud: FakeOpenStack):
    first = next(iter(cloud.inventory.servers))
    cloud.inventory.update_server(first, addresses=(), tags=())
    site.write(Upsert("instance", first, Version("1"), by_facet("instance", state="error")))
    before = site.instances()[first]
    assert (before["ip_addresses"], before["tags"]) == (None, None)
    site.reconcile()
    found = site.instances()[first]
    assert (found["ip_addresses"], found["tags"]) == ([], [])


def test_tags_and_server_groups_are_those_of_the_cloud(site: NovaSite, cloud: FakeOpenStack):
    first, second, third, *_ = cloud.inventory.servers
    group = cloud.inventory.add_server_group("apart", [first, second])
    for number in range(6):  # more than a page has
        cloud.inventory.add_server_group(f"empty-{number}")
    cloud.inventory.update_server(first, tags=("web", "edge"))
    assert site.reconcile().complete
    found = {one.id: (one.tags, one.server_group) for one in site.model.all("instance")}
    assert [found[one] for one in (first, second, third)] == [(["edge", "web"], group.id), ([], group.id), ([], None)]
    cloud.inventory.update_server(first, tags=())
    del cloud.inventory.server_groups[group.id]
    assert site.reconcile().complete
    assert site.instances() == truth(cloud)


def test_without_a_complete_inventory_no_changes_are_listed(site: NovaSite, cloud: FakeOpenStack):
    report = site.reconcile(CHANGES)
    assert (report.complete, report.requests, list(site.model.all("instance"))) == (True, 0, [])


@pytest.mark.parametrize("ahead", [-86_400, -300, -61, 0, 300, 86_400])
def test_changes_are_found_whatever_the_difference_of_the_clocks(site: NovaSite, cloud: FakeOpenStack, ahead: int):
    clock = cloud.inventory.clock
    cloud.inventory.clock = lambda: clock() + datetime.timedelta(seconds=ahead)
    site.reconcile()
    first, second, *_ = cloud.inventory.servers
    for server in (first, second):
        cloud.inventory.update_server(server, state="stopped", power_state="shutdown")
        assert site.reconcile(CHANGES).written == 1
    assert site.instances() == truth(cloud)


@pytest.mark.parametrize("ahead", [-300, 300])
def test_a_listing_is_older_than_what_nova_publishes_later_by_its_own_clock(
    site: NovaSite, cloud: FakeOpenStack, ahead: int
):
    clock = cloud.inventory.clock
    cloud.inventory.clock = lambda: clock() + datetime.timedelta(seconds=ahead)
    site.reconcile()
    server = next(iter(cloud.inventory.servers))
    listed = max(site.model.get("instance", server).versions)
    before, after = (listed_version(None, cloud.inventory.clock() + s) for s in (-_MINUTE, _MINUTE))
    assert before < listed < after


@pytest.mark.parametrize(
    "date",
    [
        "Fri, 01 Jan 2100 00:00:00 GMT",
        "Thu, 01 Jan 1970 00:00:00 GMT",
        "Mon, 01 Jan 0001 00:00:00 GMT",
        "Fri, 31 Dec 9999 23:59:59 -1200",
        "Wed, 21 Oct 2015 07:28:00 +99999999999999999999",
        "Wed, 21 Oct 99999999999999999999 07:28:00 GMT",
        "soon",
    ],
)
def test_a_date_that_no_clock_can_have_decides_nothing(site: NovaSite, cloud: FakeOpenStack, monkeypatch, date: str):
    monkeypatch.setattr(ServiceHandler, "date_time_string", lambda *_: date)
    began = datetime.datetime.now(datetime.UTC)
    assert site.reconcile().complete
    listed = max(site.model.get("instance", next(iter(cloud.inventory.servers))).versions)
    assert listed_version(None, began - _MINUTE) < listed < listed_version(None, began + deadline(5) * _MINUTE)


@pytest.mark.parametrize("ahead", [-300, 300])
def test_an_event_is_before_or_after_the_list_of_services_by_the_clock_of_nova(
    site: NovaSite, cloud: FakeOpenStack, ahead: int
):
    clock = cloud.inventory.clock
    cloud.inventory.clock = lambda: clock() + datetime.timedelta(seconds=ahead)
    cloud.inventory.update_host("compute-0", up=False)
    site.reconcile()
    node = site.model.get("compute_node", "compute-0")
    assert node.liveness == "down"
    before, after = (cloud.inventory.clock() + seconds for seconds in (-_MINUTE, _MINUTE))
    assert by_events(node, at=clock(), last_heard=before, silent=None) is None
    change = by_events(node, at=clock(), last_heard=after, silent=None)
    assert change.version > node.versions[site.store.kinds["compute_node"].facet_position["liveness"]]


def test_changes_that_could_not_be_listed_are_listed_by_the_next_run(site: NovaSite, cloud: FakeOpenStack):
    site.reconcile()
    cloud.inventory.update_server(next(iter(cloud.inventory.servers)), state="stopped", power_state="shutdown")
    reconciler = site.reconciler()
    cloud.fail(server_error(500), path="/servers/detail")
    with pytest.raises(ReconcileError):
        site.reconcile(CHANGES, reconciler=reconciler)
    assert site.reconcile(CHANGES, reconciler=reconciler).written == 1
    assert site.instances() == truth(cloud)


def test_a_404_of_a_proxy_proves_of_no_doubtful_instance_that_it_is_gone(site: NovaSite, cloud: FakeOpenStack):
    site.reconcile()
    gone, exists, *_ = cloud.inventory.servers
    cloud.inventory.purge_server(gone)
    for server in (gone, exists):
        site.doubts.add("instance", server)
    cloud.fail(Garbage(b"404 page not found", 404), when=lambda asked: exists in asked.path, count=None)
    reconciler = site.reconciler()
    reconciler._listed_changes = time.monotonic()  # changes are not due
    report = site.reconcile(CHANGES, reconciler=reconciler)
    assert site.model.get("instance", exists) is not None
    assert "it is not the service that answers" in report.failures["servers"]
    assert site.doubts.count("instance") == 2


def test_a_doubtful_instance_is_asked_for_soon(site: NovaSite, cloud: FakeOpenStack):
    site.reconcile()
    reconciler = site.reconciler()
    assert reconciler.interval(CHANGES) == 300
    doubtful, gone, *_ = cloud.inventory.servers
    cloud.inventory.put_server(cloud.inventory.update_server(doubtful, state="paused", power_state="paused"))
    cloud.inventory.delete_server(gone)
    for server in (doubtful, gone):
        site.doubts.add("instance", server)
    assert reconciler.interval(CHANGES) == 5
    reconciler._listed_changes = time.monotonic()  # changes are not due
    report = reconciler.run(CHANGES, deadline=time.monotonic() + deadline(120))
    assert (report.deleted, site.instances()) == (1, truth(cloud))
    assert (site.doubts.count("instance"), reconciler.interval(CHANGES)) == (0, 300)


@pytest.mark.parametrize("kind", ["aggregate", "compute_node"])
def test_a_doubtful_aggregate_or_host_is_compared_soon(site: NovaSite, cloud: FakeOpenStack, kind: str):
    site.reconcile()
    reconciler = site.reconciler()
    reconciler._listed_changes = time.monotonic()  # changes are not due
    aggregate = next(one for one in cloud.inventory.aggregates.values() if one.name == "fast")
    cloud.inventory.aggregates[aggregate.id] = msgspec.structs.replace(aggregate, hosts=("compute-0", "compute-3"))
    site.doubts.add(kind, aggregate.uuid if kind == "aggregate" else "compute-3")
    assert reconciler.interval(CHANGES) == 5
    before = cloud.requests.count("/servers")
    report = reconciler.run(CHANGES, deadline=time.monotonic() + deadline(120))
    assert (report.complete, report.written, cloud.requests.count("/servers")) == (True, 1, before)
    assert site.model.get("aggregate", aggregate.uuid).hosts == ["compute-0", "compute-3"]
    assert (site.doubts.count(kind), reconciler.interval(CHANGES)) == (0, 300)


def test_the_doubt_of_an_aggregate_stays_while_aggregates_cannot_be_listed(site: NovaSite, cloud: FakeOpenStack):
    site.reconcile()
    site.doubts.add("aggregate", "one")
    cloud.fail(server_error(500), path="/os-aggregates", count=None)
    assert not site.reconcile(CHANGES).complete
    assert site.doubts.count("aggregate") == 1


def test_doubts_stay_while_nova_is_away(site: NovaSite, cloud: FakeOpenStack):
    site.reconcile()
    server = next(iter(cloud.inventory.servers))
    site.doubts.add("instance", server)
    cloud.fail(server_error(500), path="/servers/", count=None)
    with pytest.raises(ReconcileError):
        site.reconcile(CHANGES)
    assert site.doubts.count("instance") == 1


def test_an_instance_that_an_event_wrote_meanwhile_is_left_and_compared_soon(site: NovaSite, cloud: FakeOpenStack):
    site.reconcile()
    server = next(iter(cloud.inventory.servers))
    cloud.inventory.update_server(server, state="stopped", power_state="shutdown")

    def rename(_seconds: float) -> None:
        with site.context().writes.begin() as cycle:
            known = cycle.view.get("instance", server)
            cause = Event(id="e-1", type="test", source="nova")
            cycle.repair(cause, "instance", server, {"name": "other"}, known.versions)

    report = site.reconcile(wait=rename)
    assert server not in {d.entity_id for d in report.differences}
    assert site.model.get("instance", server).state == "active"
    assert site.doubts.count("instance") == 1
    site.reconcile(CHANGES)
    assert site.model.get("instance", server).state == "stopped"


def test_a_server_that_was_buried_by_mistake_comes_back(site: NovaSite, cloud: FakeOpenStack):
    site.reconcile()
    server = next(iter(cloud.inventory.servers))
    with site.context().writes.begin() as cycle:
        known = cycle.view.get("instance", server)
        cycle.write(Event(id="e-1", type="test", source="nova"), [Delete("instance", server, max(known.versions))])
    assert site.model.get("instance", server) is None
    assert site.reconcile().complete
    assert site.instances() == truth(cloud)
