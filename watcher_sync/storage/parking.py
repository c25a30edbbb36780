# SPDX-License-Identifier: Apache-2.0
"""Parked events: they came before the entity that they need."""

from __future__ import annotations

import collections
import datetime
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from watcher_sync.events import Event
from watcher_sync.storage.commit_store import CommitStore
from watcher_sync.storage.database import translated
from watcher_sync.storage.stored_events import event_of
from watcher_sync.storage.tables import Tables


class ParkedEvents:
    """Reads the table of parked events; rows are added and removed by commits."""

    def __init__(self, store: CommitStore) -> None:
        self._store = store
        self._table = store.tables.parked

    def awaited(self) -> collections.Counter[tuple[str, str]]:
        """(kind, id) -> how many events wait for it.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        t = self._table
        query = sa.select(t.c.kind, t.c.entity_id, sa.func.count()).group_by(t.c.kind, t.c.entity_id)
        with self._store.connect() as connection:
            return collections.Counter({(kind, i): n for kind, i, n in connection.execute(query)})

    def read(self, keys: Sequence[tuple[str, str]]) -> tuple[list[Event], list[int]]:
        """The events that wait for these entities, in the order in which they were parked, and their rows."""
        t = self._table
        found: list[sa.Row[Any]] = []
        with self._store.connect() as connection:
            for kind, entity_id in dict.fromkeys(keys):
                query = sa.select(t).where(t.c.kind == kind, t.c.entity_id == entity_id)
                found += connection.execute(query).all()
        found.sort(key=lambda row: row.id)
        return [event_of(row) for row in found], [row.id for row in found]


def expire_parked(database: sa.Engine, tables: Tables, now: datetime.datetime) -> list[tuple[str, str, str]]:
    """Delete the events whose time is over.

    :returns: (kind, id, event type) of each.
    :raises DatabaseUnavailable: the database is unavailable.
    """
    t = tables.parked
    with translated(), database.begin() as connection:
        rows = connection.execute(
            sa.select(t.c.id, t.c.kind, t.c.entity_id, t.c.event_type).where(t.c.expires_at <= now)
        ).all()
        if rows:
            connection.execute(sa.delete(t).where(t.c.id == sa.bindparam("b_id")), [{"b_id": row.id} for row in rows])
    return [(row.kind, row.entity_id, row.event_type) for row in rows]
