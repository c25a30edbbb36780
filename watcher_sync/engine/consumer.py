# SPDX-License-Identifier: Apache-2.0
"""Takes batches from the intake, commits them, and acks or nacks their events.

While the database is unavailable nothing is acked and no further batch is taken. The current batch is retried with
back-off, at less than one attempt a second. The intake holds the sources back meanwhile. :class:`DatabaseHealth` logs
each change of state once.

While whole batches wait, each one is dispatched during the commit of the one before it. Several batches share a
transaction: see :mod:`watcher_sync.commit.pipeline`. :class:`BatchPace` limits a batch to the events that the engine
commits in 0.1 seconds.
"""

from __future__ import annotations

import collections
import threading
import time
from collections.abc import Sequence

from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.backoff import Backoff
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.commit.pipeline import Pipeline
from watcher_sync.engine.intake import JOINED_BATCHES, Intake, max_batch_bytes
from watcher_sync.events import Event
from watcher_sync.exceptions import DatabaseUnavailable, HistoryChanged, LeaseLost, described, interrupts
from watcher_sync.sources.base import Source

LOG = logging.getLogger(__name__)

_TARGET_SECONDS = 0.1
_MIN_EVENTS = 20
_WEIGHT = 0.5
"""Of the last batch in the moving average."""


class BatchPace:
    """Limits a batch by a moving average of the seconds that an event takes. For the engine's thread.

    An event waits for at most two batches before its own: one in the commit and one dispatched. Some events are slow to
    apply, such as bodies of some hundred kilobytes, or a flood that goes to quarantine. A backlog of them in batches of
    a fixed number would delay the events of every other source by seconds.
    """

    def __init__(self) -> None:
        self._seconds_per_event = 0.0

    def observe(self, events: int, seconds: float) -> None:
        """Add a batch that is done.

        :param seconds: from the end of the batch before it, or from its own beginning.
        """
        if events:
            self._seconds_per_event += _WEIGHT * (seconds / events - self._seconds_per_event)

    def most(self, limit: int) -> int:
        """Return the number of events for the next batch.

        :param limit: the maximum; it is reached while events are fast.
        """
        if self._seconds_per_event * limit <= _TARGET_SECONDS:
            return limit
        return min(limit, max(_MIN_EVENTS, int(_TARGET_SECONDS / self._seconds_per_event)))


_RETRY_SECONDS = (2.4, 5.0)
"""The longest pauses. Every one exceeds one second, so an engine makes less than one attempt a second."""


class DatabaseHealth:
    """The engine's view of the database. The engine's thread writes it; any thread may read it."""

    def __init__(self) -> None:
        self.problem: str | None = None
        """Why the database is unavailable; None while it is available."""
        self._backoff = Backoff(*_RETRY_SECONDS)

    def is_unavailable(self) -> bool:
        """Whether the last attempt to use the database failed."""
        return self.problem is not None

    def mark_unavailable(self, exc: DatabaseUnavailable) -> float:
        """Record a failed attempt. The first one of an outage is logged.

        :returns: the seconds to wait before the next attempt.
        """
        if self.problem is None:
            LOG.error("The database is unavailable, retrying; no event is acknowledged until it recovers: %s", exc)
        self.problem = str(exc)
        return self._backoff.failed()

    def mark_available(self) -> None:
        """Record a successful attempt. The first one after an outage is logged."""
        if self.problem is not None:
            LOG.info("The database has recovered")
            self.problem = None
            self._backoff.succeeded()


_MAX_PIPELINED_SECONDS = 2.0
"""After this time the pipeline ends even under a backlog, so that the engine's thread can do its other work."""

_REDELIVERY_DELAY_SECONDS = 1.0
"""The delay that a nack asks of the transport before it delivers the events again."""

Taken = Sequence[tuple[Source, Sequence[Event]]]
"""The events of one batch, each group with the source that acks it."""


class ShutdownState:
    """Why and by when the engine has to end its lead. Any thread may use it."""

    def __init__(self) -> None:
        self.requested = threading.Event()
        """Set when the engine has to stop."""
        self.lease_lost = threading.Event()
        """Set when another engine took the lease; this engine must not write then."""
        self.history_changed: HistoryChanged | None = None
        """Set when the lead ends because the database went back in time. The engine's thread uses it."""
        self.deadline = 0.0
        """On the monotonic clock. Valid once ``requested`` is set or the engine drains."""

    def end_history(self, why: HistoryChanged) -> None:
        """End the lead without another commit: what is in hand belongs to a history that the database lost."""
        self.history_changed = why
        self.lease_lost.set()


