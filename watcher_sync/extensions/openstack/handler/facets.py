# SPDX-License-Identifier: Apache-2.0
"""The facets of an instance as a payload has them.

The fields are written out, because these functions cost much of an event's time. Most events change one facet or two,
so a reader makes nothing of the others. Strings that many instances share are interned, because they cost much of the
model's memory. UNSET is false. Pure functions, for any thread.
"""

from __future__ import annotations

import datetime
import functools
import operator
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import UNSET, UnsetType

from watcher_sync.extensions.openstack.handler import ownership
from watcher_sync.extensions.openstack.handler.payloads import (
    DATA,
    ComputeTaskData,
    FaultData,
    InstanceData,
    Ip,
    NotifiedFault,
    NotifiedFlavor,
    NotifiedImage,
    refuse_nested,
)
from watcher_sync.extensions.openstack.kinds import Instance
from watcher_sync.handlers import sortable

Fields = dict[str, Any]

STATES: Final = {"soft-delete": "soft-deleted"}
"""Nova's vm_state -> the model's, where they differ."""

NO_FAULT: Final[Fields] = {"fault_type": None, "fault_message": None}
NO_HOST: Final[Fields] = {"host": None, "node": None, "availability_zone": None}
NO_SOURCE: Final[Fields] = {"source_host": None}
NO_REQUEST: Final[Fields] = {"request_id": None}

ENDED: Final[Mapping[str, Fields]] = {ownership.RESIZE: NO_SOURCE, ownership.REQUEST: NO_REQUEST}
"""Facet -> what it is after an action that owns it."""

_UTC = datetime.UTC


UNCHANGED: Final[Fields] = {}
"""What a reader returns for a facet that the payload has as the model has it: only the version moves. Never written."""

_STATE: Final = operator.attrgetter("state", "task_state")
_PLACEMENT: Final = operator.attrgetter("host", "node", "availability_zone")
_DETAILS: Final = operator.attrgetter(
    "name", "project_id", "user_id", "image_id", "metadata", "key_name", "created_at", "launched_at", "host_name"
)
_SPECS: Final = operator.attrgetter(
    "vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap_mb", "flavor_id", "flavor_name", "extra_specs"
)
"""The fields of a facet at once, of a payload and of the model: comparing all of them costs less than making one."""


def state(data: InstanceData, known: Instance | None) -> Fields:
    """State and task."""
    if known is not None and _STATE(data) == _STATE(known):
        return UNCHANGED
    intern = sys.intern
    fields = {
        "state": intern(STATES.get(text, text)) if (text := data.state) else text,
        "task_state": intern(text) if (text := data.task_state) else text,
    }
    return fields if UNSET not in fields.values() else without_unset(fields)


def power(data: InstanceData, known: Instance | None) -> Fields | None:
    """Power, and the time of the write before, which differs in nearly every event."""
    fields = {
        "power_state": sys.intern(text) if (text := data.power_state) else text,
        "updated_at": _utc(time, "updated_at") if (time := data.updated_at) and time.tzinfo is not _UTC else time,
    }
    return fields if UNSET not in fields.values() else without_unset(fields) or None


def placement(data: InstanceData, known: Instance | None) -> Fields | None:
    """Host, node and zone."""
    if known is not None and _PLACEMENT(data) == _PLACEMENT(known):
        return UNCHANGED
    intern = sys.intern
    fields = {
        "host": intern(text) if (text := data.host) else text,
        "node": intern(text) if (text := data.node) else text,
        "availability_zone": intern(text) if (text := data.availability_zone) else text,
    }
    return fields if UNSET not in fields.values() else without_unset(fields) or None


