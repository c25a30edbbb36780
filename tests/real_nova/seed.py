# SPDX-License-Identifier: Apache-2.0
"""What a new cloud needs before its first server: users, catalog, flavors and images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tests.real_nova.admin import Admin
from tests.real_nova.settings import AUDITOR, PASSWORD, Site

_CATALOG = {
    "compute": ("nova", "/v2.1"),
    "placement": ("placement", ""),
    "image": ("glance", ""),
    "network": ("network", ""),
}
"""Service type -> the service and the path of its API."""

_FLAVORS = (
    # name, vcpus, MiB, root GiB, ephemeral GiB, swap MiB, extra specs
    ("small", 1, 512, 1, 0, 0, {}),
    ("large", 2, 2048, 10, 5, 1500, {"hw:cpu_policy": "shared", "quota:cpu_shares": "512"}),
    ("impossible", 500, 512, 1, 0, 0, {}),
)

TENANT = "tenant"
"""A project, and its user, without any role of an administrator."""


@dataclass(frozen=True)
class Seeded:
    """Name -> id."""

    flavors: dict[str, str]
    images: dict[str, str]


def identity(
    admin: Admin, site: Site, user: str = "nova", catalog: Mapping[str, tuple[str, str]] = _CATALOG
) -> dict[str, str]:
    """The users, the projects and the catalog.

    :param user: of the services.
    :param catalog: service type -> the service and the path of its API.
    :returns: project -> id.
    """
    projects = {name: _create(admin, "project", name=name, domain_id="default") for name in ("service", TENANT)}
    roles = {role["name"]: role["id"] for role in admin.get("keystone", "/v3/roles")["roles"]}
    if "service" not in roles:
        roles["service"] = _create(admin, "role", name="service")
    roles["watcher_sync"] = _create(admin, "role", name="watcher_sync")
    grants = {
        user: ("service", ("admin", "service")),
        AUDITOR: ("service", ("watcher_sync",)),
        TENANT: (TENANT, ("member", "reader")),
    }
    for name, (project, granted) in grants.items():
        user_id = _create(admin, "user", name=name, domain_id="default", password=PASSWORD)
        for role in granted:
            path = f"/v3/projects/{projects[project]}/users/{user_id}/roles/{roles[role]}"
            admin.call("PUT", "keystone", path)
    for kind, (service, path) in catalog.items():
        service_id = _create(admin, "service", type=kind, name=service)
        for interface in ("public", "internal", "admin"):
            url = f"{site.url(service)}{path}"
            _create(admin, "endpoint", service_id=service_id, interface=interface, region_id="RegionOne", url=url)
    return projects


def flavors_and_images(admin: Admin) -> Seeded:
    """The flavors and the images."""
    flavors = {}
    for name, vcpus, ram, disk, ephemeral, swap, specs in _FLAVORS:
        body = {
            "name": name,
            "vcpus": vcpus,
            "ram": ram,
            "disk": disk,
            "swap": swap,
            "OS-FLV-EXT-DATA:ephemeral": ephemeral,
        }
        flavors[name] = admin.post("nova", "/v2.1/flavors", {"flavor": body})["flavor"]["id"]
        if specs:
            admin.post("nova", f"/v2.1/flavors/{flavors[name]}/os-extra_specs", {"extra_specs": specs})
    images = {}
    for name in ("first", "second"):
        body = {"name": name, "disk_format": "raw", "container_format": "bare", "visibility": "public"}
        images[name] = admin.post("glance", "/v2/images", body)["id"]
        admin.call("PUT", "glance", f"/v2/images/{images[name]}/file", b"image" * 100)
    return Seeded(flavors, images)


def _create(admin: Admin, kind: str, **fields: str) -> str:

    return str(admin.post("keystone", f"/v3/{kind}s", {kind: fields})[kind]["id"])
