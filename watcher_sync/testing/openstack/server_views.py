# SPDX-License-Identifier: Apache-2.0
"""The representations of servers, encoded once for each version of the view and each state of the server."""

from __future__ import annotations

import hashlib
from typing import Any, Final, NamedTuple

import msgspec

from watcher_sync.testing.openstack.inventory import Inventory
from watcher_sync.testing.openstack.microversions import Version
from watcher_sync.testing.openstack.paging import isotime, naive
from watcher_sync.testing.openstack.records import Server

_CHANGES: Final = (
    (2, 3), (2, 9), (2, 16), (2, 19), (2, 26), (2, 47), (2, 63), (2, 71), (2, 73), (2, 90), (2, 96), (2, 98), (2, 100),
)  # fmt: skip
"""The versions that changed the view."""

_POWER: Final = {"pending": 0, "nostate": 0, "running": 1, "paused": 3, "shutdown": 4, "crashed": 6, "suspended": 7}
_REBUILDS: Final = dict.fromkeys(("rebuilding", "rebuild_block_device_mapping", "rebuild_spawning"), "REBUILD")
_RESIZES: Final = dict.fromkeys(("resize_prep", "resize_migrating", "resize_migrated", "resize_finish"), "RESIZE")
_STATUSES: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "active": ("ACTIVE", {
        **dict.fromkeys(("rebooting", "reboot_pending", "reboot_started"), "REBOOT"),
        **dict.fromkeys(("rebooting_hard", "reboot_pending_hard", "reboot_started_hard"), "HARD_REBOOT"),
        "updating_password": "PASSWORD", "migrating": "MIGRATING", **_REBUILDS, **_RESIZES,
    }),
    "building": ("BUILD", {}),
    "stopped": ("SHUTOFF", {**_REBUILDS, **_RESIZES}),
    "resized": ("VERIFY_RESIZE", {"resize_reverting": "REVERT_RESIZE"}),
    "paused": ("PAUSED", {"migrating": "MIGRATING"}),
    "suspended": ("SUSPENDED", {}),
    "rescued": ("RESCUE", {}),
    "error": ("ERROR", _REBUILDS),
    "deleted": ("DELETED", {}),
    "soft-delete": ("SOFT_DELETED", {}),
    "shelved": ("SHELVED", {}),
    "shelved_offloaded": ("SHELVED_OFFLOADED", {}),
}  # fmt: skip
STATUSES: Final = frozenset({status for status, _ in _STATUSES.values()}).union(
    *(of_task.values() for _, of_task in _STATUSES.values())
)
_WITH_PROGRESS: Final = frozenset({"ACTIVE", "BUILD", "REBUILD", "RESIZE", "VERIFY_RESIZE", "MIGRATING"})


class View(NamedTuple):
    """What decides how a server is shown."""

    base: str
    version: Version
    """The newest version up to the requested one that changed the view."""
    admin: bool
    one: bool = False
    """Whether it is shown alone, and not in a list."""


class _Shown(NamedTuple):
    server: Server
    zone: str | None
    host_status: str
    encoded: bytes


