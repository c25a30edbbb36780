# SPDX-License-Identifier: Apache-2.0
"""Deletes the drifts that are healed: the model has by now what the live system had.

A comparison finds a drift. A repair or an event may heal it long before the next comparison. Only a drift whose value
the model has now is deleted. What the live system has now, the next comparison says.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import msgspec
import sqlalchemy as sa

from watcher_sync.model.kinds import Entity, Kinds
from watcher_sync.storage.database.conflicts import retried
from watcher_sync.storage.database.database import translated
from watcher_sync.storage.drifts import DriftRow, list_drifts
from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.table_model import TableModel

_PORTION_DRIFTS = 500


def forget_healed(database: sa.Engine, tables: Tables, kinds: Kinds) -> int:
    """Delete the drifts that are healed; how many there were.

    :raises DatabaseUnavailable: the database is unavailable.
    """
    return sum(_forget(database, tables, _healed(database, tables, kinds, portion)) for portion in _portions(database))


def _portions(database: sa.Engine) -> Iterator[list[DriftRow]]:
    after = 0
    while portion := list_drifts(database, after=after, limit=_PORTION_DRIFTS):
        yield portion
        after = portion[-1].id


def _healed(database: sa.Engine, tables: Tables, kinds: Kinds, drifts: list[DriftRow]) -> list[DriftRow]:
    by_kind = sorted((d for d in drifts if d.kind in kinds), key=lambda drift: drift.kind)
    healed: list[DriftRow] = []
    with translated(), database.connect() as connection:
        model = TableModel(connection, tables, kinds)
        for kind, group in itertools.groupby(by_kind, key=lambda drift: drift.kind):
            found = list(group)
            model.prefetch(kind, {drift.entity_id for drift in found})
            healed += [drift for drift in found if _is_healed(drift, model.get(kind, drift.entity_id))]
    return healed


def _is_healed(drift: DriftRow, entity: Entity | None) -> bool:
    """Whether the model has what the live system had at the comparison."""
    if not drift.field:
        return (entity is None) is (drift.live_value is None)
    if entity is None:
        return True
    if drift.field not in entity.__struct_fields__:
        return False
    return bool(_plain(drift.field, getattr(entity, drift.field)) == drift.live_value)


def _plain(field: str, value: Any) -> Any:
    """A value in the form of a drift: as JSON types, vnfc entries by the names of their pods."""
    plain = msgspec.to_builtins(value)
    if field == "vnfc_resource_info" and isinstance(plain, list):
        return [(entry.get("computeResource") or {}).get("resourceId") for entry in plain]
    return plain


@retried
def _forget(database: sa.Engine, tables: Tables, drifts: list[DriftRow]) -> int:
    """Delete these drifts, unless a comparison changed them meanwhile."""
    if not drifts:
        return 0
    t = tables.drifts
    gone = sa.delete(t).where(t.c.id == sa.bindparam("b_id"), t.c.since == sa.bindparam("b_since"))
    with translated(), database.begin() as connection:
        return int(connection.execute(gone, [{"b_id": d.id, "b_since": d.since} for d in drifts]).rowcount)
