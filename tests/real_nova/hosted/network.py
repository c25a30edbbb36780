# SPDX-License-Identifier: Apache-2.0
"""The part of Neutron's API that Nova uses: one network with one subnet, and ports, in memory.

It checks no token and knows no project. A port is bound and active as soon as it exists. Lists of other resources are
empty. The WSGI application is :data:`application`; any number of threads may call it.
"""

from __future__ import annotations

import ipaddress
import itertools
import json
import threading
import urllib.parse
import uuid
from collections.abc import Callable, Iterable
from typing import Any

NETWORK_ID = "7c0d6f2e-0000-4000-8000-000000000001"
SUBNET_ID = "7c0d6f2e-0000-4000-8000-000000000002"
_SUBNET = ipaddress.ip_network("10.20.0.0/16")
_LIST_OPTIONS = frozenset(
    {"fields", "limit", "marker", "sort_dir", "sort_key", "tenant_id", "shared", "admin_state_up"}
)
_EXTENSIONS = [{"alias": alias, "name": alias} for alias in ("binding", "external-net", "provider")]


class NotFound(Exception):
    """The resource does not exist."""


class Networks:
    """The resources, and the answers to requests."""

    def __init__(self) -> None:
        network = {
            "id": NETWORK_ID,
            "name": "story",
            "project_id": "",
            "tenant_id": "",
            "shared": True,
            "admin_state_up": True,
            "status": "ACTIVE",
            "subnets": [SUBNET_ID],
            "router:external": False,
            "port_security_enabled": False,
            "mtu": 1450,
        }
        subnet = {
            "id": SUBNET_ID,
            "name": "story",
            "network_id": NETWORK_ID,
            "cidr": str(_SUBNET),
            "ip_version": 4,
            "gateway_ip": str(_SUBNET[1]),
            "dns_nameservers": [],
            "host_routes": [],
            "allocation_pools": [],
            "enable_dhcp": False,
        }
        self._numbers = itertools.count(10)
        self._lock = threading.Lock()
        # Guarded by _lock: collection -> id -> resource.
        self._resources: dict[str, dict[str, dict[str, Any]]] = {
            "networks": {NETWORK_ID: network},
            "subnets": {SUBNET_ID: subnet},
            "ports": {},
        }

    def answer(self, method: str, path: list[str], query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        """The status and the document. :raises NotFound: the resource does not exist."""
        with self._lock:
            if path[:1] != ["v2.0"]:
                return 200, {"versions": [{"id": "v2.0", "status": "CURRENT", "links": []}]}
            collection, *rest = path[1:] or [""]
            if collection == "extensions":
                return 200, {"extensions": _EXTENSIONS}
            if collection == "quotas":
                return 200, {"quota": dict.fromkeys(("network", "subnet", "port", "security_group"), -1)}
            if collection not in self._resources:
                return 200, {collection: []}
            if method == "POST":
                return 201, {"port": self._create_port(body["port"])}
            if not rest:
                return 200, {collection: self._select(collection, query)}
            return self._answer_one(method, collection, rest[0], body)

    def _answer_one(self, method: str, collection: str, resource_id: str, body: Any) -> tuple[int, Any]:
        table, singular = self._resources[collection], collection[:-1]
        if resource_id not in table:
            raise NotFound(resource_id)
        if method == "DELETE":
            del table[resource_id]
            return 204, None
        if method == "PUT":
            table[resource_id].update(body[singular])
        return 200, {singular: table[resource_id]}

    def _select(self, collection: str, query: dict[str, list[str]]) -> list[dict[str, Any]]:
        wanted = {name: values for name, values in query.items() if name not in _LIST_OPTIONS}
        return [
            resource
            for resource in self._resources[collection].values()
            if all(_shown(resource.get(name)) in map(_shown, values) for name, values in wanted.items())
        ]

    def _create_port(self, given: dict[str, Any]) -> dict[str, Any]:
        number = next(self._numbers)
        project = given.get("tenant_id", given.get("project_id", ""))
        port = {
            "id": str(uuid.uuid4()),
            "mac_address": f"fa:16:3e:00:{number >> 8:02x}:{number & 255:02x}",
            "status": "ACTIVE",
            "admin_state_up": True,
            "security_groups": [],
            "binding:vif_type": "ovs",
            "binding:vif_details": {"port_filter": True},
            "binding:vnic_type": "normal",
            "binding:profile": {},
            "resource_request": None,
            "tenant_id": project,
            "project_id": project,
            **given,
            "fixed_ips": [{"subnet_id": SUBNET_ID, "ip_address": str(_SUBNET[number])}],
        }
        self._resources["ports"][port["id"]] = port
        return port


def _shown(value: object) -> str:
    return str(value).lower()


_NETWORKS = Networks()
_REASONS = {200: "200 OK", 201: "201 Created", 204: "204 No Content", 404: "404 Not Found"}


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """The WSGI application."""
    path = [part for part in environ["PATH_INFO"].split("/") if part]
    query = urllib.parse.parse_qs(environ.get("QUERY_STRING", ""))
    size = int(environ.get("CONTENT_LENGTH") or 0)
    body = json.loads(environ["wsgi.input"].read(size)) if size else None
    try:
        status, document = _NETWORKS.answer(environ["REQUEST_METHOD"], path, query, body)
    except NotFound as exc:
        status, document = 404, {"NeutronError": {"type": "NotFound", "message": str(exc), "detail": ""}}
    content = b"" if document is None else json.dumps(document).encode()
    start_response(_REASONS[status], [("Content-Type", "application/json"), ("Content-Length", str(len(content)))])
    return [content]
