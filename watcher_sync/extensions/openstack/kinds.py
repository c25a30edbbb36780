# SPDX-License-Identifier: Apache-2.0
"""The kinds of Nova: instances, their hosts, and aggregates of hosts."""

from __future__ import annotations

import datetime
from typing import Annotated, Any, Literal

from watcher_sync.model.changes import NEVER
from watcher_sync.model.kinds import (
    AdminOnly,
    Count,
    Derived,
    Doc,
    Entity,
    In,
    LongText,
    Placeholder,
    Reference,
    Text,
    Vocabulary,
    kind,
)
from watcher_sync.model.view import View


def zone_of_host(view: View, node: ComputeNode) -> str | None:
    """The availability zone of the host's aggregate, else the one that its service reported.

    Nova lets a host be in one zone only; while two aggregates disagree, the later change wins.
    """
    zones = [a for a in view.by("aggregate", "hosts", node.id) if isinstance(a, Aggregate) and a.availability_zone]
    if zones:
        return max(zones, key=lambda a: (a.versions, a.id)).availability_zone
    return node.service_zone


def state_of_node(_view: View, node: ComputeNode) -> str:
    """``down`` while an operator forces it, else what its liveness says, else ``unknown``."""
    return "down" if node.forced_down else node.liveness or "unknown"


@kind(
    "aggregate",
    plural="aggregates",
    indexes=("hosts",),
    filter_indexes=("name", "availability_zone"),
    references=(Reference("hosts", "compute_node", "member_of", lists_dependents=True, reads=("availability_zone",)),),
)
class Aggregate(Entity, frozen=True, kw_only=True, gc=False):
    """A group of hosts of Nova. Id: the aggregate's uuid."""

    name: Annotated[Text | None, In("state"), Doc("Name of the aggregate.")] = None
    number: Annotated[Count | None, In("state"), Doc("The id that Nova's API gives it.")] = None
    metadata: Annotated[dict[str, Any] | None, In("state"), Doc("Its key-value pairs.")] = None
    hosts: Annotated[list[str] | None, In("hosts"), Doc("Its hosts, sorted.")] = None
    joins: Annotated[
        dict[str, Any] | None, In("hosts"), Doc("Hosts that joined after the last list of hosts, by version.")
    ] = None
    availability_zone: Annotated[Text | None, In("state"), Doc("The zone of its hosts, where it sets one.")] = None


@kind(
    "compute_node",
    plural="compute_nodes",
    anchor="service",
    ids_reused=True,
    indexes=("availability_zone", "state"),
    low_cardinality=("state",),
    filter_indexes=("availability_zone", "hypervisor_hostname", "state", "status"),
    name_field="hypervisor_hostname",
    derived=(
        Derived("availability_zone", zone_of_host),
        Derived("state", state_of_node, alone=True, reads=("forced_down", "liveness")),
    ),
    last_seen_field="last_heard",
)
class ComputeNode(Placeholder, frozen=True, kw_only=True, gc=False):
    """A host that runs instances. Id: the host of its compute service."""

    hypervisor_hostname: Annotated[Text | None, In("hypervisor"), Doc("Name that the hypervisor gives itself.")] = None
    hypervisor_type: Annotated[Text | None, In("hypervisor"), Doc("Its type, such as QEMU or ironic.")] = None
    uuid: Annotated[Text | None, In("hypervisor"), Doc("Nova's uuid of it, once an API reported one.")] = None
    status: Annotated[
        Literal["enabled", "disabled"] | None, In("service"), Doc("Whether the scheduler may use it.")
    ] = None
    disabled_reason: Annotated[LongText | None, In("service"), Doc("Why an operator disabled it.")] = None
    forced_down: Annotated[bool | None, In("service"), Doc("Whether it was declared dead by hand.")] = None
    liveness: Annotated[
        Literal["up", "down"] | None, In("liveness"), Doc("What Nova's API and the silence of the host say of it.")
    ] = None
    liveness_reason: Annotated[Text | None, In("liveness"), Doc("Why it is taken for down; null: it is not.")] = None
    liveness_since: Annotated[datetime.datetime | None, In("liveness"), Doc("Since when its liveness is so.")] = None
    state: Annotated[
        Literal["up", "down", "unknown"], Doc("down when forced down, else its liveness; unknown until one tells.")
    ] = "unknown"
    service_zone: Annotated[Text | None, In("zone"), Doc("The zone that the compute service reported.")] = None
    availability_zone: Annotated[Text | None, Doc("The zone of its aggregate, else of its service.")] = None
    last_heard: Annotated[datetime.datetime | None, Doc("When the last event that it published was made.")] = None
    vcpus: Annotated[Count | None, In("capacity"), Doc("Virtual CPUs of the hypervisor.")] = None
    memory_mb: Annotated[Count | None, In("capacity"), Doc("Memory, MiB.")] = None
    disk_gb: Annotated[Count | None, In("capacity"), Doc("Disk, GiB.")] = None
    reserved_vcpus: Annotated[Count | None, In("capacity"), Doc("Reserved virtual CPUs.")] = None
    reserved_memory_mb: Annotated[Count | None, In("capacity"), Doc("Reserved memory, MiB.")] = None
    reserved_disk_gb: Annotated[Count | None, In("capacity"), Doc("Reserved disk, GiB.")] = None
    vcpu_ratio: Annotated[float | None, In("capacity"), Doc("Allocation ratio of virtual CPUs.")] = None
    memory_ratio: Annotated[float | None, In("capacity"), Doc("Allocation ratio of memory.")] = None
    disk_ratio: Annotated[float | None, In("capacity"), Doc("Allocation ratio of disk.")] = None
    inventories: Annotated[
        dict[str, Any] | None, In("capacity"), Doc("Resource class -> total, reserved, allocation_ratio and used.")
    ] = None
    capacity_source: Annotated[Text | None, In("capacity"), Doc("The capacity provider that reported it.")] = None
    failures: Annotated[
        dict[str, Any] | None,
        In("failures"),
        AdminOnly(),
        Doc("Its last failures that name no instance, by request; their messages may name instances."),
    ] = None

    @property
    def registered(self) -> bool:
        """Whether it has a compute service now."""
        return self.versions[0] != NEVER and not self.gone


