# SPDX-License-Identifier: Apache-2.0
"""A listing that fails, in each way that a cloud has: nothing is deleted, the reason is clear, the next run heals."""

from __future__ import annotations

import re

import pytest

from tests.nova_sites import NovaSite, truth
from watcher_sync.exceptions import ReconcileError
from watcher_sync.storage.groups.source_status import read_inventory
from watcher_sync.testing.openstack import (
    Cut,
    Do,
    ExpireTokens,
    FakeOpenStack,
    Flavor,
    Garbage,
    Hang,
    forbidden,
    marker_not_found,
    server_error,
    too_many_requests,
)

pytestmark = pytest.mark.slow

SERVERS = "/servers/detail"


@pytest.fixture
def filled(site: NovaSite, cloud: FakeOpenStack) -> NovaSite:
    """The model is complete; since then one server was deleted and one was stopped, unheard."""
    site.reconcile()
    first, *_, last = cloud.inventory.servers.values()
    cloud.inventory.delete_server(first.id)
    cloud.inventory.update_server(last.id, state="stopped", power_state="shutdown")
    return site


def healed(site: NovaSite, cloud: FakeOpenStack) -> bool:
    cloud.heal()
    report = site.reconcile()
    return report.complete and site.instances() == truth(cloud)


@pytest.mark.parametrize(
    ("action", "why"),
    [
        (server_error(500), "500: Unexpected API Error"),
        (server_error(503), "503: Unexpected API Error"),
        (Cut(), "ConnectFailure|ChunkedEncodingError|UnknownConnectionError|ConnectionError"),
        (Garbage(), "JSON is malformed"),
        (forbidden(), "403: Policy doesn't allow"),
    ],
    ids=["500", "503", "cut", "garbage", "403"],
)
def test_a_failure_in_the_middle_of_paging_deletes_nothing(filled: NovaSite, cloud: FakeOpenStack, action, why):
    cloud.fail(action, path=SERVERS, after=1, count=None)
    report = filled.reconcile()
    assert (report.complete, report.deleted, list(report.failures)) == (False, 0, ["servers"])
    assert re.search(why, report.failures["servers"])
    assert len(list(filled.model.all("instance"))) == 12
    inventory = read_inventory(filled.store.database, "nova")
    assert inventory is not None
    assert inventory.problem.startswith("servers: ")
    assert inventory.complete_since is not None
    assert healed(filled, cloud)


def test_a_listing_that_fails_from_its_beginning_is_a_failed_run(filled: NovaSite, cloud: FakeOpenStack):
    cloud.fail(server_error(500), service="compute", count=None)
    with pytest.raises(ReconcileError, match="compute"):
        filled.reconcile()
    assert len(list(filled.model.all("instance"))) == 12
    assert healed(filled, cloud)


def test_nova_that_is_away_is_a_failed_run(filled: NovaSite, cloud: FakeOpenStack):
    cloud.compute.stop()
    with pytest.raises(ReconcileError, match="compute"):
        filled.reconcile()
    cloud.compute.start()
    assert healed(filled, cloud)


def test_a_request_that_is_never_answered_ends_by_its_timeout(filled: NovaSite, cloud: FakeOpenStack):
    cloud.fail(Hang(), path=SERVERS, after=1)
    report = filled.reconcile(seconds=4)
    assert (report.complete, report.deleted) == (False, 0)
    assert "imeout" in report.failures["servers"]
    assert healed(filled, cloud)


def test_the_run_pauses_as_long_as_a_rate_limit_asks(filled: NovaSite, cloud: FakeOpenStack):
    cloud.fail(too_many_requests(7), path=SERVERS, after=1)
    report = filled.reconcile()
    assert (report.complete, filled.waits) == (True, [7.0])
    assert filled.instances() == truth(cloud)


def test_a_pause_longer_than_the_run_may_take_ends_the_listing(filled: NovaSite, cloud: FakeOpenStack):
    cloud.fail(too_many_requests(3600), path=SERVERS, after=1)
    report = filled.reconcile()
    assert (report.deleted, filled.waits) == (0, [])
    assert report.failures == {"servers": "compute: 429: it asks for a pause of 3600 s"}
    assert healed(filled, cloud)


def test_a_token_that_expires_in_the_middle_of_paging_is_renewed(filled: NovaSite, cloud: FakeOpenStack):
    cloud.fail(ExpireTokens(), path=SERVERS, after=1)
    assert filled.reconcile().complete
    assert filled.instances() == truth(cloud)


def test_the_listing_begins_again_if_the_server_of_its_marker_is_purged(filled: NovaSite, cloud: FakeOpenStack):
    def purge(request) -> None:
        cloud.inventory.purge_server(request.last("marker"))

    cloud.fail(Do(purge), path=SERVERS, when=lambda request: request.last("marker") is not None)
    report = filled.reconcile()
    assert report.complete
    assert filled.instances() == truth(cloud)


