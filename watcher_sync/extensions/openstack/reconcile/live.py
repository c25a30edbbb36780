# SPDX-License-Identifier: Apache-2.0
"""Turns the answers of Nova's API into the facets of our entities. Pure functions.

A field that the API left out is not among the result, so that the comparison skips it. Some fields are compared
loosely, because the API words them differently than notifications:

* The API names no id of a server's flavor. The id is looked up by name and sizes, and a known id stays.
* The API shows the addresses by network, notifications by interface. The same addresses in another order are equal.
* The API shows a fault in the state error only, and cuts its message.
"""

from __future__ import annotations

import datetime
import functools
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import UNSET, UnsetType

from watcher_sync.extensions.openstack.handler.facets import NO_FAULT, shared
from watcher_sync.extensions.openstack.kinds import Aggregate as KnownAggregate
from watcher_sync.extensions.openstack.kinds import ComputeNode, Instance
from watcher_sync.extensions.openstack.reconcile.payloads import (
    AggregatePayload,
    EmbeddedFlavor,
    FlavorPayload,
    Hypervisor,
    ServerPayload,
    ServicePayload,
)
from watcher_sync.model.kinds import Entity, kind_of

Facets = dict[str, dict[str, Any]]
"""facet -> {field: value}."""

_STATES: Final = {"soft-delete": "soft-deleted"}
"""Nova's vm_state -> the model's, where they differ."""
_POWER_STATES: Final = {0: "pending", 1: "running", 3: "paused", 4: "shutdown", 6: "crashed", 7: "suspended"}
_BUILDING: Final = "building"
_ERROR: Final = "error"
_SHOWN_FAULT: Final = 250
"""Characters of a fault's message that Nova stores at least."""


class Flavors:
    """The flavors that exist now, by name. A server keeps a copy of its flavor, which may not exist any more."""

    def __init__(self, listed: Iterable[FlavorPayload]) -> None:
        self._by_name: dict[str, FlavorPayload] = {}
        self._by_id: dict[str, FlavorPayload] = {}
        for flavor in listed:
            self._by_name[flavor.name] = flavor
            self._by_id[flavor.id] = flavor

    def with_id(self, flavor_id: str) -> FlavorPayload | None:
        """Return the flavor with this id."""
        return self._by_id.get(flavor_id)

    def id_of(self, embedded: EmbeddedFlavor) -> str | None:
        """Return the id of the flavor with this name and these sizes; None if there is none."""
        flavor = self._by_name.get(embedded.name) if isinstance(embedded.name, str) else None
        if flavor is None:
            return None
        sizes = (embedded.vcpus, embedded.ram, embedded.disk, embedded.ephemeral, embedded.swap)
        return flavor.id if flavor.sizes() == sizes else None


def instance_facets(
    server: ServerPayload, known: Instance | None, flavors: Flavors | None, groups: Mapping[str, str] | None
) -> Facets:
    """Return what the API says of a server.

    :param known: the instance in the model; its values stay where the API's wording has the same meaning.
    :param flavors: None if they could not be listed.
    :param groups: server -> server group; None if they could not be listed.
    """
    intern = shared
    fields: dict[str, Any] = {
        "name": server.name,
        "host_name": server.host_name,
        "project_id": intern(server.project_id),
        "user_id": intern(server.user_id),
        "state": intern(_STATES.get(server.state, server.state) if isinstance(server.state, str) else server.state),
        "task_state": intern(server.task_state),
        "power_state": _power_state(server.power_state),
        "image_id": _image_id(server),
        "metadata": server.metadata,
        "key_name": intern(server.key_name),
        "tags": _tags(server),
        "server_group": UNSET if groups is None else groups.get(server.id),
        "availability_zone": intern(_text(server.availability_zone)),
        "ip_addresses": _addresses(server, known),
        "created_at": _time(server.created_at),
        "updated_at": _updated_at(server),
        "launched_at": _time(server.launched_at),
        "host": intern(_text(server.host)),
        "node": intern(_text(server.node)),
        "locked": server.locked,
        "locked_reason": server.locked_reason,
        "pinned_zone": intern(server.pinned_zone),
        **_fault(server, known),
    }
    if isinstance(server.flavor, EmbeddedFlavor):
        _add_flavor(fields, server.flavor, known, flavors)
    return _facets(Instance, fields)


def node_facets(
    service: ServicePayload, hypervisors: Iterable[Hypervisor] | None, default_zone: str | None, *, in_zone: bool
) -> Facets:
    """Return what the API says of a host.

    :param hypervisors: those of the host; None if they could not be listed.
    :param default_zone: the zone of hosts that no aggregate puts into one; None if it is unknown.
    :param in_zone: whether an aggregate puts the host into a zone, which the service then reports instead.
    """
    zone: Any = _text(service.zone) if not in_zone else default_zone if default_zone is not None else UNSET
    fields: dict[str, Any] = {
        "status": service.status,
        "disabled_reason": service.disabled_reason,
        "forced_down": service.forced_down,
        "service_zone": shared(zone),
    }
    listed = list(hypervisors or ())
    if len(listed) == 1:
        (one,) = listed
        fields["hypervisor_hostname"] = one.hypervisor_hostname
        fields["hypervisor_type"] = shared(one.hypervisor_type)
        fields["uuid"] = one.id if isinstance(one.id, str) else UNSET
    return _facets(ComputeNode, fields)


def aggregate_facets(aggregate: AggregatePayload) -> Facets:
    """Return what the API says of an aggregate."""
    fields = {
        "name": aggregate.name,
        "number": aggregate.id,
        "metadata": aggregate.metadata,
        "hosts": sorted({sys.intern(host) for host in aggregate.hosts}),
        "availability_zone": shared(zone_of(aggregate)),
    }
    return _facets(KnownAggregate, fields)


