# SPDX-License-Identifier: Apache-2.0
"""What the watch stream reads from the database. Used by a pool of threads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from watcher_sync.extensions.watch.authentication import Caller
from watcher_sync.extensions.watch.model.resources import Describer
from watcher_sync.extensions.watch.model.topics import WatchTopic, is_name
from watcher_sync.extensions.watch.topic_rows import WatchPositions, WatchTopics
from watcher_sync.extensions.watch.wire.topic_links import parts_of
from watcher_sync.extensions.watch.worker import WatchStore
from watcher_sync.read.reading import oldest_seq
from watcher_sync.read.row_entities import values_at
from watcher_sync.storage.database.database import translated
from watcher_sync.storage.writing.journal import JournalRow, read_head
from watcher_sync.storage.writing.store import Store

_MAX_IDS = 500
"""Ids in one statement."""


def stored_of(store: Store, describer: Describer) -> WatchStore:
    """What a worker reads from a store."""
    topics = StoredTopics(store)
    values = RowValues(store, describer)
    return WatchStore(topics, topics.existing, values.read, lambda: first_sequence(store))


class StoredTopics:
    """The topics and the positions of their REST catch-up."""

    def __init__(self, store: Store) -> None:
        self._database = store.database
        self._table = store.tables.watch_topics
        self._topics = WatchTopics(store.database, store.tables)
        self._positions = WatchPositions(store.database, store.tables)

    def find(self, self_link: str, caller: Caller) -> WatchTopic | None:
        """The topic that a caller means by this path; None: it may watch none.

        :raises SeveralTopics: the caller may watch several of this name, and none is of its project.
        :raises DatabaseUnavailable: the database is unavailable.
        """
        parts = parts_of(self_link)
        if parts is None or not is_name(parts[1]):
            return None
        return self._topics.find(parts[1], parts[0], project_id=caller.project_id, may_see=caller.may_watch)

    def last_served(self, topic: WatchTopic, caller: Caller) -> int | None:
        """The last sequence that REST served to the caller within 10 minutes; None: it served none.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        return self._positions.find(topic.id, caller.project_id or "", caller.user_id)

    def existing(self, ids: Iterable[str]) -> frozenset[str]:
        """Which of these topics exist.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        wanted, found = list(ids), set[str]()
        with translated(), self._database.connect() as connection:
            for start in range(0, len(wanted), _MAX_IDS):
                part = wanted[start : start + _MAX_IDS]
                found.update(connection.scalars(sa.select(self._table.c.id).where(self._table.c.id.in_(part))))
        return frozenset(found)


class RowValues:
    """The names and scopes of entities at journal rows."""

    def __init__(self, store: Store, describer: Describer) -> None:
        self._store = store
        self._tables = store.tables
        self._fields = describer.fields

    def read(self, rows: Sequence[JournalRow]) -> Mapping[int, Mapping[str, Any]]:
        """Seq -> field -> value.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        # The present rows and the later rows of the journal must be of one state.
        with self._store.connect_stable(short=True) as connection:
            return values_at(connection, self._tables, self._fields, rows)


def first_sequence(store: Store) -> int:
    """The first sequence of the journal; one after the last, if the journal is empty.

    :raises DatabaseUnavailable: the database is unavailable.
    """
    with translated(), store.database.connect() as connection:
        first = oldest_seq(connection, store.tables)
        return read_head(connection, store.tables) + 1 if first is None else first
