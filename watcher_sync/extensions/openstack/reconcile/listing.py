# SPDX-License-Identifier: Apache-2.0
"""Lists servers, hosts, aggregates, flavors and migrations from Nova's API.

Pages go by marker. A page is the last one if it has no link to a next one, and no server that is being built. Only
server groups go by offset.

Each entry is decoded by itself. One that is unreadable is left out and noted, so that it costs itself alone.

Hypervisors are asked at 2.87 or below. From 2.88 on Nova asks each compute for its uptime. If one is dead, it answers
500 after a minute.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec

from watcher_sync.decoding import UNDECODABLE
from watcher_sync.extensions.openstack.cloud.client import COMPUTE, CloudClient, path_of
from watcher_sync.extensions.openstack.cloud.errors import CloudNotFound, CloudRequestRefused, UnreadableAnswer
from watcher_sync.extensions.openstack.cloud.json import decode
from watcher_sync.extensions.openstack.cloud.pages import by_marker, by_offset
from watcher_sync.extensions.openstack.reconcile.payloads import (
    AggregatePayload,
    FlavorPayload,
    Hypervisor,
    MigrationPayload,
    ServerGroupPayload,
    ServerPayload,
    ServicePayload,
)
from watcher_sync.extensions.openstack.reconcile.sight import ADMIN_PROBE, PROBE, RULE_OF_ADMINS, ServerUnseen, Sight
from watcher_sync.reconcile.entries import why_unreadable

_HIGHEST: Final = (2, 96)
_HIGHEST_OF_HYPERVISORS: Final = (2, 87)
_LIMIT: Final = 1000
"""Servers of a page; Nova's own limit may be lower."""
_BEGINNING: Final = "1970-01-01T00:00:00Z"
"""A list of all changes since then has every server, also the deleted ones."""
_BUILDING: Final = b'"building"'
_RESIZES: Final = ("resize", "migration")
"""Types of migrations that hold the source host until they are confirmed."""

T = TypeVar("T")

_ANSWER: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ENTRIES: Final = msgspec.json.Decoder(list[msgspec.Raw])
_OBJECT: Final = msgspec.json.Decoder(dict[str, Any])


class _Kind(msgspec.Struct, Generic[T], frozen=True):
    """The entries of a list: how they are named, and how they are decoded."""

    name: str
    """In the report about an unreadable one."""
    key: str
    """The field with the id."""
    decoder: msgspec.json.Decoder[T]


_SERVER: Final = _Kind("instance", "id", msgspec.json.Decoder(ServerPayload))
_SERVICE: Final = _Kind("compute_node", "host", msgspec.json.Decoder(ServicePayload))
_HYPERVISOR: Final = _Kind("hypervisor", "id", msgspec.json.Decoder(Hypervisor))
_AGGREGATE: Final = _Kind("aggregate", "uuid", msgspec.json.Decoder(AggregatePayload))
_FLAVOR: Final = _Kind("flavor", "id", msgspec.json.Decoder(FlavorPayload))
_MIGRATION: Final = _Kind("migration", "uuid", msgspec.json.Decoder(MigrationPayload))
_SERVER_GROUP: Final = _Kind("server_group", "id", msgspec.json.Decoder(ServerGroupPayload))


