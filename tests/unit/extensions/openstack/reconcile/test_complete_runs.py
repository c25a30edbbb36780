# SPDX-License-Identifier: Apache-2.0
"""Complete runs against a fake Nova over HTTP."""

from __future__ import annotations

import datetime
import itertools

import pytest

from tests.nova_sites import NovaSite, truth
from watcher_sync.model.changes import Upsert
from watcher_sync.storage.groups.source_status import read_inventory
from watcher_sync.testing.openstack import Do, FakeOpenStack, Flavor, Request, Server, ServerFault, forbidden

pytestmark = pytest.mark.slow


def named(cloud: FakeOpenStack, name: str) -> Server:
    return next(server for server in cloud.inventory.servers.values() if server.name == name)


def test_an_empty_model_is_filled_and_a_second_run_writes_nothing(site: NovaSite, cloud: FakeOpenStack):
    first = site.reconcile()
    assert (first.complete, first.deleted, first.failures) == (True, 0, {})
    assert site.instances() == truth(cloud)
    assert len(site.drifts()) == len(first.differences) > 0
    head = site.head()
    second = site.reconcile()
    assert (second.differences, second.written, second.deleted) == ((), 0, 0)
    assert site.head() == head
    assert site.drifts() == []


def test_a_server_that_is_only_a_request_to_build_is_written_once(site: NovaSite, cloud: FakeOpenStack):
    """Nova answers the time of our request as the time of its last write."""
    new = cloud.inventory.add_server("new", state="building", power_state="nostate", launched_at=None).id
    times = itertools.count()

    def answer_now(_request: Request) -> None:
        now = cloud.inventory.clock() + datetime.timedelta(seconds=next(times))
        cloud.inventory.update_server(new, updated_at=now)

    cloud.fail(Do(answer_now), path="/servers/detail", count=None)
    assert site.reconcile().complete
    head = site.head()
    assert (site.reconcile().written, site.head()) == (0, head)
    assert site.model.get("instance", new).updated_at is None
    cloud.inventory.update_server(new, host="compute-0")
    assert site.reconcile().complete
    assert site.model.get("instance", new).updated_at is not None


def test_hosts_have_what_only_the_api_knows(site: NovaSite, cloud: FakeOpenStack):
    cloud.inventory.update_host("compute-2", disabled=True, disabled_reason="disk")
    cloud.inventory.update_host("compute-3", up=False)
    site.reconcile()
    node = {one.id: one for one in site.model.all("compute_node")}
    host = cloud.inventory.hosts["compute-0"]
    assert (node["compute-0"].uuid, node["compute-0"].hypervisor_hostname) == (host.node_id, host.node)
    assert (node["compute-0"].status, node["compute-0"].state, node["compute-0"].discovered) == ("enabled", "up", False)
    assert (node["compute-2"].status, node["compute-2"].disabled_reason) == ("disabled", "disk")
    assert node["compute-3"].state == "down"
    assert {one.id: one.availability_zone for one in node.values()} == {
        "compute-0": "nova", "compute-1": "north", "compute-2": "nova", "compute-3": "nova",
    }  # fmt: skip


def test_a_host_that_leaves_its_zone_is_in_the_default_zone(site: NovaSite, cloud: FakeOpenStack):
    site.reconcile()
    (number,) = [one.id for one in cloud.inventory.aggregates.values() if one.name == "north"]
    cloud.inventory.update_aggregate(number, hosts=())
    site.reconcile()
    assert site.model.get("compute_node", "compute-1").availability_zone == "nova"


def test_aggregates_are_as_nova_has_them(site: NovaSite, cloud: FakeOpenStack):
    site.reconcile()
    found = {one.name: one for one in site.model.all("aggregate")}
    assert found["fast"].metadata == {"ssd": "true"}
    assert found["north"].hosts == ["compute-1"]
    assert {one.number for one in found.values()} == set(cloud.inventory.aggregates)
    (number,) = [one.id for one in cloud.inventory.aggregates.values() if one.name == "fast"]
    cloud.inventory.remove_aggregate(number)
    site.conf.set_override("max_delete_percent", 50, group="reconcile")
    assert site.reconcile().deleted == 1
    assert [one.name for one in site.model.all("aggregate")] == ["north"]