def zone_of(aggregate: AggregatePayload) -> str | None:
    """Return the zone that an aggregate puts its hosts into."""
    return aggregate.metadata.get("availability_zone") or None


def resize_facet(source_host: str | None) -> Facets:
    """Return the facet with the host that a server was resized from."""
    return _facets(Instance, {"source_host": source_host})


def differing(facets: Facets, entity: object) -> Facets:
    """Return the facets and fields that differ from an entity."""
    found: Facets = {}
    for facet, fields in facets.items():
        changed = {name: value for name, value in fields.items() if getattr(entity, name) != value}
        if changed:
            found[facet] = changed
    return found


# Fields of servers


def _add_flavor(
    fields: dict[str, Any], embedded: EmbeddedFlavor, known: Instance | None, flavors: Flavors | None
) -> None:
    if embedded.name is UNSET:  # before 2.47
        found = flavors.with_id(embedded.id) if flavors is not None and isinstance(embedded.id, str) else None
        if found is None:
            return
        vcpus, ram, disk, ephemeral, swap = found.sizes()
        specs = found.extra_specs
        fields |= {"flavor_id": found.id, "flavor_name": found.name}
    else:
        vcpus, ram, disk = _number(embedded.vcpus), _number(embedded.ram), _number(embedded.disk)
        ephemeral, swap, specs = _number(embedded.ephemeral), _number(embedded.swap), embedded.extra_specs
        fields["flavor_name"] = shared(embedded.name)
        fields["flavor_id"] = _flavor_id(embedded, known, flavors)
    fields |= {
        "vcpus": vcpus,
        "memory_mb": ram,
        "root_gb": disk,
        "ephemeral_gb": ephemeral,
        "swap_mb": swap,
        "extra_specs": specs,
        "disk_gb": (disk if fields["image_id"] else 0) + ephemeral + (swap + 1023) // 1024,
    }


def _flavor_id(embedded: EmbeddedFlavor, known: Instance | None, flavors: Flavors | None) -> str | UnsetType | None:
    """Return the flavor's id; UNSET if the model's is to stay."""
    if known is not None and known.flavor_id is not None and known.flavor_name == embedded.name:
        return UNSET
    return UNSET if flavors is None else flavors.id_of(embedded)


def _number(value: int | UnsetType) -> int:
    return value if isinstance(value, int) else 0


def _power_state(number: int | UnsetType | None) -> str | UnsetType | None:
    return _POWER_STATES.get(number) if isinstance(number, int) else number


def _image_id(server: ServerPayload) -> str | UnsetType | None:
    image = server.image
    if image is UNSET:
        return UNSET
    # A server that boots from a volume has an empty text.
    return None if image is None or isinstance(image, str) else sys.intern(image.id)


def _addresses(server: ServerPayload, known: Instance | None) -> list[str] | UnsetType:
    """Return the fixed addresses. Nova shows none while it builds the server."""
    if isinstance(server.addresses, UnsetType):
        return UNSET
    if server.state == _BUILDING:
        return UNSET if known is not None and known.ip_addresses else []
    found = [one.addr for net in server.addresses.values() for one in net if one.type in (None, "fixed")]
    if known is not None and known.ip_addresses is not None and sorted(known.ip_addresses) == sorted(found):
        return UNSET
    return found


def _tags(server: ServerPayload) -> list[str] | UnsetType:
    """Return the tags."""
    return UNSET if isinstance(server.tags, UnsetType) else sorted(server.tags)


def _fault(server: ServerPayload, known: Instance | None) -> dict[str, Any]:
    """Return the fault of a server in the state error. In another state Nova shows none: an old fault is over."""
    if server.state != _ERROR:
        return NO_FAULT
    if server.fault is UNSET or server.fault is None:
        return {}
    message = server.fault.message
    if known is not None and _is_same_fault(known, message):
        return {}
    return {"fault_type": None, "fault_message": message}


def _is_same_fault(known: Instance, message: str) -> bool:
    """Whether the API shows the fault that the model has. Nova shows the class for exceptions that are not its own."""
    if known.fault_message is None:
        return known.fault_type is not None and known.fault_type == message
    stored, shown = known.fault_message.strip(), message.strip()
    return shown in (stored, known.fault_type) or (
        bool(shown) and stored[:_SHOWN_FAULT].startswith(shown[:_SHOWN_FAULT])
    )


# Values


def _time(value: datetime.datetime | UnsetType | None) -> datetime.datetime | UnsetType | None:
    """Nova's times are UTC, whether they say so or not."""
    if isinstance(value, datetime.datetime) and value.tzinfo is None:
        return value.replace(tzinfo=datetime.UTC)
    return value


def _updated_at(server: ServerPayload) -> datetime.datetime | UnsetType | None:
    """Return when Nova wrote the server last; None before a host has it.

    Until then Nova may have no more than the request to build it. It answers the time of our request for that.
    """
    is_on_host = isinstance(server.host, str) and server.host
    return None if server.state == _BUILDING and not is_on_host else _time(server.updated_at)


def _text(value: str | UnsetType | None) -> str | UnsetType | None:
    """Null for an empty text."""
    return None if value == "" else value


def _facets(cls: type[Entity], fields: dict[str, Any]) -> Facets:
    """The fields by facet, without those that the API left out."""
    facet_of = _facet_of(cls)
    kind_of(cls).fit_messages(fields)
    found: Facets = {}
    for name, value in fields.items():
        if value is not UNSET:
            found.setdefault(facet_of[name], {})[name] = value
    return found


@functools.cache
def _facet_of(cls: type[Entity]) -> dict[str, str]:
    """Field -> its facet, which the declaration of the kind names."""
    return {name: field.facet for name, field in kind_of(cls).fields.items() if field.facet is not None}
