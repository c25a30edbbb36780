# SPDX-License-Identifier: Apache-2.0
"""An inventory that follows a simulated cloud, so that the API shows what the simulator's database holds::

    simulator = CloudSimulator(seed=1, hosts=200, instances=4_000)
    deque(simulator.populate(), maxlen=0)
    with FakeOpenStack(inventory_of(simulator)) as cloud:
        ...

The simulator may go on in one thread while clients list. Before each request the inventory reads what changed, under
the database's lock, so that each answer is consistent. It is not changed by hand.
"""

from __future__ import annotations

import datetime
import functools
import itertools
from collections.abc import Mapping
from typing import Any

from watcher_sync.testing.nova import database as nova
from watcher_sync.testing.nova.cloud import CloudSimulator
from watcher_sync.testing.openstack.allocations import Allocations, Amounts
from watcher_sync.testing.openstack.inventory import Inventory
from watcher_sync.testing.openstack.records import (
    OPEN_MIGRATIONS,
    Aggregate,
    Flavor,
    Host,
    Migration,
    Server,
    ServerFault,
)


def inventory_of(simulator: CloudSimulator) -> SimulatedInventory:
    """The content of the simulated cloud, for :class:`~watcher_sync.testing.openstack.FakeOpenStack`."""
    return SimulatedInventory(simulator.database)


class SimulatedInventory(Inventory):
    """See the module's text."""

    def __init__(self, database: nova.Database) -> None:
        super().__init__()
        self.lock = database.lock
        self.allocations = _SimulatedAllocations(database)
        self._database = database
        self._hosts_read_at = self._servers_read_at = -1
        self._rows: dict[str, tuple[nova.Record, nova.Fault | None]] = {}
        self._row_numbers = itertools.count(1)
        self._signatures: dict[str, tuple[Any, ...]] = {}
        self._converted: dict[int, tuple[nova.Record, Flavor]] = {}
        self._deleted_count = 0
        self._host_zones: dict[str, str] = {}

    def refresh(self, *, with_servers: bool = True) -> None:
        if self._hosts_read_at != self._database.changes:
            self._hosts_read_at = self._database.changes
            self._read_hosts()
            self._read_aggregates()
        if with_servers and self._servers_read_at != self._database.changes:
            self._servers_read_at = self._database.changes
            self._read_servers()

    def _read_servers(self) -> None:
        for record in self._database.flavors:
            self._flavor(record)
        for server in self._database.servers:
            self._read_server(server)
        for server in itertools.islice(self._database.deleted.values(), self._deleted_count, None):
            self._read_server(server)
            self._deleted_count += 1
        self._read_migrations()

    def zone_of(self, host: str) -> str:
        return self._host_zones.get(host) or super().zone_of(host)

    def _read_hosts(self) -> None:
        there = [host for host in self._database.hosts if host.exists]
        for host in there:
            signature = (
                host.node, host.uuid, host.service_uuid, host.capacity, host.disabled_reason, host.forced_down,
                host.state, host.updated_at, host.hypervisor_type,
            )  # fmt: skip
            if self._signatures.get(host.name) != signature:
                self._signatures[host.name] = signature
                self.hosts[host.name] = _host(host)
        self._host_zones = {host.name: host.availability_zone for host in there}
        for name in self.hosts.keys() - self._host_zones.keys():
            del self.hosts[name], self._signatures[name]

    def _read_aggregates(self) -> None:
        self.aggregates = {
            record["id"]: Aggregate(
                id=record["id"], uuid=record["uuid"], name=record["name"], hosts=tuple(record["hosts"]),
                metadata=dict(record["metadata"]), created_at=_EPOCH,
            )
            for record in self._database.aggregates
        }  # fmt: skip

    def _read_server(self, server: nova.Server) -> None:
        row = (server.record, server.fault)
        known = self._rows.get(server.uuid)
        if known is not None and known[0] is row[0] and known[1] is row[1]:
            return
        self._rows[server.uuid] = row
        old = self.servers.get(server.uuid)
        number = next(self._row_numbers) if old is None else old.number
        self.put_server(_server(server, number, self._flavor(server.record["flavor"])))

    def _flavor(self, record: nova.Record) -> Flavor:
        known = self._converted.get(id(record))
        if known is not None and known[0] is record:
            return known[1]
        flavor = Flavor(
            id=record["flavorid"], name=record["name"], vcpus=record["vcpus"], memory_mb=record["memory_mb"],
            root_gb=record["root_gb"], ephemeral_gb=record["ephemeral_gb"], swap_mb=record["swap"],
            extra_specs=record["extra_specs"] or {},
        )  # fmt: skip
        self._converted[id(record)] = record, flavor
        self.flavors.setdefault(flavor.id, flavor)
        return flavor

    def _read_migrations(self) -> None:
        for uuid, row in self._database.migrations.items():
            known = self.migrations.get(uuid)
            if known is not None and known.status not in OPEN_MIGRATIONS and known.status == row.status:
                continue
            server = self.servers.get(row.instance_uuid)
            if server is None:
                continue
            old_flavor = server.flavor if known is None else known.old_flavor
            self.migrations[uuid] = Migration(
                id=row.number, uuid=uuid, server_id=server.id, project_id=server.project_id, user_id=server.user_id,
                migration_type=row.type, status=row.status, source=row.source, destination=row.dest,
                old_flavor=old_flavor,
                new_flavor=server.flavor, created_at=_moment(row.created_at) or _EPOCH,
                updated_at=_moment(row.updated_at),
            )  # fmt: skip


