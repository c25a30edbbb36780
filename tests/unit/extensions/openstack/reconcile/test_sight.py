# SPDX-License-Identifier: Apache-2.0
"""An account that is no administrator by Nova's rules: Nova narrows its answers silently."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.nova_sites import NovaSite, truth
from watcher_sync.extensions.openstack.reconcile.reconciler import CHANGES
from watcher_sync.model.changes import Upsert
from watcher_sync.storage.groups.source_status import read_inventory
from watcher_sync.testing.openstack import FakeOpenStack, Flavor, Garbage

pytestmark = pytest.mark.slow


@pytest.fixture
def site(cloud: FakeOpenStack, tmp_path: Path) -> Iterator[NovaSite]:
    """The account ``auditor``, which passes the rules that our documentation lists."""
    site = NovaSite(tmp_path, cloud, **cloud.options("auditor"))
    yield site
    site.close()


def test_an_account_with_the_documented_rules_sees_all_servers_and_hosts(site: NovaSite, cloud: FakeOpenStack):
    first, second, *_ = cloud.inventory.servers
    cloud.inventory.update_server(first, state="soft-delete")
    cloud.inventory.add_migration(second, "compute-2", status="finished")
    cloud.inventory.update_server(second, host="compute-2", state="resized")
    report = site.reconcile()
    assert (report.complete, report.failures) == (True, {})
    assert site.instances() == truth(cloud)
    assert all(one.hypervisor_hostname for one in site.model.all("compute_node"))


def test_a_doubtful_server_that_exists_is_not_deleted_because_of_a_404(site: NovaSite, cloud: FakeOpenStack):
    site.reconcile()
    reconciler = site.reconciler()
    site.reconcile(CHANGES, reconciler=reconciler)  # the next one asks for doubtful servers only
    first, *_ = cloud.inventory.servers
    cloud.inventory.update_server(first, state="stopped", power_state="shutdown")
    site.doubts.add("instance", first)
    report = site.reconcile(CHANGES, reconciler=reconciler)
    assert (report.complete, report.deleted) == (True, 0)
    assert site.instances() == truth(cloud)


def test_a_deleted_server_goes_and_an_archived_one_stays_with_the_reason(site: NovaSite, cloud: FakeOpenStack):
    site.reconcile()
    deleted, archived, *_ = cloud.inventory.servers
    cloud.inventory.delete_server(deleted)
    cloud.inventory.purge_server(archived)
    report = site.reconcile()
    assert (report.deleted, site.model.get("instance", deleted)) == (1, None)
    assert site.model.get("instance", archived) is not None
    assert "404, which proves nothing without context_is_admin" in report.failures["missing servers"]


def test_servers_that_a_dropped_filter_hides_are_not_deleted(site: NovaSite, cloud: FakeOpenStack):
    site.reconcile()
    hidden, *_ = cloud.inventory.servers
    cloud.inventory.update_server(hidden, state="soft-delete")
    cloud.rules.remove("servers:allow_all_filters")
    report = site.reconcile()
    assert (report.complete, report.deleted) == (False, 0)
    assert "servers:allow_all_filters" in report.failures["soft-deleted servers"]
    assert site.model.get("instance", hidden) is not None


def test_a_soft_deleted_server_that_a_dropped_filter_hides_from_the_start_is_missed(
    site: NovaSite, cloud: FakeOpenStack
):
    hidden, *_ = cloud.inventory.servers
    cloud.inventory.update_server(hidden, state="soft-delete")
    cloud.rules.remove("servers:allow_all_filters")
    report = site.reconcile()
    assert (report.complete, list(report.failures)) == (False, ["soft-deleted servers"])
    inventory = read_inventory(site.store.database, "nova")
    assert inventory is not None
    assert (inventory.complete_since, "allow_all_filters" in inventory.problem) == (None, True)


def test_what_only_an_administrator_sees_is_unknown_and_named(site: NovaSite, cloud: FakeOpenStack, caplog):
    first, *_ = cloud.inventory.servers
    cloud.inventory.add_server_group("spread", [first])
    private = cloud.inventory.add_flavor(Flavor(id="99", name="private", is_public=False))
    other = cloud.inventory.add_server("private", host="compute-0", flavor=private).id
    report = site.reconcile()
    assert report.complete
    assert report.unknown == {"server groups and private flavors of other projects": "context_is_admin"}
    assert site.model.get("instance", first).server_group is None
    assert site.model.get("instance", other).flavor_id is None
    inventory = read_inventory(site.store.database, "nova")
    assert inventory is not None
    assert inventory.complete_since is not None
    assert inventory.problem == "unknown: server groups and private flavors of other projects (context_is_admin)"
    site.reconcile()
    assert sum("does not show everything" in record.getMessage() for record in caplog.records) == 1


def test_a_server_group_that_the_account_does_not_see_stays_as_it_is_known(site: NovaSite, cloud: FakeOpenStack):
    first, *_ = cloud.inventory.servers
    site.reconcile()
    site.write(Upsert("instance", first, "3", {"group": {"server_group": "g"}}))
    assert site.reconcile().differences == ()
    assert site.model.get("instance", first).server_group == "g"


@pytest.mark.parametrize(
    ("rule", "what"),
    [("os-extended-server-attributes", "hosts of servers"), ("os-migrations:index:host", "source hosts of resizes")],
)
def test_a_field_that_a_rule_hides_is_named_with_the_rule(site: NovaSite, cloud: FakeOpenStack, rule: str, what: str):
    first, *_ = cloud.inventory.servers
    cloud.inventory.add_migration(first, "compute-2", status="finished")
    cloud.inventory.update_server(first, host="compute-2", state="resized")
    cloud.rules.remove(rule)
    assert site.reconcile().unknown[what] == f"os_compute_api:{rule}"


def test_hosts_with_several_hypervisors_are_named(site: NovaSite, cloud: FakeOpenStack):
    hypervisors = [
        {"id": f"node-{n}", "hypervisor_hostname": f"node-{n}", "hypervisor_type": "VMware", "service": {"host": host}}
        for n, host in enumerate(["compute-0", "compute-0", "compute-1"])
    ]
    cloud.fail(Garbage(json.dumps({"hypervisors": hypervisors}).encode()), path="os-hypervisors", count=None)
    report = site.reconcile()
    what = "name, uuid and type of the hypervisors of 1 hosts that have several"
    assert (report.complete, report.unknown[what]) == (True, "compute-0")
    node = {one.id: one for one in site.model.all("compute_node")}
    assert (node["compute-0"].uuid, node["compute-1"].uuid) == (None, "node-2")
