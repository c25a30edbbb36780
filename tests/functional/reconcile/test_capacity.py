# SPDX-License-Identifier: Apache-2.0
"""The capacity providers over HTTP: Placement and Nova of a fake cloud, and a fake Kubernetes cluster."""

from __future__ import annotations

import json
import time

import pytest

from tests.allocations import capacity_of, used_of
from tests.simulated import nova
from tests.sites import Site
from tests.waiting import deadline
from watcher_sync.assembly import process
from watcher_sync.assembly.reconcile import make_context
from watcher_sync.conf import opts
from watcher_sync.exceptions import ReconcileError
from watcher_sync.extensions.kubernetes.source.source import KubernetesSource
from watcher_sync.extensions.openstack.allocations import free_of
from watcher_sync.extensions.openstack.capacity.reconciler import CapacityReconciler
from watcher_sync.extensions.openstack.cloud.client import OpenStackCloud
from watcher_sync.extensions.openstack.liveness.service import ServiceStates
from watcher_sync.model.changes import Delete, Upsert
from watcher_sync.testing.kubernetes import KubernetesServer
from watcher_sync.testing.openstack import (
    Cut,
    ExpireTokens,
    FakeOpenStack,
    Flavor,
    Garbage,
    Inventory,
    Rewrite,
    forbidden,
    marker_not_found,
    server_error,
    too_many_requests,
)

HOSTS = 20
AMOUNTS = {"VCPU": "vcpus", "MEMORY_MB": "memory_mb", "DISK_GB": "disk_gb"}


@pytest.fixture
def cloud():
    inventory = Inventory()
    for number in range(HOSTS):
        inventory.add_host(f"host-{number}", node=f"node-{number}.example.org", more_inventories={"CUSTOM_FPGA": 2})
    with FakeOpenStack(inventory) as cloud:
        yield cloud


class AskingSite(Site):
    """A database with the hosts of the cloud, and the reconciler of an installation that asks it."""

    def __init__(self, folder, cloud, providers):
        account = "\n".join(f"{name} = {value}" for name, value in cloud.options().items())
        file = folder / "watcher-sync.conf"
        file.write_text(f"[reconcile_capacity]\nproviders = {providers}\n[reconcile_nova]\n{account}\n")
        self.cloud = cloud
        conf = process._unread(())
        process._read(conf, [f"--config-file={file}"], "watcher-sync-engine")
        super().__init__(folder, conf=conf)
        self.context = make_context(self.conf, self.store, nova(), lambda: self.model)
        facets = {
            host.name: {
                "service": {"status": "enabled"},
                "hypervisor": {"hypervisor_hostname": host.node, "uuid": host.node_id},
            }
            for host in cloud.inventory.hosts.values()
        }
        self.write(*(Upsert("compute_node", host, "1", found) for host, found in facets.items()))
        self.reconciler = CapacityReconciler(self.conf, self.context)

    def run(self, scope="placement", **how):
        return self.reconciler.run(scope, deadline=time.monotonic() + deadline(120), **how)

    def node(self, host="host-0"):
        return self.model.get("compute_node", host)

    def head(self):
        return self.store.load().generation


@pytest.fixture
def site(tmp_path, cloud):
    made = []

    def make(providers="placement"):
        made.append(AskingSite(tmp_path, cloud, providers))
        return made[-1]

    yield make
    for one in made:
        one.close()


# Placement


def test_placement_reports_totals_reserved_amounts_ratios_usages_and_custom_classes(site, cloud):
    cloud.inventory.add_server("vm", host="host-0", flavor=Flavor(id="f", name="f", vcpus=3, memory_mb=512, root_gb=9))
    here = site()
    assert here.run().written == HOSTS
    node, truth = here.node(), cloud.inventory.hosts["host-0"]
    assert (node.vcpus, node.memory_mb, node.disk_gb) == (truth.vcpus, truth.memory_mb, truth.disk_gb)
    assert (node.reserved_vcpus, node.reserved_memory_mb, node.reserved_disk_gb) == (0, truth.reserved_memory_mb, 0)
    assert (node.vcpu_ratio, node.memory_ratio, node.disk_ratio) == (truth.vcpu_ratio, 1.0, 1.0)
    assert {name: one["used"] for name, one in node.inventories.items()} == {
        "VCPU": 3, "MEMORY_MB": 512, "DISK_GB": 9, "CUSTOM_FPGA": 0,
    }  # fmt: skip
    assert node.inventories["CUSTOM_FPGA"]["total"] == 2
    assert node.capacity_source == "placement"


