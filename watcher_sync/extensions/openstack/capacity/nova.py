# SPDX-License-Identifier: Apache-2.0
"""The provider of Nova's list of hypervisors: totals only.

It asks at microversion 2.87 or below: later ones have no capacity, and ask each compute by RPC. The list has neither
reserved amounts nor ratios, so what is free stays unknown unless another provider reports them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final

import msgspec
from oslo_config import cfg

from watcher_sync.decoding import UNDECODABLE
from watcher_sync.extensions.openstack.cloud.client import COMPUTE, CloudClient, OpenStackCloud
from watcher_sync.extensions.openstack.cloud.errors import CloudError, UnreadableAnswer
from watcher_sync.extensions.openstack.cloud.json import decode
from watcher_sync.extensions.openstack.cloud.pages import by_marker
from watcher_sync.reconcile.capacity_provider import CapacityError, CapacityProvider, HostCapacity
from watcher_sync.reconcile.entries import why_unreadable

_HIGHEST: Final = (2, 87)
_PAGE_SIZE: Final = 1000
_IRONIC: Final = "ironic"


class _Service(msgspec.Struct):
    host: str | None = None


class _Hypervisor(msgspec.Struct):
    hypervisor_type: str | None = None
    vcpus: int | None = None
    memory_mb: int | None = None
    local_gb: int | None = None


class _HypervisorId(msgspec.Struct):
    """What names a hypervisor; without it, it could be that of any host."""

    id: str | int
    service: _Service = msgspec.field(default_factory=_Service)


class _HypervisorPage(msgspec.Struct):
    hypervisors: list[msgspec.Raw]
    hypervisors_links: list[Any] = []


_PAGE: Final = msgspec.json.Decoder(_HypervisorPage, strict=False)
_LISTED: Final = msgspec.json.Decoder(_HypervisorId, strict=False)
_HYPERVISOR: Final = msgspec.json.Decoder(_Hypervisor, strict=False)


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
            return list(_list(client, version))
        except CloudError as exc:
            raise CapacityError(str(exc)) from exc


def _list(client: CloudClient, version: str) -> Iterator[HostCapacity]:
    """:raises CloudError: a page cannot be read, or does not name each hypervisor."""
    path = "/os-hypervisors/detail"

    def read(more: Mapping[str, str]) -> tuple[list[tuple[_HypervisorId, msgspec.Raw]], bool]:
        page = client.read(_PAGE, COMPUTE, path, params={"limit": _PAGE_SIZE, **more}, microversion=version)
        try:
            return [(decode(_LISTED, one), one) for one in page.hypervisors], bool(page.hypervisors_links)
        except UNDECODABLE as exc:
            raise UnreadableAnswer(f"{COMPUTE} {path}: {exc}") from None

    def next_marker(page: tuple[list[tuple[_HypervisorId, msgspec.Raw]], bool]) -> str | None:
        entries, has_link = page
        return str(entries[-1][0].id) if has_link and entries else None

    pages = by_marker(f"{COMPUTE} {path}", read, next_marker)
    found = {listed.id: (listed.service.host, entry) for entries, _ in pages for listed, entry in entries}
    return (capacity for host, entry in found.values() if host and (capacity := _capacity(host, entry)))


def _capacity(host: str, entry: msgspec.Raw) -> HostCapacity | None:
    """Return the capacity of a hypervisor; None for bare metal."""
    try:
        one = decode(_HYPERVISOR, entry)
    except UNDECODABLE as exc:
        return HostCapacity(host=host, unreadable=why_unreadable(exc))
    if one.hypervisor_type == _IRONIC:
        return None
    return HostCapacity(host=host, vcpus=one.vcpus, memory_mb=one.memory_mb, disk_gb=one.local_gb)
