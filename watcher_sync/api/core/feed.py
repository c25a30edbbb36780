# SPDX-License-Identifier: Apache-2.0
"""One thread reads new journal rows for all streams and long polls of a process.

The thread polls the journal's head while a request waits, and reads each new row once. It caches the last
rows, bounded in number and bytes, and wakes the waiting requests. So 64 idle streams cost the database ten one-row
queries a second, not 640. A request for older rows reads the table itself.

A waiting request occupies a thread of the WSGI server. ``[api] max_streams`` limits their number; further requests get
503. ``[api] max_streams_per_identity`` limits those of one caller (429).

The first waiting request starts the thread, also after a fork. The thread retries while the database is unavailable,
and ends after a minute without requests.
"""

from __future__ import annotations

import collections
import functools
import itertools
import threading
import time
from collections.abc import Callable

import sqlalchemy as sa
from oslo_log import log as logging

from watcher_sync.api.core.problems import Problem
from watcher_sync.api.core.rate_limits import Identity, TokenBuckets
from watcher_sync.exceptions import JournalPurged, StorageError
from watcher_sync.storage.database import translated
from watcher_sync.storage.journal import JournalRow, read_head, read_since
from watcher_sync.storage.tables import Tables

LOG = logging.getLogger(__name__)

MAX_CACHED_ROWS = 5000
"""Rows in memory. A stream that lags by fewer rows does not read the table."""

MAX_CACHED_BYTES = 33_554_432
"""Bytes of the deltas of these rows, as JSON."""

_CHUNK_BYTES = 4_194_304

_CHUNK_ROWS = 1000
_IDLE_SECONDS = 60.0
_RETRY_SECONDS = 1.0


class Slot:
    """The right of one stream to occupy a thread. It is released once; further calls do nothing."""

    def __init__(self, give_back: Callable[[], None]) -> None:
        self._give_back: Callable[[], None] | None = give_back

    def release(self) -> None:
        """Returns the slot to the feed."""
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back()

    def __del__(self) -> None:
        self.release()


