# SPDX-License-Identifier: Apache-2.0
"""Placement: resource providers with inventories, usages, allocations, traits and aggregates."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from watcher_sync.testing.openstack import microversions
from watcher_sync.testing.openstack.identity import Identity
from watcher_sync.testing.openstack.inventory import Inventory
from watcher_sync.testing.openstack.messages import ApiError, Request, Response, json_response, not_found
from watcher_sync.testing.openstack.microversions import Version
from watcher_sync.testing.openstack.records import Host

LOWEST: Final = (1, 0)
HIGHEST: Final = (1, 39)
TRAITS: Final = frozenset({"COMPUTE_NODE", "OWNER_CYBORG", "OWNER_NEUTRON", "OWNER_NOVA"})
"""Those that requests may name."""
_PROVIDER: Final = re.compile(r"/resource_providers/([^/]+)(?:/(inventories|usages|allocations|traits|aggregates))?$")


class Placement:
    """The service. Thread-safe."""

    def __init__(self, inventory: Inventory, identity: Identity, *, enforce_scope: bool) -> None:
        self._inventory = inventory
        self._identity = identity
        self._enforce_scope = enforce_scope
        self._parts: dict[str, Callable[[Host, Version], dict[str, Any]]] = {
            "inventories": self._inventories,
            "usages": self._usages,
            "allocations": self._allocations,
            "traits": self._traits,
            "aggregates": self._aggregates,
        }

    def serve(self, request: Request) -> Response:
        path = request.path.rstrip("/")
        if path == "":
            shown = {
                "id": "v1.0", "max_version": microversions.text(HIGHEST), "min_version": microversions.text(LOWEST),
                "status": "CURRENT", "links": [{"rel": "self", "href": ""}],
            }  # fmt: skip
            return json_response({"versions": [shown]})
        token = self._identity.authenticate(request)
        version = microversions.parse(request.headers, "placement", LOWEST, HIGHEST)
        answered = microversions.answered("placement", version)
        try:
            is_scoped = token.scope == "project" or (token.scope == "system" and not self._enforce_scope)
            if not token.user.is_admin or not is_scoped:
                raise ApiError(403, "Access was denied to this resource.\n\n placement:resource_providers:list  ")
            if request.method != "GET":
                raise ApiError(405, "The fake cloud serves no writes. Change its inventory instead.")
            with self._inventory.lock:
                self._inventory.refresh(with_servers=not path.startswith("/resource_providers"))
                response = json_response(self._document(path, request, version))
        except ApiError as exc:
            exc.headers.update(answered)
            raise
        return Response(response.status, response.body, {**answered, **response.headers})

    def _document(self, path: str, request: Request, version: Version) -> dict[str, Any]:
        if path == "/resource_providers":
            return {"resource_providers": [self._provider(host, version) for host in self._matching(request, version)]}
        if match := _PROVIDER.match(path):
            host = self._find(match[1])
            return self._parts[match[2]](host, version) if match[2] else self._provider(host, version)
        if path.startswith("/allocations/"):
            return self._consumer(path.removeprefix("/allocations/"), version)
        if path == "/usages" and version >= (1, 9):
            return self._project_usages(request, version)
        if path == "/resource_classes":
            more = {name for host in self._inventory.hosts.values() for name in host.more_inventories}
            names = ["VCPU", "MEMORY_MB", "DISK_GB", *sorted(more)]
            return {"resource_classes": [{"name": name, "links": []} for name in names]}
        if path == "/traits" and version >= (1, 6):
            return {"traits": sorted({trait for host in self._inventory.hosts.values() for trait in host.traits})}
        raise not_found()

    def _matching(self, request: Request, version: Version) -> list[Host]:
        name, uuid = request.last("name"), request.last("uuid") or request.last("in_tree")
        trait = request.last("required")
        if trait is not None and (version < (1, 18) or trait not in TRAITS):
            raise ApiError(400, f"The server could not comply with the request.\n\n No such trait(s): {trait}.  ")
        return [
            host
            for host in self._inventory.hosts.values()
            if name in (None, host.node) and uuid in (None, host.node_id) and (trait is None or trait in host.traits)
        ]

    def _find(self, uuid: str) -> Host:
        for host in self._inventory.hosts.values():
            if host.node_id == uuid:
                return host
        raise not_found(f"The resource could not be found.\n\n No resource provider with uuid {uuid} found  ")

    def _provider(self, host: Host, version: Version) -> dict[str, Any]:
        path = f"/resource_providers/{host.node_id}"
        parts = ["inventories", "usages"]
        for name, since in (("aggregates", (1, 1)), ("traits", (1, 6)), ("allocations", (1, 11))):
            if version >= since:
                parts.append(name)
        links = [{"rel": "self", "href": path}, *({"rel": part, "href": f"{path}/{part}"} for part in parts)]
        shown: dict[str, Any] = {
            "uuid": host.node_id, "name": host.node, "generation": self._generation(host), "links": links
        }  # fmt: skip
        if version >= (1, 14):
            shown |= {"parent_provider_uuid": None, "root_provider_uuid": host.node_id}
        return shown

    def _generation(self, host: Host) -> int:
        return self._inventory.allocations.generation(host.name)

    def _inventories(self, host: Host, version: Version) -> dict[str, Any]:
        inventories = {
            "VCPU": _inventory(host.vcpus, host.reserved_vcpus, host.vcpu_ratio),
            "MEMORY_MB": _inventory(host.memory_mb, host.reserved_memory_mb, host.memory_ratio),
            "DISK_GB": _inventory(host.disk_gb, host.reserved_disk_gb, host.disk_ratio),
            **{name: _inventory(total, 0, 1.0) for name, total in host.more_inventories.items()},
        }
        shown = {name: one for name, one in inventories.items() if one["total"]}
        return {"resource_provider_generation": self._generation(host), "inventories": shown}

    def _usages(self, host: Host, version: Version) -> dict[str, Any]:
        classes = self._inventories(host, version)["inventories"]
        used = self._inventory.allocations.used(host.name)
        usages = {**dict.fromkeys(classes, 0), **used}
        return {"resource_provider_generation": self._generation(host), "usages": usages}

    def _allocations(self, host: Host, version: Version) -> dict[str, Any]:
        more = {"consumer_generation": 1} if version >= (1, 28) else {}
        consumers = self._inventory.allocations.consumers(host.name)
        shown = {consumer: {"resources": amounts, **more} for consumer, amounts in consumers.items()}
        return {"allocations": shown, "resource_provider_generation": self._generation(host)}

    def _traits(self, host: Host, version: Version) -> dict[str, Any]:
        if version < (1, 6):
            raise not_found()
        return {"traits": host.traits, "resource_provider_generation": self._generation(host)}

    def _aggregates(self, host: Host, version: Version) -> dict[str, Any]:
        if version < (1, 1):
            raise not_found()
        uuids = [one.uuid for one in self._inventory.aggregates.values() if host.name in one.hosts]
        if version < (1, 19):
            return {"aggregates": uuids}
        return {"aggregates": uuids, "resource_provider_generation": self._generation(host)}

    def _consumer(self, consumer: str, version: Version) -> dict[str, Any]:
        held = self._inventory.allocations.hosts_of(consumer)
        allocations = {
            host.node_id: {"resources": held[host.name], "generation": self._generation(host)}
            for host in self._inventory.hosts.values()
            if host.name in held
        }
        shown: dict[str, Any] = {"allocations": allocations}
        owner = self._inventory.servers.get(consumer) or self._inventory.migrations.get(consumer)
        if allocations and owner is not None and version >= (1, 12):
            shown |= {"project_id": owner.project_id, "user_id": owner.user_id}
            if version >= (1, 28):
                shown["consumer_generation"] = 1
            if version >= (1, 38):
                shown["consumer_type"] = "unknown"  # Nova names none
        return shown

    def _project_usages(self, request: Request, version: Version) -> dict[str, Any]:
        project_id = request.last("project_id")
        total: dict[str, int] = {}
        for server in self._inventory.servers.values():
            if server.project_id == project_id:
                for amounts in self._inventory.allocations.hosts_of(server.id).values():
                    for name, amount in amounts.items():
                        total[name] = total.get(name, 0) + amount
        if version >= (1, 38):
            return {"usages": {"INSTANCE": total} if total else {}}
        return {"usages": total}


def _inventory(total: int, reserved: int, ratio: float) -> dict[str, Any]:
    return {
        "total": total, "reserved": reserved, "min_unit": 1, "max_unit": total, "step_size": 1,
        "allocation_ratio": ratio,
    }  # fmt: skip
