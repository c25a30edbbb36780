# SPDX-License-Identifier: Apache-2.0
"""Waits until the journal's head may have moved.

PostgreSQL announces every commit (LISTEN and NOTIFY; migration 0001 has the trigger). A query every five seconds is
a safeguard. If such a query finds a change whose announcement does not arrive, a proxy drops the announcements. Then
this class polls, as it does on other databases. The commit becomes visible before its announcement, so a late one is
waited for.

For one thread; :meth:`JournalSignal.interrupt` for any.
"""

from __future__ import annotations

import threading
from typing import Any

import sqlalchemy as sa
from oslo_log import log as logging

LOG = logging.getLogger(__name__)

_CHANNEL = "watcher_sync_journal_head"
_SAFEGUARD_SECONDS = 5.0
_LATE_SECONDS = 2.0
"""An announcement may follow its commit so late, on a loaded server."""
_SLICE_SECONDS = 0.25
"""An interruption waits at most so long for a thread that listens."""


class JournalSignal:
    """Waits for the journal's next commit."""

    def __init__(self, database: sa.Engine, interval: float, *, listen: bool = True) -> None:
        """:param interval: seconds between two polls, where nothing is announced.

        :param listen: whether announcements are used where the database has them.
        """
        self._database = database
        self._interval = interval
        self._listens = listen and database.dialect.name == "postgresql"
        self._connection: Any = None
        self._interrupted = threading.Event()
        self._announced = True

    @property
    def listens(self) -> bool:
        """Whether announcements are used."""
        return self._listens

    def wait(self) -> None:
        """Return when the head may have moved: after an announcement, the interval, or an interruption.

        It returns at once after a lost connection, so that no commit is missed.
        """
        if not self._listens:
            self._interrupted.wait(self._interval)
            return
        try:
            if self._connection is None:
                self._connect()
                return
            self._announced = self._listen(_SAFEGUARD_SECONDS)
        except Exception as exc:  # noqa: BLE001 - any error of the driver: the connection is made again
            LOG.debug("journal: listening failed: %s", exc)
            self.close()
            self._interrupted.wait(self._interval)

    def pause(self, seconds: float) -> None:
        """Return after so many seconds, or an interruption. What is announced meanwhile ends the next wait."""
        self._interrupted.wait(seconds)

    def moved(self) -> None:
        """The head moved since the last wait. A move that is not announced either ends the listening."""
        if not self._listens or self._connection is None or self._announced:
            return
        try:
            # The commit may have been between the end of the wait and the query.
            self._announced = self._listen(_LATE_SECONDS)
        except Exception as exc:  # noqa: BLE001 - any error of the driver: the connection is made again
            LOG.debug("journal: listening failed: %s", exc)
            self.close()
            return
        if not self._announced:
            LOG.warning("journal: the database's announcements do not arrive; polling every %g s", self._interval)
            self._listens = False
            self.close()

    def interrupt(self) -> None:
        """End the present wait, and every later one at once."""
        self._interrupted.set()

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except Exception as exc:  # noqa: BLE001 - it is discarded in any state
                LOG.debug("journal: closing failed: %s", exc)

    def _connect(self) -> None:
        raw = self._database.raw_connection()
        connection: Any = raw.driver_connection  # a detached one has it no more
        raw.detach()
        connection.autocommit = True
        connection.execute(f"LISTEN {_CHANNEL}")
        self._connection = connection
        self._announced = True

    def _listen(self, seconds: float) -> bool:
        """Wait for an announcement. Return whether one came, or the wait was interrupted."""
        for _ in range(int(seconds / _SLICE_SECONDS)):
            if self._interrupted.is_set():
                return True
            if self._hear():
                return True
        return False

    def _hear(self) -> bool:
        return any(True for _ in self._connection.notifies(timeout=_SLICE_SECONDS, stop_after=1))
