# SPDX-License-Identifier: Apache-2.0
"""Publishes the journal on the log of one outlet, in a thread of its own.

The publisher with the lease opens the outlet, which says what the log has. It continues there if the journal has all
that follows. It begins with a snapshot if not:

* the log has nothing, or half of a snapshot;
* the journal's retention has purged what follows;
* the database went back in time: its epoch, or its change there, is another;
* the options that choose the changes are others.

The cursor in the database says how far the journal was read, also where no change was wanted. After an error of the
log, the publisher closes the outlet and opens it again after a pause.
"""

from __future__ import annotations

import datetime
import itertools
import math
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from oslo_log import log as logging

from watcher_sync.backoff import Backoff
from watcher_sync.exceptions import HistoryChanged, JournalPurged, LeaseLost, WatcherSyncError, interrupts, text_of
from watcher_sync.log import base, cursors
from watcher_sync.log.base import LogChange, LogPosition, Outlet, OutletError
from watcher_sync.log.change_log import ChangeLog, ChangeLogs, LoggedRow, snapshot_of
from watcher_sync.log.cursors import OutletCursor
from watcher_sync.log.leadership import PublisherLease
from watcher_sync.log.metrics import OutletStats
from watcher_sync.log.selection import OutletSelection
from watcher_sync.read.journal_reader import JournalReader
from watcher_sync.storage.writing.store import Store

LOG = logging.getLogger(__name__)

BATCH: Final = 500
"""Journal rows, or entities of a snapshot, that are published at once."""
_WAIT_SECONDS: Final = 0.2
_CURSOR_SECONDS: Final = 1.0
"""Between two writes of a cursor that moves."""
_IDLE_SECONDS: Final = 5.0
"""Between two writes of one that does not move, which show that the publisher runs."""
_VERIFY_SECONDS: Final = 5.0
"""Between two verifications of the log, also while nothing is published."""
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 10.0
"""Shorter than ``[monitoring] stale_after``, so that an outlet that fails does not count as gone."""


