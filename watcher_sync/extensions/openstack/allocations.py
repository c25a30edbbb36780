# SPDX-License-Identifier: Apache-2.0
"""What the instances use of a host, and what is free. Pure functions; nothing of it is stored.

Nova's allocations are the rule:

* An instance counts on its host in every state, soft-deleted and shelved included, until it is deleted.
* A shelved and offloaded instance has no host, and counts nowhere.
* A resized instance counts on its source host, too, until the resize is confirmed or reverted. The model has one
  flavor of an instance, so both hosts count the new one. If both are one host, it counts there twice.
* Capacity is (total - reserved) * allocation ratio, rounded down. Free is capacity - used; it may be negative.

Unknown stays None: one instance of unknown size makes the used amount unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec


class Usage(msgspec.Struct, frozen=True):
    """Amounts of a host; None: unknown."""

    vcpus: int | None = 0
    memory_mb: int | None = 0
    disk_gb: int | None = 0


NOTHING: Final = Usage()

RESOURCES: Final[Mapping[str, tuple[str, str, str]]] = {
    "vcpus": ("vcpus", "reserved_vcpus", "vcpu_ratio"),
    "memory_mb": ("memory_mb", "reserved_memory_mb", "memory_ratio"),
    "disk_gb": ("disk_gb", "reserved_disk_gb", "disk_ratio"),
}
"""Resource -> the fields of a compute_node with its total, what is reserved, and its allocation ratio."""


def capacity_of_fields(fields: Mapping[Any, Any]) -> Usage:
    """What a host with these fields, which :data:`RESOURCES` names, can give to instances."""
    amounts = {}
    for resource, (total, reserved, ratio) in RESOURCES.items():
        known = fields[total], fields[reserved], fields[ratio]
        amounts[resource] = None if None in known else int((known[0] - known[1]) * known[2])
    return Usage(**amounts)


def free_of(capacity: Usage, used: Usage) -> Usage:
    """The difference of both."""
    return Usage(
        _minus(capacity.vcpus, used.vcpus),
        _minus(capacity.memory_mb, used.memory_mb),
        _minus(capacity.disk_gb, used.disk_gb),
    )


def _minus(whole: int | None, part: int | None) -> int | None:
    return None if whole is None or part is None else whole - part
