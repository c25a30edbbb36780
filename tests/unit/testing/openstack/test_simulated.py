# SPDX-License-Identifier: Apache-2.0
"""A simulated cloud behind the fake API."""

from __future__ import annotations

import collections
import threading
from typing import Any

import openstack
import pytest
from openstack.connection import Connection

from watcher_sync.testing.nova.cloud import CloudSimulator
from watcher_sync.testing.nova.database import Allocation
from watcher_sync.testing.openstack import FakeOpenStack, inventory_of

DEADLINE_SECONDS = 60


def simulated(*, events: int = 0) -> CloudSimulator:
    simulator = CloudSimulator(seed=7, hosts=20, instances=120, failures=0.1)
    collections.deque(simulator.populate(), maxlen=0)
    simulator.history(events)
    return simulator


def listed(connection: Connection, **query: Any) -> dict[str, Any]:
    servers = connection.compute.servers(details=True, all_projects=True, soft_deleted=True, limit=50, **query)
    return {server.id: server for server in servers}


@pytest.mark.slow
@pytest.mark.parametrize("events", [0, 2000])
def test_the_api_shows_the_servers_of_the_simulated_database(events: int) -> None:
    simulator = simulated(events=events)
    database = simulator.database
    with FakeOpenStack(inventory_of(simulator)) as cloud, openstack.connect(**cloud.connect_options()) as connection:
        shown = listed(connection, microversion="2.96")
        assert {
            one.id: (
                one.name, one.project_id, one.vm_state, one.task_state, one.compute_host, one.hypervisor_hostname,
                one.is_locked, one.flavor.vcpus, one.flavor.swap, one.metadata, one.pinned_availability_zone,
            )
            for one in shown.values()
        } == {
            server.uuid: (
                record["display_name"], record["tenant_id"], record["state"], record["task_state"], record["host"],
                record["node"], record["locked"], record["flavor"]["vcpus"], record["flavor"]["swap"],
                record["metadata"], server.pinned_zone,
            )
            for server in database.servers
            for record in (server.record,)
        }  # fmt: skip
        deleted = connection.compute.servers(details=True, all_projects=True, deleted=True)
        assert {one.id for one in deleted if one.status == "DELETED"} == set(database.deleted)


@pytest.mark.parametrize("events", [0, 2000])
def test_the_api_shows_the_hosts_and_the_allocations_of_the_simulated_database(events: int) -> None:
    simulator = simulated(events=events)
    hosts = [host for host in simulator.database.hosts if host.exists]
    with FakeOpenStack(inventory_of(simulator)) as cloud, openstack.connect(**cloud.connect_options()) as connection:
        services = {one.host: one for one in connection.compute.services(binary="nova-compute")}
        assert {
            name: (one.id, one.state, one.status, one.is_forced_down, one.availability_zone)
            for name, one in services.items()
        } == {
            host.name: (host.service_uuid, host.state, host.status, host.forced_down, host.availability_zone)
            for host in hosts
        }
        providers = {one.id: one.name for one in connection.placement.resource_providers()}
        assert providers == {host.uuid: host.node for host in hosts}
        for host in hosts:
            usages = connection.placement.get(f"/resource_providers/{host.uuid}/usages").json()["usages"]
            held = simulator.database.allocations.get(host.name, {}).values()
            total = [sum(amounts) for amounts in zip(*held, strict=True)] or [0, 0, 0]
            assert Allocation(usages["VCPU"], usages["MEMORY_MB"], usages["DISK_GB"]) == Allocation(*total)


@pytest.mark.slow
def test_the_zone_of_a_server_in_the_truth_is_the_one_that_the_api_shows_after_zones_change() -> None:
    simulator = simulated(events=2000)
    old = {server.uuid: server.record["availability_zone"] for server in simulator.database.servers}
    truth = {uuid: row["availability_zone"] for uuid, row in simulator.truth()["instance"].items()}
    with FakeOpenStack(inventory_of(simulator)) as cloud, openstack.connect(**cloud.connect_options()) as connection:
        shown = {uuid: one.availability_zone or None for uuid, one in listed(connection).items()}
    assert shown == truth
    assert truth != old, "no zone changed"


@pytest.mark.slow
def test_the_api_follows_the_simulator_while_it_goes_on() -> None:
    simulator = simulated()
    with FakeOpenStack(inventory_of(simulator)) as cloud, openstack.connect(**cloud.connect_options()) as connection:
        listed(connection)
        ended = threading.Event()

        def go_on() -> None:
            simulator.history(3000)
            ended.set()

        thread = threading.Thread(target=go_on, daemon=True)
        thread.start()
        while not ended.is_set():
            listed(connection)
            list(connection.compute.hypervisors(details=True))
        thread.join(DEADLINE_SECONDS)
        shown = listed(connection)
        assert {one.id: (one.vm_state, one.compute_host) for one in shown.values()} == {
            server.uuid: (server.record["state"], server.record["host"]) for server in simulator.database.servers
        }


@pytest.mark.slow
def test_what_changed_since_is_listed_with_what_was_deleted() -> None:
    simulator = simulated()
    with FakeOpenStack(inventory_of(simulator)) as cloud, openstack.connect(**cloud.connect_options()) as connection:
        before = {one.id: one.updated_at for one in listed(connection).values()}
        since = max(before.values())
        simulator.history(1000)
        changed = {one.id: one.status for one in listed(connection, changes_since=since).values()}
        assert set(simulator.database.deleted) <= changed.keys()
        rows = {server.uuid: server.record["updated_at"] for server in simulator.database.servers}
        assert {uuid for uuid, moment in rows.items() if moment and moment >= since} <= changed.keys()
        assert len(changed) < len(before) + len(simulator.database.deleted)


def test_the_generation_of_a_provider_grows_when_its_allocations_change() -> None:
    simulator = simulated()
    inventory = inventory_of(simulator)
    with inventory.lock:
        inventory.refresh()
        before = {name: inventory.allocations.generation(name) for name in inventory.hosts}
        assert before == {name: inventory.allocations.generation(name) for name in inventory.hosts}
    simulator.history(500)
    with inventory.lock:
        inventory.refresh()
        after = {name: inventory.allocations.generation(name) for name in inventory.hosts}
    assert any(after[name] > before.get(name, 0) for name in after)
