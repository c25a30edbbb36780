# SPDX-License-Identifier: Apache-2.0
"""What the simulated Nova and Placement hold: the truth that APIs serve and the ledger reads.

The control plane and its operations write it; a fake API and the ledger read it. Records of servers and aggregates are
dictionaries with the names of Nova's payloads. A record is replaced and never changed, except those of aggregates.

A reader in another thread holds :attr:`Database.lock` while it reads. Between two steps of the simulator the content is
consistent.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

Record = dict[str, Any]
"""A server as Nova's database has it: the payload's fields, with flavor, addresses and volumes unwrapped."""


class Capacity(NamedTuple):
    """Inventory of a host in Placement; memory in MiB, disk in GiB."""

    vcpus: int = 32
    memory_mb: int = 131_072
    disk_gb: int = 2_000
    reserved_vcpus: int = 0
    reserved_memory_mb: int = 512
    reserved_disk_gb: int = 0
    vcpu_ratio: float = 4.0
    memory_ratio: float = 1.0
    disk_ratio: float = 1.0


class Allocation(NamedTuple):
    """What one consumer occupies on one host; memory in MiB, disk in GiB."""

    vcpus: int
    memory_mb: int
    disk_gb: int


class Fault(NamedTuple):
    """The last failure of a server, as its API shows it in the states error and deleted."""

    type: str
    message: str
    created_at: str


class Host:
    """A compute host with its service, its hypervisor and its resource provider."""

    __slots__ = ("capacity", "count", "dead", "declared", "disabled_reason", "forced_down", "hypervisor_type", "legacy",
                 "name", "node", "number", "registered", "service_uuid", "service_zone", "spare", "updated_at", "uuid",
                 "zone")  # fmt: skip

    def __init__(self, name: str, *, number: int = 0, uuid: str = "", service_uuid: str = "") -> None:
        self.name = name
        """Host of the compute service."""
        self.node = name
        """Host name of the hypervisor."""
        self.number = number
        """Integer id of the service and of the hypervisor in old microversions."""
        self.uuid = uuid
        """Uuid of the hypervisor and of the resource provider."""
        self.service_uuid = service_uuid
        self.hypervisor_type = "QEMU"
        self.capacity = Capacity()
        self.count = 0
        """Servers on it."""
        self.zone: str | None = None
        """Availability zone of its aggregate."""
        self.service_zone: str | None = None
        """Availability zone in its service's notifications."""
        self.declared = True
        """Whether its service is created in sight of the bus."""
        self.registered = False
        """Whether a notification showed its service since it was created last."""
        self.disabled_reason: str | None = None
        self.forced_down = False
        self.dead = False
        """Its service reports no more, and no notification says so."""
        self.spare = False
        """Excluded from scheduling, so that it remains empty."""
        self.legacy = False
        """Its release is old: no lock in its payloads."""
        self.updated_at: str | None = None
        """When its service was last written, as the API shows it."""

    @property
    def publisher(self) -> str:
        return f"nova-compute:{self.name}"

    @property
    def exists(self) -> bool:
        """Whether Nova has its service."""
        return self.registered or not self.declared

    @property
    def works(self) -> bool:
        return self.exists and self.state == "up"

    @property
    def schedulable(self) -> bool:
        return self.works and self.disabled_reason is None and not self.spare

    @property
    def status(self) -> str:
        """``enabled`` or ``disabled``, as os-services shows it."""
        return "enabled" if self.disabled_reason is None else "disabled"

    @property
    def state(self) -> str:
        """``up`` or ``down``, as os-services shows it."""
        return "down" if self.forced_down or self.dead else "up"

    @property
    def availability_zone(self) -> str:
        """As os-services shows it."""
        return self.zone or self.service_zone or "nova"