def test_resource_providers_of_other_services_are_no_hosts_where_nova_marks_its_own(site, cloud):
    here = site()
    cloud.inventory.update_host("host-1", traits=("OWNER_CYBORG",))
    cloud.inventory.update_host("host-2", traits=())
    assert here.run().written == HOSTS - 2
    assert {here.node(host).capacity_source for host in ("host-1", "host-2")} == {None}


@pytest.mark.parametrize("known", [True, False], ids=["not marked", "no such trait"])
def test_all_resource_providers_are_hosts_where_nova_marks_none(site, cloud, known):
    here = site()
    for host in list(cloud.inventory.hosts):
        cloud.inventory.update_host(host, traits=("COMPUTE_NODE",))
    if not known:
        cloud.fail(marker_not_found(), path="/resource_providers", when=lambda request: request.last("required"))
    assert here.run().written == HOSTS


def test_a_run_without_a_change_writes_no_row_and_asks_only_for_usages(site, cloud):
    here = site()
    first = here.run()
    head = here.head()
    cloud.requests.clear()
    second = here.run()
    assert (second.written, here.head()) == (0, head)
    assert cloud.requests.count("/inventories") == 0
    assert cloud.requests.count("/usages") == HOSTS
    assert (first.requests, second.requests) == (2 + 2 * HOSTS, 2 + HOSTS)


def test_a_changed_inventory_is_noticed_by_its_generation(site, cloud):
    here = site()
    here.run()
    cloud.inventory.update_host("host-3", vcpus=7)
    cloud.requests.clear()
    assert here.run().written == 1
    assert here.node("host-3").vcpus == 7
    assert cloud.requests.count("/inventories") == 1


@pytest.mark.parametrize(
    ("action", "path"),
    [
        (server_error(500), "/inventories"),
        (server_error(503), "/usages"),
        (forbidden(), "/resource_providers"),
        (Cut(), "/usages"),
        (Garbage(), "/inventories"),
    ],
)
def test_an_error_of_placement_nulls_nothing_and_the_next_run_heals(site, cloud, action, path):
    here = site()
    here.run()
    head, before = here.head(), here.node()
    cloud.inventory.update_host("host-0", vcpus=7)
    for host in cloud.inventory.hosts:
        cloud.inventory.allocations.changed(host)
    cloud.fail(action, path=path, service="placement", count=None)
    with pytest.raises(ReconcileError):
        here.run()
    cloud.heal()
    assert (here.head(), here.node()) == (head, before)
    assert here.run().written == 1
    assert here.node().vcpus == 7


def test_placement_that_is_away_nulls_nothing(site, cloud):
    here = site()
    here.run()
    head = here.head()
    cloud.placement.stop()
    with pytest.raises(ReconcileError, match="placement"):
        here.run()
    cloud.placement.start()
    assert here.run().written == 0
    assert here.head() == head


def test_a_rate_limit_and_an_expired_token_are_survived_within_the_run(site, cloud):
    here = site()
    cloud.fail(too_many_requests(0), path="/usages", service="placement")
    cloud.fail(ExpireTokens(), path="/usages", service="placement", after=5)
    assert here.run().written == HOSTS


def test_a_resource_provider_that_is_deleted_while_they_are_read_is_left_out(site, cloud):
    here = site()
    here.run()
    cloud.fail(server_error(404), path=f"/{cloud.inventory.hosts['host-0'].node_id}/usages", service="placement")
    here.run()
    assert here.node().vcpus is None
    assert here.node("host-1").vcpus == 64


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("inventories", b'{"resource_provider_generation": 9, "inventories": {"VCPU": {"total": null}}}'),
        ("inventories", b'{"resource_provider_generation": 9, "inventories": {"VCPU": []}}'),
        ("inventories", b'{"resource_provider_generation": 9}'),
        ("inventories", b'{"resource_provider_generation": 9, "inventories": {"VCPU": {"total": NaN}}}'),
        ("usages", b'{"usages": {"VCPU": {}}}'),
        ("usages", b'{"usages": 3}'),
    ],
)
def test_an_odd_resource_provider_costs_itself_alone(site, cloud, path, answer):
    here = site()
    here.run()
    for host in ("host-0", "host-3"):
        cloud.inventory.update_host(host, vcpus=7)
    odd = cloud.inventory.hosts["host-3"].node_id
    cloud.fail(Rewrite(lambda _: answer), path=f"/{odd}/{path}", service="placement", count=None)
    report = here.run()
    assert (here.node("host-0").vcpus, here.node("host-3").vcpus) == (7, 64)
    assert (list(report.refused_writes), report.complete) == (["compute_node host-3"], True)
    cloud.heal()
    here.run()
    assert here.node("host-3").vcpus == 7


