# SPDX-License-Identifier: Apache-2.0
"""Nova's versioned notifications become changes of compute nodes, instances and aggregates.

Nova's events overtake each other, so no method depends on earlier events. Each change has a version, and writes only
the facets that its event knows:

* An event with ``task_state`` migrating, or of a failure, may have the old host: it writes no placement.
* ``live_migration_post.end`` has the old host: it is ignored.
* Only an error event writes the fault, and only a payload with ``locked`` the lock.
* An event is a sign of life of its publisher's host.
* Only events of a compute service write a compute_node.

The version is (payload ``updated_at`` or ``created_at``, envelope timestamp, message id). An instance in state
``deleted`` is deleted. Pure; for any thread.
"""

from __future__ import annotations

import datetime
import functools
import sys
from collections.abc import Collection, Iterable, Mapping
from typing import Any, ClassVar

from msgspec import UNSET, UnsetType

from watcher_sync.events import Event
from watcher_sync.exceptions import InvalidEvent
from watcher_sync.handlers import sortable
from watcher_sync.handlers.base import Handler
from watcher_sync.handlers.nova.payloads import (
    AGGREGATE,
    DATA,
    INSTANCE,
    SERVICE,
    AggregateData,
    Flavor,
    InstanceData,
    Ip,
    ServiceData,
    read,
    refuse_nested,
)
from watcher_sync.model.changes import Change, Delete, Seen, Upsert, Version
from watcher_sync.model.view import View

_UPDATED = (
    "create.end",
    "update",
    "exists",
    "lock",
    "unlock",
    "pause.end",
    "unpause.end",
    "power_off.end",
    "power_on.end",
    "reboot.end",
    "resume.end",
    "suspend.end",
    "shutdown.end",
    "soft_delete.end",
    "restore.end",
    "rebuild.end",
    "rescue.end",
    "unrescue.end",
    "shelve.end",
    "shelve_offload.end",
    "unshelve.end",
    "resize_confirm.end",
    "resize_finish.end",
    "resize_revert.end",
    "live_migration_post_dest.end",
    "live_migration_force_complete.end",
    "live_migration_rollback.end",
    "volume_attach.end",
    "volume_detach.end",
    "volume_swap.end",
    "interface_attach.end",
    "interface_detach.end",
)
"""Instance events that bring the instance as it is now."""

_AGGREGATE_UPDATED = ("create", "add_host", "remove_host", "update_prop", "update_metadata")


_HEARTBEAT_ONLY = (
    "aggregate.*",
    "compute.exception",
    "compute_task.*",
    "flavor.*",
    "instance.*",
    "keypair.*",
    "libvirt.connect.error",
    "metrics.update",
    "scheduler.select_destinations.*",
    "server_group.*",
    "service.*",
    "volume.usage",
)
"""What else Nova publishes: ignored and counted by type, but for the sign of life."""