class _SimulatedAllocations(Allocations):
    """What the simulator's Placement holds; servers and migrations change nothing here."""

    def __init__(self, database: nova.Database) -> None:
        super().__init__()
        self._database = database
        self._last: dict[str, tuple[dict[str, nova.Allocation], int]] = {}

    def generation(self, host: str) -> int:
        now = self._database.allocations.get(host, {})
        last, generation = self._last.get(host, ({}, 1))
        if now != last:
            generation += 1
            self._last[host] = dict(now), generation
        return generation

    def consumers(self, host: str) -> Mapping[str, Amounts]:
        return {consumer: _amounts(held) for consumer, held in self._database.allocations.get(host, {}).items()}

    def hosts_of(self, consumer: str) -> Mapping[str, Amounts]:
        return {
            host: _amounts(consumers[consumer])
            for host, consumers in self._database.allocations.items()
            if consumer in consumers
        }

    def used(self, host: str) -> dict[str, int]:
        held = self._database.allocations.get(host, {}).values()
        return _amounts(nova.Allocation(*(sum(amounts) for amounts in zip(*held, strict=True)))) if held else {}

    def put_server(self, server: Server) -> None:
        """Nothing: the simulator allocates."""


_EPOCH = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


@functools.lru_cache(maxsize=4096)
def _moment(text: str | None) -> datetime.datetime | None:
    return None if text is None else datetime.datetime.fromisoformat(text)


def _amounts(held: nova.Allocation) -> dict[str, int]:
    amounts = {"VCPU": held.vcpus, "MEMORY_MB": held.memory_mb, "DISK_GB": held.disk_gb}
    return {name: amount for name, amount in amounts.items() if amount}


def _host(host: nova.Host) -> Host:
    capacity = host.capacity
    return Host(
        name=host.name, number=host.number, service_id=host.service_uuid, node=host.node, node_id=host.uuid,
        disabled=host.status == "disabled", disabled_reason=host.disabled_reason, forced_down=host.forced_down,
        up=not host.dead, updated_at=_moment(host.updated_at), hypervisor_type=host.hypervisor_type,
        **capacity._asdict(),
    )  # fmt: skip


def _server(server: nova.Server, number: int, flavor: Flavor) -> Server:
    record, fault = server.record, server.fault
    shown_fault = None
    if fault is not None:
        details = f"Traceback (most recent call last):\nnova.exception.{fault.type}: {fault.message}\n"
        created_at = _moment(fault.created_at) or _EPOCH
        shown_fault = ServerFault(message=fault.message, created_at=created_at, details=details)
    return Server(
        id=record["uuid"], number=number, name=record["display_name"], project_id=record["tenant_id"],
        user_id=record["user_id"], flavor=flavor, state=record["state"], task_state=record["task_state"],
        power_state=record["power_state"], host=record["host"], node=record["node"],
        created_at=_moment(record["created_at"]) or _EPOCH, updated_at=_moment(record["updated_at"]),
        launched_at=_moment(record["launched_at"]), terminated_at=_moment(record["terminated_at"]),
        deleted_at=_moment(record["deleted_at"]), deleted=server.deleted, image_id=record["image_uuid"] or None,
        metadata=record["metadata"], locked=record["locked"], locked_reason=record["locked_reason"],
        availability_zone=record["availability_zone"], pinned_availability_zone=server.pinned_zone,
        fault=shown_fault, addresses=tuple(record["ip_addresses"]), volumes=tuple(record["block_devices"]),
        hostname=record["host_name"], description=record["display_description"], key_name=record["key_name"],
    )  # fmt: skip
