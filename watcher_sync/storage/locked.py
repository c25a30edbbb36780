# SPDX-License-Identifier: Apache-2.0
"""A short write by a process that holds no replica: the journal's head is locked, then read, then moved.

An engine dispatches on its replica without any lock and finds out at its commit whether another writer was
first. A process without a replica would have to read the tables at one seq and hope that the head stays
there meanwhile, which under load it rarely does. So it takes the head's row first, with an update that
changes nothing: from then on nobody else commits, what the tables say is the truth at one seq, and the commit's own
compare-and-swap always matches. Engines wait for those few milliseconds, find the head moved, read the
journal and dispatch again: they are coherent without knowing of it.

:class:`LockedStore` is the store seen from inside such a transaction. A commit is a savepoint in it; a value
that the database refuses undoes the savepoint alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, cast

import sqlalchemy as sa

from watcher_sync.exceptions import DatabaseUnavailable
from watcher_sync.storage.commits import Commit
from watcher_sync.storage.database import translated
from watcher_sync.storage.reading import TableModel
from watcher_sync.storage.store import Store


class LockedStore(Store):
    """A store inside a transaction that holds the journal's head. One thread, one transaction."""

    def __init__(self, store: Store, connection: sa.Connection) -> None:
        # The statements are compiled once, by the store that is shared.
        self.__dict__.update(store.__dict__)
        self.database = cast(sa.Engine, _OneConnection(store.database, connection))
        self._connection = connection

    def commit(self, commit: Commit) -> None:
        """Write it, all or nothing, into the transaction.

        :raises RowRefused: a value can never be written; nothing of this commit was.
        :raises DatabaseUnavailable: the database is away; nothing of the transaction will be written.
        """
        connection = self._connection
        assert connection is not None
        prepared = self.prepare(commit)
        with translated(), connection.begin_nested():
            self._write(connection, prepared)

    def close(self) -> None:
        """The transaction ends where it was begun."""


class _OneConnection:
    """An engine whose only connection is the one that holds the head."""

    def __init__(self, database: sa.Engine, connection: sa.Connection) -> None:
        self.dialect = database.dialect
        self._connection = connection

    @contextlib.contextmanager
    def connect(self) -> Iterator[sa.Connection]:
        """The one connection, which stays open."""
        yield self._connection

    begin = connect


@contextlib.contextmanager
def lock_head(store: Store) -> Iterator[tuple[LockedStore, TableModel]]:
    """Lock the journal's head; it is freed, and all is committed, at the end of the block.

    :returns: the store and the model inside the transaction.
    :raises DatabaseUnavailable: when the database is away; nothing is written then. Whether a commit
        that fails reached the database is unknown.
    """
    head: Any = store.tables.journal_head
    with translated(), store.database.connect() as connection:
        store.limit_idle_transactions(connection)
        with connection.begin():
            if connection.execute(sa.update(head).values(seq=head.c.seq)).rowcount != 1:
                raise DatabaseUnavailable("the journal has no head; run db_sync")
            yield LockedStore(store, connection), TableModel(connection, store.tables, store.kinds)
