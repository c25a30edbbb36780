# SPDX-License-Identifier: Apache-2.0
"""The journal as it grows, for everybody in this process who waits for it.

One thread looks at the journal's head every ``[api] feed_poll_interval`` seconds, and only while somebody
waits; what is new it reads once, keeps for a while (:data:`MAX_CACHED_ROWS` rows) and wakes the waiting. So 64 idle
streams cost the database ten one-row queries a second, not 640. A reader that is further behind than what
is kept reads the table itself, in its own thread.

Every waiting request occupies a thread of the WSGI server, so there are only so many places
(``[api] max_streams``); who finds none is told to come again.

The thread begins with the first who waits: after every fork, so a preloaded application works as well. It is a daemon,
survives an absent database, and ends when nobody has waited for a minute.
"""

from __future__ import annotations

import collections
import threading
import time
from collections.abc import Callable

import sqlalchemy as sa
from oslo_log import log as logging

from watcher_sync.api.core.problems import Problem
from watcher_sync.exceptions import JournalPurged, StorageError
from watcher_sync.storage.database import translated
from watcher_sync.storage.journal import JournalRow, read_head, read_since
from watcher_sync.storage.tables import Tables

LOG = logging.getLogger(__name__)

MAX_CACHED_ROWS = 5000
"""Rows that are kept in memory; a stream that lags less reads no table."""

_CHUNK_ROWS = 1000
_IDLE_SECONDS = 60.0


class Slot:
    """The right to occupy a thread for a stream. Returned once."""

    def __init__(self, give_back: Callable[[], None]) -> None:
        self._give_back: Callable[[], None] | None = give_back

    def release(self) -> None:
        """Give it back."""
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back()

    def __del__(self) -> None:
        self.release()


class Feed:
    """Waits for journal rows on behalf of all streams of a process. Any thread."""

    def __init__(
        self,
        engine: sa.Engine,
        tables: Tables,
        *,
        slots: int,
        interval: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """:param slots: streams at a time.

        :param interval: seconds between two looks at the journal.
        """
        self._engine = engine
        self._tables = tables
        self._slots = slots
        self._interval = interval
        self._monotonic = monotonic
        # Guards everything below, and is notified when the head moves.
        self._changed = threading.Condition()
        self._free = slots
        self._head = -1
        """The seq up to which the thread has read; -1: it does not run."""
        self._rows: collections.deque[JournalRow] = collections.deque(maxlen=MAX_CACHED_ROWS)
        self._waiting = 0
        self._last_wait = 0.0
        self._thread: threading.Thread | None = None

    def take_slot(self) -> Slot:
        """A slot for one stream or long poll.

        :raises Problem: 503 when all are taken.
        """
        with self._changed:
            if self._free <= 0:
                detail = f"All {self._slots} streams of this process are taken"
                raise Problem(503, detail, headers={"Retry-After": "5"})
            self._free -= 1
        return Slot(self._return_slot)

    def head(self) -> int:
        """The seq of the last committed change, as the database has it now.

        :raises DatabaseUnavailable: when it is away.
        """
        with translated(), self._engine.connect() as connection:
            return read_head(connection, self._tables)

    def read(self, since: int, limit: int = _CHUNK_ROWS) -> list[JournalRow]:
        """The rows after ``since`` that are there now, gapless.

        :raises JournalPurged: when the journal does not reach back that far.
        :raises DatabaseUnavailable: when the database is away.
        """
        with self._changed:
            rows = self._rows
            if rows and rows[0].seq <= since + 1 <= rows[-1].seq:
                begin = since + 1 - rows[0].seq
                return [rows[i] for i in range(begin, min(begin + limit, len(rows)))]
        with translated(), self._engine.connect() as connection:
            return read_since(connection, self._tables, since, limit)

    def wait(self, since: int, seconds: float) -> bool:
        """Wait until the head is past ``since``; whether it is."""
        deadline = self._monotonic() + seconds
        with self._changed:
            self._waiting += 1
            try:
                self._run_thread()
                while self._head <= since:
                    left = deadline - self._monotonic()
                    if left <= 0 or not self._changed.wait(left):
                        return self._head > since
                return True
            finally:
                self._waiting -= 1
                self._last_wait = self._monotonic()

    def _return_slot(self) -> None:
        with self._changed:
            self._free += 1

    def _run_thread(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._head = -1
            self._rows.clear()
            self._thread = threading.Thread(target=self._follow, name="journal-feed", daemon=True)
            self._thread.start()

    def _follow(self) -> None:
        failing = False
        while True:
            try:
                self._read_new()
                failing = False
            except StorageError as exc:
                if not failing:
                    LOG.warning("The journal cannot be read now: %s", exc)
                failing = True
            with self._changed:
                if not self._waiting and self._monotonic() - self._last_wait > _IDLE_SECONDS:
                    self._thread = None
                    return
            time.sleep(1.0 if failing else self._interval)

    def _read_new(self) -> None:
        """Read what is new, and wake the waiting."""
        with self._changed:
            known = self._head
        with translated(), self._engine.connect() as connection:
            head = read_head(connection, self._tables)
            if head == known:
                return
            rows: list[JournalRow] = []
            if 0 <= known < head:
                try:
                    rows = read_since(connection, self._tables, known, MAX_CACHED_ROWS)
                except JournalPurged:
                    rows = []
        with self._changed:
            if not rows or (self._rows and self._rows[-1].seq + 1 != rows[0].seq):
                self._rows.clear()
            self._rows.extend(rows)
            self._head = rows[-1].seq if rows else head
            self._changed.notify_all()
