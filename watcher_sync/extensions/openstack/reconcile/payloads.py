# SPDX-License-Identifier: Apache-2.0
"""The answers of Nova's API, as far as the model uses them.

The structs are partial: the decoder skips what the model does not need. UNSET is a field that the microversion or the
policy of the account leaves out, which differs from null. Source: the compute API reference.
"""

from __future__ import annotations

import datetime
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType, field

Time = datetime.datetime


class EmbeddedFlavor(msgspec.Struct, gc=False):
    """The flavor that a server has; before 2.47 only its id."""

    id: str | UnsetType = UNSET
    name: str | UnsetType = field(default=UNSET, name="original_name")
    vcpus: int | UnsetType = UNSET
    ram: int | UnsetType = UNSET
    disk: int | UnsetType = UNSET
    ephemeral: int | UnsetType = UNSET
    swap: int | UnsetType = UNSET
    extra_specs: dict[str, str] | UnsetType = UNSET


class ImagePayload(msgspec.Struct, gc=False):
    """The image that a server was made from."""

    id: str


class Address(msgspec.Struct, gc=False):
    """An address of a server."""

    addr: str
    type: str | None = field(default=None, name="OS-EXT-IPS:type")


class FaultPayload(msgspec.Struct, gc=False):
    """The last fault of a server, which Nova shows in the states error and deleted only."""

    message: str = ""


class ServerPayload(msgspec.Struct, gc=False, kw_only=True):
    """A server of ``/servers/detail``. Where its cell is down, it has an id and the status UNKNOWN only."""

    id: str
    status: str = ""
    name: str | UnsetType | None = UNSET
    host_name: str | UnsetType | None = field(default=UNSET, name="OS-EXT-SRV-ATTR:hostname")
    project_id: str | UnsetType | None = field(default=UNSET, name="tenant_id")
    user_id: str | UnsetType | None = UNSET
    host: str | UnsetType | None = field(default=UNSET, name="OS-EXT-SRV-ATTR:host")
    node: str | UnsetType | None = field(default=UNSET, name="OS-EXT-SRV-ATTR:hypervisor_hostname")
    state: str | UnsetType | None = field(default=UNSET, name="OS-EXT-STS:vm_state")
    task_state: str | UnsetType | None = field(default=UNSET, name="OS-EXT-STS:task_state")
    power_state: int | UnsetType | None = field(default=UNSET, name="OS-EXT-STS:power_state")
    locked: bool | UnsetType = UNSET
    locked_reason: str | UnsetType | None = UNSET
    flavor: EmbeddedFlavor | UnsetType = UNSET
    image: ImagePayload | str | UnsetType | None = UNSET
    metadata: dict[str, str] | UnsetType = UNSET
    key_name: str | UnsetType | None = UNSET
    tags: list[str] | UnsetType = UNSET
    """From 2.26 on."""
    availability_zone: str | UnsetType | None = field(default=UNSET, name="OS-EXT-AZ:availability_zone")
    pinned_zone: str | UnsetType | None = field(default=UNSET, name="pinned_availability_zone")
    addresses: dict[str, list[Address]] | UnsetType = UNSET
    created_at: Time | UnsetType | None = field(default=UNSET, name="created")
    updated_at: Time | UnsetType | None = field(default=UNSET, name="updated")
    launched_at: Time | UnsetType | None = field(default=UNSET, name="OS-SRV-USG:launched_at")
    fault: FaultPayload | UnsetType | None = UNSET

    @property
    def is_deleted(self) -> bool:
        """Whether Nova deleted it for good."""
        return self.state == "deleted" or self.status == "DELETED"

    @property
    def hides_extra_specs(self) -> bool:
        """Whether its flavor is shown without extra specs; before 2.47 a flavor is not shown."""
        flavor = self.flavor
        return isinstance(flavor, EmbeddedFlavor) and flavor.name is not UNSET and flavor.extra_specs is UNSET

    @property
    def is_known(self) -> bool:
        """Whether Nova could read the server's cell."""
        return self.state is not UNSET


class ServicePayload(msgspec.Struct, gc=False):
    """A service of ``/os-services``."""

    host: str
    binary: str
    status: str
    state: str
    zone: str | None = None
    disabled_reason: str | None = None
    forced_down: bool | UnsetType = UNSET


class HypervisorService(msgspec.Struct, gc=False):
    """The compute service of a hypervisor."""

    host: str


class Hypervisor(msgspec.Struct, gc=False):
    """A hypervisor of ``/os-hypervisors/detail``."""

    id: Any
    """A uuid from 2.53 on, before that a number."""
    hypervisor_hostname: str
    service: HypervisorService
    hypervisor_type: str | UnsetType | None = UNSET


class AggregatePayload(msgspec.Struct, gc=False):
    """A host aggregate. Before 2.41 it has no uuid, so the model cannot have it."""

    id: int
    name: str
    hosts: list[str]
    metadata: dict[str, str]
    uuid: str | UnsetType = UNSET
    availability_zone: str | None = None


class FlavorPayload(msgspec.Struct, gc=False):
    """A flavor. ``swap`` is an empty text for none before 2.75."""

    id: str
    name: str
    vcpus: int
    ram: int
    disk: int
    swap: int | str = 0
    ephemeral: int = field(default=0, name="OS-FLV-EXT-DATA:ephemeral")
    extra_specs: dict[str, str] | UnsetType = UNSET

    def __post_init__(self) -> None:
        """:raises ValueError: the swap is a text that is no number; so the flavor is unreadable."""
        self.sizes()

    def sizes(self) -> tuple[int, int, int, int, int]:
        """Return vcpus, ram, disk, ephemeral and swap."""
        return self.vcpus, self.ram, self.disk, self.ephemeral, int(self.swap or 0)


class MigrationPayload(msgspec.Struct, gc=False):
    """A migration."""

    server_id: str = field(name="instance_uuid")
    status: str
    source: str | None = field(name="source_compute")
    destination: str | None = field(default=None, name="dest_compute")
    type: str | UnsetType | None = field(default=UNSET, name="migration_type")
    id: int = 0
    uuid: str = ""


class ServerGroupPayload(msgspec.Struct, gc=False):
    """A server group of ``/os-server-groups``."""

    id: str
    members: list[str] = []
