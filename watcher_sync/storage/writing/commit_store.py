# SPDX-License-Identifier: Apache-2.0
"""What a commit cycle writes through.

Two implementations: :class:`~watcher_sync.storage.writing.store.Store`, with a transaction for each commit, and
:class:`~watcher_sync.storage.writing.locked.LockedStore`, inside one transaction that locks the journal's head.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol

import sqlalchemy as sa

from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.writing.commits import Commit


class CommitStore(Protocol):
    """Writes commits, and reads what the cycle needs for them."""

    tables: Tables

    def connect(self) -> AbstractContextManager[sa.Connection]:
        """A connection for reading, for the length of the block.

        :raises DatabaseUnavailable: the database is unavailable, when connecting or in the block.
        """

    def commit(self, commit: Commit) -> None:
        """Write everything or nothing.

        :raises HeadMoved: another writer committed first; nothing was written.
        :raises LeaseLost: the fence is no longer valid; nothing was written.
        :raises RowRefused: a value can never be written; nothing was written.
        :raises DatabaseUnavailable: the database is unavailable.
        """

    def ping(self) -> None:
        """:raises DatabaseUnavailable: the database does not answer."""

    def persist_last_seen(self, seen: Mapping[str, Mapping[str, datetime]]) -> None:
        """Write kind -> id -> the time when an entity was last seen.

        :raises DatabaseUnavailable: the database is unavailable.
        """
