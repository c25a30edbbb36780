# SPDX-License-Identifier: Apache-2.0
"""Lists servers, hosts, aggregates, flavors and migrations from Nova's API.

Pages go by marker. A page is the last one if it has no link to a next one. If the marker's server was purged between
two pages, Nova answers 400 and the listing begins again.

Hypervisors are asked at 2.87 or below. From 2.88 on Nova asks each compute for its uptime. If one is dead, it answers
500 after a minute.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import quote

import msgspec
from oslo_log import log as logging

from watcher_sync.reconcile.nova.payloads import (
    AggregateList,
    AggregatePayload,
    FlavorPage,
    FlavorPayload,
    Hypervisor,
    HypervisorPage,
    MigrationPage,
    MigrationPayload,
    ServerAnswer,
    ServerGroupPage,
    ServerPage,
    ServerPayload,
    ServiceList,
    ServicePayload,
)
from watcher_sync.reconcile.openstack import COMPUTE, CloudClient
from watcher_sync.reconcile.openstack_errors import CloudBadRequest, CloudNotFound, UnreadableAnswer

LOG = logging.getLogger(__name__)

_HIGHEST: Final = (2, 96)
_HIGHEST_OF_HYPERVISORS: Final = (2, 87)
_LIMIT: Final = 1000
"""Servers of a page; Nova's own limit may be lower."""
_MAX_RESTARTS: Final = 3
"""How often one listing begins again because its marker is gone."""
_RESIZES: Final = ("resize", "migration")
"""Types of migrations that hold the source host until they are confirmed."""

_T_co = TypeVar("_T_co", covariant=True)


class _ResourcePage(Protocol[_T_co]):
    """A page of any resource."""

    @property
    def items(self) -> Collection[_T_co]: ...

    @property
    def links(self) -> Collection[Any]: ...


_Decoder = msgspec.json.Decoder
_servers = _Decoder(ServerPage)
_server = _Decoder(ServerAnswer)
_hypervisors = _Decoder(HypervisorPage)
_flavors = _Decoder(FlavorPage)
_migrations = _Decoder(MigrationPage)
_server_groups = _Decoder(ServerGroupPage)
_services = _Decoder(ServiceList)
_aggregates = _Decoder(AggregateList)


