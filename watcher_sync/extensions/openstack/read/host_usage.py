# SPDX-License-Identifier: Apache-2.0
"""The fields ``used_*`` and ``free_*`` of a compute node in answers, computed from its instances on each read.

They are not part of the entity: no table, journal row or event has them. The database sums what the instances use, in
one query for any number of hosts, and in none where the request chooses other fields.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import sqlalchemy as sa

from watcher_sync.extension import ComputedFields
from watcher_sync.extensions.openstack.allocations import NOTHING, RESOURCES, Usage, capacity_of_fields, free_of
from watcher_sync.storage.schema.tables import Tables

KIND: Final = "compute_node"

_UNITS: Final = {"vcpus": "Virtual CPUs", "memory_mb": "Memory, MiB,", "disk_gb": "Disk, GiB,"}

CAPACITY: Final = tuple(name for names in RESOURCES.values() for name in names)
"""The fields of a compute node from which its capacity is computed."""

FIELDS: Final[Mapping[str, dict[str, Any]]] = {
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
"""Field -> its JSON Schema."""


def add(connection: sa.Connection, tables: Tables, rows: Collection[dict[str, Any]]) -> None:
    """Add these fields to rows with an id and :data:`CAPACITY`."""
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


def read_used(connection: sa.Connection, tables: Tables, hosts: Collection[str]) -> dict[str, Usage]:
    """Host -> what its instances use, by the rules of :mod:`watcher_sync.extensions.openstack.allocations`.

    It reads the instances of these hosts by two indexes.
    """
    if not hosts:
        return {}
    table = tables.entities["instance"]
    ids = sorted(hosts)
    amounts = [table.c[name] for name in RESOURCES]
    here = sa.union_all(
        *(
            sa.select(table.c[field].label("at"), *amounts).where(table.c[field].in_(ids))
            for field in ("host", "source_host")
        )
    ).subquery()
    sums = [sa.func.sum(here.c[name]) for name in RESOURCES]
    unknown = [sa.func.count() - sa.func.count(here.c[name]) for name in RESOURCES]
    used = dict.fromkeys(ids, NOTHING)
    for at, *row in connection.execute(sa.select(here.c.at, *sums, *unknown).group_by(here.c.at)):
        known = zip(row[: len(sums)], row[len(sums) :], strict=True)
        used[at] = Usage(*(None if lacking else int(total) for total, lacking in known))
    return used


COMPUTED: Final = ComputedFields(
    schemas=FIELDS, columns=CAPACITY, kinds=("instance",), add=add, tag=tag, resources=tuple(RESOURCES)
)
"""The fields, as the API needs them."""
