# SPDX-License-Identifier: Apache-2.0
"""The provider of Nova's list of hypervisors: totals only.

It asks at microversion 2.87 or below: later ones have no capacity, and ask each compute by RPC. The list has neither
reserved amounts nor ratios, so what is free stays unknown unless another provider reports them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final

import msgspec
from oslo_config import cfg

from watcher_sync.reconcile.capacity.base import CapacityError, CapacityProvider, HostCapacity
from watcher_sync.reconcile.openstack import COMPUTE, CloudClient, OpenStackCloud
from watcher_sync.reconcile.openstack_errors import CloudError
from watcher_sync.reconcile.openstack_pages import by_marker

_HIGHEST: Final = (2, 87)
_PAGE_SIZE: Final = 1000
_IRONIC: Final = "ironic"


class _Service(msgspec.Struct):
    host: str | None = None


class _Hypervisor(msgspec.Struct):
    id: str | int
    hypervisor_hostname: str | None = None
    hypervisor_type: str | None = None
    service: _Service = msgspec.field(default_factory=_Service)
    vcpus: int | None = None
    memory_mb: int | None = None
    local_gb: int | None = None


class _HypervisorPage(msgspec.Struct):
    hypervisors: list[_Hypervisor]
    hypervisors_links: list[Any] = []


_DECODER: Final = msgspec.json.Decoder(_HypervisorPage, strict=False)


class NovaProvider(CapacityProvider):
    """Reports virtual CPUs, memory and disk of hypervisors; bare metal is left out."""

    name: ClassVar[str] = "nova"

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """:raises ConfigError: ``[reconcile_nova]`` names no usable account."""
        super().__init__(conf)
        self._cloud = OpenStackCloud(conf)
        self._client: CloudClient | None = None

    @property
    def requests(self) -> int:
        """The number of requests of the last run."""
        return self._client.requests if self._client is not None else 0

    def capacities(self, deadline: float) -> Iterable[HostCapacity]:
        """List all hypervisors, by pages.

        :raises CapacityError: the list cannot be read completely.
        """
        self._client = client = self._cloud.client(deadline)
        try:
            version = client.negotiate(COMPUTE, _HIGHEST)
            found = _list(client, version)
        except CloudError as exc:
            raise CapacityError(str(exc)) from exc
        return [_capacity(one) for one in found if one.service.host and one.hypervisor_type != _IRONIC]


def _list(client: CloudClient, version: str) -> list[_Hypervisor]:
    """:raises CloudError: a page cannot be read."""
    path = "/os-hypervisors/detail"

    def read(more: Mapping[str, str]) -> _HypervisorPage:
        return client.read(_DECODER, COMPUTE, path, params={"limit": _PAGE_SIZE, **more}, microversion=version)

    def next_marker(page: _HypervisorPage) -> str | None:
        return str(page.hypervisors[-1].id) if page.hypervisors_links and page.hypervisors else None

    pages = by_marker(f"{COMPUTE} {path}", read, next_marker)
    return list({one.id: one for page in pages for one in page.hypervisors}.values())


def _capacity(one: _Hypervisor) -> HostCapacity:
    return HostCapacity(host=one.service.host, vcpus=one.vcpus, memory_mb=one.memory_mb, disk_gb=one.local_gb)