def test_what_changed_unheard_is_healed_and_each_correction_is_a_drift(site: NovaSite, cloud: FakeOpenStack):
    site.reconcile()
    began = datetime.datetime.now(datetime.UTC)
    stopped, moved, gone = (named(cloud, f"vm-{n}").id for n in (0, 2, 3))
    cloud.inventory.update_server(stopped, state="stopped", power_state="shutdown")
    cloud.inventory.update_server(moved, host="compute-3")
    cloud.inventory.delete_server(gone)
    new = cloud.inventory.add_server("new", host="compute-1").id
    report = site.reconcile()
    assert site.instances() == truth(cloud)
    assert (report.complete, report.deleted) == (True, 1)
    assert {(d.entity_id, d.field) for d in site.drifts()} == {
        (stopped, "state"), (stopped, "power_state"), (moved, "host"), (moved, "node"), (gone, ""), (new, ""),
    }  # fmt: skip
    assert [d for d in site.drifts() if d.since < began] == []


def test_a_server_that_is_being_deleted_does_not_let_the_guard_refuse_the_others(site: NovaSite, cloud: FakeOpenStack):
    """Nova saves the state ``deleted`` before it deletes the row, and lists the server meanwhile."""
    site.reconcile()
    being_deleted, gone = named(cloud, "vm-0").id, named(cloud, "vm-3").id
    cloud.inventory.update_server(being_deleted, state="deleted")
    cloud.inventory.delete_server(gone)
    new = cloud.inventory.add_server("new", host="compute-1").id
    report = site.reconcile()
    assert (report.refused_deletes, report.deleted) == ({}, 2)
    assert site.model.get("instance", being_deleted) is None
    assert site.model.get("instance", gone) is None
    assert site.model.get("instance", new) is not None


def test_a_host_that_left_its_aggregate_before_it_went_is_gone_after_one_run(site: NovaSite, cloud: FakeOpenStack):
    """The aggregate is written first. This changes the zone of the host, whose row is then newer than the listing."""
    site.reconcile()
    (number,) = [one.id for one in cloud.inventory.aggregates.values() if one.name == "north"]
    cloud.inventory.update_aggregate(number, hosts=("compute-3",))
    for server in [one for one in cloud.inventory.servers.values() if one.host == "compute-1"]:
        cloud.inventory.update_server(server.id, host="compute-2")
    cloud.inventory.remove_host("compute-1")
    assert site.reconcile().deleted == 1
    assert site.model.get("compute_node", "compute-1") is None


def test_a_soft_deleted_server_stays(site: NovaSite, cloud: FakeOpenStack):
    site.reconcile()
    server = named(cloud, "vm-4").id
    cloud.inventory.soft_delete_server(server)
    report = site.reconcile()
    assert (report.deleted, site.model.get("instance", server).state) == (0, "soft-deleted")


def test_a_resize_that_awaits_its_confirmation_has_both_hosts(site: NovaSite, cloud: FakeOpenStack):
    server = named(cloud, "vm-0").id
    migration = cloud.inventory.add_migration(server, "compute-2", status="finished")
    cloud.inventory.update_server(server, host="compute-2", state="resized")
    site.reconcile()
    found = site.model.get("instance", server)
    assert (found.host, found.source_host) == ("compute-2", "compute-0")
    cloud.inventory.update_migration(migration.uuid, status="confirmed")
    cloud.inventory.update_server(server, state="active")
    site.reconcile()
    assert site.model.get("instance", server).source_host is None


