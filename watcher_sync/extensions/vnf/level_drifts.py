# SPDX-License-Identifier: Apache-2.0
"""VNF instances whose pods match no level, or whose sync a failed operation holds back, and since when.

The evaluation writes the state of an instance with its pods, so the tables have it. The time is that of the last change
of the state in the journal. If the journal no longer has it, the time is when the instance was last observed to change.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from watcher_sync.model.kinds import PROJECT_FIELD
from watcher_sync.storage.database.pages import DecodedPage, bounded_page
from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.writing.journal import is_of_kind, journal_page

KIND: Final = "vnf_instance"
STATES: Final = ("DRIFTED", "OUT_OF_RANGE", "UNRESOLVED", "HELD_BACK")
"""The states of an instance that an operator has to decide about."""

_NAMES: Final = ("id", "name", "cluster", "state", "observed_at")


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
) -> DecodedPage[LevelDrift]:
    """One page of the instances, by id: at most ``limit``, whose results have about 8 MiB, but at least one.

    :param after: the last id of the page before.
    :param cluster: only those of one cluster; None: of all.
    :param project_id: only those of one project; None: of all.
    """
    table = tables.entities[KIND]
    results = table.c.vdu_results
    wanted = (table.c.state.in_(STATES), table.c.observed_at.is_not(None), table.c.id > after)
    query = sa.select(*(table.c[name] for name in _NAMES), sa.type_coerce(results, sa.Text())).where(*wanted)
    if cluster is not None:
        query = query.where(table.c.cluster == cluster)
    if project_id is not None:
        query = query.where(table.c[PROJECT_FIELD] == project_id)
    documents = {len(_NAMES): results}
    page = bounded_page(connection, query, [table.c.id], limit, key=table.c.id, documents=documents)
    since = _since(connection, tables, [row[0] for row in page.rows])

    def drift(row: Sequence[Any]) -> LevelDrift:
        *columns, text = row
        found = dict(zip(_NAMES, columns, strict=True))
        observed_at = found.pop("observed_at")
        found["vdu_results"] = msgspec.json.decode(text) if text else {}
        return LevelDrift(**found, since=since.get(found["id"], observed_at))

    return DecodedPage(map(drift, page.rows), page.more)


def _since(connection: sa.Connection, tables: Tables, ids: Collection[str]) -> dict[str, datetime.datetime]:
    """When the state of each instance last changed, as far as the journal has it."""
    t = tables.journal
    found: dict[str, datetime.datetime] = {}
    for entity_id in ids:
        where = [
            t.c.entity_id == entity_id,
            is_of_kind(t, KIND),
            sa.type_coerce(t.c.delta, sa.Text()).contains('"state":'),
        ]
        for row in journal_page(connection, tables, where, _MAX_ROWS, descending=True).rows:
            change = row.undecoded()
            if "state" in change.delta:
                found[entity_id] = change.time
                break
    return found


_MAX_ROWS: Final = 20
"""Rows of one instance that are read. A row may have the text in another field than the state."""
