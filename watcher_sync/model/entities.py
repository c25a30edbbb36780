# SPDX-License-Identifier: Apache-2.0
"""The built-in kinds: those of Nova and DCM. The module ``kubernetes`` has those of Kubernetes."""

from __future__ import annotations

import datetime
import functools
import hashlib
from typing import Annotated, Any, Literal

import msgspec

from watcher_sync.model import kubernetes
from watcher_sync.model.changes import NEVER
from watcher_sync.model.kinds import (
    AdminOnly,
    Count,
    DependsOn,
    Derived,
    Doc,
    Entity,
    In,
    Kinds,
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


@kind(
    "provider",
    plural="providers",
    indexes=("name", "state", "agent_name"),
    low_cardinality=("state",),
    filter_indexes=("name", "state", "agent_name"),
)
class Provider(Entity, frozen=True, kw_only=True, gc=False):
    """What is known of a DCM provider, for one service type of its. Id: ``<provider>/<service type>``.

    It exists from an agent's first warning on: no agent ever warned about a provider that is not here.
    """

    name: Annotated[Text | None, In("state"), Doc("Name of the provider.")] = None
    service_type: Annotated[Text | None, In("state"), Doc("The service type that the state is of.")] = None
    state: Annotated[
        Literal["available", "degraded", "unavailable"] | None, In("state"), Doc("What its agent said last.")
    ] = None
    reason: Annotated[LongText | None, In("state"), Doc("Why, in the agent's words.")] = None
    agent_name: Annotated[Text | None, In("state"), Doc("The environment agent that said it.")] = None
    updated_at: Annotated[datetime.datetime | None, In("state"), Doc("When it was said.")] = None


@kind(
    "provider_binding",
    plural="provider_bindings",
    indexes=("provider_name", "source"),
    filter_indexes=("provider_name", "source"),
)
class ProviderBinding(Entity, frozen=True, kw_only=True, gc=False):
    """A source that may report on the instances of a DCM provider, because it was the first. Id: a digest of both."""

    provider_name: Annotated[Text | None, In("state"), Doc("Name of the provider, as in its instances.")] = None
    source: Annotated[Text | None, In("state"), Doc("The CloudEvents source, or the account in the NATS subject.")] = (
        None
    )


ProviderId = Annotated[str, msgspec.Meta(max_length=511)]
"""``<provider>/<service type>``."""


@functools.lru_cache(maxsize=4096)
def binding_id(provider_name: str, source: str) -> str:
    """The id of the binding of a source to a provider. Both are arbitrary texts, so it is a digest."""
    names = f"{len(provider_name)} {provider_name} {source}"
    return hashlib.blake2b(names.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def provider_id(provider_name: str, service_type: str) -> str:
    """The id of a provider in one service type of its."""
    return f"{provider_name}/{service_type}"


def state_of_provider(view: View, instance: ServiceTypeInstance) -> str | None:
    """The state of the instance's provider in the instance's service type."""
    provider = None if instance.provider_id is None else view.get("provider", instance.provider_id)
    return provider.state if isinstance(provider, Provider) else None


def provider_of(_view: View, instance: ServiceTypeInstance) -> str | None:
    """The id of the instance's provider; None as long as the provider or the service type is unknown."""
    if instance.provider_name is None or instance.service_type is None:
        return None
    return provider_id(instance.provider_name, instance.service_type)


def last_update(_view: View, instance: ServiceTypeInstance) -> datetime.datetime | None:
    """When either its writer or its provider spoke of it last."""
    written, reported = instance.spec_updated_at, instance.status_updated_at
    if written is None or reported is None:
        return written or reported
    return max(written, reported)


@kind(
    "service_type_instance",
    plural="service_type_instances",
    anchor="spec",
    indexes=("service_type", "status", "provider_id", "project_id"),
    low_cardinality=("status",),
    filter_indexes=("instance_name", "project_id", "provider_name", "service_type", "status"),
    name_field="instance_name",
    references=(Reference("provider_id", "provider", "provided_by"),),
    derived=(
        Derived("provider_id", provider_of, alone=True, reads=("provider_name", "service_type")),
        Derived("updated_at", last_update, alone=True, reads=("spec_updated_at", "status_updated_at")),
        Derived(
            "provider_state",
            state_of_provider,
            follows=(DependsOn("provider", "id", "provider_id"),),
            reads=("provider_name", "service_type"),
        ),
    ),
)
class ServiceTypeInstance(Entity, frozen=True, kw_only=True, gc=False):
    """An instance of a service type that a DCM provider runs. Id: given by who made it, else a uuid.

    Its spec and its provider are written through the REST API, its status by the provider's events.
    """

    project_id: Annotated[Text | None, In("spec"), Doc("Project (tenant) that owns it; null: none.")] = None
    service_type: Annotated[Text | None, In("spec"), Doc("vm, container, cluster, storage, network, database.")] = None
    instance_name: Annotated[Text | None, In("spec"), Doc("Name that the writer gave it.")] = None
    spec: Annotated[dict[str, Any] | None, In("spec"), Doc("What was asked for.")] = None
    created_at: Annotated[datetime.datetime | None, In("spec"), Doc("When it was made.")] = None
    spec_updated_at: Annotated[datetime.datetime | None, In("spec"), Doc("When its spec was last written.")] = None
    provider_name: Annotated[Text | None, In("provider"), Doc("The provider that runs it.")] = None
    provider_id: Annotated[ProviderId | None, Doc("Its provider in its service type.")] = None
    agent_name: Annotated[Text | None, In("provider"), Doc("The environment agent that it was given to.")] = None
    status: Annotated[Text | None, In("status"), Doc("Upper case; the known ones depend on the service type.")] = None
    status_message: Annotated[LongText | None, In("status"), Doc("What the provider says about the status.")] = None
    output_spec: Annotated[dict[str, Any] | None, In("output"), Doc("What the provider made of the spec.")] = None
    status_updated_at: Annotated[
        datetime.datetime | None, In("status"), Doc("When the provider reported the status.")
    ] = None
    updated_at: Annotated[datetime.datetime | None, Doc("The later of the two times.")] = None
    provider_state: Annotated[Text | None, Doc("available, degraded or unavailable; null: no agent complained.")] = None


BUILTIN = (Aggregate, ComputeNode, Instance, Provider, ProviderBinding, ServiceTypeInstance, *kubernetes.KINDS)


def builtin_kinds() -> Kinds:
    """The kinds that this package declares."""
    return Kinds(*BUILTIN)
