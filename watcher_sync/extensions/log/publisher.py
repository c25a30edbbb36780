# SPDX-License-Identifier: Apache-2.0
"""Publishes the journal on the log of one outlet, in a thread of its own.

The publisher with the lease opens the outlet, and continues where the log ends if the journal has all that follows. It
publishes a snapshot if not:

* the log has nothing, or half of a snapshot;
* the journal's retention has purged what follows;
* the database went back in time;
* the options that choose the changes are others, or new readers need one. What follows in the journal comes first.

A log that ends in an epoch that the database never had is refused.

The cursor in the database says how far the journal was read. After an error the publisher opens the outlet again.
"""

from __future__ import annotations

import datetime
import itertools
import math
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec
from oslo_log import log as logging

from watcher_sync.backoff import Backoff
from watcher_sync.exceptions import HistoryChanged, JournalPurged, LeaseLost, WatcherSyncError, interrupts, text_of
from watcher_sync.extensions.log import base, cursors
from watcher_sync.extensions.log.base import LogChange, LogPosition, LogPositions, LogRefused, Outlet, OutletError
from watcher_sync.extensions.log.change_log import ChangeLog, ChangeLogs, LoggedRow, snapshot_of
from watcher_sync.extensions.log.cursors import OutletCursor
from watcher_sync.extensions.log.fitting import Fitting
from watcher_sync.extensions.log.leadership import PublisherLease
from watcher_sync.extensions.log.metrics import OutletStats
from watcher_sync.extensions.log.selection import OutletSelection
from watcher_sync.read.journal_reader import JournalReader
from watcher_sync.storage.writing.store import Store

LOG = logging.getLogger(__name__)