class Feed:
    """Waits for journal rows on behalf of all streams of a process. Used by all threads."""

    def __init__(
        self,
        engine: sa.Engine,
        tables: Tables,
        *,
        slots: int,
        slots_per_identity: int | None = None,
        interval: float,
        rates: TokenBuckets | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """:param slots: the maximum number of streams and long polls at one time.

        :param slots_per_identity: the maximum of one identity; None: ``slots``.

        :param interval: seconds between two polls of the journal's head.

        :param rates: limit how often an identity takes a slot; None: no limit.
        """
        self._engine = engine
        self._tables = tables
        self._slots = slots
        self._slots_per_identity = slots if slots_per_identity is None else slots_per_identity
        self._interval = interval
        self._rates = rates
        self._monotonic = monotonic
        # Guards everything below, and is notified when the head moves.
        self._changed = threading.Condition()
        self._free = slots
        self._taken: collections.Counter[Identity] = collections.Counter()
        """Identity -> its streams and long polls."""
        self._head = -1
        """The seq up to which the thread has read; -1: the thread has not read yet."""
        self._rows: collections.deque[JournalRow] = collections.deque()
        self._sizes: collections.deque[int] = collections.deque()
        self._bytes = 0
        """The sum of the sizes, one for each row."""
        self._waiting = 0
        self._last_wait = 0.0
        self._thread: threading.Thread | None = None

    def take_slot(self, identity: Identity = ()) -> Slot:
        """Takes a slot for one stream or long poll.

        :raises Problem: 503 when no slot is free, 429 when the identity has its share, or takes slots too often.
        """
        if self._rates is not None:
            self._rates.charge(identity, "new event streams and long polls")
        with self._changed:
            if self._free > 0 and self._taken[identity] >= self._slots_per_identity:
                detail = f"All {self._slots_per_identity} streams of one caller in this process are in use"
                raise Problem(429, detail, headers={"Retry-After": "5"})
            if self._free <= 0:
                detail = f"All {self._slots} streams of this process are in use"
                raise Problem(503, detail, headers={"Retry-After": "5"})
            self._free -= 1
            self._taken[identity] += 1
        return Slot(functools.partial(self._return_slot, identity))

    def refund(self, identity: Identity) -> None:
        """Takes the charge of a long poll back. One that answers with changes is as frequent as the changes."""
        if self._rates is not None:
            self._rates.give_back(identity)

    def head(self) -> int:
        """Reads the seq of the last committed change from the database.

        :raises DatabaseUnavailable: when the database does not answer.
        """
        with translated(), self._engine.connect() as connection:
            return read_head(connection, self._tables)

    def read(self, since: int, limit: int = _CHUNK_ROWS) -> list[JournalRow]:
        """Returns the rows after ``since`` without a gap, from the cache or the table. It does not wait.

        It returns at most ``limit`` rows and about 4 MiB, but at least one row if there is one.

        :raises JournalPurged: when the journal does not reach back that far.
        :raises DatabaseUnavailable: when the database does not answer.
        """
        with self._changed:
            rows = self._rows
            if rows and rows[0].seq <= since + 1 <= rows[-1].seq:
                begin = since + 1 - rows[0].seq
                return self._cached(begin, min(begin + limit, len(rows)))
        with translated(), self._engine.connect() as connection:
            return read_since(connection, self._tables, since, limit, _CHUNK_BYTES)

    def _cached(self, begin: int, end: int) -> list[JournalRow]:
        """These rows of the cache, as far as a chunk goes."""
        total = 0
        for i, size in enumerate(itertools.islice(self._sizes, begin, end), begin + 1):
            total += size
            if total >= _CHUNK_BYTES:
                end = i
                break
        return list(itertools.islice(self._rows, begin, end))

    def wait(self, since: int, seconds: float) -> bool:
        """Waits until the head is past ``since``, or the time is over.

        :returns: whether the head is past ``since``.
        """
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

    def _return_slot(self, identity: Identity) -> None:
        with self._changed:
            self._free += 1
            self._taken[identity] -= 1
            if self._taken[identity] <= 0:
                del self._taken[identity]

    def _run_thread(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._head = -1
            self._clear()
            self._thread = threading.Thread(target=self._poll_until_idle, name="journal-feed", daemon=True)
            self._thread.start()

    def _clear(self) -> None:
        self._rows.clear()
        self._sizes.clear()
        self._bytes = 0

    def _poll_until_idle(self) -> None:
        """Runs in the feed's thread until no request has waited for :data:`_IDLE_SECONDS`."""
        failing = False
        while True:
            try:
                self._read_new()
                if failing:
                    LOG.info("journal feed: database recovered")
                failing = False
            except StorageError as exc:
                if not failing:
                    LOG.warning("journal feed: database unavailable, retrying: %s", exc)
                failing = True
            with self._changed:
                if not self._waiting and self._monotonic() - self._last_wait > _IDLE_SECONDS:
                    self._thread = None
                    return
            time.sleep(_RETRY_SECONDS if failing else self._interval)

    def _read_new(self) -> None:
        """Reads the new rows into the cache, and wakes the waiting requests."""
        with self._changed:
            known = self._head
        with translated(), self._engine.connect() as connection:
            head = read_head(connection, self._tables)
            if head == known:
                return
            rows: list[JournalRow] = []
            if 0 <= known < head:
                try:
                    rows = read_since(connection, self._tables, known, MAX_CACHED_ROWS, MAX_CACHED_BYTES)
                except JournalPurged:
                    rows = []
        sizes = [row.size() for row in rows]
        with self._changed:
            if not rows or (self._rows and self._rows[-1].seq + 1 != rows[0].seq):
                self._clear()
            self._rows.extend(rows)
            self._sizes.extend(sizes)
            self._bytes += sum(sizes)
            while len(self._rows) > MAX_CACHED_ROWS or (self._bytes > MAX_CACHED_BYTES and len(self._rows) > 1):
                self._rows.popleft()
                self._bytes -= self._sizes.popleft()
            self._head = rows[-1].seq if rows else head
            self._changed.notify_all()
