# SPDX-License-Identifier: Apache-2.0
"""The provider of Placement: inventories and usages of resource providers.

One request lists all resource providers, and one those of Nova. Placement has no list of inventories or usages, so both
cost a request per resource provider. An unchanged generation of a resource provider saves the request of its inventory.
So a run of N resource providers costs at most 2 + 2 N requests, and 2 + N where no inventory changed. Several threads
share the connections of one session.

Nova marks its resource providers with a trait since 2026. Where it does, others are no hosts. Nested resource
providers, such as NUMA cells, count as part of their root. Amounts of one resource class are summed.
"""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec
from oslo_config import cfg

from watcher_sync.extensions.openstack.cloud.client import PLACEMENT, CloudClient, OpenStackCloud, path_of
from watcher_sync.extensions.openstack.cloud.errors import (
    CloudBadRequest,
    CloudError,
    CloudNotFound,
    CloudRequestRefused,
)
from watcher_sync.reconcile.capacity_provider import CapacityError, CapacityProvider, HostCapacity, ResourceInventory
from watcher_sync.reconcile.entries import why_unreadable

_HIGHEST: Final = (1, 18)
"""The first version that lists resource providers by traits; roots of nested ones came with 1.14."""
_OWNED: Final = {"required": "OWNER_NOVA"}
"""Lists what Nova made itself, and not Neutron or Cyborg."""


class _ResourceProvider(msgspec.Struct):
    uuid: str
    name: Any = None
    generation: Any = None
    root_provider_uuid: str | None = None


class _ProviderList(msgspec.Struct):
    resource_providers: list[_ResourceProvider]


class _Inventory(msgspec.Struct):
    total: int
    reserved: int
    allocation_ratio: float
    min_unit: int | None = None
    max_unit: int | None = None
    step_size: int | None = None


class _Inventories(msgspec.Struct):
    inventories: dict[str, _Inventory]
    resource_provider_generation: int


class _Usages(msgspec.Struct):
    usages: dict[str, int]


_LIST: Final = msgspec.json.Decoder(_ProviderList)
_ANSWER: Final = msgspec.json.Decoder(dict[str, Any])


class _Part(msgspec.Struct):
    """The inventory and the usage of one resource provider."""

    inventories: _Inventories
    usages: Mapping[str, int]


_Parts = Mapping[str, _Part | str]
"""Uuid -> what was read of a resource provider, or why it is unreadable."""


class PlacementProvider(CapacityProvider):
    """Reports what Placement has of each host."""

    name: ClassVar[str] = "placement"
    options: ClassVar[list[cfg.Opt]] = [
        cfg.IntOpt(
            "parallel_requests",
            default=8,
            min=1,
            max=10,
            advanced=True,
            help="""
Maximum number of requests at the same time.

The connections stay open between the requests of a run.
""",
        )
    ]

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """:raises ConfigError: ``[reconcile_nova]`` names no usable account."""
        super().__init__(conf)
        self._cloud = OpenStackCloud(conf)
        self._known: dict[str, _Inventories] = {}
        """Resource provider -> its inventory as of its generation."""
        self._requests = 0

    @property
    def requests(self) -> int:
        """The number of requests of the last run."""
        return self._requests

    def capacities(self, deadline: float) -> Iterable[HostCapacity]:
        """Read all resource providers.

        :raises CapacityError: one of them cannot be read.
        """
        clients = _Clients(self._cloud, deadline)
        try:
            client = clients.own()
            version = client.negotiate(PLACEMENT, _HIGHEST)
            listed = client.read(_LIST, PLACEMENT, "/resource_providers", microversion=version).resource_providers
            found = _without_foreign(listed, client, version)
            parts = self._read(found, clients, version)
        except CloudError as exc:
            raise CapacityError(str(exc)) from exc
        finally:
            self._requests = clients.requests
        self._known = {uuid: part.inventories for uuid, part in parts.items() if isinstance(part, _Part)}
        return by_root(found, parts)

    def _read(self, found: Sequence[_ResourceProvider], clients: _Clients, version: str) -> _Parts:
        """Read several resource providers at a time.

        :returns: uuid -> part, without those that were deleted meanwhile.
        :raises CloudError: one of them cannot be read.
        """

        def read(one: _ResourceProvider) -> _Part | str | None:
            known = self._known.get(one.uuid)
            try:
                path = path_of("/resource_providers", one.uuid)
                if known is None or known.resource_provider_generation != one.generation:
                    known = msgspec.convert(_get(clients.own(), f"{path}/inventories", version), _Inventories)
                used = msgspec.convert(_get(clients.own(), f"{path}/usages", version), _Usages)
            except CloudNotFound:
                return None
            except ValueError as exc:
                return why_unreadable(exc)
            return _Part(known, used.usages)

        workers = concurrent.futures.ThreadPoolExecutor(
            self.conf.capacity_provider_placement.parallel_requests, thread_name_prefix="placement"
        )
        try:
            parts = workers.map(read, found)
            return {one.uuid: part for one, part in zip(found, parts, strict=True) if part is not None}
        finally:
            workers.shutdown(cancel_futures=True)