BATCH: Final = 500
"""Journal rows, or entities of a snapshot, that are published at once."""
_WAIT_SECONDS: Final = 0.2
QUIET_SECONDS: Final = 10.0
"""So long a log that is ahead of the database must not move before the database counts as restored."""
_REFUSED_PAUSES: Final = 1.5
"""Of that time, after a log was refused."""
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
        quiet_seconds: float = QUIET_SECONDS,
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
        self._quiet_seconds = quiet_seconds
        self._monotonic = monotonic
        self._fitting = Fitting(outlet, self.stats, monotonic)
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
        if known is not None and known.selection != self._selection.digest:
            known = None
        self._cursor = self._new_cursor(known)
        durable = {}
        if known is not None and self._logs.had_epoch(known.epoch):  # another one is that of a database that was copied
            durable = {outlet.partition: LogPosition(known.epoch, known.published_seq)}
        found = outlet.open(durable).get(outlet.partition)
        self._fitting.begin()
        try:
            place = None if found is None else self._place(known, found, durable)
            if place is None or known is None or outlet.lacks_snapshot:
                self._publish_snapshot(place, found)
            else:
                self._begin(place, found or place)
            verified_at = -math.inf
            while not self._stopping.is_set():
                if self._monotonic() - verified_at >= _VERIFY_SECONDS:
                    outlet.verify()
                    if verified_at > -math.inf:
                        self._backoff.succeeded()
                    verified_at = self._monotonic()
                self._publish_next()
        except (JournalPurged, HistoryChanged) as exc:
            # The next round begins with a snapshot, because the cursor has no selection.
            LOG.warning("outlet %s: a new snapshot follows: %s", outlet.name, text_of(exc))
            if isinstance(exc, HistoryChanged):
                self._store.renew_epoch(exc.before)
            self._write(self._new_cursor(None))

    def _place(self, known: OutletCursor | None, found: LogPosition, durable: LogPositions) -> LogPosition | None:
        """After which row of the journal to continue; None: with a snapshot.

        :raises HistoryChanged: the database went back in time.
        :raises LogRefused: another installation publishes on the log.
        """
        try:
            epoch = self._logs.require_continued(found)
        except HistoryChanged:
            self._require_quiet(found, durable)
            raise
        if found.is_in_snapshot or found.epoch != epoch:
            return None
        if known is None or known.epoch != epoch:
            return found
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

    def _require_quiet(self, found: LogPosition, durable: LogPositions) -> None:
        """Require that a log that is ahead of the database does not move.

        :raises LogRefused: it does: the database is a copy of one that publishes there, or that one is a copy.
        :raises LeaseLost: the stop, or another process publishes now.
        """
        if self._stopping.wait(self._quiet_seconds):
            raise LeaseLost("stopped before the log was known to be quiet")
        self._require_lease()
        now = self._outlet.open(durable).get(self._outlet.partition)
        if now != found:
            raise LogRefused(
                f"another installation publishes on the log, which ended at {found} and ends at {now or 'nothing'}: "
                "the database of one is a copy of the other. Give it another log, and an epoch of its own: "
                "watcher-sync-manage epoch renew"
            )

    def _begin(self, place: LogPosition, found: LogPosition) -> None:
        self._log = self._logs.at(place)
        self._move(place, found.seq)
        LOG.info("outlet %s: publishes what follows seq %d", self._outlet.name, place.seq)

    def _publish_next(self) -> None:
        """Publish the next rows of the journal, or wait for them."""
        assert self._cursor is not None
        cursor = self._cursor
        rows = self._read(cursor)
        if rows:
            self._publish_rows(cursor, rows)
            self._backoff.succeeded()
            return
        self._save()
        self._reader.wait(cursor.seq, _WAIT_SECONDS, cursor.epoch)
        self._require_lease()

    def _publish_rows(self, cursor: OutletCursor, rows: Sequence[LoggedRow]) -> OutletCursor:
        """Publish what is wanted of some rows; return the cursor after them, or where the stop has interrupted."""
        for portion in self._fitting.portions(self._selection.changes(rows)):
            if self._stopping.is_set():
                return cursor
            published = self._send(portion)
            self.stats.changes += len(portion)
            cursor = self._advance(cursor, published, published)
        return self._advance(cursor, rows[-1].seq if rows else cursor.seq, cursor.published_seq)

    def _advance(self, cursor: OutletCursor, seq: int, published: int) -> OutletCursor:
        """The journal was read up to a seq, and the log has all that is wanted of it."""
        self._cursor = moved = msgspec.structs.replace(
            cursor, seq=seq, published_seq=published, detail=self._fitting.detail
        )
        self.stats.seq = seq
        self._save()
        return moved

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
        durable = self._fitting.publish(changes).get(self._outlet.partition)
        last = changes[-1]
        if durable is None or durable[:2] != (last.epoch, last.seq):
            raise OutletError(f"the log has {durable}, not {last.position}, after the changes were published")
        return durable.seq

    def _publish_snapshot(self, place: LogPosition | None, found: LogPosition | None) -> None:
        """Publish the model as it is, and continue from there.

        :param place: where the journal continues the log; None: nowhere.
        :param found: where the log ends; None: it is empty.
        """
        self._write(self._new_cursor(None))
        log, entities, position = self._logs.snapshot()
        if place is not None and found is not None:
            self._publish_until(position, place, found)
        when = position.time or self._store.time.now()
        LOG.info(
            "outlet %s: publishes a snapshot at seq %d; the log ended at %s",
            self._outlet.name,
            position.seq,
            found or "nothing",
        )
        parts = self._selection.snapshot(snapshot_of(self._store.kinds, entities, position, when))
        count = 0
        for batch in _batches(itertools.chain([self._mark(base.SNAPSHOT_BEGIN, position, when)], parts)):
            for portion in self._fitting.portions(batch):
                if self._stopping.is_set():
                    return
                self._require_lease()
                self._fitting.publish(portion)
                count += len(portion)
                self._save()
        for portion in self._fitting.portions([self._mark(base.SNAPSHOT_END, position, when)]):
            self._send(portion)
        self._log = log
        self._move(position, position.seq)
        self.stats.snapshots += 1
        self.stats.changes += count - 1
        LOG.info("outlet %s: published a snapshot of %d entities", self._outlet.name, count - 1)

    def _publish_until(self, end: LogPosition, place: LogPosition, found: LogPosition) -> None:
        """Publish the changes up to a snapshot. Else one that is no longer in the model would reach no reader."""
        cursor = msgspec.structs.replace(
            self._new_cursor(None), epoch=place.epoch, seq=place.seq, published_seq=found.seq
        )
        try:
            self._log = self._logs.at(place)
            while cursor.seq < end.seq and not self._stopping.is_set():
                cursor = self._publish_rows(cursor, [row for row in self._read(cursor) if row.seq <= end.seq])
        except JournalPurged as exc:
            LOG.warning("outlet %s: changes before the snapshot are missing: %s", self._outlet.name, text_of(exc))

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
            selection="" if known is None else self._selection.digest,
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
            selection=self._selection.digest,
            epoch=position.epoch,
            seq=position.seq,
            published_seq=published,
            state=cursors.PUBLISHING,
            detail=self._fitting.detail,
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
        pause = self._backoff.failed()
        if isinstance(error, LogRefused):  # each attempt may disturb the publisher that the log has
            pause += _REFUSED_PAUSES * self._quiet_seconds
        self._stopping.wait(pause)

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


def _batches(changes: Iterable[LogChange]) -> Iterable[list[LogChange]]:
    iterator = iter(changes)
    while batch := list(itertools.islice(iterator, BATCH)):
        yield batch
