# SPDX-License-Identifier: Apache-2.0
"""The provider of Kubernetes: what the nodes of a cluster can allocate, for hosts that bear a node's name.

It lists the nodes of the clusters that configured sources follow. ``status.allocatable`` excludes what the node
reserves for itself, so the reserved amounts are 0. Kubernetes never allocates more than that, so the ratios are 1.
"""

from __future__ import annotations

import decimal
from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

import msgspec
from oslo_config import cfg

from watcher_sync.decoding import UNDECODABLE
from watcher_sync.exceptions import ConfigError
from watcher_sync.extensions.kubernetes.source.connection import ApiConnection
from watcher_sync.extensions.kubernetes.source.resources import Resource
from watcher_sync.extensions.kubernetes.source.source import cluster_targets
from watcher_sync.extensions.kubernetes.source.target import ClusterTarget, ListingRequest, list_all
from watcher_sync.reconcile.capacity_provider import CapacityError, CapacityProvider, HostCapacity

_NODES: Final = Resource("", "v1", "Node", "nodes", namespaced=False)

_SUFFIXES: Final[dict[str, decimal.Decimal | int]] = {
    "n": decimal.Decimal("1e-9"), "u": decimal.Decimal("1e-6"), "m": decimal.Decimal("1e-3"),
    "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60,
}  # fmt: skip
"""Suffixes of a Kubernetes quantity."""

_MAX_QUANTITY: Final = decimal.Decimal(2) ** 63


class _NodeMetadata(msgspec.Struct):
    name: str


class _NodeStatus(msgspec.Struct):
    allocatable: dict[str, str | int | float] = {}


class _Node(msgspec.Struct):
    metadata: _NodeMetadata
    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)


_DECODER: Final = msgspec.json.Decoder(_Node)


class KubernetesProvider(CapacityProvider):
    """Reports the allocatable resources of nodes."""

    name: ClassVar[str] = "kubernetes"
    options: ClassVar[list[cfg.Opt]] = [
        cfg.ListOpt(
            "clusters",
            default=[],
            help="""
The clusters whose nodes are hosts of the model. Unset: all clusters that an enabled source of the driver
``kubernetes`` follows.

The account of the source needs the right to list nodes.
""",
        )
    ]

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """:raises ConfigError: no source follows one of the clusters."""
        super().__init__(conf)
        targets = cluster_targets(conf)
        wanted = list(conf.capacity_provider_kubernetes.clusters) or list(targets)
        unknown = [cluster for cluster in wanted if cluster not in targets]
        if unknown or not wanted:
            which = ", ".join(unknown) or "a cluster"
            raise ConfigError(f"[capacity_provider_kubernetes] clusters: no enabled source follows {which}")
        self._clusters: list[tuple[ClusterTarget, ApiConnection]] = [(targets[c], targets[c].connect()) for c in wanted]
        self._requests = 0

    @property
    def requests(self) -> int:
        """The number of requests of the last run."""
        return self._requests

    def capacities(self, deadline: float) -> Iterable[HostCapacity]:
        """List the nodes of all clusters.

        :raises CapacityError: a cluster cannot be listed, or a node is not as the API documents it.
        """
        self._requests = 0
        found: dict[str, HostCapacity] = {}
        for target, connection in self._clusters:
            for text in self._list(target, connection, deadline):
                try:
                    capacity = capacity_of(_DECODER.decode(text))
                except (*UNDECODABLE, ValueError) as exc:
                    raise CapacityError(f"cluster {target.cluster}: a node cannot be read: {exc}") from None
                assert capacity.host is not None
                found.setdefault(capacity.host, capacity)
        return found.values()

    def _list(self, target: ClusterTarget, connection: ApiConnection, deadline: float) -> Iterator[bytes]:
        """:raises CapacityError: the list is incomplete."""
        request = ListingRequest(targets=[(_NODES, None)], page_size=target.page_size)
        nodes: list[bytes] = []
        for part in list_all(connection, request, deadline=deadline):
            self._requests += part.requests
            for failure in filter(None, (part.failure, *part.unread.values())):
                raise CapacityError(f"cluster {target.cluster}: {failure}")
            if part.begins:
                nodes.clear()
            nodes += part.objects
        return iter(nodes)


def capacity_of(node: _Node) -> HostCapacity:
    """Return the capacity of a node.

    :raises ValueError: a quantity is invalid.
    """
    allocatable = node.status.allocatable
    cpus = _floor(allocatable.get("cpu"), 1)
    memory = _floor(allocatable.get("memory"), 2**20)
    disk = _floor(allocatable.get("ephemeral-storage"), 2**30)
    return HostCapacity(
        host=node.metadata.name,
        vcpus=cpus,
        memory_mb=memory,
        disk_gb=disk,
        reserved_vcpus=None if cpus is None else 0,
        reserved_memory_mb=None if memory is None else 0,
        reserved_disk_gb=None if disk is None else 0,
        vcpu_ratio=None if cpus is None else 1.0,
        memory_ratio=None if memory is None else 1.0,
        disk_ratio=None if disk is None else 1.0,
    )


def _floor(value: str | int | float | None, unit: int) -> int | None:
    return None if value is None else int(quantity(str(value)) // unit)


def quantity(text: str) -> decimal.Decimal:
    """Return the number that a Kubernetes quantity represents, such as ``1500m`` or ``16Gi``.

    :raises ValueError: the text is no such quantity.
    """
    number, factor = text, decimal.Decimal(1)
    for suffix in sorted(_SUFFIXES, key=len, reverse=True):
        if text.endswith(suffix):
            number, factor = text.removesuffix(suffix), decimal.Decimal(_SUFFIXES[suffix])
            break
    try:
        value = decimal.Decimal(number) * factor
    except decimal.InvalidOperation:
        raise ValueError(f"{text!r} is no quantity") from None
    if not value.is_finite() or not 0 <= value < _MAX_QUANTITY:
        raise ValueError(f"{text!r} is no quantity")
    return value