class Server:
    """An instance."""

    __slots__ = ("busy", "claims", "fault", "host", "pinned_zone", "record", "source_host")

    def __init__(self, record: Record) -> None:
        self.record = record
        self.host: Host | None = None
        self.source_host: Host | None = None
        """The host that it left by a resize that is neither confirmed nor reverted."""
        self.fault: Fault | None = None
        self.pinned_zone: str | None = None
        """Availability zone that its owner asked for."""
        self.busy = True
        self.claims: set[tuple[str, str]] = set()
        """Its allocations: (name of the host, consumer); a consumer is the server or one of its migrations."""

    @property
    def uuid(self) -> str:
        uuid: str = self.record["uuid"]
        return uuid

    @property
    def state(self) -> str:
        state: str = self.record["state"]
        return state

    @property
    def deleted(self) -> bool:
        """Whether its row is deleted; one in state soft-delete is not."""
        return self.record["deleted_at"] is not None and self.record["state"] == "deleted"


class Migration:
    """A migration record of Nova."""

    __slots__ = ("created_at", "dest", "instance_uuid", "number", "source", "status", "type", "updated_at", "uuid")

    def __init__(self, number: int, uuid: str, instance_uuid: str, source: str, dest: str, type_: str, at: str) -> None:
        self.number = number
        self.uuid = uuid
        self.instance_uuid = instance_uuid
        self.source = source
        self.dest = dest
        self.type = type_
        """``resize``, ``live-migration`` or ``evacuation``."""
        self.status = "accepted"
        self.created_at = at
        self.updated_at = at


class Database:
    """Everything that Nova's API and Placement can show of the simulated cloud."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        # Guards everything below while another thread reads.
        self.changes = 0
        """Grows with each step of the simulator, so that a reader knows whether there is anything to read."""
        self.hosts: list[Host] = []
        self.servers: list[Server] = []
        """All that are not deleted, soft-deleted ones too, in no order."""
        self.deleted: dict[str, Server] = {}
        """Uuid -> deleted server, in the order of deletion; deleted_at in its record."""
        self.aggregates: list[Record] = []
        """With id, uuid, name, hosts and metadata (with ``availability_zone`` where it sets one)."""
        self.flavors: list[Record] = []
        """As in the payload of an instance: flavorid, name, vcpus, memory_mb, root_gb, ephemeral_gb, swap (MiB)."""
        self.migrations: dict[str, Migration] = {}
        """Uuid -> migration, in the order of creation."""
        self.allocations: dict[str, dict[str, Allocation]] = {}
        """Name of the host -> consumer -> allocation."""

    def claim(self, server: Server, host: Host, flavor: Record | None = None) -> None:
        """Placement allocates on the host what a flavor needs; the server's own when left out."""
        record = server.record if flavor is None else {**server.record, "flavor": flavor}
        server.claims.add((host.name, server.uuid))
        self.allocations.setdefault(host.name, {})[server.uuid] = needs(record)

    def release(self, server: Server, host: Host | None = None) -> None:
        """Placement frees what the server and its migrations hold on one host; on all hosts when left out."""
        for claim in list(server.claims):
            name, consumer = claim
            if host is None or host.name == name:
                server.claims.discard(claim)
                self.allocations[name].pop(consumer, None)

    def hand_over(self, server: Server, host: Host, giver: str, taker: str) -> None:
        """A migration takes over the server's allocation on one host when it begins, or gives it back."""
        if (host.name, giver) in server.claims:
            server.claims.remove((host.name, giver))
            server.claims.add((host.name, taker))
            held = self.allocations[host.name]
            held[taker] = held.pop(giver)

    def remove(self, server: Server) -> None:
        """A server's row is deleted."""
        self.release(server)
        self.deleted[server.uuid] = server
        i = self.servers.index(server)
        self.servers[i] = self.servers[-1]
        self.servers.pop()


def needs(record: Record) -> Allocation:
    """What Placement allocates for a server: the root disk only without a boot volume, the swap in whole GiB."""
    flavor = record["flavor"]
    root = flavor["root_gb"] if record["image_uuid"] else 0
    disk = root + flavor["ephemeral_gb"] + (flavor["swap"] + 1023) // 1024
    return Allocation(flavor["vcpus"], flavor["memory_mb"], disk)