class NovaApi:
    """Nova's API in one run. For one thread."""

    def __init__(self, client: CloudClient) -> None:
        self._client = client

    @property
    def requests(self) -> int:
        """Requests so far."""
        return self._client.requests

    @property
    def clock_skew(self) -> datetime.timedelta:
        """How much Nova's clock is ahead of ours."""
        return self._client.clock_skew(COMPUTE)

    def server_pages(self, changed_since: datetime.datetime | None = None) -> Iterator[list[ServerPayload] | None]:
        """Yield the servers of all projects, page by page; None where the listing begins again.

        Soft-deleted servers are among them. A listing of changes has deleted servers, too.

        :param changed_since: only those that Nova wrote since then; None: all.
        :raises CloudError: the listing cannot be completed.
        """
        params = {"all_tenants": "1", "limit": str(_LIMIT)}
        if changed_since is None:
            params["soft_deleted"] = "true"
        else:
            params["changes-since"] = changed_since.strftime("%Y-%m-%dT%H:%M:%SZ")
        for attempt in range(_MAX_RESTARTS + 1):
            begun = False
            try:
                for page in self._pages(_servers, "/servers/detail", params, "id"):
                    begun = True
                    yield list(page.items)
            except CloudBadRequest as exc:
                if not begun or attempt == _MAX_RESTARTS:
                    raise
                LOG.info("The listing of servers begins again: %s", exc)
                yield None
                continue
            return

    def server(self, server_id: str) -> ServerPayload | None:
        """Return one server; None if Nova does not have it.

        :raises CloudError: it is unknown whether Nova has it.
        """
        try:
            answer: ServerAnswer = self._read(_server, f"/servers/{quote(server_id, safe='')}", {})
        except CloudNotFound:
            return None
        return answer.server

    def check_all_projects(self) -> None:
        """Check that the account sees the servers of all projects. Otherwise Nova answers 404 for those of others.

        :raises CloudError: it does not, or this is unknown.
        """
        self._read(_servers, "/servers/detail", {"all_tenants": "1", "limit": "1"})

    def services(self) -> dict[str, ServicePayload]:
        """Return host -> compute service.

        :raises CloudError: the list cannot be read.
        """
        found: list[ServicePayload] = self._read(_services, "/os-services", {"binary": "nova-compute"}).services
        return {service.host: service for service in found if service.binary == "nova-compute"}

    def hypervisors(self) -> dict[str, list[Hypervisor]]:
        """Return host -> hypervisors; one host has many with ironic only.

        :raises CloudError: the list cannot be read.
        """
        version = self._client.negotiate(COMPUTE, _HIGHEST_OF_HYPERVISORS)
        params = {"limit": str(_LIMIT)} if _numbers(version) >= (2, 33) else {}
        found: dict[str, list[Hypervisor]] = {}
        for page in self._pages(_hypervisors, "/os-hypervisors/detail", params, "id", version=version):
            for one in page.items:
                found.setdefault(one.service.host, []).append(one)
        return found

    def aggregates(self) -> dict[str, AggregatePayload]:
        """Return uuid -> aggregate.

        :raises CloudError: the list cannot be read.
        """
        found: list[AggregatePayload] = self._read(_aggregates, "/os-aggregates", {}).aggregates
        return {one.uuid: one for one in found if isinstance(one.uuid, str)}

    def flavors(self) -> list[FlavorPayload]:
        """Return all flavors, private ones included.

        :raises CloudError: the list cannot be read.
        """
        params = {"is_public": "None", "limit": str(_LIMIT)}
        return [flavor for page in self._pages(_flavors, "/flavors/detail", params, "id") for flavor in page.items]

    def groups_of_servers(self) -> dict[str, str]:
        """Return server -> id of its server group; a server has at most one.

        :raises CloudError: the list cannot be read.
        """
        found: dict[str, str] = {}
        offset = 0
        while True:
            params = {"all_projects": "True", "limit": str(_LIMIT), "offset": str(offset)}
            page: ServerGroupPage = self._read(_server_groups, "/os-server-groups", params)
            if not page.server_groups:
                return found
            offset += len(page.server_groups)
            found |= {server: group.id for group in page.server_groups for server in group.members}

    def sources_of_resizes(self) -> dict[str, str]:
        """Return server -> the host that it was resized from, for resizes that are neither confirmed nor reverted.

        :raises CloudError: the list cannot be read.
        """
        found: dict[str, MigrationPayload] = {}
        version = self._client.negotiate(COMPUTE, _HIGHEST)
        params = {"status": "finished"} | ({"limit": str(_LIMIT)} if _numbers(version) >= (2, 59) else {})
        for page in self._pages(_migrations, "/os-migrations", params, "uuid"):
            for one in page.items:
                if one.status != "finished" or (isinstance(one.type, str) and one.type not in _RESIZES):
                    continue
                if one.server_id not in found or found[one.server_id].id < one.id:
                    found[one.server_id] = one
        return {server: one.source for server, one in found.items() if one.source is not None}

    def _pages(
        self, decoder: _Decoder[Any], path: str, params: Mapping[str, str], key: str, *, version: str | None = None
    ) -> Iterator[_ResourcePage[Any]]:
        marker: str | None = None
        while True:
            page = self._read(decoder, path, params if marker is None else {**params, "marker": marker}, version)
            yield page
            if not page.links or not page.items:
                return
            before, marker = marker, str(getattr(page.items[-1], key))
            if marker == before:
                raise UnreadableAnswer(f"{COMPUTE} {path}: the page after {marker} ends with it again")

    def _read(self, decoder: _Decoder[Any], path: str, params: Mapping[str, str], version: str | None = None) -> Any:
        version = version or self._client.negotiate(COMPUTE, _HIGHEST)
        return self._client.read(decoder, COMPUTE, path, params=params, microversion=version)


def _numbers(version: str) -> tuple[int, int]:
    major, _, minor = version.partition(".")
    return int(major), int(minor)