def details(data: InstanceData, known: Instance | None) -> Fields | None:
    """Names, owner, image and metadata."""
    if known is not None and _DETAILS(data) == _DETAILS(known):
        return UNCHANGED
    intern = sys.intern
    fields = {
        "name": data.name,
        "host_name": data.name if data.host_name == data.name else data.host_name,
        "project_id": intern(text) if (text := data.project_id) else text,
        "user_id": intern(text) if (text := data.user_id) else text,
        "image_id": intern(text) if (text := data.image_id) else None if text == "" else text,
        "metadata": pairs if (pairs := data.metadata) is UNSET else _interned(tuple(pairs.items())),
        "key_name": intern(text) if (text := data.key_name) else text,
        "created_at": _utc(time, "created_at") if (time := data.created_at) and time.tzinfo is not _UTC else time,
        "launched_at": _utc(time, "launched_at") if (time := data.launched_at) and time.tzinfo is not _UTC else time,
    }
    return fields if UNSET not in fields.values() else without_unset(fields) or None


def flavor(data: InstanceData, known: Instance | None) -> Fields | None:
    """The flavor, and the local disk that follows from it."""
    wrapped = data.flavor
    if not wrapped:
        return None
    specs = wrapped.data
    if (
        known is not None
        and _SPECS(specs) == _SPECS(known)
        and wrapped.version[:2] == "1."
        and data.image_id is not UNSET
        and known.disk_gb == _local_disk(specs.root_gb, specs.ephemeral_gb, specs.swap_mb, image=bool(data.image_id))
    ):
        return UNCHANGED
    return _wrapped_flavor(wrapped, data.image_id, "flavor") or None


