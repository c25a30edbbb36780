# SPDX-License-Identifier: Apache-2.0
"""The facts that only reconciliation can know, because Nova publishes them nowhere.

A difference of the installation without reconciliation must be one of these. Each fact names where the API tells it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from watcher_sync.extensions.openstack.kinds import Instance
from watcher_sync.model.declarations import fields_of
from watcher_sync.testing.comparison import ModelDifference


class Heard(NamedTuple):
    """What the notifications had named by the end of a step."""

    servers: Collection[str]
    """Ids of the servers that existed before the queue and had no event since."""
    aggregates: Collection[str]
    """Uuids of the aggregates that existed before the queue and had no event since."""
    services: Collection[str]
    """Hosts whose compute service published since the queue exists (service.create, service.update)."""
    rolled_back: Collection[str]
    """Ids of the servers with a live migration that failed."""
    failed_builds: Collection[str]
    """Ids of the servers that a host could not build."""
    unscheduled: Collection[str]
    """Ids of the servers that no host accepted."""
    broken: Collection[str]
    """Ids of the servers of the requests that ended in a compute.exception."""


class Fact(NamedTuple):
    """One fact that no notification brings."""

    name: str
    kind: str
    fields: Collection[str]
    """Empty: the entity as a whole."""
    ask: str
    """Where reconciliation reads it."""
    reason: str
    """Why a notification does not have it."""
    holds: Callable[[ModelDifference, Heard], bool] = lambda _difference, _heard: True
    by_default: bool = False
    """Whether it is a fact of Nova's default configuration only, which publishes no instance.update."""

    def explains(self, difference: ModelDifference, heard: Heard) -> bool:
        """Whether this fact is the reason of the difference."""
        if difference.kind != self.kind:
            return False
        named = difference.field in self.fields if self.fields else difference.field is None
        return named and self.holds(difference, heard)


_CAPACITY = (
    "vcpus",
    "memory_mb",
    "disk_gb",
    "reserved_vcpus",
    "reserved_memory_mb",
    "reserved_disk_gb",
    "vcpu_ratio",
    "memory_ratio",
    "disk_ratio",
    "inventories",
)

_MOVED = tuple(field.name for field in fields_of(Instance) if field.facet in ("placement", "flavor", "resize"))

FACTS = (
    Fact(
        "earlier server",
        "instance",
        (),
        "servers",
        "It existed before the queue, and no event named it since.",
        lambda difference, heard: difference.model is None and difference.entity_id in heard.servers,
    ),
    Fact(
        "earlier aggregate",
        "aggregate",
        (),
        "os-aggregates",
        "It existed before the queue, and no event named it since.",
        lambda difference, heard: difference.model is None and difference.entity_id in heard.aggregates,
    ),
    Fact(
        "silent host",
        "compute_node",
        (),
        "os-services",
        "Its service published before the queue, and no server is on it. A restart of nova-compute publishes nothing.",
        lambda difference, heard: difference.model is None and difference.entity_id not in heard.services,
    ),
    Fact(
        "service status",
        "compute_node",
        ("status", "disabled_reason", "forced_down"),
        "os-services",
        "Its service was not changed since the queue exists. A restart of nova-compute publishes nothing.",
        lambda difference, heard: difference.model is None and difference.entity_id not in heard.services,
    ),
    Fact(
        "default zone",
        "compute_node",
        ("availability_zone",),
        "os-services",
        "No aggregate puts the host into a zone.",
        lambda difference, _heard: difference.model is None,
    ),
    Fact("host up or down", "compute_node", ("state",), "os-services", "Nova publishes only that it is forced down."),
    Fact(
        "hypervisor",
        "compute_node",
        ("uuid", "hypervisor_hostname", "hypervisor_type"),
        "os-hypervisors",
        "No notification names the hypervisor of a host.",
        lambda difference, _heard: difference.model is None,
    ),
    Fact(
        "capacity",
        "compute_node",
        _CAPACITY,
        "Placement",
        "No notification has totals, reserved amounts, ratios or usages.",
        lambda difference, _heard: difference.model is None,
    ),
    Fact(
        "updated_at",
        "instance",
        ("updated_at",),
        "servers",
        "A payload has the time of the write before the one that it reports.",
    ),
    Fact(
        "pinned_zone",
        "instance",
        ("pinned_zone",),
        "servers",
        "No payload has the zone that the owner asked for.",
        lambda difference, _heard: difference.model is None,
    ),
    Fact(
        "fault",
        "instance",
        ("fault_message",),
        "servers",
        "The error event of some failures names no server, and its request belongs to no known action.",
        lambda difference, _heard: difference.model is None,
    ),
    Fact(
        "zone after a failed live migration",
        "instance",
        ("availability_zone",),
        "servers",
        "Nova stores the zone of the destination first and keeps it; its API shows the zone of the host.",
        lambda difference, heard: difference.entity_id in heard.rolled_back,
    ),
    Fact(
        "server that no host accepted",
        "instance",
        tuple(field.name for field in fields_of(Instance)),
        "servers",
        "Only the conductor's error event names it, with its id, its state and its fault.",
        lambda difference, heard: difference.model is None and difference.entity_id in heard.unscheduled,
        by_default=True,
    ),
    Fact(
        "server that is built",
        "instance",
        (),
        "servers",
        "Only instance.create.start names it, which the model ignores.",
        lambda difference, _heard: difference.model is None and difference.truth.get("state") == "building",
        by_default=True,
    ),
    Fact(
        "new name",
        "instance",
        ("name", "host_name"),
        "servers",
        "A rename publishes instance.update only.",
        by_default=True,
    ),
    Fact(
        "metadata",
        "instance",
        ("metadata",),
        "servers",
        "A change of metadata publishes instance.update only.",
        by_default=True,
    ),
    Fact(
        "error state",
        "instance",
        ("state",),
        "servers",
        "A reset of the state publishes instance.update only.",
        lambda difference, _heard: "error" in (difference.truth, difference.model),
        by_default=True,
    ),
    Fact(
        "fault of a state that was reset",
        "instance",
        ("fault_message",),
        "servers",
        "A reset of the state publishes instance.update only.",
        lambda difference, _heard: difference.truth is None,
        by_default=True,
    ),
    Fact(
        "place after a resize that failed",
        "instance",
        _MOVED,
        "servers",
        "The error event of the end of a resize, or of its revert, does not say where the server is.",
        lambda difference, heard: difference.entity_id in heard.broken,
        by_default=True,
    ),
    Fact(
        "clean-up of a failed build",
        "instance",
        ("availability_zone", "ip_addresses"),
        "servers",
        "Its error event is published before the clean-up ends.",
        lambda difference, heard: difference.entity_id in heard.failed_builds,
        by_default=True,
    ),
)
"""The first one that explains a difference names it."""


def explain(difference: ModelDifference, heard: Heard, *, by_default: bool = False) -> Fact | None:
    """The fact that explains the difference; None: there is none, so a notification was understood wrongly.

    :param by_default: whether Nova has its default configuration.
    """
    facts = (fact for fact in FACTS if by_default or not fact.by_default)
    return next((fact for fact in facts if fact.explains(difference, heard)), None)


def label(difference: ModelDifference, fact: Fact | None) -> str:
    """How the table names a difference: by its fact, else by its field."""
    if fact is not None:
        return fact.name
    if difference.field is not None:
        return f"{difference.kind}.{difference.field}"
    return f"{difference.kind} {'missing' if difference.model is None else 'not in Nova'}"