@pytest.mark.parametrize("field", ["name", "generation"])
def test_a_resource_provider_without_a_name_or_a_generation_costs_nothing(site, cloud, field):
    def without(body):
        document = json.loads(body)
        for one in document["resource_providers"]:
            if one["uuid"] == odd:
                one[field] = None
        return json.dumps(document).encode()

    here = site()
    odd = cloud.inventory.hosts["host-3"].node_id
    cloud.fail(Rewrite(without), when=lambda asked: asked.path.endswith("/resource_providers"), count=None)
    assert here.run().written == HOSTS


def test_a_hypervisor_with_an_odd_value_costs_itself_alone(site, cloud):
    here = site("nova")
    here.run("nova")
    for host in ("host-0", "host-3"):
        cloud.inventory.update_host(host, vcpus=7)

    def odd(body):
        document = json.loads(body)
        for one in document["hypervisors"]:
            if one["service"]["host"] == "host-3":
                one["vcpus"] = {"total": 7}
        return json.dumps(document).encode()

    cloud.fail(Rewrite(odd), path="/os-hypervisors", count=None)
    report = here.run("nova")
    assert (here.node("host-0").vcpus, here.node("host-3").vcpus) == (7, 64)
    assert (list(report.refused_writes), report.complete) == (["compute_node host-3"], True)


# Nova


def test_nova_reports_totals_below_the_microversion_that_asks_each_compute(site, cloud):
    here = site("nova")
    here.run("nova")
    node = here.node()
    assert (node.vcpus, node.memory_mb, node.disk_gb) == (64, 262_144, 4_000)
    assert (node.reserved_memory_mb, node.vcpu_ratio, node.inventories) == (None, None, None)
    (asked,) = [r for r in cloud.requests.last() if "/os-hypervisors" in r.path]
    assert "2.87" in str(asked.headers)


def test_nova_is_read_by_pages(site, cloud, tmp_path):
    cloud.stop()
    with FakeOpenStack(cloud.inventory, max_limit=7) as paged:
        here = AskingSite(tmp_path, paged, "nova")
        here.run("nova")
        assert paged.requests.count("/os-hypervisors") == 3
        assert all(here.node(f"host-{number}").vcpus == 64 for number in range(HOSTS))


def test_bare_metal_gets_no_capacity_from_nova(site, cloud):
    cloud.inventory.update_host("host-0", hypervisor_type="ironic")
    here = site("nova")
    here.run("nova")
    assert (here.node().vcpus, here.node("host-1").vcpus) == (None, 64)


def test_a_hypervisor_list_that_is_refused_nulls_nothing(site, cloud):
    here = site("nova")
    here.run("nova")
    head = here.head()
    cloud.fail(forbidden(), path="/os-hypervisors")
    with pytest.raises(ReconcileError, match="403"):
        here.run("nova")
    assert here.head() == head


def test_placement_before_nova_wins_where_both_report(site, cloud):
    cloud.inventory.update_host("host-0", vcpus=0)  # Placement has no inventory of 0
    here = site("placement, nova")
    here.run("placement")
    here.run("nova")
    assert (here.node().vcpus, here.node().vcpu_ratio, here.node().capacity_source) == (0, None, "placement,nova")
    assert here.node("host-1").capacity_source == "placement"


# Used and free, against the cloud's own allocations


class Told:
    """Servers of the cloud, and the instances that notifications make of them."""

    def __init__(self, site, cloud):
        self.site, self.cloud = site, cloud
        self.number = 1

    def told(self, server, **placement):
        self.number += 1
        flavor = server.flavor
        amounts = {"vcpus": flavor.vcpus, "memory_mb": flavor.memory_mb, "disk_gb": flavor.root_gb}
        facets = {"state": {"state": server.state}, "flavor": amounts}
        if "host" in placement:
            facets["placement"] = {"host": placement["host"]}
        if "source_host" in placement:
            facets["resize"] = {"source_host": placement["source_host"]}
        self.site.write(Upsert("instance", server.id, f"{self.number:09d}", facets))

    def used(self, host):
        used = used_of(self.site.model, host)
        return {name: getattr(used, field) for name, field in AMOUNTS.items()}

    def agree(self):
        """Whether the model's usages are those of Placement, and its free amounts what Placement would still give."""
        self.site.run()
        for host in ("host-0", "host-1"):
            node = self.site.node(host)
            assert self.used(host) == {name: node.inventories[name]["used"] for name in AMOUNTS}
            free = free_of(capacity_of(node), used_of(self.site.model, host))
            for name, field in AMOUNTS.items():
                one = node.inventories[name]
                expected = int((one["total"] - one["reserved"]) * one["allocation_ratio"]) - one["used"]
                assert getattr(free, field) == expected


