# SPDX-License-Identifier: Apache-2.0
"""A short write by a process without a replica: it locks the journal's head, then reads, then commits.

An engine dispatches on its replica without a lock and learns at its commit whether another writer was first. A
process without a replica would have to read the tables and commit before the head moves, which it rarely can under
load. So this process first updates the head's row without changing it. Until the transaction
ends, no other writer commits, and the commit's compare-and-swap matches. Engines wait for these milliseconds, find
the head moved, read the journal and dispatch again.

In :class:`LockedStore`, a commit is a savepoint of this transaction. If the database refuses a value, only the
savepoint is undone.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator, Mapping

import sqlalchemy as sa

from watcher_sync.storage.database.database import translated
from watcher_sync.storage.table_model import TableModel
from watcher_sync.storage.writing import journal
from watcher_sync.storage.writing.commits import Commit
from watcher_sync.storage.writing.entity_rows import write_last_seen
from watcher_sync.storage.writing.store import Store


class LockedStore:
    """A store inside a transaction that locks the journal's head. One thread, one transaction.

    It implements :class:`~watcher_sync.storage.writing.commits.CommitStore`.
    """

    def __init__(self, store: Store, connection: sa.Connection) -> None:
        """:param store: prepares the statements; it compiled them once.

        :param connection: in the transaction that locks the head.
        """
        self.tables = store.tables
        self.sites = store.sites
        self._store = store
        self._connection = connection

    @contextlib.contextmanager
    def connect(self) -> Iterator[sa.Connection]:
        """The connection of the transaction; it stays open after the block.

        :raises DatabaseUnavailable: the database is unavailable; nothing of the transaction will be written.
        """
        with translated():
            yield self._connection

    def commit(self, commit: Commit) -> None:
        """Write everything or nothing into the transaction.

        :raises RowRefused: a value can never be written; nothing of this commit was written.
        :raises DatabaseUnavailable: the database is unavailable; nothing of the transaction will be written.
        """
        prepared = self._store.prepare(commit, self.connect)
        with translated(), self._connection.begin_nested():
            self._store.write(self._connection, prepared)

    def head(self) -> int:
        """The seq of the journal's last row.

        :raises DatabaseUnavailable: the database does not answer.
        """
        with translated():
            return journal.read_head(self._connection, self.tables)

    def persist_last_seen(self, seen: Mapping[str, Mapping[str, datetime.datetime]]) -> None:
        """Write kind -> id -> the time when an entity was last seen, into the transaction.

        :raises DatabaseUnavailable: the database is unavailable; nothing of the transaction will be written.
        """
        with translated():
            write_last_seen(self._connection, self.tables, self._store.kinds, seen)


@contextlib.contextmanager
def lock_head(store: Store) -> Iterator[tuple[LockedStore, TableModel]]:
    """Lock the journal's head. The end of the block commits everything and unlocks the head.

    :returns: the store and the model inside the transaction.
    :raises DatabaseUnavailable: the database is unavailable; nothing is written. If the transaction's own commit
        fails, it is unknown whether the database wrote it.
    """
    with translated(), store.commits.connect() as connection, connection.begin():
        journal.lock_head(connection, store.tables)
        yield LockedStore(store, connection), TableModel(connection, store.tables, store.kinds)