class NovaApi:
    """Nova's API in one run. For one thread."""

    def __init__(self, client: CloudClient) -> None:
        self._client = client
        self.unreadable: dict[tuple[str, str], str] = {}
        """(kind, id) -> why an entry of a list cannot be read; the id is empty if it cannot be read, either."""
        self.refused_markers: list[str] = []
        """Ids of servers that Nova listed and then refused as a marker: they may be gone."""

    @property
    def requests(self) -> int:
        """Requests so far."""
        return self._client.requests

    @property
    def clock_skew(self) -> datetime.timedelta:
        """How much Nova's clock is ahead of ours."""
        return self._client.clock_skew(COMPUTE)

    def server_pages(self, changed_since: datetime.datetime | None = None) -> Iterator[list[ServerPayload]]:
        """Yield the servers of all projects, page by page. A server may be in several pages.

        Soft-deleted servers are among them. A listing of changes has deleted servers, too.

        :param changed_since: only those that Nova wrote since then; None: all.
        :raises CloudError: the listing cannot be completed.
        """
        params = {"all_tenants": "1", "limit": str(_LIMIT)}
        if changed_since is None:
            params["soft_deleted"] = "true"
        else:
            params["changes-since"] = changed_since.strftime("%Y-%m-%dT%H:%M:%SZ")
        return self._pages(_SERVER, "/servers/detail", "servers", params, refused=self.refused_markers.append)

    def server(self, server_id: str) -> ServerPayload | None:
        """Return one server; None if Nova does not have it, or if it is unreadable, which is noted.

        404 proves that to an administrator only. To others a list with a filter shows the server, deleted or not, until
        Nova archives it.

        :raises ServerUnseen: the account does not see whether Nova has it.
        :raises CloudError: it is unknown whether Nova has it.
        """
        try:
            path = path_of("/servers", server_id)
        except ValueError as exc:
            raise ServerUnseen(f"{COMPUTE}: {exc}") from None
        try:
            answer = self._read(path, {})
            return self._one(answer.get("server", msgspec.Raw(b"null")), server_id)
        except CloudNotFound:
            if self.sight.is_admin:
                return None
        params = {"all_tenants": "1", "limit": "1", "uuid": server_id, "changes-since": _BEGINNING}
        for entry in self._entries("/servers/detail", "servers", params)[0]:
            if _id_of(entry, "id") == server_id:
                return self._one(entry, server_id)
        raise ServerUnseen(f"{COMPUTE} /servers/{server_id}: 404, which proves nothing without {RULE_OF_ADMINS}")

    def _one(self, entry: msgspec.Raw, server_id: str) -> ServerPayload | None:
        return next(iter(self._decoded(_SERVER, [entry], server_id)), None)

    @functools.cached_property
    def sight(self) -> Sight:
        """What the account sees; asked once.

        :raises CloudError: this is unknown.
        """
        try:
            shown, _ = self._entries("/servers/detail", "servers", ADMIN_PROBE)
        except CloudRequestRefused:
            shown, _ = self._entries("/servers/detail", "servers", PROBE)
            return Sight(is_admin=False, has_filters=not shown)
        return Sight(is_admin=True, has_filters=not shown)

    def services(self) -> dict[str, ServicePayload]:
        """Return host -> compute service.

        :raises CloudError: the list cannot be read.
        """
        found = self._list(_SERVICE, "/os-services", "services", {"binary": "nova-compute"})
        return {service.host: service for service in found if service.binary == "nova-compute"}

    def hypervisors(self) -> dict[str, list[Hypervisor]]:
        """Return host -> hypervisors; one host has many with ironic only.

        :raises CloudError: the list cannot be read.
        """
        version = self._client.negotiate(COMPUTE, _HIGHEST_OF_HYPERVISORS)
        params = {"limit": str(_LIMIT)} if _numbers(version) >= (2, 33) else {}
        pages = self._pages(_HYPERVISOR, "/os-hypervisors/detail", "hypervisors", params, version=version)
        found: dict[str, list[Hypervisor]] = {}
        for one in {str(one.id): one for page in pages for one in page}.values():
            found.setdefault(one.service.host, []).append(one)
        return found

    def aggregates(self) -> dict[str, AggregatePayload]:
        """Return uuid -> aggregate.

        :raises CloudError: the list cannot be read.
        """
        found = self._list(_AGGREGATE, "/os-aggregates", "aggregates", {})
        return {one.uuid: one for one in found if isinstance(one.uuid, str)}

    def flavors(self) -> list[FlavorPayload]:
        """Return all flavors, private ones included.

        :raises CloudError: the list cannot be read.
        """
        params = {"is_public": "None", "limit": str(_LIMIT)}
        return [one for page in self._pages(_FLAVOR, "/flavors/detail", "flavors", params) for one in page]

    def groups_of_servers(self) -> dict[str, str]:
        """Return server -> id of its server group; a server has at most one.

        :raises CloudError: the list cannot be read.
        """

        def read(offset: int) -> list[msgspec.Raw]:
            params = {"all_projects": "True", "limit": str(_LIMIT), "offset": str(offset)}
            return self._entries(path, "server_groups", params)[0]

        path = "/os-server-groups"
        groups = by_offset(f"{COMPUTE} {path}", read, lambda group: _id_of(group, "id"))
        return {server: one.id for one in self._decoded(_SERVER_GROUP, groups) for server in one.members}

    def sources_of_resizes(self) -> dict[str, str | None]:
        """Return server -> the host that it was resized from, for resizes that are neither confirmed nor reverted.

        None: Nova does not show it.

        :raises CloudError: the list cannot be read.
        """
        found: dict[str, MigrationPayload] = {}
        version = self._client.negotiate(COMPUTE, _HIGHEST)
        params = {"status": "finished"} | ({"limit": str(_LIMIT)} if _numbers(version) >= (2, 59) else {})
        for page in self._pages(_MIGRATION, "/os-migrations", "migrations", params):
            for one in page:
                if one.status != "finished" or (isinstance(one.type, str) and one.type not in _RESIZES):
                    continue
                if one.server_id not in found or found[one.server_id].id < one.id:
                    found[one.server_id] = one
        return {server: one.source for server, one in found.items()}

    def _pages(
        self, kind: _Kind[T], path: str, member: str, params: Mapping[str, str], *, version: str | None = None,
        refused: Callable[[str], object] = len,
    ) -> Iterator[list[T]]:  # fmt: skip
        """Yield the readable entries of a list, page by page.

        :param member: the member of the answer with the entries.
        :param refused: gets each marker that Nova refuses.
        """

        def read(more: Mapping[str, str]) -> tuple[list[msgspec.Raw], bool]:
            return self._entries(path, member, {**params, **more}, version)

        def next_marker(page: tuple[list[msgspec.Raw], bool]) -> str | None:
            entries, has_link = page
            # Nova counts a server twice whose request to build it has become a server, and the page has no link then.
            has_next = has_link or (kind is _SERVER and any(_BUILDING in bytes(one) for one in entries))
            return next(filter(None, (_id_of(one, kind.key) for one in reversed(entries))), None) if has_next else None

        for entries, _ in by_marker(f"{COMPUTE} {path}", read, next_marker, refused):
            yield self._decoded(kind, entries)

    def _list(self, kind: _Kind[T], path: str, member: str, params: Mapping[str, str]) -> list[T]:
        """Return the readable entries of a list without pages."""
        return self._decoded(kind, self._entries(path, member, params)[0])

    def _entries(
        self, path: str, member: str, params: Mapping[str, str], version: str | None = None
    ) -> tuple[list[msgspec.Raw], bool]:
        """Return the entries of a page, and whether there is a next one."""
        answer = self._read(path, params, version)
        try:
            links = answer.get(f"{member}_links")
            return decode(_ENTRIES, answer[member]), links is not None and bytes(links) not in (b"[]", b"null")
        except (KeyError, *UNDECODABLE) as exc:
            raise UnreadableAnswer(f"{COMPUTE} {path}: {member}: {exc}") from None

    def _decoded(self, kind: _Kind[T], entries: Iterable[msgspec.Raw], known_id: str = "") -> list[T]:
        """Decode entries, and note which are unreadable."""
        found = []
        for one in entries:
            try:
                found.append(decode(kind.decoder, one))
            except UNDECODABLE as exc:
                self.unreadable[kind.name, known_id or _id_of(one, kind.key)] = why_unreadable(exc)
        return found

    def _read(self, path: str, params: Mapping[str, str], version: str | None = None) -> dict[str, msgspec.Raw]:
        version = version or self._client.negotiate(COMPUTE, _HIGHEST)
        return self._client.read(_ANSWER, COMPUTE, path, params=params, microversion=version)


def _id_of(entry: msgspec.Raw, key: str) -> str:
    """Return an id of an entry, which may be a number; empty if it is neither text nor number."""
    try:
        found = decode(_OBJECT, entry).get(key)
    except UNDECODABLE:
        return ""
    return str(found) if isinstance(found, str | int) and not isinstance(found, bool) else ""


def _numbers(version: str) -> tuple[int, int]:
    major, _, minor = version.partition(".")
    return int(major), int(minor)
