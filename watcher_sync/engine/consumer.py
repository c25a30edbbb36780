# SPDX-License-Identifier: Apache-2.0
"""Take a batch, have it committed, ack it: again and again, while the engine leads.

While the database is away nothing is acked and nothing more is taken in: the batch in hand is tried
again with back-off, at less than one attempt a second, and the sources are held back by the intake.

While whole batches wait, each is dispatched while the database works at the one before it, and several share a
transaction: see :mod:`watcher_sync.commit.pipeline`.
"""

from __future__ import annotations

import collections
import threading
import time
from collections.abc import Sequence

from oslo_config import cfg

from watcher_sync.commit.cycle import Batch, CommitCycle
from watcher_sync.commit.pipeline import Pipeline
from watcher_sync.engine.database_health import FIRST_RETRY, DatabaseHealth, pauses
from watcher_sync.engine.intake import JOINED, Intake
from watcher_sync.events import Event
from watcher_sync.exceptions import DatabaseUnavailable, LeaseLost
from watcher_sync.sources.base import Source

_FLOW = 2.0
"""Seconds after which the engine looks after other things than batches, however many wait."""

_REDELIVER = 1.0
"""Seconds after which what was not committed may be delivered again."""

Taken = Sequence[tuple[Source, Sequence[Event]]]
"""Events of one batch, with the sources that they are acked to."""


class ShutdownState:
    """Whether the engine is to come to its end, by when, and whether it may still write. For any thread."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.lost = threading.Event()
        """The lease is somebody else's."""
        self.deadline = 0.0
        """Of the monotonic clock; of no meaning before one of the two is set."""


class ConsumeLoop:
    """What the engine's thread does while it leads."""

    def __init__(
        self, conf: cfg.ConfigOpts, intake: Intake, cycle: CommitCycle, *, outage: DatabaseHealth, ending: ShutdownState
    ) -> None:
        self._conf = conf
        self._intake = intake
        self._cycle = cycle
        self._outage = outage
        self._ending = ending
        self._last_followed = 0.0

    def step(self, *, timeout: float) -> bool:
        """One batch, or, while whole ones wait, one upon the other; False when there was none.

        Without a batch, evaluate what is due.

        :param timeout: seconds to wait for one.
        """
        size, linger = self._conf.engine.batch_size, self._conf.engine.batch_linger
        due = self._cycle.evaluation.seconds_until_due()
        taken = self._intake.take(size, linger=linger, timeout=min(timeout, due))
        if not taken:
            if self._cycle.evaluation.seconds_until_due() <= 0:
                self._commit(Batch(events=()))
            return False
        if self._is_pressed():
            self._flow(taken)
        else:
            committed = False
            try:
                committed = self._commit(_batch(taken))
            finally:
                self._settle(taken, committed)
        return True

    def follow_if_due(self) -> None:
        """Once an interval: take in what other writers committed."""
        now = time.monotonic()
        if now - self._last_followed < self._conf.engine.follow_interval:
            return
        self._last_followed = now
        try:
            self._cycle.catch_up()
            self._outage.ends()
        except DatabaseUnavailable as exc:
            self._outage.begins(exc)
            self._ending.asked.wait(FIRST_RETRY)
        except LeaseLost:
            self._ending.lost.set()

    def release(self, taken: Taken) -> None:
        """Give back what is not committed."""
        self._settle(taken, committed=False)

    def _is_pressed(self) -> bool:
        """Whether a whole batch waits."""
        return self._intake.waiting() >= int(self._conf.engine.batch_size)

    def _flow(self, taken: Taken) -> None:
        """Dispatch each batch while the database works at the one before it, and join those that wait."""
        in_hand: collections.deque[Taken] = collections.deque()

        def settle(one: Taken, committed: bool) -> None:
            in_hand.popleft()
            if committed:
                self._outage.ends()
            self._settle(one, committed)

        def again(batch: Batch | None) -> bool:
            return self._commit(batch or Batch(events=()), uncertain=True)

        pipeline = Pipeline(self._cycle, again=again, settle=settle)
        stopping = self._ending.asked.is_set()
        until = self._ending.deadline if stopping else time.monotonic() + _FLOW
        try:
            while taken:
                in_hand.append(taken)
                pipeline.add(taken, _batch(taken))
                turns = self._ending.lost.is_set() or self._ending.asked.is_set() is not stopping
                if turns or time.monotonic() >= until or not self._is_pressed():
                    break
                taken = self._intake.take(JOINED * self._conf.engine.batch_size, linger=0, timeout=0)
        finally:
            try:
                pipeline.end()
            finally:
                for one in in_hand:
                    self.release(one)

    def _settle(self, taken: Taken, committed: bool) -> None:
        for source, events in taken:
            if committed:
                source.ack(events)
            else:
                source.nack(events, _REDELIVER)
            self._intake.done(source, len(events))

    def _commit(self, batch: Batch, *, uncertain: bool = False) -> bool:
        """Commit, through any outage; False when it must be given up.

        :param uncertain: the journal may be past the model, perhaps by this very batch.
        """
        for pause in pauses():
            try:
                if uncertain:
                    self._cycle.catch_up()
                self._cycle.run(batch)
            except DatabaseUnavailable as exc:
                uncertain = True
                self._outage.begins(exc)
                if self._ending.lost.is_set() or self._wait_to_retry(pause):
                    return False
                continue
            except LeaseLost:
                self._ending.lost.set()
                return False
            self._outage.ends()
            return True
        return False

    def _wait_to_retry(self, pause: float) -> bool:
        """Wait; True when the time to stop came meanwhile."""
        if not self._ending.asked.wait(pause):
            return False
        left = self._ending.deadline - time.monotonic()
        if left <= 0:
            return True
        time.sleep(min(pause, left))
        return time.monotonic() >= self._ending.deadline


def _batch(taken: Taken) -> Batch:
    return Batch(events=[e for _, events in taken for e in events], cursors=_cursors(taken))


def _cursors(taken: Taken) -> dict[str, str]:
    """source -> the position after the last of its events in the batch."""
    cursors: dict[str, str] = {}
    for source, events in taken:
        position = source.cursor(events)
        if position is not None:
            cursors[source.name] = position
    return cursors