class NovaHandler(Handler):
    """The handler of ``nova``."""

    events: ClassVar[Mapping[str, str | None]] = {
        **{f"instance.{phase}": "on_instance" for phase in _UPDATED},
        "instance.delete.end": "on_instance_deleted",
        "instance.*.error": "on_instance_error",
        "service.create": "on_service",
        "service.update": "on_service",
        "service.delete": "on_service_deleted",
        **{f"aggregate.{action}.end": "on_aggregate" for action in _AGGREGATE_UPDATED},
        "aggregate.delete.end": "on_aggregate_deleted",
        **dict.fromkeys(_HEARTBEAT_ONLY, "on_heartbeat"),
    }
    drivers: ClassVar[Collection[str]] = ("oslo_messaging", "rabbitmq")

    def on_heartbeat(self, event: Event, view: View) -> Iterable[Change]:
        """A notification whose payload the model ignores; it is a sign of life of its publisher."""
        return _with_seen(event)

    def on_instance(self, event: Event, view: View) -> Iterable[Change]:
        """The instance as the payload tells; deleted, when its state says so.

        :raises InvalidEvent: naming the field that is wrong.
        """
        data = read(event.data, INSTANCE)
        return _instance(event, data, "placement", {} if data.task_state == "migrating" else _placement(data))

    def on_instance_error(self, event: Event, view: View) -> Iterable[Change]:
        """State and fault of an instance; where it is, its failure does not tell for sure.

        :raises InvalidEvent: naming the field that is wrong.
        """
        data = read(event.data, INSTANCE)
        return _instance(event, data, "fault", _fault(data))

    def on_instance_deleted(self, event: Event, view: View) -> Iterable[Change]:
        """The instance exists no more, known or not.

        :raises InvalidEvent: naming the field that is wrong.
        """
        data = read(event.data, INSTANCE)
        return _with_seen(event, Delete("instance", data.id, _version_of(event, data)))

    def on_service(self, event: Event, view: View) -> Iterable[Change]:
        """What a compute service tells of its host. Other services tell nothing of it.

        :raises InvalidEvent: naming the field that is wrong.
        """
        data = read(event.data, SERVICE)
        if data.binary != "nova-compute":
            return _with_seen(event)
        fields = {
            "status": UNSET if data.disabled is UNSET else "disabled" if data.disabled else "enabled",
            "disabled_reason": data.disabled_reason,
            "forced_down": data.forced_down,
            "service_zone": _shared(data.availability_zone),
        }
        return _with_seen(
            event, Upsert("compute_node", _host(data), _version(event), {"service": _without_unset(fields)})
        )

    def on_service_deleted(self, event: Event, view: View) -> Iterable[Change]:
        """A compute service was taken out of Nova.

        :raises InvalidEvent: naming the field that is wrong.
        """
        data = read(event.data, SERVICE)
        if data.binary != "nova-compute":
            return _with_seen(event)
        return _with_seen(event, Delete("compute_node", _host(data), _version(event)))

    def on_aggregate(self, event: Event, view: View) -> Iterable[Change]:
        """An aggregate with its hosts and the zone that it puts them in.

        :raises InvalidEvent: naming the field that is wrong.
        """
        data = read(event.data, AGGREGATE)
        fields = {"name": data.name, "hosts": _hosts(data), "availability_zone": _zone(data)}
        return _with_seen(event, Upsert("aggregate", data.id, _version(event), {"state": _without_unset(fields)}))

    def on_aggregate_deleted(self, event: Event, view: View) -> Iterable[Change]:
        """An aggregate exists no more.

        :raises InvalidEvent: naming the field that is wrong.
        """
        data = read(event.data, AGGREGATE)
        return _with_seen(event, Delete("aggregate", data.id, _version(event)))


# Instances

_STATES = {"soft-delete": "soft-deleted"}
"""Nova's vm_state -> the model's, where they differ."""


def _instance(event: Event, data: InstanceData, facet: str, fields: dict[str, Any]) -> Iterable[Change]:
    """The change of one instance.

    :param facet: the facet that this kind of event writes beside those that every one writes.
    :param fields: its fields; none: it is not written.
    """
    version = _version_of(event, data)
    if data.state == "deleted":
        return _with_seen(event, Delete("instance", data.id, version))
    facets = _facets(data)
    if fields:
        facets[facet] = fields
    return _with_seen(event, Upsert("instance", data.id, version, facets))


def _facets(data: InstanceData) -> dict[str, dict[str, Any]]:
    """What every instance event tells: its state, and the lock where the payload has it.

    The fields are written out, because this function costs much of an event's time. Strings that many instances
    share are interned, because they cost much of the model's memory. UNSET is false.
    """
    intern = sys.intern
    state = {
        "name": data.name,
        "host_name": data.name if data.host_name == data.name else data.host_name,
        "project_id": intern(text) if (text := data.project_id) else text,
        "user_id": intern(text) if (text := data.user_id) else text,
        "state": intern(_STATES.get(text, text)) if (text := data.state) else text,
        "task_state": intern(text) if (text := data.task_state) else text,
        "power_state": intern(text) if (text := data.power_state) else text,
        "image_id": intern(text) if (text := data.image_id) else None if text == "" else text,
        "metadata": pairs if (pairs := data.metadata) is UNSET else _interned(tuple(pairs.items())),
        "key_name": intern(text) if (text := data.key_name) else text,
        "availability_zone": intern(text) if (text := data.availability_zone) else text,
        "ip_addresses": _addresses(data.ip_addresses) if data.ip_addresses else data.ip_addresses,
        "created_at": _utc(time, "created_at") if (time := data.created_at) and time.tzinfo is not _UTC else time,
        "updated_at": _utc(time, "updated_at") if (time := data.updated_at) and time.tzinfo is not _UTC else time,
        "launched_at": _utc(time, "launched_at") if (time := data.launched_at) and time.tzinfo is not _UTC else time,
    }
    if data.flavor:
        _add_flavor(state, data.flavor, data.image_id)
    facets = {"state": _without_unset(state)}
    if data.locked is not UNSET:
        lock = {"locked": data.locked, "locked_reason": data.locked_reason}
        facets["lock"] = _without_unset(lock) if data.locked_reason is UNSET else lock
    return facets


