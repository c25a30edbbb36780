# SPDX-License-Identifier: Apache-2.0
"""The journal for any number of outlets of one process: one query for each wake-up, whatever their number.

An outlet reads from its own position (:meth:`JournalReader.read`). Rows that are new for all come from memory. A
position that the retention has purged raises :class:`~watcher_sync.exceptions.JournalPurged`, so no outlet skips a
change unnoticed. PostgreSQL announces commits; other databases are polled.
"""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

from watcher_sync.read.journal_tail import JournalTail
from watcher_sync.storage.schema.tables import Tables


class JournalReader(JournalTail):
    """Reads the journal until it is stopped. Used by all threads."""

    def __init__(self, database: sa.Engine, tables: Tables, *, interval: float, busy_seconds: float = 0.0) -> None:
        """:param interval: seconds between two polls where the database announces nothing.

        :param busy_seconds: a pause after a read of many rows.
        """
        self._wakes: tuple[Callable[[], None], ...] = ()
        super().__init__(
            database,
            tables,
            interval=interval,
            listen=True,
            busy_seconds=busy_seconds,
            idle_seconds=None,
            on_change=self._wake_all,
        )

    def subscribe(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Have a function called after each change of the head. Return the function that ends this.

        :param wake: called by the reader's thread; it returns at once and does not raise.
        """
        with self._changed:
            self._wakes = (*self._wakes, wake)
        return lambda: self._unsubscribe(wake)

    def _unsubscribe(self, wake: Callable[[], None]) -> None:
        with self._changed:
            self._wakes = tuple(each for each in self._wakes if each is not wake)

    def _wake_all(self) -> None:
        for wake in self._wakes:
            wake()
