# SPDX-License-Identifier: Apache-2.0
"""Parked events: they came before the entity that they need."""

from __future__ import annotations

import collections
import datetime
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from watcher_sync.events import MAX_PORTION_BYTES, Event
from watcher_sync.storage.database.database import retried, translated
from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.stored.stored_events import event_of
from watcher_sync.storage.writing.commits import CommitStore

Awaited = collections.Counter[tuple[str, str]]
"""(kind, id) -> how many events wait for it."""

_CHUNK_KEYS: Final = 200
_NOT_LISTED: Final = frozenset({"digest", "decoded", "body", "whole_size", "whole_digest", "actor"})

PORTION_EVENTS: Final = 500
"""Parked events that are applied in one commit."""


class Portion(msgspec.Struct):
    """Some of the events that wait for entities, in the order in which they were parked."""

    events: list[Event]
    rows: list[int]
    """The row of each."""
    keys: list[tuple[str, str]]
    """The entity that each waits for."""
    complete: list[tuple[str, str]]
    """The entities for which no further event waits."""
    last: dict[tuple[str, str], int]
    """Each other entity of these events -> the last of its rows among them."""


class ParkedEvents:
    """Reads the table of parked events; rows are added and removed by commits."""

    def __init__(self, store: CommitStore) -> None:
        self._store = store
        self._table = store.tables.parked

    def awaited(self) -> Awaited:
        """(kind, id) -> how many events wait for it.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        t = self._table
        query = sa.select(t.c.kind, t.c.entity_id, sa.func.count()).group_by(t.c.kind, t.c.entity_id)
        with self._store.connect() as connection:
            return collections.Counter({(sys.intern(kind), i): n for kind, i, n in connection.execute(query)})

    def page(self, *, after: int = 0, limit: int = 1000) -> list[dict[str, Any]]:
        """The events by id, without their bodies.

        :param after: the last id of the page before.
        :raises DatabaseUnavailable: the database is unavailable.
        """
        t = self._table
        columns = [c for c in t.columns if c.name not in _NOT_LISTED]
        query = sa.select(*columns).where(t.c.id > after).order_by(t.c.id).limit(limit)
        with self._store.connect() as connection:
            return [dict(row._mapping) for row in connection.execute(query)]

    def existing(self, keys: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
        """Those of these entities that events wait for.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        c, wanted = self._table.c, set(keys)
        found: set[tuple[str, str]] = set()
        with self._store.connect() as connection:
            for start in range(0, len(keys), _CHUNK_KEYS):
                ids = [entity_id for _, entity_id in keys[start : start + _CHUNK_KEYS]]
                query = sa.select(c.kind, c.entity_id).where(c.entity_id.in_(ids)).distinct()
                kinds = {kind for kind, _ in keys[start : start + _CHUNK_KEYS]}
                query = query.where(c.kind.in_(kinds))
                found.update((kind, entity_id) for kind, entity_id in connection.execute(query))
        return found & wanted

    def portion(self, keys: Mapping[tuple[str, str], int]) -> Portion:
        """The oldest events that wait for the first ones of these entities, of bounded number and bytes.

        :param keys: entity -> the row after which its events are wanted; 0: all of them.
        :raises DatabaseUnavailable: the database is unavailable.
        """
        c = self._table.c
        portion = Portion([], [], [], [], {})
        wanted: list[int] = []
        room, room_bytes = PORTION_EVENTS, MAX_PORTION_BYTES
        with self._store.connect() as connection:
            for key, after in keys.items():
                query = sa.select(c.id, c.size).where(c.kind == key[0], c.entity_id == key[1], c.id > after)
                found = connection.execute(query.order_by(c.id).limit(room + 1)).all()
                taken = 0
                while taken < min(room, len(found)) and room_bytes > 0:
                    room_bytes -= found[taken].size
                    taken += 1
                wanted += [row.id for row in found[:taken]]
                room -= taken
                if taken < len(found):
                    if taken:
                        portion.last[key] = found[taken - 1].id
                    break
                portion.complete.append(key)
                if room <= 0 or room_bytes <= 0:
                    break
            wanted.sort()
            for start in range(0, len(wanted), _CHUNK_KEYS):
                query = sa.select(self._table).where(c.id.in_(wanted[start : start + _CHUNK_KEYS])).order_by(c.id)
                for row in connection.execute(query):
                    portion.events.append(event_of(row))
                    portion.rows.append(row.id)
                    portion.keys.append((row.kind, row.entity_id))
        return portion


@retried
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
