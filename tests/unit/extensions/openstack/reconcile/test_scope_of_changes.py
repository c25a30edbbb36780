# SPDX-License-Identifier: Apache-2.0
"""What the runs between two complete ones may write and delete."""

from __future__ import annotations

import time

import pytest

from tests.nova_sites import NovaSite
from tests.waiting import deadline
from watcher_sync.exceptions import ReconcileError
from watcher_sync.extensions.openstack.reconcile.reconciler import CHANGES
from watcher_sync.testing.openstack import FakeOpenStack, forbidden, server_error

pytestmark = pytest.mark.slow


def test_marked_servers_of_others_stay_when_the_account_is_no_administrator_any_more(
    site: NovaSite, cloud: FakeOpenStack, tmp_path
):
    """Nova answers 404 for servers of other projects then."""
    site.reconcile()
    folder = tmp_path / "demo"
    folder.mkdir()
    url = site.store.database.url.render_as_string(hide_password=False)
    demo = NovaSite(folder, cloud, url=url, **cloud.options("demo"))
    reconciler = demo.reconciler()
    with pytest.raises(ReconcileError, match="403"):
        reconciler.run(CHANGES, deadline=time.monotonic() + deadline(60))
    marked = [one.id for one in site.model.all("instance")][:2]
    for one in marked:
        demo.doubts.add("instance", one)
    reconciler._listed_changes = time.monotonic()  # changes are not due
    report = reconciler.run(CHANGES, deadline=time.monotonic() + deadline(60))
    demo.close()
    assert (report.deleted, report.complete) == (0, False)
    assert len(list(site.model.all("instance"))) == 12
    assert demo.doubts.take("instance", 10) == marked


def test_the_delete_guard_counts_marked_servers_too(site: NovaSite, cloud: FakeOpenStack):
    site.reconcile()
    reconciler = site.reconciler()
    reconciler.run(CHANGES, deadline=time.monotonic() + deadline(60))
    for one in list(cloud.inventory.servers)[:6]:
        cloud.inventory.delete_server(one)
        site.doubts.add("instance", one)
    report = reconciler.run(CHANGES, deadline=time.monotonic() + deadline(60))
    assert (report.deleted, report.refused_deletes) == (0, {"instance": 6})


def test_a_marked_server_that_nova_deleted_is_deleted(site: NovaSite, cloud: FakeOpenStack):
    site.reconcile()
    reconciler = site.reconciler()
    reconciler.run(CHANGES, deadline=time.monotonic() + deadline(60))
    first = next(iter(cloud.inventory.servers))
    cloud.inventory.delete_server(first)
    site.doubts.add("instance", first)
    assert reconciler.run(CHANGES, deadline=time.monotonic() + deadline(60)).deleted == 1


def test_marks_survive_a_run_that_fails(site: NovaSite, cloud: FakeOpenStack, monkeypatch):
    site.reconcile()
    reconciler = site.reconciler()
    reconciler.run(CHANGES, deadline=time.monotonic() + deadline(60))
    first = next(iter(cloud.inventory.servers))
    cloud.inventory.update_server(first, locked=True)
    site.doubts.add("instance", first)

    def fail(*_arguments):
        raise ReconcileError("the database is away")

    monkeypatch.setattr(reconciler._writer, "write", fail)
    with pytest.raises(ReconcileError, match="away"):
        reconciler.run(CHANGES, deadline=time.monotonic() + deadline(60))
    assert site.doubts.take("instance", 10) == [first]


def test_a_changed_server_on_bare_metal_is_left_out(site: NovaSite, cloud: FakeOpenStack):
    cloud.inventory.add_host("ironic-0", hypervisor_type="ironic")
    site.reconcile()
    server = cloud.inventory.add_server("metal", host="ironic-0").id
    site.reconcile(CHANGES)
    assert (site.model.get("instance", server), site.model.get("compute_node", "ironic-0")) == (None, None)


def test_a_changed_server_on_a_host_of_unknown_type_waits_for_the_list_of_hypervisors(
    site: NovaSite, cloud: FakeOpenStack
):
    cloud.inventory.add_host("ironic-0", hypervisor_type="ironic")
    cloud.inventory.add_host("compute-9")
    site.reconcile()
    metal = cloud.inventory.add_server("metal", host="ironic-0").id
    known = cloud.inventory.add_server("known", host="compute-9").id
    cloud.fail(forbidden(), path="os-hypervisors", count=None)
    site.reconcile(CHANGES)
    assert (site.model.get("instance", metal), site.model.get("compute_node", "ironic-0")) == (None, None)
    assert site.model.get("instance", known) is not None


def test_a_changed_server_on_a_known_host_costs_no_list_of_hypervisors(site: NovaSite, cloud: FakeOpenStack):
    site.reconcile()
    before = cloud.requests.count("os-hypervisors")
    cloud.inventory.update_server(next(iter(cloud.inventory.servers)), locked=True)
    assert site.reconcile(CHANGES).written == 1
    assert cloud.requests.count("os-hypervisors") == before


@pytest.mark.parametrize("scope", ["nova", CHANGES])
def test_ignored_aggregates_that_cannot_be_listed_end_the_run(site: NovaSite, cloud: FakeOpenStack, scope: str):
    """Else the servers on their hosts would be written."""
    site.conf.set_override("ignore_aggregates", ["fast"], group="reconcile_nova")
    site.reconcile()
    cloud.inventory.add_server("new", host="compute-0")
    cloud.fail(forbidden(), path="os-aggregates", count=None)
    with pytest.raises(ReconcileError, match="ignore_aggregates"):
        site.reconcile(scope)
    assert "compute-0" not in {one.host for one in site.model.all("instance")}


def test_a_failed_check_of_the_account_deletes_no_marked_server(site: NovaSite, cloud: FakeOpenStack):
    site.reconcile()
    reconciler = site.reconciler()
    reconciler.run(CHANGES, deadline=time.monotonic() + deadline(60))
    first = next(iter(cloud.inventory.servers))
    cloud.inventory.delete_server(first)
    site.doubts.add("instance", first)
    cloud.fail(server_error(500), path="/servers/detail", count=None)
    report = reconciler.run(CHANGES, deadline=time.monotonic() + deadline(60))
    assert (report.deleted, list(report.failures)) == (0, ["servers"])
