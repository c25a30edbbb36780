# SPDX-License-Identifier: Apache-2.0
"""The content of a fake cloud, which a test fills by hand::

    inventory = Inventory()
    inventory.add_host("compute-0", vcpus=32)
    server = inventory.add_server("vm-1", host="compute-0")
    inventory.update_server(server.id, state="stopped", power_state="shutdown")
    inventory.delete_server(server.id)

Deleted servers remain, as they do in Nova's database until an operator archives them: :meth:`Inventory.purge_server`
removes one. Usages follow from the servers and migrations. All times come from the clock.

Thread-safe. A test that makes several changes at once holds :attr:`Inventory.lock` meanwhile, and no request sees
a part of them.
"""

from __future__ import annotations

import bisect
import datetime
import itertools
import random
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from watcher_sync.testing.openstack.allocations import Allocations
from watcher_sync.testing.openstack.records import (
    DEFAULT_ZONE,
    Aggregate,
    Flavor,
    Host,
    Migration,
    Server,
    ServerGroup,
    Service,
)

SMALL = Flavor(id="1", name="m1.small", vcpus=2, memory_mb=2048, root_gb=20)
"""The flavor of a server that names none."""

PROJECT = "6f70656e737461636b2070726f6a6563"
USER = "6f70656e737461636b20757365722069"
IMAGE = "6d3b1a52-0f4e-4c61-9a57-2b8f0c9d7e13"
"""The image of a server that names none."""