def test_a_fault_comes_with_the_error_and_goes_with_it(site: NovaSite, cloud: FakeOpenStack):
    server = named(cloud, "vm-0").id
    fault = ServerFault(message="No valid host was found.", created_at=cloud.inventory.clock())
    cloud.inventory.update_server(server, state="error", fault=fault)
    site.reconcile()
    assert site.model.get("instance", server).fault_message == "No valid host was found."
    cloud.inventory.update_server(server, state="active")
    site.reconcile()
    assert site.model.get("instance", server).fault_message is None


@pytest.mark.parametrize("state", ["active", "building", "stopped", "resized", "soft-delete", "shelved_offloaded"])
def test_a_fault_that_nova_shows_no_more_goes_from_a_server_that_has_recovered(
    site: NovaSite, cloud: FakeOpenStack, state: str
):
    server = named(cloud, "vm-0").id
    site.reconcile()
    fault = {"fault": {"fault_type": "NoValidHost", "fault_message": "No valid host was found."}}
    site.write(Upsert("instance", server, "3", fault))
    assert site.model.get("instance", server).fault_type == "NoValidHost"
    cloud.inventory.update_server(server, state=state)
    assert site.reconcile().written == 1
    found = site.model.get("instance", server)
    assert (found.fault_type, found.fault_message) == (None, None)
    assert site.reconcile().written == 0


def test_the_id_of_a_flavor_that_exists_no_more_is_unknown(site: NovaSite, cloud: FakeOpenStack):
    gone = Flavor(id="77", name="gone", vcpus=3)
    server = cloud.inventory.add_server("old", host="compute-0", flavor=gone).id
    del cloud.inventory.flavors["77"]
    site.reconcile()
    found = site.model.get("instance", server)
    assert (found.flavor_name, found.flavor_id, found.vcpus) == ("gone", None, 3)


def test_a_flavor_made_again_with_other_sizes_lends_no_id(site: NovaSite, cloud: FakeOpenStack):
    old = Flavor(id="77", name="reused", vcpus=3)
    server = cloud.inventory.add_server("old", host="compute-0", flavor=old).id
    del cloud.inventory.flavors["77"]
    cloud.inventory.add_flavor(Flavor(id="78", name="reused", vcpus=4))
    site.reconcile()
    assert site.model.get("instance", server).flavor_id is None


def test_a_dry_run_tells_and_writes_nothing(site: NovaSite, cloud: FakeOpenStack):
    head = site.head()
    report = site.reconcile(dry_run=True)
    assert {d.kind for d in report.differences} == {"instance", "compute_node", "aggregate"}
    assert (report.written, site.head(), site.drifts()) == (0, head, [])
    assert read_inventory(site.store.database, "nova") is None


def test_an_observed_kind_is_reported_and_not_written(site: NovaSite, cloud: FakeOpenStack):
    site.conf.set_override("policy", {"instance": "observe"}, group="reconcile")
    site.reconcile()
    assert list(site.model.all("instance")) == []
    assert {d.policy for d in site.drifts() if d.kind == "instance"} == {"observe"}


def test_bare_metal_is_left_out_unless_an_option_says_otherwise(site: NovaSite, cloud: FakeOpenStack):
    cloud.inventory.add_host("ironic-0", hypervisor_type="ironic")
    server = cloud.inventory.add_server("metal", host="ironic-0").id
    site.reconcile()
    assert (site.model.get("instance", server), site.model.get("compute_node", "ironic-0")) == (None, None)
    site.conf.set_override("ignore_ironic", False, group="reconcile_nova")
    site.reconcile()
    assert site.model.get("instance", server).host == "ironic-0"