def _without_foreign(
    found: Sequence[_ResourceProvider], client: CloudClient, version: str
) -> Sequence[_ResourceProvider]:
    """The resource providers without the trees of other services; all of them where Nova marks none.

    :raises CloudError: those of Nova cannot be listed.
    """
    if int(version.partition(".")[2]) < _HIGHEST[1]:
        return found
    try:
        owned = client.read(_LIST, PLACEMENT, "/resource_providers", params=_OWNED, microversion=version)
    except CloudBadRequest:  # Placement does not know the trait
        return found
    roots = {_root(one) for one in owned.resource_providers}
    return [one for one in found if _root(one) in roots] if roots else found


def _root(one: _ResourceProvider) -> str:
    return one.root_provider_uuid or one.uuid


def _get(client: CloudClient, path: str, version: str) -> dict[str, Any]:
    """Get a resource; ask again after a refusal.

    If a token expires while several threads ask, keystoneauth authenticates again for the first of them only. The
    others get the refusal.

    :raises CloudError: the resource cannot be read.
    """
    try:
        return client.read(_ANSWER, PLACEMENT, path, microversion=version)
    except CloudRequestRefused:
        return client.read(_ANSWER, PLACEMENT, path, microversion=version)


class _Clients:
    """One client per thread, because a client is for one thread."""

    def __init__(self, cloud: OpenStackCloud, deadline: float) -> None:
        self._make: Callable[[], CloudClient] = lambda: cloud.client(deadline)
        self._local = threading.local()
        # Guards _all.
        self._lock = threading.Lock()
        self._all: list[CloudClient] = []

    @property
    def requests(self) -> int:
        """The number of requests of all clients."""
        with self._lock:
            return sum(client.requests for client in self._all)

    def own(self) -> CloudClient:
        """The client of the calling thread."""
        client: CloudClient | None = getattr(self._local, "client", None)
        if client is None:
            client = self._local.client = self._make()
            with self._lock:
                self._all.append(client)
        return client


def by_root(found: Iterable[_ResourceProvider], parts: _Parts) -> list[HostCapacity]:
    """Return the capacity of each root, with what is nested under it.

    A root that was deleted meanwhile is left out, with everything under it. One with an unreadable part is unreadable.
    """
    roots: dict[str, list[_Part | str]] = {}
    names: dict[str, str | None] = {}
    for one in found:
        root = _root(one)
        if one.uuid == root:
            names[root] = one.name if isinstance(one.name, str) else None
        if one.uuid in parts:
            roots.setdefault(root, []).append(parts[one.uuid])
    return [_capacity(root, names[root], roots[root]) for root in names if root in parts]


def _capacity(uuid: str, name: str | None, parts: Sequence[_Part | str]) -> HostCapacity:
    inventories: dict[str, ResourceInventory] = {}
    for part in parts:
        if isinstance(part, str):
            return HostCapacity(node=name, uuid=uuid, unreadable=part)
        for resource_class, inventory in part.inventories.inventories.items():
            one = ResourceInventory(**msgspec.structs.asdict(inventory), used=part.usages.get(resource_class))
            there = inventories.get(resource_class)
            inventories[resource_class] = one if there is None else _sum(there, one)
    vcpu, memory, disk = (inventories.get(name, ResourceInventory()) for name in ("VCPU", "MEMORY_MB", "DISK_GB"))
    return HostCapacity(
        node=name,
        uuid=uuid,
        vcpus=vcpu.total,
        memory_mb=memory.total,
        disk_gb=disk.total,
        reserved_vcpus=vcpu.reserved,
        reserved_memory_mb=memory.reserved,
        reserved_disk_gb=disk.reserved,
        vcpu_ratio=vcpu.allocation_ratio,
        memory_ratio=memory.allocation_ratio,
        disk_ratio=disk.allocation_ratio,
        inventories=inventories or None,
    )


def _sum(one: ResourceInventory, other: ResourceInventory) -> ResourceInventory:
    """The inventory of both; a ratio in which they differ is unknown, and the units are not of one provider."""

    def added(field: str) -> int | None:
        left, right = getattr(one, field), getattr(other, field)
        return None if left is None or right is None else left + right

    return ResourceInventory(
        total=added("total"),
        reserved=added("reserved"),
        used=added("used"),
        allocation_ratio=one.allocation_ratio if one.allocation_ratio == other.allocation_ratio else None,
    )