class Inventory:
    """Hosts, servers and the rest. See the module's text."""

    def __init__(self, *, seed: int = 0, clock: Callable[[], datetime.datetime] | None = None) -> None:
        """
        :param seed: decides the ids.
        :param clock: the time, aware UTC; the real time without it.
        """
        self.lock = threading.RLock()
        self.clock = clock or _now
        self.hosts: dict[str, Host] = {}
        self.services: dict[str, Service] = {}
        self.servers: dict[str, Server] = {}
        self.flavors: dict[str, Flavor] = {}
        self.aggregates: dict[int, Aggregate] = {}
        self.migrations: dict[str, Migration] = {}
        self.server_groups: dict[str, ServerGroup] = {}
        self.projects: dict[str, str] = {}
        """Project id -> name."""
        self.allocations = Allocations()
        self._rng = random.Random(seed)
        self._numbers = itertools.count(1)
        self._order: list[tuple[datetime.datetime, int, str]] = []
        self._zones: dict[str, str] | None = None

    def refresh(self, *, with_servers: bool = True) -> None:
        """Called under the lock before each request; an inventory that follows something else reads it here.

        :param with_servers: whether the request shows servers.
        """

    def new_id(self) -> str:
        """A uuid that the seed decides."""
        text = f"{self._rng.getrandbits(128):032x}"
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"

    # Hosts and services

    def add_host(self, name: str, **fields: Any) -> Host:
        """A nova-compute with its hypervisor and its resource provider.

        :param fields: those of :class:`~watcher_sync.testing.openstack.records.Host`.
        """
        with self.lock:
            given = {"number": next(self._numbers), "service_id": self.new_id(), "node": name, "node_id": self.new_id()}
            host = Host(name=name, **{**given, "updated_at": self.clock(), **fields})
            self.hosts[name] = host
            self.allocations.add_provider(name)
            return host

    def update_host(self, name: str, **changes: Any) -> Host:
        with self.lock:
            host = self.hosts[name] = msgspec.structs.replace(self.hosts[name], **changes)
            self.allocations.changed(name)
            return host

    def remove_host(self, name: str) -> None:
        """Its service is deleted, and the hypervisor and the resource provider with it."""
        with self.lock:
            del self.hosts[name]
            self.allocations.remove_provider(name)
            for aggregate in list(self.aggregates.values()):
                if name in aggregate.hosts:
                    hosts = tuple(host for host in aggregate.hosts if host != name)
                    self.update_aggregate(aggregate.id, hosts=hosts)

    def add_service(self, binary: str, host: str, **fields: Any) -> Service:
        """A service that is no nova-compute, such as nova-conductor."""
        with self.lock:
            given = {"number": next(self._numbers), "id": self.new_id(), "updated_at": self.clock()}
            service = Service(binary=binary, host=host, **{**given, **fields})
            self.services[service.id] = service
            return service

    # Aggregates and flavors

    def add_aggregate(
        self, name: str, hosts: Iterable[str] = (), metadata: Mapping[str, str] | None = None, **fields: Any
    ) -> Aggregate:
        with self.lock:
            number = next(self._numbers)
            given = {"id": number, "uuid": self.new_id(), "created_at": self.clock(), **fields}
            aggregate = Aggregate(name=name, hosts=tuple(hosts), metadata=dict(metadata or {}), **given)
            self.aggregates[aggregate.id] = aggregate
            self._zones = None
            return aggregate

    def add_server_group(self, name: str, members: Iterable[str] = (), **fields: Any) -> ServerGroup:
        with self.lock:
            given = {"id": self.new_id(), "project_id": PROJECT, "user_id": USER, **fields}
            group = ServerGroup(name=name, members=tuple(members), **given)
            self.server_groups[group.id] = group
            return group

    def update_aggregate(self, number: int, **changes: Any) -> Aggregate:
        with self.lock:
            changes = {"updated_at": self.clock(), **changes}
            aggregate = self.aggregates[number] = msgspec.structs.replace(self.aggregates[number], **changes)
            self._zones = None
            return aggregate

    def remove_aggregate(self, number: int) -> None:
        with self.lock:
            del self.aggregates[number]
            self._zones = None

    def zone_of(self, host: str) -> str:
        """The availability zone of a host: its aggregate's, or the default."""
        if self._zones is None:
            self._zones = {
                name: aggregate.zone
                for aggregate in self.aggregates.values()
                if aggregate.zone
                for name in aggregate.hosts
            }
        return self._zones.get(host, DEFAULT_ZONE)

    def add_flavor(self, flavor: Flavor) -> Flavor:
        with self.lock:
            self.flavors[flavor.id] = flavor
            return flavor

    # Servers

    def add_server(self, name: str | None, *, host: str | None = None, flavor: Flavor = SMALL, **fields: Any) -> Server:
        """A running server.

        :param fields: those of :class:`~watcher_sync.testing.openstack.records.Server`.
        """
        with self.lock:
            now = self.clock()
            given: dict[str, Any] = {
                "id": self.new_id(), "number": next(self._numbers), "project_id": PROJECT, "user_id": USER,
                "created_at": now, "updated_at": now, "launched_at": now, "image_id": IMAGE,
                "node": self.hosts[host].node if host in self.hosts else host, "hostname": name,
            }  # fmt: skip
            server = Server(name=name, host=host, flavor=flavor, **{**given, **fields})
            self.flavors.setdefault(flavor.id, flavor)
            self.put_server(server)
            return server

    def update_server(self, server_id: str, **changes: Any) -> Server:
        """A change that Nova saves: ``updated_at`` is now, and ``node`` follows ``host``, unless they are given."""
        with self.lock:
            if "host" in changes and "node" not in changes:
                host = self.hosts.get(changes["host"])
                changes["node"] = host.node if host is not None else changes["host"]
            changes.setdefault("updated_at", self.clock())
            server = msgspec.structs.replace(self.servers[server_id], **changes)
            self.put_server(server)
            return server

    def soft_delete_server(self, server_id: str) -> Server:
        """As Nova does with reclaim_instance_interval: the server holds its host until it is reclaimed."""
        return self.update_server(server_id, state="soft-delete", power_state="shutdown", deleted_at=self.clock())

    def delete_server(self, server_id: str) -> Server:
        """For good; only ``deleted=true`` and ``changes-since`` show it still."""
        now = self.clock()
        return self.update_server(
            server_id, state="deleted", task_state=None, power_state="pending", deleted=True, deleted_at=now,
            terminated_at=now,
        )  # fmt: skip

    def purge_server(self, server_id: str) -> None:
        """Archive it: its id is no marker any more."""
        with self.lock:
            server = self.servers.pop(server_id)
            del self._order[bisect.bisect_left(self._order, (server.created_at, server.number, server.id))]
            self.allocations.forget_server(server_id)

    def put_server(self, server: Server) -> None:
        """Store a complete record, new or instead of the one with its id. The caller holds the lock."""
        old = self.servers.get(server.id)
        if old is None or (old.created_at, old.number) != (server.created_at, server.number):
            if old is not None:
                del self._order[bisect.bisect_left(self._order, (old.created_at, old.number, old.id))]
            bisect.insort(self._order, (server.created_at, server.number, server.id))
        self.servers[server.id] = server
        self.allocations.put_server(server)

    def order(self) -> list[tuple[datetime.datetime, int, str]]:
        """(created_at, number, id) of all servers, oldest first. The caller holds the lock, and only reads."""
        return self._order

    # Migrations

    def add_migration(
        self, server_id: str, destination: str | None, *, type: str = "resize", **fields: Any
    ) -> Migration:
        """Between the server's host and another one, by default from the server's flavor to the same flavor."""
        with self.lock:
            server = self.servers[server_id]
            now = self.clock()
            given: dict[str, Any] = {
                "id": next(self._numbers), "uuid": self.new_id(), "project_id": server.project_id,
                "user_id": server.user_id, "status": "migrating", "source": server.host,
                "old_flavor": server.flavor, "new_flavor": server.flavor, "created_at": now, "updated_at": now,
            }  # fmt: skip
            migration = Migration(
                server_id=server_id, destination=destination, migration_type=type, **{**given, **fields}
            )
            self.put_migration(migration)
            return migration

    def update_migration(self, uuid: str, **changes: Any) -> Migration:
        with self.lock:
            changes.setdefault("updated_at", self.clock())
            migration = msgspec.structs.replace(self.migrations[uuid], **changes)
            self.put_migration(migration)
            return migration

    def put_migration(self, migration: Migration) -> None:
        """Store a complete record. The caller holds the lock."""
        self.migrations[migration.uuid] = migration
        server = self.servers[migration.server_id]
        self.allocations.put_migration(migration, server)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0)