def _add_flavor(state: dict[str, Any], wrapped: Flavor, image_id: str | UnsetType | None) -> None:
    if wrapped.version[:2] != "1.":
        refuse_nested(wrapped, "flavor")
    flavor = wrapped.data
    root, ephemeral, swap = flavor.root_gb, flavor.ephemeral_gb, flavor.swap_mb
    state["vcpus"] = flavor.vcpus
    state["memory_mb"] = flavor.memory_mb
    state["root_gb"] = root
    state["ephemeral_gb"] = ephemeral
    state["swap_mb"] = swap
    state["flavor_id"] = sys.intern(text) if (text := flavor.flavor_id) else text
    state["flavor_name"] = sys.intern(text) if (text := flavor.flavor_name) else text
    specs = flavor.extra_specs
    state["extra_specs"] = _interned(tuple(specs.items())) if specs else specs
    if image_id is UNSET or root is UNSET or ephemeral is UNSET or swap is UNSET:
        return
    # Without an image the root disk is a volume, which is none of the host's disk.
    state["disk_gb"] = (root if image_id else 0) + ephemeral + (swap + 1023) // 1024


@functools.lru_cache(maxsize=4096)
def _interned(pairs: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """One dictionary in memory for all instances with the same extra specs or metadata.

    A cache of bounded size that saves memory; entities are immutable.
    """
    return {sys.intern(key): sys.intern(value) for key, value in pairs}


def _addresses(addresses: list[Ip]) -> list[str]:
    for position, ip in enumerate(addresses):
        if ip.version[:2] != "1.":
            refuse_nested(ip, f"ip_addresses[{position}]")
    return [ip.data.address for ip in addresses]


def _placement(data: InstanceData) -> dict[str, Any]:
    host, node = data.host, data.node
    placement = {"host": sys.intern(host) if host else host, "node": sys.intern(node) if node else node}
    return _without_unset(placement) if host is UNSET or node is UNSET else placement


def _fault(data: InstanceData) -> dict[str, Any]:
    if data.fault is UNSET:
        return {}
    if data.fault is None:
        return {"fault_type": None, "fault_message": None}
    if data.fault.version[:2] != "1.":
        refuse_nested(data.fault, "fault")
    return _without_unset({"fault_type": _shared(data.fault.data.type), "fault_message": data.fault.data.message})


# Fields of services and aggregates


def _host(data: ServiceData) -> str:
    if data.host is None:
        raise InvalidEvent(f"{DATA}.host: Expected str, got null")
    return sys.intern(data.host)


def _hosts(data: AggregateData) -> list[str] | UnsetType | None:
    if data.hosts is None or data.hosts is UNSET:
        return data.hosts
    return sorted({sys.intern(host) for host in data.hosts})


def _zone(data: AggregateData) -> str | UnsetType | None:
    if data.metadata is None or data.metadata is UNSET:
        return data.metadata
    zone: str | None = _shared(data.metadata.availability_zone)
    return zone


def _without_unset(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields without those that the payload left out."""
    for value in fields.values():
        if value is UNSET:
            return {name: value for name, value in fields.items() if value is not UNSET}
    return fields


def _shared(value: Any) -> Any:
    """One string in memory for all that are equal; null and UNSET as they are."""
    return sys.intern(value) if value.__class__ is str else value


# Versions and times

_UTC = datetime.UTC


def _version_of(event: Event, data: InstanceData) -> Version:
    if time := data.updated_at:
        return _version(event, sortable.digits(time, f"{DATA}.updated_at"))
    if time := data.created_at:
        return _version(event, sortable.digits(time, f"{DATA}.created_at"))
    return _version(event)


def _version(event: Event, written: str = sortable.NO_TIME) -> Version:
    """(the payload's time, the envelope's time, the message id) as text that sorts like the three."""
    published = sortable.digits(event.time, "timestamp") if event.time is not None else sortable.NO_TIME
    return Version(f"{written}.{published}.{sortable.name(event.id)}")


def _utc(time: datetime.datetime, name: str) -> datetime.datetime:
    """Nova's times are UTC, whether they say so or not."""
    return sortable.utc(time, f"{DATA}.{name}")


def _with_seen(event: Event, *changes: Change) -> tuple[Change, ...]:
    """The changes, and the sign of life of the publisher's host that every event is."""
    host, time = event.origin.partition(":")[2], event.time
    if time is None or not 0 < len(host) <= 255:
        return changes
    if time.tzinfo is not _UTC:
        time = sortable.utc(time, "timestamp")
    return (*changes, Seen("compute_node", sys.intern(host), time))
