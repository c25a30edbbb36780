# SPDX-License-Identifier: Apache-2.0
"""The kinds of Ironic. An operator may choose a uuid, so one may be used again after a deletion."""

from __future__ import annotations

import datetime
from typing import Annotated, Any

from watcher_sync.model.kinds import (
    DependsOn,
    Derived,
    Doc,
    Entity,
    In,
    LongText,
    Reference,
    Text,
    Vocabulary,
    kind,
)
from watcher_sync.model.view import View

NODE, PORT, PORTGROUP = "baremetal_node", "baremetal_port", "baremetal_portgroup"

_PROVISION_STATES = Vocabulary(
    (
        "active", "adopt failed", "adopting", "available", "clean failed", "clean hold", "clean wait", "cleaning",
        "deleted", "deleting", "deploy failed", "deploy hold", "deploying", "enroll", "error", "inspect failed",
        "inspect wait", "inspecting", "manageable", "rescue", "rescue failed", "rescue wait", "rescuing",
        "service failed", "service hold", "service wait", "servicing", "unrescue failed", "unrescuing", "verifying",
        "wait call-back",
    )
)  # fmt: skip
_POWER_STATES = Vocabulary(("power on", "power off", "rebooting", "soft rebooting", "soft power off", "error"))


def host_of_instance(view: View, node: BaremetalNode) -> str | None:
    """The host of the compute service that manages the instance on the node."""
    instance = view.get("instance", node.instance_id) if node.instance_id else None
    host: str | None = getattr(instance, "host", None)
    return host


@kind(
    NODE,
    plural="baremetal_nodes",
    anchor="config",
    ids_reused=True,
    indexes=("instance_id", "compute_host_id"),
    filter_indexes=("name", "resource_class", "state"),
    references=(
        Reference("instance_id", "instance", "runs_on", lists_dependents=True),
        Reference("compute_host_id", "compute_node", "member_of"),
    ),
    derived=(
        Derived(
            "compute_host_id",
            host_of_instance,
            follows=(DependsOn("instance", "id", "instance_id"),),
            reads=("instance_id",),
        ),
    ),
)
class BaremetalNode(Entity, frozen=True, kw_only=True, gc=False):
    """A physical machine that Ironic manages. Id: its uuid."""

    name: Annotated[Text | None, In("config"), Doc("Name that an operator gave it.")] = None
    driver: Annotated[Text | None, In("config"), Doc("Hardware type.")] = None
    resource_class: Annotated[Text | None, In("config"), Doc("Resource class by which it is scheduled.")] = None
    conductor_group: Annotated[Text | None, In("config"), Doc("Conductors that manage it; empty: the default.")] = None
    owner: Annotated[Text | None, In("config"), Doc("Project that owns it.")] = None
    lessee: Annotated[Text | None, In("config"), Doc("Project that uses it.")] = None
    extra: Annotated[dict[str, Any] | None, In("config"), Doc("Metadata of the operator.")] = None
    properties: Annotated[dict[str, Any] | None, In("config"), Doc("Its size and capabilities.")] = None
    created_at: Annotated[datetime.datetime | None, In("config"), Doc("When it was enrolled.")] = None
    instance_id: Annotated[Text | None, In("instance"), Doc("The instance that runs on it.")] = None
    state: Annotated[Text | None, In("provision"), _PROVISION_STATES, Doc("Ironic's provision state.")] = None
    target_state: Annotated[Text | None, In("provision"), Doc("The state that Ironic works towards.")] = None
    provisioned_at: Annotated[
        datetime.datetime | None, In("provision"), Doc("When its provision state last changed.")
    ] = None
    last_error: Annotated[LongText | None, In("provision"), Doc("Why the last action failed.")] = None
    power_state: Annotated[Text | None, In("power"), _POWER_STATES, Doc("power on, power off, or error.")] = None
    target_power_state: Annotated[Text | None, In("power"), Doc("The power state that Ironic works towards.")] = None
    maintenance: Annotated[bool | None, In("maintenance"), Doc("Whether it is out of service.")] = None
    maintenance_reason: Annotated[LongText | None, In("maintenance"), Doc("Why it is out of service.")] = None
    fault: Annotated[Text | None, In("maintenance"), Doc("The fault that Ironic found, such as power failure.")] = None
    traits: Annotated[list[str] | None, In("traits"), Doc("Its traits, sorted.")] = None
    compute_host_id: Annotated[Text | None, Doc("Host of the compute service of its instance.")] = None


@kind(
    PORTGROUP,
    plural="baremetal_portgroups",
    ids_reused=True,
    indexes=("node_id",),
    references=(Reference("node_id", NODE, "owned_by"),),
)
class BaremetalPortgroup(Entity, frozen=True, kw_only=True, gc=False):
    """Ports of a node that work as one. Id: its uuid."""

    node_id: Annotated[Text | None, In("state"), Doc("Its node.")] = None
    name: Annotated[Text | None, In("state"), Doc("Name that an operator gave it.")] = None
    address: Annotated[Text | None, In("state"), Doc("MAC address.")] = None
    mode: Annotated[Text | None, In("state"), Doc("Mode of the bond, such as active-backup.")] = None
    created_at: Annotated[datetime.datetime | None, In("state"), Doc("When it was made.")] = None


@kind(
    PORT,
    plural="baremetal_ports",
    ids_reused=True,
    indexes=("node_id", "portgroup_id"),
    filter_indexes=("address",),
    references=(Reference("node_id", NODE, "owned_by"), Reference("portgroup_id", PORTGROUP, "member_of")),
)
class BaremetalPort(Entity, frozen=True, kw_only=True, gc=False):
    """A network interface of a node. Id: its uuid."""

    node_id: Annotated[Text | None, In("state"), Doc("Its node.")] = None
    portgroup_id: Annotated[Text | None, In("state"), Doc("The portgroup that it is in.")] = None
    address: Annotated[Text | None, In("state"), Doc("MAC address.")] = None
    physical_network: Annotated[Text | None, In("state"), Doc("The network that it is connected to.")] = None
    pxe_enabled: Annotated[bool | None, In("state"), Doc("Whether the node boots from it.")] = None
    created_at: Annotated[datetime.datetime | None, In("state"), Doc("When it was made.")] = None
