# SPDX-License-Identifier: Apache-2.0
"""Lists of servers, as openstacksdk gets them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from openstack import exceptions
from openstack.connection import Connection

from tests.unit.testing.openstack.conftest import Clock
from watcher_sync.testing.openstack import FakeOpenStack, Flavor, Inventory, ServerFault

pytestmark = pytest.mark.slow


def ids(connection: Connection, **query: Any) -> list[str]:
    query = {"all_projects": True, "microversion": "2.96", **query}
    return [server.id for server in connection.compute.servers(details=True, **query)]


def raw(connection: Connection, path: str, version: str = "2.96") -> dict[str, Any]:
    response = connection.compute.get(path, microversion=version)
    response.raise_for_status()
    document: dict[str, Any] = response.json()
    return document


@pytest.fixture
def servers(inventory: Inventory) -> list[str]:
    return [inventory.add_server(f"vm-{i}", host=f"compute-{i % 3}").id for i in range(25)]


def test_all_servers_come_in_pages_the_youngest_first(
    cloud: FakeOpenStack, connection: Connection, servers: list[str]
) -> None:
    assert ids(connection) == servers[::-1]
    assert cloud.requests.count("/servers/detail") == 3


@pytest.mark.slow
def test_a_full_last_page_is_followed_by_an_empty_one(
    cloud: FakeOpenStack, connection: Connection, inventory: Inventory, servers: list[str]
) -> None:
    for i in range(5):
        inventory.add_server(f"more-{i}")
    assert len(ids(connection)) == 30
    assert cloud.requests.count("/servers/detail") == 4


def test_a_limit_is_no_larger_than_the_maximum_of_the_api(
    cloud: FakeOpenStack, connection: Connection, servers: list[str]
) -> None:
    assert len(raw(connection, "/servers/detail?limit=500&all_tenants=1")["servers"]) == 10
    assert len(raw(connection, "/servers/detail?limit=4&all_tenants=1")["servers"]) == 4
    assert raw(connection, "/servers/detail?limit=0&all_tenants=1") == {"servers": []}


def test_the_order_can_be_chosen(connection: Connection, inventory: Inventory, servers: list[str]) -> None:
    assert ids(connection, sort_key="created_at", sort_dir="asc") == servers
    assert ids(connection, sort_key="uuid", sort_dir="asc", limit=7) == sorted(servers)
    assert ids(connection, sort_key="uuid", sort_dir="desc") == sorted(servers, reverse=True)


@pytest.mark.parametrize("query", ["sort_key=bogus", "sort_key=host&sort_dir=up", "limit=-1", "changes-since=soon"])
def test_what_nova_does_not_know_is_refused(connection: Connection, query: str) -> None:
    assert connection.compute.get(f"/servers/detail?{query}", microversion="2.96").status_code == 400


def test_a_deleted_server_is_a_marker_until_it_is_archived(
    connection: Connection, inventory: Inventory, servers: list[str]
) -> None:
    inventory.delete_server(servers[20])
    path = f"/servers/detail?all_tenants=1&marker={servers[20]}"
    assert [server["id"] for server in raw(connection, path)["servers"]] == servers[10:20][::-1]
    inventory.purge_server(servers[20])
    with pytest.raises(exceptions.BadRequestException, match=rf"marker \[{servers[20]}\] not found"):
        list(connection.compute.servers(all_projects=True, marker=servers[20]))


def test_soft_deleted_servers_are_hidden_unless_they_are_asked_for(
    connection: Connection, inventory: Inventory, servers: list[str]
) -> None:
    inventory.soft_delete_server(servers[3])
    inventory.delete_server(servers[4])
    shown = [server for server in servers[::-1] if server not in (servers[3], servers[4])]
    assert ids(connection) == shown
    assert raw(connection, "/servers/detail?all_tenants=1&status=SOFT_DELETED")["servers"] == []
    found = raw(connection, "/servers/detail?all_tenants=1&soft_deleted=true&status=SOFT_DELETED")["servers"]
    assert [server["id"] for server in found] == [servers[3]]
    assert connection.compute.get_server(servers[3]).status == "SOFT_DELETED"
    with pytest.raises(exceptions.NotFoundException):
        connection.compute.get_server(servers[4])
    assert sorted(ids(connection, deleted=True)) == sorted([servers[3], servers[4]])


def test_changes_since_shows_what_changed_deleted_or_not(
    connection: Connection, inventory: Inventory, clock: Clock, servers: list[str]
) -> None:
    clock.forward(60)
    since = clock.now.isoformat()
    inventory.update_server(servers[0], state="stopped", power_state="shutdown")
    inventory.soft_delete_server(servers[1])
    inventory.delete_server(servers[2])
    found = connection.compute.servers(details=True, all_projects=True, changes_since=since)
    assert {server.id: server.status for server in found} == {
        servers[0]: "SHUTOFF",
        servers[1]: "SOFT_DELETED",
        servers[2]: "DELETED",
    }


def test_a_user_sees_the_servers_of_the_own_project_and_no_hosts(
    connect: Callable[..., Connection], cloud: FakeOpenStack, inventory: Inventory, servers: list[str]
) -> None:
    demo = connect("demo")
    own = inventory.add_server("mine", host="compute-0", project_id=demo.current_project_id)
    found = list(demo.compute.servers(details=True))
    assert [server.id for server in found] == [own.id]
    assert found[0].compute_host is None
    assert found[0].to_dict()["host_id"]
    with pytest.raises(exceptions.ForbiddenException):
        list(demo.compute.servers(all_projects=True))
    with pytest.raises(exceptions.NotFoundException):
        demo.compute.get_server(servers[0])


def test_the_administrator_sees_host_and_hypervisor(connection: Connection, servers: list[str]) -> None:
    server = connection.compute.get_server(servers[1])
    assert (server.compute_host, server.hypervisor_hostname) == ("compute-1", "compute-1.example.org")


@pytest.mark.parametrize(
    ("version", "fields", "absent"),
    [
        ("2.1", set(), {"locked", "tags", "locked_reason", "pinned_availability_zone"}),
        ("2.9", {"locked"}, {"tags", "locked_reason", "pinned_availability_zone"}),
        ("2.73", {"locked", "tags", "locked_reason", "host_status"}, {"pinned_availability_zone"}),
        ("2.96", {"locked", "tags", "locked_reason", "pinned_availability_zone"}, {"scheduler_hints"}),
    ],
)
def test_a_microversion_shows_its_fields_and_no_newer_ones(
    connection: Connection, servers: list[str], version: str, fields: set[str], absent: set[str]
) -> None:
    shown = set(raw(connection, "/servers/detail?all_tenants=1&limit=1", version)["servers"][0])
    assert fields <= shown
    assert not absent & shown


def test_an_embedded_flavor_has_no_id(connection: Connection, inventory: Inventory) -> None:
    flavor = Flavor(id="42", name="vnf", vcpus=8, memory_mb=4096, root_gb=10, ephemeral_gb=1, swap_mb=512)
    server = inventory.add_server("vm", flavor=flavor)
    assert raw(connection, f"/servers/{server.id}", "2.46")["server"]["flavor"]["id"] == "42"
    assert raw(connection, f"/servers/{server.id}", "2.47")["server"]["flavor"] == {
        "vcpus": 8, "ram": 4096, "disk": 10, "ephemeral": 1, "swap": 512, "original_name": "vnf", "extra_specs": {},
    }  # fmt: skip


def test_a_fault_is_shown_in_error_and_deleted_only(connection: Connection, inventory: Inventory, clock: Clock) -> None:
    fault = ServerFault(message="No valid host was found.", created_at=clock.now)
    server = inventory.add_server("vm", state="error", fault=fault)
    assert connection.compute.get_server(server.id).fault["message"] == "No valid host was found."
    inventory.update_server(server.id, state="active")
    assert connection.compute.get_server(server.id).fault is None


def test_the_zone_is_the_hosts_and_changes_with_its_aggregate(connection: Connection, inventory: Inventory) -> None:
    server = inventory.add_server("vm", host="compute-0", availability_zone="old", pinned_availability_zone="wish")
    shown = raw(connection, f"/servers/{server.id}")["server"]
    assert (shown["OS-EXT-AZ:availability_zone"], shown["pinned_availability_zone"]) == ("nova", "wish")
    aggregate = inventory.add_aggregate("zone", ["compute-0"], {"availability_zone": "az-1"})
    assert raw(connection, f"/servers/{server.id}")["server"]["OS-EXT-AZ:availability_zone"] == "az-1"
    inventory.update_aggregate(aggregate.id, hosts=())
    assert raw(connection, f"/servers/{server.id}")["server"]["OS-EXT-AZ:availability_zone"] == "nova"


def test_a_server_that_boots_from_a_volume_has_an_empty_image(connection: Connection, inventory: Inventory) -> None:
    server = inventory.add_server("vm", image_id=None)
    assert raw(connection, f"/servers/{server.id}")["server"]["image"] == ""
