# SPDX-License-Identifier: Apache-2.0
"""Resource providers, and who holds what of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from keystoneauth1.exceptions import ConnectFailure
from openstack import exceptions
from openstack.connection import Connection

from watcher_sync.testing.openstack import FakeOpenStack, Flavor, Inventory

SMALL = Flavor(id="1", name="small", vcpus=1, memory_mb=1024, root_gb=10)
LARGE = Flavor(id="2", name="large", vcpus=4, memory_mb=8192, root_gb=80, ephemeral_gb=10, swap_mb=1)
SMALL_USE = {"VCPU": 1, "MEMORY_MB": 1024, "DISK_GB": 10}
LARGE_USE = {"VCPU": 4, "MEMORY_MB": 8192, "DISK_GB": 91}
NONE = {"VCPU": 0, "MEMORY_MB": 0, "DISK_GB": 0}


def raw(connection: Connection, path: str, version: str = "1.39") -> dict[str, Any]:
    response = connection.placement.get(path, microversion=version)
    response.raise_for_status()
    document: dict[str, Any] = response.json()
    return document


@pytest.fixture
def usages(connection: Connection, inventory: Inventory) -> Callable[[], list[dict[str, int]]]:
    """The usages of the three hosts."""

    def usages() -> list[dict[str, int]]:
        paths = [f"/resource_providers/{host.node_id}/usages" for host in inventory.hosts.values()]
        return [raw(connection, path)["usages"] for path in paths]

    return usages


def test_a_provider_has_inventories_with_reserved_and_ratio(connection: Connection, inventory: Inventory) -> None:
    inventory.update_host("compute-0", vcpus=32, reserved_vcpus=2, vcpu_ratio=2.5, more_inventories={"CUSTOM_GPU": 4})
    provider = next(iter(connection.placement.resource_providers(name="compute-0.example.org")))
    assert provider.id == inventory.hosts["compute-0"].node_id
    found = {
        one.resource_class: (one.total, one.reserved, one.allocation_ratio)
        for one in connection.placement.resource_provider_inventories(provider)
    }
    assert found == {
        "VCPU": (32, 2, 2.5), "MEMORY_MB": (262_144, 512, 1.0), "DISK_GB": (4000, 0, 1.0), "CUSTOM_GPU": (4, 0, 1.0),
    }  # fmt: skip


def test_the_generation_grows_with_inventories_and_allocations(connection: Connection, inventory: Inventory) -> None:
    def generation() -> int:
        found = next(iter(connection.placement.resource_providers(name="compute-0.example.org")))
        return int(found.generation)

    seen = [generation()]
    inventory.update_host("compute-0", vcpus=32)
    seen.append(generation())
    server = inventory.add_server("vm", host="compute-0")
    seen.append(generation())
    inventory.update_server(server.id, task_state="pausing")
    assert generation() == seen[-1]
    assert seen == sorted(set(seen))


def test_a_resize_holds_both_hosts_until_it_is_confirmed(
    inventory: Inventory, usages: Callable[[], list[dict[str, int]]]
) -> None:
    server = inventory.add_server("vm", host="compute-0", flavor=SMALL)
    migration = inventory.add_migration(server.id, "compute-1", new_flavor=LARGE)
    assert usages() == [SMALL_USE, LARGE_USE, NONE]
    inventory.update_server(server.id, state="resized", host="compute-1", flavor=LARGE)
    inventory.update_migration(migration.uuid, status="finished")
    assert usages() == [SMALL_USE, LARGE_USE, NONE]
    inventory.update_migration(migration.uuid, status="confirmed")
    inventory.update_server(server.id, state="active")
    assert usages() == [NONE, LARGE_USE, NONE]


def test_a_resize_that_is_reverted_holds_the_source_alone(
    inventory: Inventory, usages: Callable[[], list[dict[str, int]]]
) -> None:
    server = inventory.add_server("vm", host="compute-0", flavor=SMALL)
    migration = inventory.add_migration(server.id, "compute-1", new_flavor=LARGE, status="finished")
    inventory.update_server(server.id, state="resized", host="compute-1", flavor=LARGE)
    inventory.update_server(server.id, state="active", host="compute-0", flavor=SMALL)
    inventory.update_migration(migration.uuid, status="reverted")
    assert usages() == [SMALL_USE, NONE, NONE]


def test_soft_deleted_and_shelved_servers_hold_their_host_and_offloaded_ones_do_not(
    inventory: Inventory, usages: Callable[[], list[dict[str, int]]]
) -> None:
    first, second = (inventory.add_server(f"vm-{i}", host=f"compute-{i}", flavor=SMALL) for i in range(2))
    inventory.soft_delete_server(first.id)
    inventory.update_server(second.id, state="shelved")
    assert usages() == [SMALL_USE, SMALL_USE, NONE]
    inventory.delete_server(first.id)
    inventory.update_server(second.id, state="shelved_offloaded", host=None)
    assert usages() == [NONE, NONE, NONE]


def test_an_evacuated_server_holds_the_dead_host_too(
    inventory: Inventory, usages: Callable[[], list[dict[str, int]]]
) -> None:
    server = inventory.add_server("vm", host="compute-0", flavor=SMALL)
    migration = inventory.add_migration(server.id, "compute-1", type="evacuation", status="done")
    inventory.update_server(server.id, host="compute-1")
    assert usages() == [SMALL_USE, SMALL_USE, NONE]
    inventory.update_migration(migration.uuid, status="completed")
    assert usages() == [NONE, SMALL_USE, NONE]


def test_a_server_that_boots_from_a_volume_holds_no_root_disk(
    inventory: Inventory, usages: Callable[[], list[dict[str, int]]]
) -> None:
    inventory.add_server("vm", host="compute-0", flavor=SMALL, image_id=None)
    assert usages()[0] == {**SMALL_USE, "DISK_GB": 0}


def test_allocations_can_be_asked_by_provider_and_by_consumer(connection: Connection, inventory: Inventory) -> None:
    server = inventory.add_server("vm", host="compute-0", flavor=SMALL)
    host = inventory.hosts["compute-0"]
    found = raw(connection, f"/resource_providers/{host.node_id}/allocations")["allocations"]
    assert found == {server.id: {"resources": SMALL_USE, "consumer_generation": 1}}
    consumer = raw(connection, f"/allocations/{server.id}")
    assert consumer["allocations"][host.node_id]["resources"] == SMALL_USE
    assert (consumer["project_id"], consumer["consumer_type"]) == (server.project_id, "unknown")


def test_what_came_later_is_not_in_the_first_version(connection: Connection, inventory: Inventory) -> None:
    path = f"/resource_providers/{inventory.hosts['compute-0'].node_id}"
    assert "root_provider_uuid" not in raw(connection, path, "1.0")
    assert raw(connection, path, "1.14")["root_provider_uuid"] == inventory.hosts["compute-0"].node_id
    assert connection.placement.get(f"{path}/traits", microversion="1.5").status_code == 404
    assert raw(connection, f"{path}/traits")["traits"] == ["COMPUTE_NODE", "OWNER_NOVA"]
    refused = connection.placement.get(path, headers={"OpenStack-API-Version": "placement 1.99"})
    assert refused.status_code == 406


def test_a_plain_user_may_not_ask_placement(connect: Callable[..., Connection]) -> None:
    with pytest.raises(exceptions.ForbiddenException):
        list(connect("demo").placement.resource_providers())


def test_placement_can_be_away_and_come_back(cloud: FakeOpenStack, connection: Connection) -> None:
    assert len(list(connection.placement.resource_providers())) == 3
    cloud.placement.stop()
    with pytest.raises(ConnectFailure):
        list(connection.placement.resource_providers())
    assert len(list(connection.compute.services())) == 3
    cloud.placement.start()
    assert len(list(connection.placement.resource_providers())) == 3