def test_a_hypervisor_that_is_the_marker_of_a_page_may_be_removed(filled: NovaSite, cloud: FakeOpenStack):
    for number in range(10, 17):
        cloud.inventory.add_host(f"compute-{number}")
    names = {one.node_id: one.name for one in cloud.inventory.hosts.values()}

    def remove(request) -> None:
        cloud.inventory.remove_host(names[request.last("marker")])

    # compute-0 to compute-3 have servers; the first page has five hosts.
    cloud.fail(Do(remove), path="os-hypervisors", when=lambda request: request.last("marker") is not None)
    assert filled.reconcile().failures == {}
    assert healed(filled, cloud)
    assert {one.id for one in filled.model.all("compute_node")} == set(cloud.inventory.hosts)


def test_a_flavor_that_is_the_marker_of_a_page_may_be_removed(filled: NovaSite, cloud: FakeOpenStack):
    for number in range(7):
        cloud.inventory.add_flavor(Flavor(id=f"f{number}", name=f"f{number}"))
    cloud.fail(
        Do(lambda request: cloud.inventory.flavors.pop(request.last("marker"))),
        path="flavors",
        when=lambda request: request.last("marker") is not None,
    )
    assert filled.reconcile().failures == {}


def test_a_marker_that_is_refused_again_and_again_ends_the_listing(filled: NovaSite, cloud: FakeOpenStack):
    cloud.fail(marker_not_found(), path=SERVERS, count=None, when=lambda request: request.last("marker") is not None)
    report = filled.reconcile()
    assert (report.deleted, report.complete) == (0, False)
    assert "marker [gone] not found" in report.failures["servers"]
    assert healed(filled, cloud)


def test_a_refused_list_of_hypervisors_costs_only_what_it_has(filled: NovaSite, cloud: FakeOpenStack):
    cloud.fail(forbidden(), path="os-hypervisors", count=None)
    report = filled.reconcile()
    assert (report.complete, list(report.failures)) == (False, ["hypervisors"])
    assert filled.instances() == truth(cloud)
    assert all(one.hypervisor_hostname for one in filled.model.all("compute_node"))


def test_an_account_that_is_no_administrator_deletes_nothing(filled: NovaSite, cloud: FakeOpenStack, tmp_path):
    folder = tmp_path / "demo"
    folder.mkdir()
    demo = NovaSite(
        folder, cloud, url=str(filled.store.database.url.render_as_string(hide_password=False)), **cloud.options("demo")
    )
    with pytest.raises(ReconcileError, match="403"):
        demo.reconcile()
    demo.close()
    assert len(list(filled.model.all("instance"))) == 12


def test_placement_that_is_away_does_not_matter_here(filled: NovaSite, cloud: FakeOpenStack):
    cloud.placement.stop()
    assert filled.reconcile().complete
    assert filled.instances() == truth(cloud)


def test_keystone_that_is_away_is_a_failed_run(site: NovaSite, cloud: FakeOpenStack):
    cloud.identity.stop()
    with pytest.raises(ReconcileError):
        site.reconcile()
    cloud.identity.start()
    assert site.reconcile().complete


# Deletions


def test_a_server_that_the_list_lacks_is_not_deleted_while_it_exists(filled: NovaSite, cloud: FakeOpenStack):
    """As with a cell that is down: Nova skips its servers in a list."""
    hidden = list(cloud.inventory.servers)[3]
    cloud.inventory.update_server(hidden, hidden=True)
    report = filled.reconcile()
    assert filled.model.get("instance", hidden) is not None
    assert report.failures == {"servers": "the list lacks 1 servers that exist; a cell may be down"}
    assert report.deleted == 1


def test_a_deletion_that_cannot_be_confirmed_waits(filled: NovaSite, cloud: FakeOpenStack):
    gone = next(server.id for server in cloud.inventory.servers.values() if server.deleted)
    cloud.fail(server_error(500), path=f"/servers/{gone}")
    report = filled.reconcile()
    assert (report.deleted, report.complete) == (0, False)
    assert filled.model.get("instance", gone) is not None
    assert healed(filled, cloud)


def test_the_delete_guard_refuses_what_is_too_much(filled: NovaSite, cloud: FakeOpenStack):
    for server in list(cloud.inventory.servers)[:6]:
        if not cloud.inventory.servers[server].deleted:
            cloud.inventory.delete_server(server)
    new = cloud.inventory.add_server("new", host="compute-0").id
    before = cloud.requests.count("/servers/")
    report = filled.reconcile()
    assert (report.deleted, report.refused_deletes) == (0, {"instance": 6})
    assert report.refused_share("instance") == "6 of 12"
    assert filled.model.get("instance", new) is None
    assert cloud.requests.count("/servers/") - before == 3  # the pages, and what the account sees
    report = filled.reconcile(allow_deletes=True)
    assert report.deleted == 6
    assert filled.instances() == truth(cloud)