def test_hosts_of_unknown_type_are_left_out_while_no_list_of_hypervisors_was_seen(site: NovaSite, cloud: FakeOpenStack):
    cloud.inventory.add_host("ironic-0", hypervisor_type="ironic")
    metal = cloud.inventory.add_server("metal", host="ironic-0").id
    unplaced = cloud.inventory.add_server("unplaced", host=None).id
    cloud.fail(forbidden(), path="os-hypervisors", count=None)
    report = site.reconcile()
    assert (report.complete, list(report.failures)) == (False, ["hypervisors"])
    assert "403" in report.failures["hypervisors"]
    assert "5 hosts of unknown type are left out (ignore_ironic)" in report.failures["hypervisors"]
    assert set(site.instances()) == {unplaced}
    assert list(site.model.all("compute_node")) == []
    cloud.heal()
    assert site.reconcile().complete
    assert set(site.instances()) == {*cloud.inventory.servers} - {metal}
    cloud.inventory.add_host("ironic-1", hypervisor_type="ironic")
    cloud.inventory.update_server(metal, host="ironic-1")
    cloud.fail(forbidden(), path="os-hypervisors", count=None)
    report = site.reconcile()
    assert "2 hosts of unknown type" in report.failures["hypervisors"]
    assert (report.written, report.deleted, site.model.get("instance", metal)) == (0, 0, None)


def test_hosts_of_unknown_type_are_written_if_bare_metal_is_not_left_out(site: NovaSite, cloud: FakeOpenStack):
    site.conf.set_override("ignore_ironic", False, group="reconcile_nova")
    cloud.fail(forbidden(), path="os-hypervisors", count=None)
    site.reconcile()
    assert site.instances() == truth(cloud)


@pytest.mark.parametrize(
    ("option", "value", "left"),
    [("ignore_zones", ["north"], {1}), ("ignore_aggregates", ["fast"], {0})],
)
def test_hosts_of_a_zone_or_an_aggregate_are_left_out_with_their_servers(
    site: NovaSite, cloud: FakeOpenStack, option: str, value: list[str], left: set[int]
):
    site.conf.set_override(option, value, group="reconcile_nova")
    site.reconcile()
    expected = {name for name in cloud.inventory.hosts if int(name[-1]) not in left}
    assert {one.id for one in site.model.all("compute_node")} == expected
    assert {one.host for one in site.model.all("instance")} == expected


def test_servers_of_an_ignored_project_are_neither_written_nor_deleted(site: NovaSite, cloud: FakeOpenStack):
    site.reconcile()
    server = named(cloud, "vm-0")
    site.conf.set_override("ignore_projects", [server.project_id], group="reconcile_nova")
    cloud.inventory.delete_server(server.id)
    report = site.reconcile()
    assert (report.deleted, report.written) == (0, 0)
    assert site.model.get("instance", server.id) is not None


def test_a_host_whose_service_is_deleted_goes(site: NovaSite, cloud: FakeOpenStack):
    cloud.inventory.add_host("spare")
    site.reconcile()
    cloud.inventory.remove_host("spare")
    assert site.reconcile().deleted == 1
    assert site.model.get("compute_node", "spare") is None


def test_the_inventory_is_complete_since_the_first_complete_run(site: NovaSite, cloud: FakeOpenStack):
    reconciler = site.reconciler()
    assert reconciler.inventory_problem() == "inventory incomplete of nova"
    site.reconcile()
    first = read_inventory(site.store.database, "nova")
    assert first is not None
    assert first.complete_since is not None
    site.reconcile()
    second = read_inventory(site.store.database, "nova")
    assert second is not None
    assert second.complete_since == first.complete_since
    assert second.last_complete_at > first.last_complete_at
    assert site.reconciler().inventory_problem() == ""


def test_a_server_that_cannot_be_stored_is_reported_and_the_others_are_written(site: NovaSite, cloud: FakeOpenStack):
    server = named(cloud, "vm-3").id
    cloud.inventory.update_server(server, flavor=Flavor(id="9", name="vast", vcpus=2**63))
    report = site.reconcile()
    assert (report.complete, list(report.refused_writes)) == (True, [f"instance {server}"])
    assert {*site.instances()} == {*cloud.inventory.servers} - {server}
