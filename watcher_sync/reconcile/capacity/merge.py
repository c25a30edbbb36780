# SPDX-License-Identifier: Apache-2.0
"""Which provider's value counts where several providers report one host. Pure functions.

The providers have an order. Each field, and each resource class of ``inventories``, has the value of the first
provider that reports it. What a provider wrote before the start of the process counts until it reports again. Its
name is in ``capacity_source`` of the host.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from watcher_sync.model.entities import ComputeNode
from watcher_sync.reconcile.capacity.base import HostCapacity

SCALARS: Final = (
    "vcpus",
    "memory_mb",
    "disk_gb",
    "reserved_vcpus",
    "reserved_memory_mb",
    "reserved_disk_gb",
    "vcpu_ratio",
    "memory_ratio",
    "disk_ratio",
)

Reports = Mapping[str, Mapping[str, HostCapacity | None]]
"""Provider -> host -> what it reported last. A provider that has not reported yet is absent, and None is a host for
which the stored values count."""


def merged(node: ComputeNode, order: Sequence[str], reports: Reports) -> dict[str, Any]:
    """Return the fields of the facet ``capacity`` of one host.

    :param order: the providers by precedence.
    """
    before = sources_of(node)
    values: dict[str, Any] = dict.fromkeys(SCALARS)
    inventories: dict[str, Any] = {}
    sources = []
    for name, reported in _reported(node, order, before, reports):
        contributes = False
        for field in SCALARS:
            if values[field] is None and reported[field] is not None:
                values[field] = reported[field]
                contributes = True
        for resource_class, inventory in (reported["inventories"] or {}).items():
            if resource_class not in inventories:
                inventories[resource_class] = inventory
                contributes = True
        if contributes:
            sources.append(name)
    values["inventories"] = inventories or None
    values["capacity_source"] = ",".join(sources) or None
    return values


def sources_of(node: ComputeNode) -> list[str]:
    """Return the providers that the stored fields of a host come from."""
    return node.capacity_source.split(",") if node.capacity_source else []


def _reported(
    node: ComputeNode, order: Sequence[str], before: Sequence[str], reports: Reports
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what each provider reports of the host, by precedence."""
    stored = {field: getattr(node, field) for field in (*SCALARS, "inventories")}
    for name in order:
        found = reports.get(name, {}).get(node.id)
        if found is not None:
            yield name, _plain(found)
        elif name in before and (name not in reports or node.id in reports[name]):
            yield name, stored


def _plain(reported: HostCapacity) -> dict[str, Any]:
    found = {field: getattr(reported, field) for field in SCALARS}
    inventories = reported.inventories or {}
    return {**found, "inventories": {name: msgspec.to_builtins(one) for name, one in inventories.items()}}
