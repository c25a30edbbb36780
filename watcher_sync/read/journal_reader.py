# SPDX-License-Identifier: Apache-2.0
"""One thread reads new journal rows for all readers of a process.

The thread waits for the journal's head to move, and reads each new row once. It caches the last rows, bounded in number
and bytes, and wakes the waiting readers. So the number of readers costs the database nothing. A reader that lags by
more than the cache reads the table itself. A position that the retention has purged raises
:class:`~watcher_sync.exceptions.JournalPurged`, so no reader skips a change unnoticed.

The first waiting reader starts the thread, also after a fork. The thread retries while the database is unavailable.
PostgreSQL announces commits; other databases are polled.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator

import sqlalchemy as sa
from oslo_log import log as logging

from watcher_sync.exceptions import HistoryChanged, JournalPurged
from watcher_sync.periodic import Outage
from watcher_sync.read.journal_signal import JournalSignal
from watcher_sync.storage.database.database import translated
from watcher_sync.storage.database.sqlite_file import is_replaced
from watcher_sync.storage.epochs import Position, continues, read_position, renew_epoch
from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.writing.journal import JournalRow, StoredRow, read_stored

LOG = logging.getLogger(__name__)

MAX_CACHED_ROWS = 5000
"""Rows in memory. A stream that lags by fewer rows does not read the table."""

MAX_CACHED_BYTES = 33_554_432
"""Bytes of the deltas of these rows, as JSON."""

_CHUNK_BYTES = 4_194_304

_CHUNK_ROWS = 1000
_RETRY_SECONDS = 1.0
_HELD_SECONDS = 5.0
_MANY_ROWS = 200
"""New rows at one read that show a load: 4,000 changes a second with a poll every 50 ms."""


class JournalReader:
    """The end of the journal, for all readers of a process. Used by all threads."""

    def __init__(
        self,
        database: sa.Engine,
        tables: Tables,
        *,
        interval: float,
        busy_seconds: float = 0.0,
        idle_seconds: float | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """:param interval: seconds between two polls of the journal's head, where the database announces nothing.

        :param busy_seconds: a pause after a read of many rows, which leaves the machine to the engine.

        :param idle_seconds: the thread ends after this time without a waiting reader; None: at :meth:`stop` only.
        """
        self._engine = database
        self._tables = tables
        self._monotonic = monotonic
        self._busy_seconds = busy_seconds
        self._idle_seconds = idle_seconds
        self._signal = JournalSignal(database, interval)
        self._stopped = False
        # Guards everything below, and is notified when the head moves.
        self._changed = threading.Condition()
        self._head = -1
        """The seq up to which the thread has read; -1: the thread has not read yet."""
        self._known: Position | None = None
        """The position of the last commit that the thread has read."""
        self._furthest: Position | None = None
        """The last position that the thread or a reader has read: a reader of the table may be ahead of the thread."""
        self._rows: collections.deque[StoredRow] = collections.deque()
        self._bytes = 0
        """The sum of their sizes."""
        self._wakes: tuple[Callable[[], None], ...] = ()
        self._waiting = 0
        self._last_wait = 0.0
        self._thread: threading.Thread | None = None
        # Of the thread alone.
        self._held: sa.Connection | None = None
        self._held_until = 0.0

    def start(self) -> None:
        """Start the thread, if no reader waits yet."""
        with self._changed:
            self._last_wait = self._monotonic()
            self._run_thread()

    def stop(self) -> None:
        """Stop the thread for good; returns when it has ended, or after 5 seconds."""
        self._stopped = True
        self._signal.interrupt()
        thread = self._thread
        if thread is not None:
            thread.join(5)

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

    def is_alive(self) -> bool:
        """Whether the thread runs."""
        thread = self._thread
        return thread is not None and thread.is_alive()

    def head(self) -> int:
        """Reads the seq of the last committed change from the database.

        :raises DatabaseUnavailable: when the database does not answer.
        """
        return self.position().seq

    def position(self) -> Position:
        """Reads the position of the last commit from the database.

        :raises DatabaseUnavailable: when the database does not answer.
        """
        with translated(), self._engine.connect() as connection:
            head = read_position(connection, self._tables)
        with self._changed:
            self._furthest = self._furthest or head
            if not self.is_of(head.epoch):
                self._clear()  # before the thread notices: a reader of the new epoch must not get these rows
        return head

    def is_of(self, epoch: str | None) -> bool:
        """Whether the last commit that the thread has read is of an epoch; True while it is not known."""
        known = self._known
        return known is None or epoch is None or known.epoch == epoch

    def read(self, since: int, limit: int = _CHUNK_ROWS) -> list[JournalRow]:
        """Returns the rows after ``since`` without a gap, from the cache or the table. It does not wait.

        It returns at most ``limit`` rows and about 4 MiB, but at least one row if there is one.

        :raises JournalPurged: when the journal does not reach back that far.
        :raises DatabaseUnavailable: when the database does not answer.
        """
        return [row.decoded() for row in self.read_stored(since, limit)]

    def read_continued(self, known: Position, since: int, limit: int = _CHUNK_ROWS) -> list[StoredRow]:
        """Returns the rows of :meth:`read`, not decoded, if they continue the history that led to a position.

        The caller may have read more than the thread has, which then cannot notice another history.

        :param known: at ``since``, or before it.
        :raises HistoryChanged: the database has another history; its epoch may still be the same.
        """
        if self._has_cached(known) and (rows := self.cached_stored(since, limit)):
            return rows
        with translated(), self._engine.connect() as connection:
            try:
                rows = read_stored(connection, self._tables, since, limit, _CHUNK_BYTES)
            finally:  # also if the journal of another history ends before
                head = read_position(connection, self._tables)
                if not continues(connection, self._tables, head, known):
                    raise HistoryChanged(known, head)
            return rows

    def _has_cached(self, known: Position) -> bool:
        """Whether the cache has the last row of a commit. What follows it there is of its history."""
        with self._changed:
            rows = self._rows
            if known.mark is None or not rows or not rows[0].seq <= known.seq <= rows[-1].seq:
                return False
            return rows[known.seq - rows[0].seq].undecoded().mark == known.mark

    def read_stored(self, since: int, limit: int = _CHUNK_ROWS) -> list[StoredRow]:
        """Returns the rows of :meth:`read`, not decoded."""
        if rows := self.cached_stored(since, limit):
            return rows
        with translated(), self._engine.connect() as connection:
            rows = read_stored(connection, self._tables, since, limit, _CHUNK_BYTES)
            last = self._furthest
            if last is None or not rows or rows[-1].seq <= last.seq:
                return rows
            head = read_position(connection, self._tables)
            is_same = continues(connection, self._tables, head, last)
        if is_same:  # if not, the thread notices it in a moment, and this must not hide it
            row = rows[-1].undecoded()
            with self._changed:
                if self._furthest is last:
                    self._furthest = Position(last.epoch, row.seq, row.mark, row.time)
        return rows

    def cached(self, since: int, limit: int = _CHUNK_ROWS) -> list[JournalRow]:
        """Returns what :meth:`read` does if the rows are in memory; otherwise nothing, without a query."""
        return [row.decoded() for row in self.cached_stored(since, limit)]

    def cached_stored(self, since: int, limit: int = _CHUNK_ROWS) -> list[StoredRow]:
        """Returns the rows of :meth:`cached`, not decoded."""
        with self._changed:
            rows = self._rows
            if not rows or not rows[0].seq <= since + 1 <= rows[-1].seq:
                return []
            begin = since + 1 - rows[0].seq
            return self._cached(begin, min(begin + limit, len(rows)))

    def seen(self) -> int:
        """The seq up to which the thread has read; -1: it has not read yet."""
        with self._changed:
            return self._head

    def _cached(self, begin: int, end: int) -> list[StoredRow]:
        """These rows of the cache, as far as a chunk goes."""
        rows = list(itertools.islice(self._rows, begin, end))
        total = itertools.accumulate(row.size for row in rows)
        return [row for row, size in zip(rows, total, strict=True) if size - row.size < _CHUNK_BYTES]

    def wait(self, since: int, seconds: float, epoch: str | None = None) -> bool:
        """Waits until the head is past ``since``, the epoch is another one, or the time is over.

        :param epoch: the epoch of ``since``; None: any.
        :returns: whether the head is past ``since``.
        """
        deadline = self._monotonic() + seconds
        with self._changed:
            self._waiting += 1
            try:
                self._run_thread()
                while self._head <= since and self.is_of(epoch):
                    left = deadline - self._monotonic()
                    if left <= 0 or not self._changed.wait(left):
                        break
                return self._head > since
            finally:
                self._waiting -= 1
                self._last_wait = self._monotonic()

    def _run_thread(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._head, self._known = -1, None
            self._clear()
            self._thread = threading.Thread(target=self._poll_until_idle, name="journal", daemon=True)
            self._thread.start()

    def _clear(self) -> None:
        self._rows.clear()
        self._bytes = 0

    def _poll_until_idle(self) -> None:
        """Runs in the thread until it is stopped, or no reader has waited for a time."""
        outage = Outage(LOG, "journal: database unavailable", "journal: database recovered")
        count, is_behind = 0, False
        while not self._stopped:
            try:
                count, is_behind = self._read_new()
                if outage.reason:
                    outage.succeeded()
            except Exception as exc:  # noqa: BLE001 - the edge of the thread
                outage.failed(exc)
            with self._changed:
                idle = not self._waiting and self._idle_seconds is not None
                if idle and self._monotonic() - self._last_wait > (self._idle_seconds or 0):
                    self._thread = None
                    break
            if outage.reason:
                time.sleep(_RETRY_SECONDS)
                continue
            if is_behind:
                continue
            if _MANY_ROWS <= count < MAX_CACHED_ROWS:
                self._signal.pause(self._busy_seconds)
            self._signal.wait()
        self._signal.close()
        self._release()

    def _read_new(self) -> tuple[int, bool]:
        """Reads the new rows into the cache, and wakes the waiting readers.

        :returns: the number of rows, and whether the journal has more, because one read is limited.
        """
        known, last = self._known, self._furthest
        rows: list[StoredRow] = []
        with translated(), self._reading() as connection:
            head = read_position(connection, self._tables)
            if head == known and (last is None or last.seq <= head.seq):
                return 0, False
            is_same = last is None or continues(connection, self._tables, head, last)
            if known is not None and is_same and known.seq < head.seq:
                with contextlib.suppress(JournalPurged):
                    rows = read_stored(connection, self._tables, known.seq, MAX_CACHED_ROWS, MAX_CACHED_BYTES)
        if last is not None and not is_same:
            new = self._begin_again(last)
            if new is None:
                return 0, False
            head = new
        is_behind = bool(rows) and rows[-1].seq < head.seq
        if rows:
            head = Position(head.epoch, rows[-1].seq, rows[-1].undecoded().mark)
        with self._changed:
            if not rows or (self._rows and self._rows[-1].seq + 1 != rows[0].seq):
                self._clear()
            self._rows.extend(rows)
            self._bytes += sum(row.size for row in rows)
            while len(self._rows) > MAX_CACHED_ROWS or (self._bytes > MAX_CACHED_BYTES and len(self._rows) > 1):
                self._bytes -= self._rows.popleft().size
            self._head, self._known = head.seq, head
            last = self._furthest
            if not is_same or last is None or last.seq <= head.seq:
                self._furthest = head
            self._changed.notify_all()
        for wake in self._wakes:
            wake()
        if known is not None:
            self._signal.moved()
        return len(rows), is_behind

    def _begin_again(self, known: Position) -> Position | None:
        """The database has another history than the thread has read: it gets a new epoch, if it has none yet.

        :returns: its position; None: it was behind for a moment.
        """
        with translated(), self._engine.begin() as connection:
            if not renew_epoch(connection, self._tables, known):
                return None
        head = self.position()
        LOG.warning("journal: the database went back in time, or was replaced: it continues at %s, not %s", head, known)
        return head

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        """A connection of the thread. SQLite has no pool there, and to open a file costs more than to poll it.

        After some seconds the file is opened again. A file that replaced it is opened at once.
        """
        if self._engine.dialect.name != "sqlite":
            with self._engine.connect() as connection:
                yield connection
            return
        if self._monotonic() >= self._held_until or (self._held is not None and is_replaced(self._held)):
            self._release()
        if self._held is None:
            self._held = self._engine.connect()
            self._held_until = self._monotonic() + _HELD_SECONDS
        try:
            yield self._held
            self._held.rollback()
        except BaseException:
            self._release()
            raise

    def _release(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.close()