class ServerViews:
    """Encodes servers, and stores the result until the server or its host changes. The caller holds the lock."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._shown: dict[View, dict[str, _Shown]] = {}

    def encode(self, server: Server, view: View) -> bytes:
        """The JSON object of one server."""
        inventory = self._inventory
        zone = server.availability_zone if server.host is None else inventory.zone_of(server.host)
        host_status = self._host_status(server)
        stored = self._shown.setdefault(view, {})
        shown = stored.get(server.id)
        if shown is not None and shown.server is server and shown[1:3] == (zone, host_status):
            return shown.encoded
        encoded = msgspec.json.encode(document(server, view, zone, host_status))
        stored[server.id] = _Shown(server, zone, host_status, encoded)
        return encoded

    def _host_status(self, server: Server) -> str:
        if server.host is None or server.deleted:
            return ""
        host = self._inventory.hosts.get(server.host)
        if host is None:
            return "UNKNOWN"
        if host.forced_down:
            return "DOWN"
        if not host.up:
            return "UNKNOWN"
        return "MAINTENANCE" if host.disabled else "UP"


def view_of(base: str, version: Version, *, admin: bool, one: bool = False) -> View:
    """The view that a request gets; versions that show the same share it."""
    changed = max((change for change in _CHANGES if change <= version), default=(2, 1))
    return View(base, changed, admin, one)


def status(server: Server) -> str:
    """The status that the API shows for the states."""
    if server.deleted:
        return "DELETED"
    default, of_task = _STATUSES.get(server.state, ("UNKNOWN", {}))
    return of_task.get(server.task_state or "", default)


def basic(server: Server, base: str) -> dict[str, Any]:
    """A server in the list without details."""
    return {"id": server.id, "name": server.name, "links": _links(server, base)}


def document(server: Server, view: View, zone: str | None, host_status: str) -> dict[str, Any]:
    """All that the version shows.

    :param zone: the availability zone of the host.
    """
    shown_status = status(server)
    shown: dict[str, Any] = {
        "id": server.id, "name": server.name, "status": shown_status, "tenant_id": server.project_id,
        "user_id": server.user_id, "metadata": server.metadata, "hostId": _host_id(server),
        "image": _image(server, view), "flavor": _flavor(server, view), "created": isotime(server.created_at),
        "updated": isotime(server.updated_at or server.created_at), "addresses": _addresses(server),
        "accessIPv4": "", "accessIPv6": "", "links": _links(server, view.base), "OS-DCF:diskConfig": "MANUAL",
    }  # fmt: skip
    if shown_status in ("ERROR", "DELETED") and server.fault is not None:
        fault = server.fault
        shown["fault"] = {"code": fault.code, "created": isotime(fault.created_at), "message": fault.message}
        if fault.details and (view.admin or fault.code != 500):
            shown["fault"]["details"] = fault.details
    if shown_status in _WITH_PROGRESS:
        shown["progress"] = 0
    shown |= {
        "OS-EXT-AZ:availability_zone": zone or "", "config_drive": "", "key_name": server.key_name,
        "OS-SRV-USG:launched_at": naive(server.launched_at), "OS-SRV-USG:terminated_at": naive(server.terminated_at),
    }  # fmt: skip
    if view.admin:
        shown |= _admin_attributes(server, view)
    shown |= {
        "OS-EXT-STS:task_state": server.task_state,
        "OS-EXT-STS:vm_state": "deleted" if server.deleted else server.state,
        "OS-EXT-STS:power_state": _POWER.get(server.power_state, 0),
        "os-extended-volumes:volumes_attached": _volumes(server, view),
    }
    _add_newer(shown, server, view, host_status)
    if not (server.state == "error" and server.host is None):
        shown["security_groups"] = [{"name": "default"}]
    return shown


def _add_newer(shown: dict[str, Any], server: Server, view: View, host_status: str) -> None:
    """What came with microversions."""
    version = view.version
    if version >= (2, 9):
        shown["locked"] = server.locked
    if version >= (2, 16) and view.admin:
        shown["host_status"] = host_status
    if version >= (2, 19):
        shown["description"] = server.description
    if version >= (2, 26):
        shown["tags"] = server.tags
    if version >= (2, 63):
        shown["trusted_image_certificates"] = None
    if version >= (2, 71) and view.one:
        shown["server_groups"] = ()
    if version >= (2, 73):
        shown["locked_reason"] = server.locked_reason
    if version >= (2, 90) and not view.admin:
        shown["OS-EXT-SRV-ATTR:hostname"] = server.hostname
    if version >= (2, 96):
        shown["pinned_availability_zone"] = server.pinned_availability_zone
    if version >= (2, 100):
        shown["scheduler_hints"] = {}


def _admin_attributes(server: Server, view: View) -> dict[str, Any]:
    prefix = "OS-EXT-SRV-ATTR:"
    shown: dict[str, Any] = {
        f"{prefix}host": server.host,
        f"{prefix}instance_name": f"instance-{server.number:08x}",
        f"{prefix}hypervisor_hostname": server.node,
    }
    if view.version >= (2, 3):
        shown |= {
            f"{prefix}hostname": server.hostname, f"{prefix}kernel_id": "", f"{prefix}launch_index": 0,
            f"{prefix}ramdisk_id": "", f"{prefix}reservation_id": f"r-{server.number:08d}",
            f"{prefix}root_device_name": "/dev/vda", f"{prefix}user_data": None,
        }  # fmt: skip
    return shown


def _links(server: Server, base: str) -> list[dict[str, str]]:
    return [
        {"rel": "self", "href": f"{base}/v2.1/servers/{server.id}"},
        {"rel": "bookmark", "href": f"{base}/servers/{server.id}"},
    ]


def _host_id(server: Server) -> str:
    return hashlib.sha224((server.project_id + server.host).encode()).hexdigest() if server.host else ""


def _image(server: Server, view: View) -> Any:
    if server.image_id is None:
        return ""
    shown: dict[str, Any] = {
        "id": server.image_id,
        "links": [{"rel": "bookmark", "href": f"{view.base}/images/{server.image_id}"}],
    }
    return {**shown, "properties": {}} if view.version >= (2, 98) else shown


def _flavor(server: Server, view: View) -> dict[str, Any]:
    flavor = server.flavor
    if view.version < (2, 47):
        return {"id": flavor.id, "links": [{"rel": "bookmark", "href": f"{view.base}/flavors/{flavor.id}"}]}
    return {
        "vcpus": flavor.vcpus, "ram": flavor.memory_mb, "disk": flavor.root_gb, "ephemeral": flavor.ephemeral_gb,
        "swap": flavor.swap_mb, "original_name": flavor.name, "extra_specs": flavor.extra_specs,
    }  # fmt: skip


def _addresses(server: Server) -> dict[str, Any]:
    if server.state == "building" or not server.addresses:
        return {}
    return {
        "private": [
            {"version": 6 if ":" in address else 4, "addr": address, "OS-EXT-IPS:type": "fixed",
             "OS-EXT-IPS-MAC:mac_addr": "fa:16:3e:00:00:01"}
            for address in server.addresses
        ]
    }  # fmt: skip


def _volumes(server: Server, view: View) -> list[dict[str, Any]]:
    if view.version >= (2, 3):
        return [{"id": volume, "delete_on_termination": False} for volume in server.volumes]
    return [{"id": volume} for volume in server.volumes]