class OutletPublisher:
    """One outlet of this process."""

    def __init__(
        self,
        outlet: Outlet,
        driver: str,
        selection: OutletSelection,
        lease: PublisherLease,
        store: Store,
        reader: JournalReader,
        logs: ChangeLogs,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stats = OutletStats(outlet.name)
        self._outlet = outlet
        self._driver = driver
        self._selection = selection
        self._lease = lease
        self._store = store
        self._reader = reader
        self._logs = logs
        self._monotonic = monotonic
        self._backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"outlet-{outlet.name}", daemon=True)
        # Of the thread alone.
        self._token = 0
        self._log: ChangeLog | None = None
        self._cursor: OutletCursor | None = None
        self._written_at = 0.0
        self._written_seq = 0

    def start(self) -> None:
        """Start the threads; returns at once."""
        self._lease.thread.start()
        self._thread.start()

    def begin_stop(self) -> None:
        """Publish no further batch."""
        self._stopping.set()

    def join(self, timeout: float) -> None:
        """Wait for the batch under way, at most so many seconds, and give the lease back."""
        self._thread.join(timeout)
        self._lease.thread.stop(timeout)

    def is_alive(self) -> bool:
        """Whether both threads run."""
        return self._thread.is_alive() and self._lease.thread.is_alive()

    def _run(self) -> None:
        while not self._stopping.is_set():
            token = self._lease.wait(_WAIT_SECONDS)
            self.stats.is_publishing = token is not None
            if token is None:
                continue
            self._token, self._cursor, error = token, None, None
            try:
                self._publish()
            except BaseException as exc:
                if interrupts(exc):
                    self._close()
                    raise
                error = exc
            self._log = None
            self._close()
            if isinstance(error, LeaseLost):
                LOG.info("outlet %s: %s", self._outlet.name, error)
                self._stopping.wait(_WAIT_SECONDS)  # until the thread of the lease has noticed it, too
            elif error is not None:
                self._failed(error)
        self.stats.is_publishing = False
        self._report(cursors.STOPPED, "")

    def _close(self) -> None:
        """Close the outlet. A plugin that raises there must not end the thread, whose lease would remain."""
        try:
            self._outlet.close()
        except Exception as exc:
            LOG.warning("outlet %s: closing it failed: %s", self._outlet.name, text_of(exc), exc_info=exc)

    def _publish(self) -> None:
        """Publish until an error, the loss of the lease, or the stop."""
        outlet = self._outlet
        known = cursors.read_outlet(self._store.database, outlet.name)
        if known is not None and (not known.epoch or known.selection != self._selection.digest):
            known = None
        self._cursor = self._new_cursor(known)
        durable = {} if known is None else {outlet.partition: LogPosition(known.epoch, known.published_seq)}
        found = outlet.open(durable).get(outlet.partition)
        place = None if known is None or outlet.lacks_snapshot else self._place(known, found)
        try:
            if found is not None:
                self._logs.require_continued(found)
            if place is None:
                self._publish_snapshot(_why_snapshot(outlet, found))
            else:
                self._begin(place, found or place)
            verified_at = -math.inf
            while not self._stopping.is_set():
                if self._monotonic() - verified_at >= _VERIFY_SECONDS:
                    outlet.verify()
                    verified_at = self._monotonic()
                self._publish_next()
        except (JournalPurged, HistoryChanged) as exc:
            # The next round begins with a snapshot, because the cursor has no epoch.
            LOG.warning("outlet %s: a new snapshot follows: %s", outlet.name, text_of(exc))
            if isinstance(exc, HistoryChanged):
                self._store.renew_epoch(exc.before)
            self._write(self._new_cursor(None))

    def _place(self, known: OutletCursor, found: LogPosition | None) -> LogPosition | None:
        """After which row of the journal to continue; None: with a snapshot."""
        if found is None or found.epoch != known.epoch:
            return None
        if found.seq == known.published_seq:
            return LogPosition(known.epoch, known.seq)
        if found.seq < known.published_seq:
            LOG.warning(
                "outlet %s: the log ends at seq %d, not %d: published again from there",
                self._outlet.name,
                found.seq,
                known.published_seq,
            )
        return found

    def _begin(self, place: LogPosition, found: LogPosition) -> None:
        self._log = self._logs.at(place)
        self._move(place, found.seq)
        LOG.info("outlet %s: publishes what follows seq %d", self._outlet.name, place.seq)

    def _publish_next(self) -> None:
        """Publish the next rows of the journal, or wait for them."""
        assert self._cursor is not None
        cursor = self._cursor
        rows = self._read(cursor)
        if not rows:
            self._save()
            self._reader.wait(cursor.seq, _WAIT_SECONDS, cursor.epoch)
            self._require_lease()
            return
        changes = list(self._selection.changes(rows))
        published = self._send(changes) if changes else cursor.published_seq
        self._cursor = msgspec.structs.replace(cursor, seq=rows[-1].seq, published_seq=published)
        self.stats.changes += len(changes)
        self.stats.seq = rows[-1].seq
        self._backoff.succeeded()
        self._save()

    def _read(self, cursor: OutletCursor) -> list[LoggedRow]:
        """The next rows, from the log that all outlets share if it has them.

        :raises JournalPurged, HistoryChanged: the journal does not have them any more.
        """
        position = LogPosition(cursor.epoch, cursor.seq)
        self._log = self._logs.shared_at(position) or self._log
        assert self._log is not None
        try:
            return self._log.read(cursor.seq, BATCH)
        except JournalPurged:  # the other outlets are so far ahead that the shared log no longer has the rows
            self._log = self._logs.at(position)
            return self._log.read(cursor.seq, BATCH)

    def _send(self, changes: list[LogChange]) -> int:
        """Publish changes. Return the seq that is durable."""
        self._require_lease()
        durable = self._outlet.publish(changes).get(self._outlet.partition)
        last = changes[-1]
        if durable is None or durable[:2] != (last.epoch, last.seq):
            raise OutletError(f"the log has {durable}, not {last.position}, after the changes were published")
        return durable.seq

    def _publish_snapshot(self, why: str) -> None:
        """Publish the model as it is, and continue from there."""
        log, found, position = self._logs.snapshot()
        when = position.time or self._store.time.now()
        self._write(self._new_cursor(None))
        LOG.info("outlet %s: publishes a snapshot at seq %d, because %s", self._outlet.name, position.seq, why)
        entities = self._selection.snapshot(snapshot_of(self._store.kinds, found, position, when))
        count = 0
        for batch in _batches(itertools.chain([self._mark(base.SNAPSHOT_BEGIN, position, when)], entities)):
            if self._stopping.is_set():
                return
            self._require_lease()
            self._outlet.publish(batch)
            count += len(batch)
            self._save()
        self._send([self._mark(base.SNAPSHOT_END, position, when)])
        self._log = log
        self._move(position, position.seq)
        self.stats.snapshots += 1
        self.stats.changes += count - 1
        LOG.info("outlet %s: published a snapshot of %d entities", self._outlet.name, count - 1)

    def _mark(self, change: str, position: LogPosition, when: datetime.datetime) -> LogChange:
        partition = self._outlet.partition
        return LogChange(partition=partition, epoch=position.epoch, seq=position.seq, change=change, time=when)

    def _require_lease(self) -> None:
        """:raises LeaseLost: this process must not publish."""
        if self._lease.token() != self._token:
            raise LeaseLost("the lease has ended, so another process may publish")

    def _new_cursor(self, known: OutletCursor | None) -> OutletCursor:
        """What this publisher begins with.

        :param known: the row that is valid; None: a snapshot is needed.
        """
        now = self._store.time.now()
        return OutletCursor(
            outlet=self._outlet.name,
            driver=self._driver,
            partition=self._outlet.partition,
            token=self._token,
            selection=self._selection.digest,
            epoch="" if known is None else known.epoch,
            seq=0 if known is None else known.seq,
            published_seq=0 if known is None else known.published_seq,
            state=cursors.SNAPSHOT if known is None else cursors.PUBLISHING,
            since=now,
            host=socket.gethostname(),
            pid=os.getpid(),
            updated_at=now,
        )

    def _move(self, position: LogPosition, published: int) -> None:
        """Write that changes are published from a position on."""
        self._cursor = msgspec.structs.replace(
            self._new_cursor(None),
            epoch=position.epoch,
            seq=position.seq,
            published_seq=published,
            state=cursors.PUBLISHING,
        )
        self._write(self._cursor)
        self.stats.seq = position.seq

    def _save(self) -> None:
        """Write the cursor if it is time."""
        cursor = self._cursor
        if cursor is None:
            return
        seconds = _CURSOR_SECONDS if cursor.seq != self._written_seq else _IDLE_SECONDS
        if self._monotonic() - self._written_at >= seconds:
            self._write(msgspec.structs.replace(cursor, updated_at=self._store.time.now()))

    def _write(self, cursor: OutletCursor) -> None:
        cursors.write_outlet(self._store.database, cursor)
        self._cursor = cursor
        self._written_at, self._written_seq = self._monotonic(), cursor.seq

    def _failed(self, error: BaseException) -> None:
        """Report a failure, and wait."""
        is_known = isinstance(error, (WatcherSyncError, OSError))
        if not self._backoff.failures or not is_known:
            traceback = None if is_known else error
            LOG.warning("outlet %s: failed, retrying: %s", self._outlet.name, text_of(error), exc_info=traceback)
        self.stats.failures += 1
        self._report(cursors.FAILED, text_of(error))
        self._stopping.wait(self._backoff.failed())

    def _report(self, state: str, detail: str) -> None:
        """Write the state into the row, if the database answers."""
        if (cursor := self._cursor) is None:
            return
        try:
            now = self._store.time.now()
            since = cursor.since if cursor.state == state else now
            self._write(msgspec.structs.replace(cursor, state=state, detail=detail, since=since, updated_at=now))
        except WatcherSyncError as exc:
            LOG.debug("outlet %s: the state was not written: %s", self._outlet.name, exc)


def _why_snapshot(outlet: Outlet, found: LogPosition | None) -> str:
    if found is None:
        return "the log has none"
    return "a new reader needs one" if outlet.lacks_snapshot else "the log has another selection or epoch"


def _batches(changes: Iterable[LogChange]) -> Iterable[list[LogChange]]:
    iterator = iter(changes)
    while batch := list(itertools.islice(iterator, BATCH)):
        yield batch
