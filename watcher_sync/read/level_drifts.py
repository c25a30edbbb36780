# SPDX-License-Identifier: Apache-2.0
"""VNF instances whose pods match no level, or whose sync a failed operation holds back, and since when.

The evaluation writes the state of an instance with its pods, so the tables have it. The time is that of the last change
of the state in the journal. If the journal no longer has it, the time is when the instance was last observed to change.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from watcher_sync.model.kinds import PROJECT_FIELD
from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.writing.journal import is_of_kind

KIND: Final = "vnf_instance"
STATES: Final = ("DRIFTED", "OUT_OF_RANGE", "UNRESOLVED", "HELD_BACK")
"""The states of an instance that an operator has to decide about."""

_NAMES: Final = ("id", "name", "cluster", "state", "vdu_results", "observed_at")


class LevelDrift(msgspec.Struct, frozen=True, kw_only=True):
    """An instance that is at no level."""

    id: str
    name: str | None
    cluster: str | None
    state: str
    vdu_results: Mapping[str, Any]
    since: datetime.datetime


def list_level_drifts(
    connection: sa.Connection,
    tables: Tables,
    *,
    after: str = "",
    limit: int,
    cluster: str | None = None,
    project_id: str | None = None,
) -> list[LevelDrift]:
    """One page of the instances, by id.

    :param after: the last id of the page before.
    :param cluster: only those of one cluster; None: of all.
    :param project_id: only those of one project; None: of all.
    """
    table = tables.entities[KIND]
    wanted = (table.c.state.in_(STATES), table.c.observed_at.is_not(None), table.c.id > after)
    query = sa.select(*(table.c[name] for name in _NAMES)).where(*wanted)
    if cluster is not None:
        query = query.where(table.c.cluster == cluster)
    if project_id is not None:
        query = query.where(table.c[PROJECT_FIELD] == project_id)
    rows = connection.execute(query.order_by(table.c.id).limit(limit)).all()
    since = _since(connection, tables, [row.id for row in rows])
    return [
        LevelDrift(
            id=row.id,
            name=row.name,
            cluster=row.cluster,
            state=row.state,
            vdu_results=row.vdu_results or {},
            since=since.get(row.id, row.observed_at),
        )
        for row in rows
    ]


def _since(connection: sa.Connection, tables: Tables, ids: Collection[str]) -> dict[str, datetime.datetime]:
    """When the state of each instance last changed, as far as the journal has it."""
    t = tables.journal
    found: dict[str, datetime.datetime] = {}
    for entity_id in ids:
        query = (
            sa.select(t.c.time, t.c.delta)
            .where(t.c.entity_id == entity_id, is_of_kind(t, KIND))
            .where(sa.type_coerce(t.c.delta, sa.Text()).contains('"state":'))
            .order_by(t.c.seq.desc())
            .limit(_MAX_ROWS)
        )
        for row in connection.execute(query):
            if "state" in row.delta:
                found[entity_id] = row.time
                break
    return found


_MAX_ROWS: Final = 20
"""Rows of one instance that are read. A row may have the text in another field than the state."""