def _local_disk(root: Any, ephemeral: Any, swap: Any, *, image: bool) -> int:
    """GiB. Without an image the root disk is a volume."""
    return int((root if image else 0) + ephemeral + (swap + 1023) // 1024)


def requested(data: ComputeTaskData) -> dict[str, Fields]:
    """The facets of an instance that the specification of its request tells: owner, image, flavor and zone.

    :raises InvalidEvent: the specification has an unknown version.
    """
    if not data.request:
        return {}
    spec = data.request.data
    nested = {"": data.request, ".flavor": spec.flavor, ".image": spec.image}
    for path, one in nested.items():
        if one and one.version[:2] != "1.":
            refuse_nested(one, f"request_spec{path}")
    image_id = spec.image.data.id if isinstance(spec.image, NotifiedImage) else spec.image
    facets = {
        ownership.DETAILS: {
            "project_id": shared(spec.project_id),
            "user_id": shared(spec.user_id),
            "image_id": shared(image_id),
        },
        ownership.PIN: {"pinned_zone": shared(spec.availability_zone)},
        ownership.FLAVOR: _wrapped_flavor(spec.flavor, image_id, "request_spec.flavor") if spec.flavor else {},
    }
    return {facet: given for facet, fields in facets.items() if (given := without_unset(fields))}


def _wrapped_flavor(wrapped: NotifiedFlavor, image_id: str | UnsetType | None, path: str) -> Fields:
    if wrapped.version[:2] != "1.":
        refuse_nested(wrapped, path)
    specs = wrapped.data
    extra: Any = specs.extra_specs
    return _flavor(
        specs.vcpus,
        specs.memory_mb,
        specs.root_gb,
        specs.ephemeral_gb,
        specs.swap_mb,
        specs.flavor_id,
        specs.flavor_name,
        tuple(extra.items()) if extra.__class__ is dict else extra,
        image_id if image_id is UNSET else bool(image_id),
    )


@functools.lru_cache(maxsize=4096)
def _flavor(
    vcpus: Any, memory_mb: Any, root: Any, ephemeral: Any, swap: Any, flavor_id: Any, name: Any, extra: Any, image: Any
) -> Fields:
    """The fields of a flavor, in one dictionary for all events that have it. Not to be changed.

    :param extra: the extra specs as pairs; null and UNSET as they are.
    :param image: whether the instance was made from an image, or UNSET.
    """
    fields: Fields = {
        "vcpus": vcpus,
        "memory_mb": memory_mb,
        "root_gb": root,
        "ephemeral_gb": ephemeral,
        "swap_mb": swap,
        "flavor_id": shared(flavor_id),
        "flavor_name": shared(name),
        "extra_specs": _interned(extra) if extra.__class__ is tuple else extra,
    }
    if image is not UNSET and root is not UNSET and ephemeral is not UNSET:
        # FlavorPayload 1.0 has no swap.
        fields["disk_gb"] = _local_disk(root, ephemeral, swap if swap is not UNSET else 0, image=image)
    return without_unset(fields)


def network(data: InstanceData, known: Instance | None) -> Fields | None:
    """The fixed addresses."""
    if data.ip_addresses is UNSET:
        return None
    addresses = _addresses(data.ip_addresses)
    return UNCHANGED if known is not None and addresses == known.ip_addresses else {"ip_addresses": addresses}


def lock(data: InstanceData, known: Instance | None) -> Fields | None:
    """The lock, where the payload has it."""
    if data.locked is UNSET:
        return None
    fields: Fields = {"locked": data.locked, "locked_reason": data.locked_reason}
    return fields if data.locked_reason is not UNSET else without_unset(fields)


_REMOTE: Final = "_Remote"
_TRACEBACK: Final = "\nTraceback (most recent call last):"
"""What oslo.messaging adds to the class and to the message of an exception that another process raised."""


def fault(given: NotifiedFault | UnsetType | None, path: str = "fault") -> Fields:
    """The fault of an error event; empty where the payload has no such field."""
    if given is UNSET:
        return {}
    if given is None:
        return NO_FAULT
    if given.version[:2] != "1.":
        refuse_nested(given, path)
    return fault_fields(given.data)


def fault_fields(given: FaultData) -> Fields:
    """Class and message of an exception, as far as the payload has them.

    A traceback in the message is left out, as Nova's API leaves it out.
    """
    kind, message = given.type, given.message
    if isinstance(kind, str):
        kind = shared(kind.removesuffix(_REMOTE))
    if isinstance(message, str):
        message = message.partition(_TRACEBACK)[0]
    return without_unset({"fault_type": kind, "fault_message": message})


_NO_TAGS: Final[list[str]] = []
"""One object for all instances without tags. Never changed."""


def tags(data: InstanceData, known: Instance | None) -> Fields | None:
    """The tags, where the payload has them."""
    return {"tags": sorted(data.tags) if data.tags else _NO_TAGS} if isinstance(data.tags, list) else None


Reader = Callable[[InstanceData, Instance | None], Fields | None]

READERS: Final[Mapping[str, Reader]] = {
    ownership.STATE: state,
    ownership.POWER: power,
    ownership.PLACEMENT: placement,
    ownership.DETAILS: details,
    ownership.FLAVOR: flavor,
    ownership.NETWORK: network,
    ownership.LOCK: lock,
    ownership.TAGS: tags,
}
"""Facet -> what reads it from a payload, beside the instance as it is known; None: the payload has none of it."""


def without_unset(fields: Fields) -> Fields:
    """The fields without those that the payload left out."""
    if UNSET in fields.values():
        return {name: value for name, value in fields.items() if value is not UNSET}
    return fields


def shared(value: Any) -> Any:
    """One string in memory for all that are equal; null and UNSET as they are."""
    return sys.intern(value) if value.__class__ is str else value


def share_times(fields: Fields) -> None:
    """Let the times of a new instance be one object in memory for all instances with the same ones.

    Later events that have equal times leave these objects in the model.
    """
    for name in ("created_at", "launched_at"):
        if time := fields.get(name):
            fields[name] = _one_time(time)


@functools.lru_cache(maxsize=4096)
def _one_time(time: datetime.datetime) -> datetime.datetime:
    return time


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
    return [ip.data.address for ip in addresses][:]  # without the room in which the list grew


def _utc(time: datetime.datetime, name: str) -> datetime.datetime:
    """Nova's times are UTC, whether they say so or not."""
    return sortable.utc(time, f"{DATA}.{name}")