class ConsumeLoop:
    """The work of the engine's thread while the engine leads."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        intake: Intake,
        cycle: CommitCycle,
        *,
        database_health: DatabaseHealth,
        shutdown: ShutdownState,
    ) -> None:
        self._conf = conf
        self._intake = intake
        self._cycle = cycle
        self._database_health = database_health
        self._shutdown = shutdown
        self._last_poll = 0.0
        self._pace = BatchPace()
        self._gave_up = False
        """Whether a batch was nacked. A later batch would store the cursor of its source after the nacked events."""

    def step(self, *, timeout: float) -> bool:
        """Commit one batch, or a pipeline of batches under a backlog; False when there was none.

        Without a batch, apply parked events whose entity has appeared, and evaluate what is due.

        :param timeout: seconds to wait for the first event.
        """
        size, linger = self._conf.engine.batch_size, self._conf.engine.batch_linger
        due = self._cycle.evaluation.seconds_until_due()
        most_bytes = max_batch_bytes(self._conf.engine)
        wait = 0.0 if self._cycle.has_ready else min(timeout, due)
        taken = self._intake.take(self._pace.most(size), linger=linger, timeout=wait, most_bytes=most_bytes)
        if not taken:
            if self._cycle.has_ready or self._cycle.evaluation.seconds_until_due() <= 0:
                self._commit(Batch(events=()))
            return False
        if self._has_backlog():
            self._run_pipelined(taken)
        else:
            committed = False
            began = time.monotonic()
            try:
                committed = self._commit(_batch(taken))
            finally:
                self._ack_or_nack(taken, committed)
            self._pace.observe(_count(taken), time.monotonic() - began)
        return True

    def poll_journal_if_due(self) -> None:
        """Apply the commits of other writers, once per ``[database] journal_poll_interval``."""
        now = time.monotonic()
        if now - self._last_poll < self._conf.database.journal_poll_interval:
            return
        self._last_poll = now
        try:
            self._cycle.catch_up()
            self._database_health.mark_available()
        except DatabaseUnavailable as exc:
            self._shutdown.requested.wait(self._database_health.mark_unavailable(exc))
        except LeaseLost:
            self._shutdown.lease_lost.set()
        except HistoryChanged as exc:
            self._shutdown.end_history(exc)

    def nack(self, taken: Taken) -> None:
        """Give uncommitted events back to their sources."""
        self._ack_or_nack(taken, committed=False)

    def _has_backlog(self) -> bool:
        """Whether at least one whole batch waits in the intake."""
        if self._intake.waiting() >= int(self._conf.engine.batch_size):
            return True
        return self._intake.bytes_waiting() >= max_batch_bytes(self._conf.engine)

    def _run_pipelined(self, taken: Taken) -> None:
        """Dispatch each batch during the commit of the one before it, until the backlog is gone."""
        in_hand: collections.deque[Taken] = collections.deque()
        last = time.monotonic()

        def settle(one: Taken, committed: bool) -> None:
            nonlocal last
            in_hand.popleft()
            now = time.monotonic()
            self._pace.observe(_count(one), now - last)
            last = now
            if committed:
                self._database_health.mark_available()
            self._ack_or_nack(one, committed)

        def again(batch: Batch | None) -> bool:
            return self._commit(batch or Batch(events=()), uncertain=True)

        pipeline = Pipeline(self._cycle, again=again, settle=settle)
        stopping = self._shutdown.requested.is_set()
        until = self._shutdown.deadline if stopping else time.monotonic() + _MAX_PIPELINED_SECONDS
        try:
            while taken:
                in_hand.append(taken)
                pipeline.add(taken, _batch(taken))
                interrupted = self._shutdown.lease_lost.is_set() or self._shutdown.requested.is_set() is not stopping
                if interrupted or time.monotonic() >= until or not self._has_backlog():
                    break
                most = self._pace.most(JOINED_BATCHES * int(self._conf.engine.batch_size))
                most_bytes = JOINED_BATCHES * max_batch_bytes(self._conf.engine)
                taken = self._intake.take(most, linger=0, timeout=0, most_bytes=most_bytes)
        finally:
            try:
                pipeline.end()
            finally:
                for one in in_hand:
                    self.nack(one)

    def _ack_or_nack(self, taken: Taken, committed: bool) -> None:
        for source, events in taken:
            try:
                if committed:
                    source.ack(events)
                else:
                    source.nack(events, _REDELIVERY_DELAY_SECONDS)
            except BaseException as exc:  # noqa: BLE001 - raised again if it is a signal
                _have_replaced(source, exc)
            self._intake.done(source, events)

    def _commit(self, batch: Batch, *, uncertain: bool = False) -> bool:
        """Commit a batch and retry through an outage; False when the engine has to give the batch up.

        After one batch that was given up, all later ones are, too.

        :param uncertain: the journal may be ahead of the model, perhaps by this very batch.
        """
        while not self._gave_up:
            try:
                if uncertain:
                    self._cycle.catch_up()
                self._cycle.run(batch)
            except DatabaseUnavailable as exc:
                uncertain = True
                delay = self._database_health.mark_unavailable(exc)
                self._gave_up = self._shutdown.lease_lost.is_set() or self._wait_to_retry(delay)
                continue
            except LeaseLost:
                self._shutdown.lease_lost.set()
                self._gave_up = True
                continue
            except HistoryChanged as exc:
                self._shutdown.end_history(exc)
                self._gave_up = True
                continue
            self._database_health.mark_available()
            return True
        return False

    def _wait_to_retry(self, delay: float) -> bool:
        """Wait ``delay`` seconds; True when the deadline of a shutdown has passed."""
        if not self._shutdown.requested.wait(delay):
            return False
        left = self._shutdown.deadline - time.monotonic()
        if left <= 0:
            return True
        time.sleep(min(delay, left))
        return time.monotonic() >= self._shutdown.deadline


def _batch(taken: Taken) -> Batch:
    return Batch(events=[e for _, events in taken for e in events], cursors=_cursors(taken))


def _count(taken: Taken) -> int:
    return sum(len(events) for _, events in taken)


def _cursors(taken: Taken) -> dict[str, str]:
    """source -> the position after the last of its events in the batch."""
    cursors: dict[str, str] = {}
    for source, events in taken:
        try:
            position = source.cursor(events)
        except BaseException as exc:  # noqa: BLE001 - raised again if it is a signal
            _have_replaced(source, exc)
            continue
        if position is not None:
            cursors[source.name] = position
    return cursors


def _have_replaced(source: Source, error: BaseException) -> None:
    """Have the supervisor replace a source that raised. Its transport repeats what it does not know as committed.

    :raises BaseException: the error, if it is a signal to the process.
    """
    if interrupts(error):
        raise error
    source.broken = described(error)