def test_used_and_free_equal_placement_through_the_life_of_a_server(site, cloud):
    here = site()
    told, inventory = Told(here, cloud), cloud.inventory
    server = inventory.add_server("vm", host="host-0")
    told.told(server, host="host-0")
    told.agree()
    assert told.used("host-0")["VCPU"] == server.flavor.vcpus
    # Migrated cold or resized: both hosts, until it is confirmed.
    migration = inventory.add_migration(server.id, "host-1", status="finished")
    told.told(inventory.update_server(server.id, host="host-1", state="resized"), host="host-1", source_host="host-0")
    told.agree()
    assert told.used("host-0") == told.used("host-1") != {"VCPU": 0, "MEMORY_MB": 0, "DISK_GB": 0}
    inventory.update_migration(migration.uuid, status="confirmed")
    told.told(inventory.update_server(server.id, state="active"), host="host-1", source_host=None)
    told.agree()
    assert told.used("host-0")["VCPU"] == 0
    # Shelved: it counts; offloaded: it does not.
    told.told(inventory.update_server(server.id, state="shelved"))
    told.agree()
    assert told.used("host-1")["VCPU"] == server.flavor.vcpus
    told.told(inventory.update_server(server.id, host=None, state="shelved_offloaded"), host=None)
    told.agree()
    assert told.used("host-1")["VCPU"] == 0
    # Unshelved, soft-deleted: it counts until it is deleted.
    told.told(inventory.update_server(server.id, host="host-0", state="active"), host="host-0")
    told.told(inventory.soft_delete_server(server.id))
    told.agree()
    assert told.used("host-0")["VCPU"] == server.flavor.vcpus
    inventory.delete_server(server.id)
    here.write(Delete("instance", server.id, "9"))
    told.agree()
    assert told.used("host-0")["VCPU"] == 0


# Kubernetes


def test_kubernetes_reports_what_the_nodes_of_a_cluster_can_allocate(site, tmp_path):
    here = site()
    with KubernetesServer() as server:
        server.cluster.add_nodes(2)
        names = [node["metadata"]["name"] for node in server.objects("Node")]
        here.write(Upsert("compute_node", names[0], "1", {"service": {"status": "enabled"}}))
        here.conf.set_override("enabled_sources", ["edge"], group="engine")
        opts.register_source(here.conf, "edge", KubernetesSource.options)
        here.conf.set_override("driver", "kubernetes", group="source_edge")
        here.conf.set_override("kubeconfig", str(server.kubeconfig(tmp_path / "kubeconfig")), group="source_edge")
        here.conf.set_override("providers", ["kubernetes"], group="reconcile_capacity")
        here.reconciler = CapacityReconciler(here.conf, here.context)
        assert here.run("kubernetes").written == 1
        node = here.node(names[0])
        assert (node.vcpus, node.memory_mb, node.disk_gb) == (7, 31 * 1024, 88)
        assert (node.reserved_vcpus, node.reserved_memory_mb, node.vcpu_ratio, node.disk_ratio) == (0, 0, 1.0, 1.0)
        assert here.node("host-0").vcpus is None
        head = here.head()
        server.stop()
        with pytest.raises(ReconcileError, match="cluster edge"):
            here.run("kubernetes")
        assert here.head() == head


# The list of services, which the liveness check asks before a silent host is down


def test_the_states_of_compute_services_cost_one_request_and_leave_out_what_is_forced_down(site, cloud):
    here = site()
    cloud.inventory.update_host("host-1", up=False)
    cloud.inventory.update_host("host-2", forced_down=True)
    states = ServiceStates(OpenStackCloud(here.conf))
    found, skew = states()
    assert not skew
    assert (found["host-0"], found["host-1"], "host-2" in found) == (True, False, False)
    assert len(found) == HOSTS - 1
    assert cloud.requests.count("/os-services") == 1
    cloud.compute.stop()
    with pytest.raises(ReconcileError, match="compute"):
        states()
