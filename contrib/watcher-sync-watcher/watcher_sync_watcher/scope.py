# SPDX-License-Identifier: Apache-2.0
"""Applies an audit's scope as Watcher does, with the aggregates, zones and volume types of the model's document.

Watcher's scopes ask Nova and Cinder each time. Here the answers come from the document that the model was built from,
so the scope is of the same moment as the model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from watcher.decision_engine.scope import base, compute, storage

from watcher_sync_watcher.request import Document


@dataclasses.dataclass(frozen=True)
class Aggregate:
    """What a scope reads of an aggregate of Nova."""

    id: int | None
    name: str | None
    hosts: Sequence[str]


@dataclasses.dataclass(frozen=True)
class Service:
    """What a scope reads of a compute service of Nova."""

    host: str
    zone: str | None


@dataclasses.dataclass(frozen=True)
class Backend:
    """What a scope reads of a service of Cinder."""

    host: str
    availability_zone: str | None


class Places:
    """The aggregates and services of one document, with the interface of Watcher's NovaHelper."""

    def __init__(self, document: Document) -> None:
        self._aggregates = [Aggregate(a["number"], a["name"], a["hosts"] or ()) for a in document["aggregates"]]
        self._services = [Service(node["id"], node["availability_zone"]) for node in document["compute_nodes"]]

    def get_aggregate_list(self) -> list[Aggregate]:
        """All aggregates."""
        return self._aggregates

    def get_service_list(self) -> list[Service]:
        """The compute services."""
        return self._services

    def hosts_of(self, rules: Sequence[dict[str, Any]]) -> set[str]:
        """The hosts that the rules of a scope name by aggregate or zone, as Watcher's NovaModelBuilder finds them."""
        hosts: set[str] = set()
        for rule in rules:
            wanted = rule.get("host_aggregates") or ()
            ids = {entry["id"] for entry in wanted if "id" in entry}
            names = {entry["name"] for entry in wanted if "name" in entry}
            everything = "*" in ids or "*" in names
            for aggregate in self._aggregates:
                if everything or aggregate.id in ids or aggregate.name in names:
                    hosts.update(aggregate.hosts)
            zones = {entry["name"] for entry in rule.get("availability_zones") or ()}
            hosts.update(s.host for s in self._services if s.zone in zones or "*" in zones)
        return hosts


class Backends:
    """The storage backends and volume types of one document, with the interface of Watcher's CinderHelper."""

    def __init__(self, document: Document) -> None:
        self._backends = [Backend(entry["id"], entry["availability_zone"]) for entry in document["storage_backends"]]
        # Cinder lists no private types to Watcher.
        self._types = [entry for entry in document["volume_types"] if entry["is_public"]]

    def get_storage_node_list(self) -> list[Backend]:
        """The backends."""
        return self._backends

    def get_volume_type_by_backendname(self, backendname: str) -> list[str]:
        """The names of the public volume types of a backend."""
        return [
            entry["name"]
            for entry in self._types
            if (entry["extra_specs"] or {}).get("volume_backend_name") == backendname
        ]


class _DocumentScope(base.BaseScope):
    """Asks the model's own document where Watcher's scope asks a service."""

    def __init__(self, scope: Any, config: Any) -> None:
        base.BaseScope.__init__(self, scope, config)  # those of Watcher's scopes connect to the service

    def get_scoped_model(self, cluster_model: Any) -> Any:
        """The model without what the scope leaves out."""
        self.wrapper = getattr(cluster_model, "places", None)
        return super().get_scoped_model(cluster_model)


class ComputeDocumentScope(_DocumentScope, compute.ComputeScope):
    """Watcher's scope of hosts and servers."""


class StorageDocumentScope(_DocumentScope, storage.StorageScope):
    """Watcher's scope of storage."""

    def _collect_vtype(self, volume_types: Any, allowed_nodes: Any, *_: Any) -> None:
        """Watcher calls it with the model, which its own method does not take."""
        super()._collect_vtype(volume_types, allowed_nodes)
