# SPDX-License-Identifier: Apache-2.0
"""Services, hypervisors, aggregates, flavors and migrations, as openstacksdk gets them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import openstack
import pytest
from openstack import exceptions
from openstack.connection import Connection

from watcher_sync.testing.openstack import FakeOpenStack, Flavor, Inventory

LARGE = Flavor(id="2", name="m1.large", vcpus=4, memory_mb=8192, root_gb=80, ephemeral_gb=10, swap_mb=1024)


def raw(connection: Connection, path: str, version: str) -> dict[str, Any]:
    response = connection.compute.get(path, microversion=version)
    response.raise_for_status()
    document: dict[str, Any] = response.json()
    return document


def test_services_have_state_status_and_zone(connection: Connection, inventory: Inventory) -> None:
    inventory.add_service("nova-conductor", "controller-0")
    inventory.add_aggregate("zone", ["compute-0"], {"availability_zone": "az-1"})
    inventory.update_host("compute-0", disabled=True, disabled_reason="maintenance")
    inventory.update_host("compute-1", forced_down=True)
    inventory.update_host("compute-2", up=False)
    assert [
        (one.binary, one.host, one.availability_zone, one.status, one.state, one.is_forced_down, one.disabled_reason)
        for one in connection.compute.services()
    ] == [
        ("nova-conductor", "controller-0", "internal", "enabled", "up", False, None),
        ("nova-compute", "compute-0", "az-1", "disabled", "up", False, "maintenance"),
        ("nova-compute", "compute-1", "nova", "enabled", "down", True, None),
        ("nova-compute", "compute-2", "nova", "enabled", "down", False, None),
    ]


def test_the_id_of_a_service_and_a_hypervisor_is_a_uuid_from_2_53_on(
    connection: Connection, inventory: Inventory
) -> None:
    host = inventory.hosts["compute-0"]
    for version, service_id, node_id in (("2.52", host.number, host.number), ("2.53", host.service_id, host.node_id)):
        assert raw(connection, "/os-services?host=compute-0", version)["services"][0]["id"] == service_id
        hypervisor = raw(connection, "/os-hypervisors/detail", version)["hypervisors"][0]
        assert (hypervisor["id"], hypervisor["service"]["id"]) == (node_id, service_id)


def test_hypervisors_have_capacity_until_2_87_and_none_from_2_88_on(
    connection: Connection, inventory: Inventory
) -> None:
    inventory.add_server("vm", host="compute-0", flavor=LARGE)
    shown = raw(connection, "/os-hypervisors/detail", "2.87")["hypervisors"][0]
    assert {name: shown[name] for name in ("vcpus", "vcpus_used", "memory_mb", "memory_mb_used", "local_gb_used")} == {
        "vcpus": 64, "vcpus_used": 4, "memory_mb": 262_144, "memory_mb_used": 8192 + 512, "local_gb_used": 91,
    }  # fmt: skip
    assert (shown["running_vms"], shown["hypervisor_hostname"]) == (1, "compute-0.example.org")
    newer = raw(connection, "/os-hypervisors/detail", "2.88")["hypervisors"][0]
    assert "vcpus" not in newer
    assert newer["uptime"] is None


def test_from_2_88_on_a_freshly_dead_compute_fails_the_list(connection: Connection, inventory: Inventory) -> None:
    inventory.update_host("compute-1", unresponsive=True)
    assert len(raw(connection, "/os-hypervisors/detail", "2.87")["hypervisors"]) == 3
    assert connection.compute.get("/os-hypervisors/detail", microversion="2.88").status_code == 500
    inventory.update_host("compute-1", up=False)
    assert connection.compute.get("/os-hypervisors/detail", microversion="2.88").status_code == 200


def test_hypervisors_come_in_pages(cloud: FakeOpenStack, connection: Connection, inventory: Inventory) -> None:
    for i in range(3, 25):
        inventory.add_host(f"compute-{i}")
    cloud.requests.clear()
    found = raw(connection, "/os-hypervisors/detail?limit=8", "2.53")
    names = [one["service"]["host"] for one in found["hypervisors"]]
    while links := found.get("hypervisors_links"):
        found = raw(connection, links[0]["href"], "2.53")
        names += [one["service"]["host"] for one in found["hypervisors"]]
    assert names == [f"compute-{i}" for i in range(25)]
    assert cloud.requests.count("/os-hypervisors/detail") == 4


def test_aggregates_have_a_number_and_a_uuid(connection: Connection, inventory: Inventory) -> None:
    aggregate = inventory.add_aggregate("zone", ["compute-0"], {"availability_zone": "az-1", "ssd": "true"})
    shown = raw(connection, "/os-aggregates", "2.41")["aggregates"]
    assert [(one["id"], one["uuid"], one["hosts"], one["availability_zone"]) for one in shown] == [
        (aggregate.id, aggregate.uuid, ["compute-0"], "az-1")
    ]
    assert "uuid" not in raw(connection, "/os-aggregates", "2.40")["aggregates"][0]


def test_a_removed_host_is_in_no_list(connection: Connection, inventory: Inventory) -> None:
    inventory.add_aggregate("zone", ["compute-0", "compute-1"], {"availability_zone": "az-1"})
    inventory.remove_host("compute-0")
    assert [one.host for one in connection.compute.services()] == ["compute-1", "compute-2"]
    assert [one.hosts for one in connection.compute.aggregates()] == [["compute-1"]]
    assert [one.name for one in connection.placement.resource_providers()] == [
        "compute-1.example.org",
        "compute-2.example.org",
    ]


@pytest.mark.parametrize("listing", ["services", "hypervisors", "aggregates"])
def test_a_plain_user_may_not_list_hosts(connect: Callable[..., Connection], listing: str) -> None:
    with pytest.raises(exceptions.ForbiddenException, match="403"):
        list(getattr(connect("demo").compute, listing)())


def test_flavors_have_extra_specs_from_2_61_on(connection: Connection, inventory: Inventory) -> None:
    inventory.add_flavor(Flavor(id="9", name="vnf", extra_specs={"hw:cpu_policy": "dedicated"}))
    assert raw(connection, "/flavors/detail", "2.61")["flavors"][0]["extra_specs"] == {"hw:cpu_policy": "dedicated"}
    assert "extra_specs" not in raw(connection, "/flavors/detail", "2.60")["flavors"][0]
    assert next(iter(connection.compute.flavors(get_extra_specs=True))).extra_specs == {"hw:cpu_policy": "dedicated"}


def test_migrations_are_listed(connection: Connection, inventory: Inventory) -> None:
    server = inventory.add_server("vm", host="compute-0")
    migration = inventory.add_migration(server.id, "compute-1", type="live-migration", status="running")
    found = list(connection.compute.migrations())
    assert [(one.server_id, one.source_compute, one.dest_compute, one.migration_type, one.status) for one in found] == [
        (server.id, "compute-0", "compute-1", "live-migration", "running")
    ]
    assert found[0].id == migration.id
    for query, count in (("status=running", 1), ("status=finished", 0), ("host=compute-1", 1), ("host=compute-2", 0)):
        assert len(raw(connection, f"/os-migrations?{query}", "2.87")["migrations"]) == count


def test_a_version_outside_the_range_is_refused(connection: Connection) -> None:
    response = connection.compute.get("/servers", headers={"OpenStack-API-Version": "compute 2.300"})
    assert response.status_code == 406
    assert response.json()["computeFault"]["message"] == (
        "Version 2.300 is not supported by the API. Minimum is 2.1 and maximum is 2.104."
    )
    response = connection.compute.get("/servers", headers={"OpenStack-API-Version": "compute abc"})
    assert response.status_code == 400


def test_an_older_nova_can_be_played(inventory: Inventory) -> None:
    with (
        FakeOpenStack(inventory, max_microversion=(2, 87)) as cloud,
        openstack.connect(**cloud.connect_options()) as connection,
    ):
        response = connection.compute.get("/servers", headers={"OpenStack-API-Version": "compute 2.88"})
        assert response.status_code == 406
        response = connection.compute.get("/servers", headers={"OpenStack-API-Version": "compute latest"})
        assert response.headers["OpenStack-API-Version"] == "compute 2.87"
