# SPDX-License-Identifier: Apache-2.0
"""The interface of a capacity provider, for plugins.

A provider reports the capacity of hosts: totals, reserved amounts, allocation ratios and inventories. It names each
host by what it knows of it. Every field is optional, and a field that the provider does not know stays None. It never
reports 0 for something unknown.

A distribution registers its class in the entry point group ``watcher_sync.capacity_providers``. The name of the entry
point enables it in ``[reconcile_capacity] providers``.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping
from typing import ClassVar

import msgspec
from oslo_config import cfg

from watcher_sync.exceptions import ReconcileError


class CapacityError(ReconcileError):
    """A provider cannot report now. What it reported before remains."""


class ResourceInventory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One resource class of one host, in the terms of Placement. A field that is None is unknown."""

    total: int | None = None
    reserved: int | None = None
    allocation_ratio: float | None = None
    used: int | None = None
    min_unit: int | None = None
    max_unit: int | None = None
    step_size: int | None = None


class HostCapacity(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider reports of one host. A field that is None is not reported."""

    host: str | None = None
    """The host of the compute service, which is the id of the compute_node."""
    node: str | None = None
    """The name that the hypervisor gives itself."""
    uuid: str | None = None
    """The uuid of the hypervisor. One of ``host``, ``node`` and ``uuid`` is enough, and the first one counts."""
    vcpus: int | None = None
    memory_mb: int | None = None
    disk_gb: int | None = None
    reserved_vcpus: int | None = None
    reserved_memory_mb: int | None = None
    reserved_disk_gb: int | None = None
    vcpu_ratio: float | None = None
    memory_ratio: float | None = None
    disk_ratio: float | None = None
    inventories: Mapping[str, ResourceInventory] | None = None
    """Resource class -> its inventory."""
    unreadable: str | None = None
    """Why the host cannot be read, such as an odd value: then what the provider reported of it before remains."""


class CapacityProvider(abc.ABC):
    """Reports the capacity of hosts. One thread calls it at a time."""

    name: ClassVar[str]
    """The same as that of its entry point."""
    options: ClassVar[list[cfg.Opt]] = []
    """Registered in ``[capacity_provider_<name>]`` before an instance is made."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """Connects to nothing.

        :raises ConfigError: when the configuration cannot work.
        """
        self.conf = conf

    @abc.abstractmethod
    def capacities(self, deadline: float) -> Iterable[HostCapacity]:
        """Return the capacity of all hosts that the provider knows.

        A host that it reported before and does not report any more loses what the provider reported of it. So a
        provider that could not read everything raises, and returns no part. A host with an odd value is ``unreadable``.

        :param deadline: ``time.monotonic()`` by which it is to end.
        :raises CapacityError: the capacity cannot be read now.
        """

    @property
    def requests(self) -> int:
        """The number of requests of the last run."""
        return 0

    def has_changed(self) -> bool:
        """Return whether ``capacities`` would report something else than at its last call, such as of a changed file.

        It is called several times a second, so it does almost no I/O.
        """
        return False

    def reload(self) -> None:
        """Read files and mutable options again at the next run, after a SIGHUP. Returns at once."""
        return None
