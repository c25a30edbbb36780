# SPDX-License-Identifier: Apache-2.0
"""The records of a fake cloud: hosts, servers, flavors, aggregates, migrations, as Nova's database has them.

All records are frozen, so a thread may read one while another thread replaces it. Times are aware UTC. Memory and
swap are in MiB, disks in GiB.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Final

import msgspec

DEFAULT_ZONE: Final = "nova"
"""The availability zone of a host whose aggregates name none."""

OPEN_MIGRATIONS: Final = frozenset(
    {"queued", "accepted", "pre-migrating", "preparing", "running", "post-migrating", "migrating", "finished",
     "reverting", "confirming"}
)  # fmt: skip
"""The states in which a migration holds resources. A resize is ``finished`` until it is confirmed or reverted."""


class Flavor(msgspec.Struct, frozen=True, kw_only=True):
    """A flavor, or the copy of one that a server holds."""

    id: str
    name: str
    vcpus: int = 1
    memory_mb: int = 512
    root_gb: int = 1
    ephemeral_gb: int = 0
    swap_mb: int = 0
    extra_specs: Mapping[str, str] = {}
    is_public: bool = True


class ServerFault(msgspec.Struct, frozen=True, kw_only=True):
    """The last fault of a server; the API shows it in the states error and deleted only."""

    message: str
    code: int = 500
    created_at: datetime.datetime
    details: str = ""


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """A server.

    ``state``, ``task_state`` and ``power_state`` have the values of Nova's notifications, such as ``soft-delete`` and
    ``running``. ``number`` is the id of the row. It decides the order of servers of one second.
    """

    id: str
    number: int
    name: str | None
    project_id: str
    user_id: str
    flavor: Flavor
    created_at: datetime.datetime
    state: str = "active"
    task_state: str | None = None
    power_state: str = "running"
    host: str | None = None
    """The compute service's host."""
    node: str | None = None
    """The hypervisor's host name."""
    updated_at: datetime.datetime | None = None
    launched_at: datetime.datetime | None = None
    terminated_at: datetime.datetime | None = None
    deleted_at: datetime.datetime | None = None
    deleted: bool = False
    """Deleted for good; a server in the state soft-delete is not."""
    hidden: bool = False
    """The copy that a resize to another cell leaves; no list shows it."""
    image_id: str | None = None
    """None for a server that boots from a volume."""
    metadata: Mapping[str, str] = {}
    tags: tuple[str, ...] = ()
    locked: bool = False
    locked_reason: str | None = None
    availability_zone: str | None = None
    """Shown as long as the server is on no host; afterwards the host's zone is shown."""
    pinned_availability_zone: str | None = None
    """The zone that the user asked for."""
    fault: ServerFault | None = None
    addresses: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    hostname: str | None = None
    description: str | None = None
    key_name: str | None = None


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """A compute service and its hypervisor, with the inventory that Placement has of it."""

    name: str
    number: int
    service_id: str
    node: str
    """The hypervisor's host name, and the name of the resource provider."""
    node_id: str
    """The uuid of the hypervisor and of the resource provider."""
    disabled: bool = False
    disabled_reason: str | None = None
    forced_down: bool = False
    up: bool = True
    """Whether the service has reported lately. One that is forced down is shown as down, too."""
    unresponsive: bool = False
    """The process is dead, and the database does not know it yet: requests to the compute time out."""
    updated_at: datetime.datetime | None = None
    vcpus: int = 64
    memory_mb: int = 262_144
    disk_gb: int = 4_000
    reserved_vcpus: int = 0
    reserved_memory_mb: int = 512
    reserved_disk_gb: int = 0
    vcpu_ratio: float = 4.0
    memory_ratio: float = 1.0
    disk_ratio: float = 1.0
    more_inventories: Mapping[str, int] = {}
    """Resource class -> total, for classes beside VCPU, MEMORY_MB and DISK_GB."""
    traits: tuple[str, ...] = ("COMPUTE_NODE", "OWNER_NOVA")
    hypervisor_type: str = "QEMU"
    hypervisor_version: int = 8_002_002
    ip: str = "192.0.2.10"

    @property
    def alive(self) -> bool:
        return self.up and not self.forced_down


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """A service that is no nova-compute."""

    binary: str
    host: str
    number: int
    id: str
    disabled: bool = False
    disabled_reason: str | None = None
    forced_down: bool = False
    up: bool = True
    updated_at: datetime.datetime | None = None


class ServerGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A server group with its members, which are ids of servers."""

    id: str
    name: str
    project_id: str
    user_id: str
    policy: str = "anti-affinity"
    members: tuple[str, ...] = ()


class Aggregate(msgspec.Struct, frozen=True, kw_only=True):
    """A host aggregate. The key ``availability_zone`` of its metadata makes it a zone."""

    id: int
    uuid: str
    name: str
    hosts: tuple[str, ...] = ()
    metadata: Mapping[str, str] = {}
    created_at: datetime.datetime
    updated_at: datetime.datetime | None = None

    @property
    def zone(self) -> str | None:
        return self.metadata.get("availability_zone")


class Migration(msgspec.Struct, frozen=True, kw_only=True):
    """A migration, resize or evacuation.

    While it is in one of :data:`OPEN_MIGRATIONS`, its uuid holds the old flavor on the source. The server holds the
    new flavor on the destination. An evacuation that is ``done`` holds the source in
    the name of the server, until the source's nova-compute starts again.
    """

    id: int
    uuid: str
    server_id: str
    project_id: str
    user_id: str
    migration_type: str
    """``migration``, ``resize``, ``live-migration`` or ``evacuation``."""
    status: str
    source: str
    destination: str | None
    old_flavor: Flavor
    new_flavor: Flavor
    created_at: datetime.datetime
    updated_at: datetime.datetime | None = None


def resources(flavor: Flavor, *, on_image: bool) -> dict[str, int]:
    """What Nova allocates for a server of the flavor; classes of which it needs nothing are left out.

    :param on_image: whether its root disk is local, which it is not when the server boots from a volume.
    """
    disk = (flavor.root_gb if on_image else 0) + flavor.ephemeral_gb + -(-flavor.swap_mb // 1024)
    amounts = {"VCPU": flavor.vcpus, "MEMORY_MB": flavor.memory_mb, "DISK_GB": disk}
    return {name: amount for name, amount in amounts.items() if amount}
