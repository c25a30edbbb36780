# SPDX-License-Identifier: Apache-2.0
"""The rules of :mod:`watcher_sync.extensions.openstack.allocations` over entities, to compare the sums of the database
with."""

from __future__ import annotations

import collections
from collections.abc import Iterable

from watcher_sync.extensions.openstack.allocations import RESOURCES, Usage, capacity_of_fields
from watcher_sync.extensions.openstack.kinds import ComputeNode, Instance
from watcher_sync.model.view import View


def used_of(view: View, host: str) -> Usage:
    """What the instances use of one host. O(instances of the host)."""
    here = [*view.by("instance", "host", host), *view.by("instance", "source_host", host)]
    return _sum(instance for instance in here if isinstance(instance, Instance))


def used_by_host(instances: Iterable[Instance]) -> dict[str, Usage]:
    """Host -> what the instances use of it, in one pass; hosts without instances are left out."""
    here: dict[str, list[Instance]] = collections.defaultdict(list)
    for instance in instances:
        if instance.host is not None:
            here[instance.host].append(instance)
        if instance.source_host is not None:
            here[instance.source_host].append(instance)
    return {host: _sum(found) for host, found in here.items()}


def capacity_of(node: ComputeNode) -> Usage:
    """What a host can give to instances: (total - reserved) * ratio, rounded down."""
    return capacity_of_fields({name: getattr(node, name) for names in RESOURCES.values() for name in names})


def _sum(instances: Iterable[Instance]) -> Usage:
    vcpus: int | None = 0
    memory: int | None = 0
    disk: int | None = 0
    for one in instances:
        vcpus = None if vcpus is None or one.vcpus is None else vcpus + one.vcpus
        memory = None if memory is None or one.memory_mb is None else memory + one.memory_mb
        disk = None if disk is None or one.disk_gb is None else disk + one.disk_gb
    return Usage(vcpus, memory, disk)
