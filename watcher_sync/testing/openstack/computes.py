# SPDX-License-Identifier: Apache-2.0
"""Nova's lists of services, hypervisors, aggregates, zones, migrations and flavors."""

from __future__ import annotations

import uuid
from collections import Counter
from typing import Any

import msgspec

from watcher_sync.testing.openstack.inventory import Inventory
from watcher_sync.testing.openstack.messages import ApiError, Response, json_response, not_found
from watcher_sync.testing.openstack.paging import Call, is_true, isotime, naive, page
from watcher_sync.testing.openstack.records import Aggregate, Flavor, Host, Migration, ServerGroup, Service

_CPU_INFO = {"arch": "x86_64", "model": "Nehalem", "vendor": "Intel", "features": ["pge", "clflush"],
             "topology": {"cores": 1, "threads": 1, "sockets": 4}}  # fmt: skip

_MIGRATION_FILTERS = {
    "instance_uuid": "server_id", "status": "status", "migration_type": "type", "source_compute": "source",
}  # fmt: skip
"""Parameter -> field of the record."""


class RpcTimeout(ApiError):
    """A compute did not answer; the API tells so after a while."""


class Computes:
    """All of Nova's resources but servers."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory

    def services(self, call: Call) -> Response:
        binary, host = call.request.last("binary"), call.request.last("host")
        with self._inventory.lock:
            found = [self._service(service, call) for service in self._inventory.services.values()]
            found += [self._service(a_host, call) for a_host in self._inventory.hosts.values()]
        shown = [one for one in found if (not binary or one["binary"] == binary) and (not host or one["host"] == host)]
        return json_response({"services": shown})

    def hypervisors_detail(self, call: Call) -> Response:
        return self._hypervisors(call, detail=True)

    def hypervisors(self, call: Call) -> Response:
        return self._hypervisors(call, detail=False)

    def hypervisor(self, call: Call, hypervisor_id: str) -> Response:
        if call.version >= (2, 53) and not _is_uuid(hypervisor_id):
            raise ApiError(400, f"Invalid uuid {hypervisor_id}")
        with self._inventory.lock:
            running = Counter(server.host for server in self._inventory.servers.values() if not server.deleted)
            for host in self._inventory.hosts.values():
                if hypervisor_id in (host.node_id if call.version >= (2, 53) else str(host.number),):
                    self._ask([host], call)
                    return json_response({"hypervisor": self._hypervisor(host, call, running, detail=True)})
        raise not_found(f"Hypervisor with ID '{hypervisor_id}' could not be found.")

    def aggregates(self, call: Call) -> Response:
        with self._inventory.lock:
            shown = [_aggregate(aggregate, call) for aggregate in self._inventory.aggregates.values()]
        return json_response({"aggregates": shown})

    def aggregate(self, call: Call, number: str) -> Response:
        aggregate = self._inventory.aggregates.get(int(number)) if number.isdigit() else None
        if aggregate is None:
            raise not_found(f"Aggregate {number} could not be found.")
        return json_response({"aggregate": _aggregate(aggregate, call)})

    def server_groups(self, call: Call) -> Response:
        """Those of all projects, whether the request says so or not; no link names the next page.

        Others than administrators see those of their project, whatever the rules say.
        """
        begin, user = int(call.request.last("offset") or 0), call.token.user
        with self._inventory.lock:
            groups = self._inventory.server_groups.values()
            seen = [group for group in groups if user.is_admin or group.project_id == user.project_id]
        found = seen[begin : begin + call.limit()]
        return json_response({"server_groups": [_server_group(group, call) for group in found]})

    def migrations(self, call: Call) -> Response:
        since = call.request.last("changes-since")
        wanted = {field: call.request.last(name) for name, field in _MIGRATION_FILTERS.items()}
        host = call.request.last("host")
        with self._inventory.lock:
            found = sorted(self._inventory.migrations.values(), key=lambda one: (one.created_at, one.id), reverse=True)
        items = [
            _migration(one, call)
            for one in found
            if all(value is None or getattr(one, field) == value for field, value in wanted.items())
            and host in (None, one.source, one.destination)
            and (since is None or isotime(one.updated_at or one.created_at) >= since)
        ]
        if call.version < (2, 59):
            return json_response({"migrations": items})
        shown, link = page(call, "os-migrations", items, key="uuid")
        return json_response(_linked({"migrations": shown}, "migrations_links", link))

    def zones(self, call: Call) -> Response:
        zones = sorted({self._inventory.zone_of(name) for name in self._inventory.hosts})
        shown = [{"zoneName": zone, "zoneState": {"available": True}, "hosts": None} for zone in zones]
        return json_response({"availabilityZoneInfo": shown})

    def zones_detail(self, call: Call) -> Response:
        zones: dict[str, dict[str, Any]] = {}
        with self._inventory.lock:
            for host in self._inventory.hosts.values():
                reported = {"available": host.alive, "active": not host.disabled, "updated_at": naive(host.updated_at)}
                zones.setdefault(self._inventory.zone_of(host.name), {})[host.name] = {"nova-compute": reported}
        shown = [{"zoneName": zone, "zoneState": {"available": True}, "hosts": hosts} for zone, hosts in zones.items()]
        return json_response({"availabilityZoneInfo": shown})

    def flavors_detail(self, call: Call) -> Response:
        sees_private = call.token.user.is_admin and call.request.last("is_public") == "None"
        flavors = list(self._inventory.flavors.values())
        items = [_flavor(flavor, call) for flavor in flavors if flavor.is_public or sees_private]
        shown, link = page(call, "flavors/detail", items)
        return json_response(_linked({"flavors": shown}, "flavors_links", link))

    def flavors(self, call: Call) -> Response:
        items = [
            {"id": flavor.id, "name": flavor.name, "links": call.links(f"flavors/{flavor.id}")}
            for flavor in list(self._inventory.flavors.values())
        ]
        shown, link = page(call, "flavors", items)
        return json_response(_linked({"flavors": shown}, "flavors_links", link))

    def flavor(self, call: Call, flavor_id: str) -> Response:
        return json_response({"flavor": _flavor(self._find_flavor(flavor_id), call)})

    def flavor_extra_specs(self, call: Call, flavor_id: str) -> Response:
        return json_response({"extra_specs": self._find_flavor(flavor_id).extra_specs})

    def _find_flavor(self, flavor_id: str) -> Flavor:
        flavor = self._inventory.flavors.get(flavor_id)
        if flavor is None:
            raise not_found(f"Flavor {flavor_id} could not be found.")
        return flavor

    def _service(self, service: Service | Host, call: Call) -> dict[str, Any]:
        uuid_for_id = call.version >= (2, 53)
        shown = {
            "binary": "nova-compute" if isinstance(service, Host) else service.binary,
            "host": service.name if isinstance(service, Host) else service.host,
            "id": (service.service_id if isinstance(service, Host) else service.id) if uuid_for_id else service.number,
            "zone": self._inventory.zone_of(service.name) if isinstance(service, Host) else "internal",
            "status": "disabled" if service.disabled else "enabled",
            "state": "up" if service.up and not service.forced_down else "down",
            "updated_at": naive(service.updated_at),
            "disabled_reason": service.disabled_reason,
        }
        if call.version >= (2, 11):
            shown["forced_down"] = service.forced_down
        return shown

    def _hypervisors(self, call: Call, *, detail: bool) -> Response:
        pattern = call.request.last("hypervisor_hostname_pattern") if call.version >= (2, 53) else None
        if pattern is not None and ("limit" in call.request.query or "marker" in call.request.query):
            raise ApiError(400, "Paging over hypervisors with the hypervisor_hostname_pattern query parameter is not "
                                "supported.")  # fmt: skip
        inventory = self._inventory
        with inventory.lock:
            hosts = [host for host in inventory.hosts.values() if pattern is None or pattern in host.node]
            if pattern is not None and not hosts:
                raise not_found(f"No hypervisor matching '{pattern}' could be found.")
            key = "node_id" if call.version >= (2, 53) else "number"
            places = [{"id": getattr(host, key), "host": host} for host in hosts]
            link: str | None = None
            if call.version >= (2, 33) and pattern is None:
                path = "os-hypervisors/detail" if detail else "os-hypervisors"
                places, link = page(call, path, places)
            if detail:
                self._ask([place["host"] for place in places], call)
            running = Counter(server.host for server in inventory.servers.values() if not server.deleted)
            with_servers = call.version >= (2, 53) and is_true(call.request.last("with_servers"))
            shown = [
                self._hypervisor(place["host"], call, running, detail=detail, with_servers=with_servers)
                for place in places
            ]
        return json_response(_linked({"hypervisors": shown}, "hypervisors_links", link))

    def _ask(self, hosts: list[Host], call: Call) -> None:
        """Nova asks each compute for its uptime. :raises RpcTimeout: when one does not answer."""
        if call.version >= (2, 88) and any(host.unresponsive and host.alive for host in hosts):
            message = "Unexpected API Error. Please report this at http://bugs.launchpad.net/nova/ and attach the Nova "
            raise RpcTimeout(
                500, message + "API log if possible.\n<class 'oslo_messaging.exceptions.MessagingTimeout'>"
            )

    def _hypervisor(
        self, host: Host, call: Call, running: Counter[str | None], *, detail: bool, with_servers: bool = False
    ) -> dict[str, Any]:
        uuid_for_id = call.version >= (2, 53)
        shown: dict[str, Any] = {
            "id": host.node_id if uuid_for_id else host.number,
            "hypervisor_hostname": host.node,
            "state": "up" if host.alive else "down",
            "status": "disabled" if host.disabled else "enabled",
        }
        if detail:
            service_id = host.service_id if uuid_for_id else host.number
            shown |= {
                "hypervisor_type": host.hypervisor_type,
                "hypervisor_version": host.hypervisor_version,
                "host_ip": host.ip,
                "service": {"id": service_id, "host": host.name, "disabled_reason": host.disabled_reason},
            }
            shown |= {"uptime": None} if call.version >= (2, 88) else self._capacity(host, call, running)
        if with_servers:
            servers = [
                {"name": f"instance-{server.number:08x}", "uuid": server.id}
                for server in self._inventory.servers.values()
                if server.host == host.name and not server.deleted
            ]
            if servers or call.version >= (2, 75):
                shown["servers"] = servers
        return shown

    def _capacity(self, host: Host, call: Call, running: Counter[str | None]) -> dict[str, Any]:
        """As the resource tracker counts: what is reserved is used."""
        used = self._inventory.allocations.used(host.name)
        memory_used = used.get("MEMORY_MB", 0) + host.reserved_memory_mb
        disk_used = used.get("DISK_GB", 0) + host.reserved_disk_gb
        return {
            "vcpus": host.vcpus, "memory_mb": host.memory_mb, "local_gb": host.disk_gb,
            "vcpus_used": used.get("VCPU", 0) + host.reserved_vcpus, "memory_mb_used": memory_used,
            "local_gb_used": disk_used, "free_ram_mb": host.memory_mb - memory_used,
            "free_disk_gb": host.disk_gb - disk_used, "current_workload": 0, "running_vms": running[host.name],
            "disk_available_least": host.disk_gb - disk_used,
            "cpu_info": _CPU_INFO if call.version >= (2, 28) else msgspec.json.encode(_CPU_INFO).decode(),
        }  # fmt: skip


def _aggregate(aggregate: Aggregate, call: Call) -> dict[str, Any]:
    shown = {
        "id": aggregate.id, "name": aggregate.name, "hosts": list(aggregate.hosts),
        "metadata": dict(aggregate.metadata), "availability_zone": aggregate.zone,
        "created_at": naive(aggregate.created_at), "updated_at": naive(aggregate.updated_at), "deleted_at": None,
        "deleted": False,
    }  # fmt: skip
    return {**shown, "uuid": aggregate.uuid} if call.version >= (2, 41) else shown


def _migration(migration: Migration, call: Call) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": migration.id, "instance_uuid": migration.server_id, "status": migration.status,
        "source_compute": migration.source, "source_node": migration.source,
        "dest_compute": migration.destination, "dest_node": migration.destination, "dest_host": None,
        "old_instance_type_id": 1, "new_instance_type_id": 1, "created_at": naive(migration.created_at),
        "updated_at": naive(migration.updated_at),
    }  # fmt: skip
    if not call.can("os-migrations:index:host"):
        shown |= dict.fromkeys(("source_compute", "source_node", "dest_compute", "dest_node"))
    if call.version >= (2, 23):
        shown["migration_type"] = migration.migration_type
    if call.version >= (2, 59):
        shown["uuid"] = migration.uuid
    if call.version >= (2, 80):
        shown |= {"user_id": migration.user_id, "project_id": migration.project_id}
    return shown


def _server_group(group: ServerGroup, call: Call) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": group.id, "name": group.name, "members": group.members}
    if call.version >= (2, 13):
        shown |= {"project_id": group.project_id, "user_id": group.user_id}
    if call.version >= (2, 64):
        return {**shown, "policy": group.policy, "rules": {}}
    return {**shown, "policies": [group.policy], "metadata": {}}


def _flavor(flavor: Flavor, call: Call) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": flavor.id, "name": flavor.name, "ram": flavor.memory_mb, "disk": flavor.root_gb,
        "swap": flavor.swap_mb or (0 if call.version >= (2, 75) else ""),
        "OS-FLV-EXT-DATA:ephemeral": flavor.ephemeral_gb, "vcpus": flavor.vcpus,
        "os-flavor-access:is_public": flavor.is_public, "links": call.links(f"flavors/{flavor.id}"),
    }  # fmt: skip
    if call.version < (2, 102):
        shown |= {"OS-FLV-DISABLED:disabled": False, "rxtx_factor": 1.0}
    if call.version >= (2, 55):
        shown["description"] = None
    if call.version >= (2, 61):
        shown["extra_specs"] = flavor.extra_specs
    return shown


def _linked(document: dict[str, Any], name: str, link: str | None) -> dict[str, Any]:
    return document if link is None else {**document, name: [{"rel": "next", "href": link}]}


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False
