# SPDX-License-Identifier: Apache-2.0
"""The fields ``used_*`` and ``free_*`` of a compute node in answers, computed from its instances on each read.

They are not part of the entity: no table, journal row or event has them. A page costs one more query, and none where
the request chooses other fields.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import sqlalchemy as sa

from watcher_sync.api.http.schemas import Schema
from watcher_sync.model.allocations import RESOURCES, capacity_of_fields, free_of
from watcher_sync.read.host_usage import read_used
from watcher_sync.storage.schema.tables import Tables

KIND: Final = "compute_node"

_UNITS: Final = {"vcpus": "Virtual CPUs", "memory_mb": "Memory, MiB,", "disk_gb": "Disk, GiB,"}

_CAPACITY: Final = tuple(name for names in RESOURCES.values() for name in names)

FIELDS: Final[Mapping[str, Schema]] = {
    **{
        f"used_{resource}": {
            "anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}],
            "description": f"{unit} that the instances use, as allocations of Nova count; null: an amount is unknown.",
        }
        for resource, unit in _UNITS.items()
    },
    **{
        f"free_{resource}": {
            "anyOf": [{"type": "integer"}, {"type": "null"}],
            "description": f"{unit} that are free: (total - reserved) * ratio - used; null: a part is unknown.",
        }
        for resource, unit in _UNITS.items()
    },
}
"""Field -> its schema."""


def columns(names: Iterable[str]) -> tuple[str, ...]:
    """The columns from which the chosen ones of these fields are computed."""
    return () if FIELDS.keys().isdisjoint(names) else ("id", *_CAPACITY)


def add(connection: sa.Connection, tables: Tables, rows: Collection[dict[str, Any]], names: Iterable[str]) -> None:
    """Add the chosen ones of these fields to rows that :func:`columns` names the columns of."""
    if FIELDS.keys().isdisjoint(names):
        return
    used = read_used(connection, tables, [row["id"] for row in rows])
    for row in rows:
        here = used[row["id"]]
        free = free_of(capacity_of_fields(row), here)
        for resource in RESOURCES:
            row[f"used_{resource}"] = getattr(here, resource)
            row[f"free_{resource}"] = getattr(free, resource)


def tag(row: Mapping[str, Any]) -> str:
    """What the fields add to the tag of an entity: another text for other values."""
    return "".join(f".{row[f'used_{resource}']}" for resource in RESOURCES).replace("None", "-")