_VM_STATES = Vocabulary(
    (
        "active", "building", "deleted", "error", "paused", "rescued", "resized", "shelved", "shelved_offloaded",
        "soft-deleted", "stopped", "suspended",
    )
)  # fmt: skip
_POWER_STATES = Vocabulary(("crashed", "paused", "pending", "running", "shutdown", "suspended"))


@kind(
    "instance",
    plural="instances",
    indexes=("host", "source_host", "request_id"),
    filter_indexes=("host", "name", "project_id"),
    references=(
        Reference("host", "compute_node", "runs_on", implies=True),
        Reference("source_host", "compute_node", "attached_to", implies=True),
    ),
)
class Instance(Entity, frozen=True, kw_only=True, gc=False):
    """A server of Nova. Id: its uuid."""

    name: Annotated[Text | None, In("details"), Doc("Display name.")] = None
    host_name: Annotated[Text | None, In("details"), Doc("Host name inside the guest.")] = None
    project_id: Annotated[Text | None, In("details"), Doc("Project (tenant) that owns it.")] = None
    user_id: Annotated[Text | None, In("details"), Doc("User that made it.")] = None
    host: Annotated[Text | None, In("placement"), AdminOnly(), Doc("Compute service host that it runs on.")] = None
    node: Annotated[Text | None, In("placement"), AdminOnly(), Doc("Hypervisor host name; may differ from host.")] = (
        None
    )
    source_host: Annotated[
        Text | None, In("resize"), AdminOnly(), Doc("Host that keeps its allocation until the resize is confirmed.")
    ] = None
    state: Annotated[Text | None, In("state"), _VM_STATES, Doc("Nova's vm_state, such as active or soft-deleted.")] = (
        None
    )
    task_state: Annotated[Text | None, In("state"), Doc("What Nova is doing with it now.")] = None
    power_state: Annotated[Text | None, In("power"), _POWER_STATES, Doc("Power state by the hypervisor.")] = None
    locked: Annotated[bool | None, In("lock"), Doc("Whether an owner or operator locked it.")] = None
    locked_reason: Annotated[LongText | None, In("lock"), Doc("Why it was locked.")] = None
    vcpus: Annotated[Count | None, In("flavor"), Doc("Virtual CPUs.")] = None
    memory_mb: Annotated[Count | None, In("flavor"), Doc("Memory, MiB.")] = None
    disk_gb: Annotated[
        Count | None, In("flavor"), Doc("Local disk: root (unless a volume) + ephemeral + swap, GiB.")
    ] = None
    root_gb: Annotated[Count | None, In("flavor"), Doc("Root disk of the flavor, GiB.")] = None
    ephemeral_gb: Annotated[Count | None, In("flavor"), Doc("Ephemeral disk of the flavor, GiB.")] = None
    swap_mb: Annotated[Count | None, In("flavor"), Doc("Swap of the flavor, MiB.")] = None
    flavor_id: Annotated[Text | None, In("flavor"), Doc("Id of the flavor.")] = None
    flavor_name: Annotated[Text | None, In("flavor"), Doc("Name of the flavor.")] = None
    extra_specs: Annotated[dict[str, Any] | None, In("flavor"), Doc("Extra specs of the flavor.")] = None
    image_id: Annotated[Text | None, In("details"), Doc("Its image; None when booted from a volume.")] = None
    metadata: Annotated[dict[str, Any] | None, In("details"), Doc("Key-value pairs of the owner.")] = None
    key_name: Annotated[Text | None, In("details"), Doc("Name of the key pair.")] = None
    tags: Annotated[list[str] | None, In("tags"), Doc("Tags of the owner, sorted.")] = None
    server_group: Annotated[Text | None, In("group"), Doc("Id of its server group, which only Nova's API tells.")] = (
        None
    )
    availability_zone: Annotated[Text | None, In("placement"), Doc("Availability zone that Nova gives.")] = None
    pinned_zone: Annotated[Text | None, In("pin"), Doc("Availability zone that its owner asked for.")] = None
    ip_addresses: Annotated[list[str] | None, In("network"), Doc("Fixed addresses, by interface.")] = None
    created_at: Annotated[datetime.datetime | None, In("details"), Doc("When it was created.")] = None
    updated_at: Annotated[datetime.datetime | None, In("power"), Doc("When Nova last wrote it.")] = None
    launched_at: Annotated[datetime.datetime | None, In("details"), Doc("When it first ran.")] = None
    fault_type: Annotated[Text | None, In("fault"), Doc("Exception class of the last error event.")] = None
    fault_message: Annotated[
        LongText | None, In("fault"), AdminOnly(), Doc("Message of the last error event; it may name hosts.")
    ] = None
    request_id: Annotated[
        Text | None, In("request"), Doc("Request of its unfinished rescue, resize or revert of a resize.")
    ] = None
