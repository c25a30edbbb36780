# SPDX-License-Identifier: Apache-2.0
"""The resource types that the server serves, and their discovery documents.

A type is a row in a table. Only defaults, printed columns and controllers depend on the type. So each further group,
version and kind that a test registers is served completely, like a custom resource. The versions of one type have the
same objects, which are not converted.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")

VERSION = {
    "major": "1",
    "minor": "31",
    "gitVersion": "v1.31.0",
    "gitCommit": "0" * 40,
    "gitTreeState": "clean",
    "buildDate": "2024-08-13T00:00:00Z",
    "goVersion": "go1.22",
    "compiler": "gc",
    "platform": "linux/amd64",
}
"""What the server says it is."""


@dataclasses.dataclass(frozen=True)
class ResourceType:
    """One group, version and kind, and the plural under which paths name it."""

    group: str
    """Empty for the core group."""
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    scalable: bool = False
    """It has a scale subresource over spec.replicas."""
    has_generation: bool = True
    """metadata.generation counts the changes of its spec."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def place(self) -> tuple[str, str, str]:
        """Group, version and plural, by which paths find it."""
        return self.group, self.version, self.plural

    @property
    def collection(self) -> tuple[str, str]:
        """Group and plural: all versions of a type have the same objects."""
        return self.group, self.plural

    @property
    def qualified(self) -> str:
        """As error messages name it: ``pods``, ``deployments.apps``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """The path of the collection, or of one object."""
        base = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        inside = f"/namespaces/{namespace}" if namespace and self.namespaced else ""
        return f"{base}{inside}/{self.plural}" + (f"/{name}" if name else "")


PODS = ResourceType("", "v1", "pods", "Pod", short_names=("po",), has_generation=False)
NAMESPACES = ResourceType("", "v1", "namespaces", "Namespace", False, ("ns",), has_generation=False)
NODES = ResourceType("", "v1", "nodes", "Node", False, ("no",), has_generation=False)
DEPLOYMENTS = ResourceType("apps", "v1", "deployments", "Deployment", True, ("deploy",), scalable=True)
REPLICA_SETS = ResourceType("apps", "v1", "replicasets", "ReplicaSet", True, ("rs",), scalable=True)
STATEFUL_SETS = ResourceType("apps", "v1", "statefulsets", "StatefulSet", True, ("sts",), scalable=True)
DAEMON_SETS = ResourceType("apps", "v1", "daemonsets", "DaemonSet", True, ("ds",))
JOBS = ResourceType("batch", "v1", "jobs", "Job")
CRON_JOBS = ResourceType("batch", "v1", "cronjobs", "CronJob", short_names=("cj",))
CONFIG_MAPS = ResourceType("", "v1", "configmaps", "ConfigMap", short_names=("cm",), has_generation=False)
SERVICES = ResourceType("", "v1", "services", "Service", short_names=("svc",), has_generation=False)

BUILTIN = (
    PODS, NAMESPACES, NODES, CONFIG_MAPS, SERVICES,
    DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, JOBS, CRON_JOBS,
)  # fmt: skip


class Registry:
    """The types of one server. A test may add and remove types; any thread reads them."""

    def __init__(self) -> None:
        self._by_path: dict[tuple[str, str, str], ResourceType] = {}
        self._by_kind: dict[tuple[str, str], ResourceType] = {}
        for resource in BUILTIN:
            self.register(resource)

    def register(self, resource: ResourceType) -> ResourceType:
        self._by_path[resource.place] = resource
        self._by_kind[resource.api_version, resource.kind] = resource
        return resource

    def unregister(self, resource: ResourceType) -> None:
        del self._by_path[resource.place], self._by_kind[resource.api_version, resource.kind]

    def by_path(self, group: str, version: str, plural: str) -> ResourceType | None:
        return self._by_path.get((group, version, plural))

    def by_kind(self, api_version: str, kind: str) -> ResourceType | None:
        return self._by_kind.get((api_version, kind))

    def named(self, name: str) -> ResourceType:
        """By kind, plural, singular or short name, case aside. :raises KeyError: for none of these."""
        wanted = name.lower()
        for resource in self._by_path.values():
            if wanted in (resource.kind.lower(), resource.plural, resource.qualified, *resource.short_names):
                return resource
        raise KeyError(name)

    def all(self) -> list[ResourceType]:
        return list(self._by_path.values())

    def document(self, path: str) -> dict[str, Any] | None:
        """The discovery document at the path; None where there is none."""
        match path.strip("/").split("/"):
            case ["version"]:
                return dict(VERSION)
            case ["api"]:
                return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
            case ["api", version]:
                return self._resource_list("", version)
            case ["apis"]:
                groups = sorted({resource.group for resource in self.all() if resource.group})
                return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [self._group(name) for name in groups]}
            case ["apis", group] if any(resource.group == group for resource in self.all()):
                return {"kind": "APIGroup", "apiVersion": "v1", **self._group(group)}
            case ["apis", group, version]:
                return self._resource_list(group, version)
        return None

    def _group(self, name: str) -> dict[str, Any]:
        served = {resource.version for resource in self.all() if resource.group == name}
        versions = [
            {"groupVersion": f"{name}/{version}", "version": version} for version in sorted(served, key=_priority)
        ]
        return {"name": name, "versions": versions, "preferredVersion": versions[0]}

    def _resource_list(self, group: str, version: str) -> dict[str, Any] | None:
        found = [resource for resource in self.all() if (resource.group, resource.version) == (group, version)]
        if not found:
            return None
        resources = [entry for resource in found for entry in _entries(resource)]
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": found[0].api_version,
            "resources": resources,
        }


def _priority(version: str) -> tuple[int, ...]:
    """Sorts versions as API servers do: stable ones before beta and alpha ones, then the highest numbers first."""
    match = re.fullmatch("v([0-9]+)(?:(alpha|beta)([0-9]+))?", version)
    if match is None:
        return (3,)
    major, stage, minor = match.groups()
    return ((None, "beta", "alpha").index(stage), -int(major), -int(minor or 0))


def _entries(resource: ResourceType) -> list[dict[str, Any]]:
    """The type and its subresources."""
    whole = {
        "name": resource.plural,
        "singularName": resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(VERBS),
        "shortNames": list(resource.short_names),
        "categories": ["all"] if resource.group in ("", "apps", "batch") and resource.namespaced else [],
    }
    part = {"singularName": "", "namespaced": resource.namespaced, "verbs": ["get", "patch", "update"]}
    entries = [whole, {**part, "name": f"{resource.plural}/status", "kind": resource.kind}]
    if resource.scalable:
        scale = {"name": f"{resource.plural}/scale", "kind": "Scale", "group": "autoscaling", "version": "v1"}
        entries.append({**part, **scale})
    if resource == PODS:
        eviction = {"name": "pods/eviction", "kind": "Eviction", "group": "policy", "version": "v1"}
        entries.append({**part, **eviction, "verbs": ["create"]})
    return entries
