# SPDX-License-Identifier: Apache-2.0
"""Nova's API v2.1: versions, tokens, policies, and the routes to its lists."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Sequence
from typing import Any, Final

from watcher_sync.testing.openstack import microversions
from watcher_sync.testing.openstack.computes import Computes, RpcTimeout
from watcher_sync.testing.openstack.identity import Identity, Token
from watcher_sync.testing.openstack.inventory import Inventory
from watcher_sync.testing.openstack.messages import ApiError, Request, Response, json_response, not_found
from watcher_sync.testing.openstack.paging import Call, refused
from watcher_sync.testing.openstack.servers import Servers

LOWEST: Final = (2, 1)
LEGACY: Final = "X-OpenStack-Nova-API-Version"

_Route = tuple[list[str], Callable[..., Response], str]
"""Segments of the path, a function, and its policy; the function gets the value of ``{id}``."""


class Compute:
    """The service. Thread-safe."""

    def __init__(
        self,
        inventory: Inventory,
        identity: Identity,
        *,
        max_limit: int,
        max_version: microversions.Version,
        enforce_scope: bool,
        rpc_timeout: float,
        rules: Container[str],
    ) -> None:
        self._inventory = inventory
        self._identity = identity
        self._max_limit = max_limit
        self._max_version = max_version
        self._enforce_scope = enforce_scope
        self._rpc_timeout = rpc_timeout
        self._rules = rules
        servers = Servers(inventory)
        computes = Computes(inventory)
        self._routes: list[_Route] = [
            (path.split("/"), function, policy)
            for path, function, policy in (
                ("/servers/detail", servers.detail, ""),
                ("/servers", servers.index, ""),
                ("/servers/{id}", servers.show, ""),
                ("/os-services", computes.services, "os-services:list"),
                ("/os-hypervisors/detail", computes.hypervisors_detail, "os-hypervisors:list-detail"),
                ("/os-hypervisors", computes.hypervisors, "os-hypervisors:list"),
                ("/os-hypervisors/{id}", computes.hypervisor, "os-hypervisors:show"),
                ("/os-aggregates", computes.aggregates, "os-aggregates:index"),
                ("/os-aggregates/{id}", computes.aggregate, "os-aggregates:show"),
                ("/os-server-groups", computes.server_groups, "os-server-groups:index"),
                ("/os-migrations", computes.migrations, "os-migrations:index"),
                ("/os-availability-zone", computes.zones, ""),
                ("/os-availability-zone/detail", computes.zones_detail, "os-availability-zone:detail"),
                ("/flavors/detail", computes.flavors_detail, ""),
                ("/flavors", computes.flavors, ""),
                ("/flavors/{id}", computes.flavor, ""),
                ("/flavors/{id}/os-extra_specs", computes.flavor_extra_specs, ""),
            )
        ]

    def serve(self, request: Request) -> Response:
        path = request.path.rstrip("/")
        if path == "":
            return json_response({"versions": [_legacy_version(request), self._version(request)]})
        if path == "/v2.1":
            document = self._version(request)
            links = [
                *document["links"],
                {"rel": "describedby", "type": "text/html", "href": "http://docs.openstack.org/"},
            ]
            media_type = {"base": "application/json", "type": "application/vnd.openstack.compute+json;version=2.1"}
            return json_response({"version": {**document, "links": links, "media-types": [media_type]}})
        if not path.startswith("/v2.1/"):
            raise not_found()
        token = self._identity.authenticate(request)
        version = microversions.parse(request.headers, "compute", LOWEST, self._max_version, legacy=LEGACY)
        answered = microversions.answered("compute", version, LEGACY)
        try:
            response = self._route(
                path.removeprefix("/v2.1"), Call(request, token, version, self._max_limit, self._rules)
            )
        except ApiError as exc:
            if isinstance(exc, RpcTimeout):
                time.sleep(self._rpc_timeout)
            exc.headers.update(answered)
            raise
        return Response(response.status, response.body, {**answered, **response.headers})

    def _route(self, path: str, call: Call) -> Response:
        segments = path.split("/")
        for template, function, policy in self._routes:
            ids = _ids(template, segments)
            if ids is None:
                continue
            if call.request.method != "GET":
                raise ApiError(405, "The fake cloud serves no writes. Change its inventory instead.")
            if not path.startswith("/flavors"):
                self._check_scope(call.token, policy or "servers:detail")
            if policy and not call.can(policy):
                raise refused(policy)
            with self._inventory.lock:
                self._inventory.refresh()
            return function(call, *ids)
        raise not_found()

    def _check_scope(self, token: Token, policy: str) -> None:
        if token.scope != "project" and (self._enforce_scope or not token.scope):
            raise refused(policy)

    def _version(self, request: Request) -> dict[str, Any]:
        return {
            "id": "v2.1", "status": "CURRENT", "version": microversions.text(self._max_version),
            "min_version": microversions.text(LOWEST), "updated": "2013-07-23T11:33:21Z",
            "links": [{"rel": "self", "href": f"{request.base}/v2.1/"}],
        }  # fmt: skip


def _legacy_version(request: Request) -> dict[str, Any]:
    return {
        "id": "v2.0", "status": "DEPRECATED", "version": "", "min_version": "", "updated": "2025-07-04T12:00:00Z",
        "links": [{"rel": "self", "href": f"{request.base}/v2/"}],
    }  # fmt: skip


def _ids(template: Sequence[str], segments: Sequence[str]) -> list[str] | None:
    """The segments that stand for ``{id}``; None if the path has another form."""
    if len(template) != len(segments):
        return None
    ids = []
    for wanted, segment in zip(template, segments, strict=True):
        if wanted == "{id}" and segment:
            ids.append(segment)
        elif wanted != segment:
            return None
    return ids
