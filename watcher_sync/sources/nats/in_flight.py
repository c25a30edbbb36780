# SPDX-License-Identifier: Apache-2.0
"""What a JetStream source has in its hands: every message from its delivery until it is settled.

Three threads meet here. The loop's delivers and settles, the emitting one takes what has arrived, the engine's
says what is acked or released. Only the queue of arrived messages needs a lock, because the emitting thread
sleeps on it; what the engine says goes through a deque, and the table of what is in hand is the loop's alone.

Guaranteed: a message is in the queue once, however often it is delivered while in hand, and its settlement goes
to the latest delivery. A settlement of another epoch than the present one is dropped: the server knows a message
by its sequence only, and in a stream that was made anew the same number is another message.

What is to be emitted alone is put aside until its turn comes: it is in hand, and prolonged like all the rest. If it
ends the engine, one more delivery is counted for what is aside beside it, too. So the turns go up from the lowest
sequence one time and down from the highest the next, as the deliveries are counted: what waited behind the one that
ended the engine is before it the next time.
"""

from __future__ import annotations

import collections
import threading
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from watcher_sync.events import Event
from watcher_sync.sources.nats.consumer import GIVE_BACK, Arrived

Key = tuple[int, int]
"""(epoch, sequence): one message."""

ACK: Final = b"+ACK"
PROLONG: Final = b"+WPI"

LONGEST_DELAY: Final = 60.0
"""Seconds after which a released message is delivered again, at most."""


class InFlight:
    """The messages that are delivered and not settled.

    :param stopping: set once nothing is to be emitted any more.
    """

    def __init__(self, stopping: threading.Event) -> None:
        self._stopping = stopping
        # Guards the queue; notified when something arrives and at the stop.
        self._changed = threading.Condition()
        self._arrived: collections.deque[tuple[int, Arrived]] = collections.deque()
        # Appending and taking are atomic. None: acked, else the seconds of the release.
        self._settled: collections.deque[tuple[Sequence[Event], float | None]] = collections.deque()
        # The loop's alone: where the settlement goes.
        self._replies: dict[Key, str] = {}
        # The loop's alone: which of them wait for their turn to be emitted alone.
        self._aside: dict[Key, Arrived] = {}

    # Any thread

    def settle(self, events: Sequence[Event], delay: float | None) -> None:
        """These are done with: acked, or with a delay released."""
        self._settled.append((events, delay))

    def waiting(self) -> int:
        """How many messages wait to be emitted."""
        return len(self._arrived)

    def wake(self) -> None:
        """Have :meth:`take` look whether it is to stop."""
        with self._changed:
            self._changed.notify_all()

    # The emitting thread

    def take(self, most: int, linger: float) -> list[tuple[int, Arrived]] | None:
        """(epoch, message) of what has arrived, in order, at least one; None at the stop.

        :param linger: seconds to wait for ``most`` of them once there is one.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._arrived or self._stopping.is_set())
            if linger > 0 and len(self._arrived) < most:
                self._changed.wait_for(lambda: len(self._arrived) >= most or self._stopping.is_set(), linger)
            if self._stopping.is_set():
                return None
            return [self._arrived.popleft() for _ in range(min(most, len(self._arrived)))]

    # The loop's thread

    def __len__(self) -> int:
        """How many messages are delivered and not settled."""
        return len(self._replies)

    @property
    def empty(self) -> bool:
        """Whether everything is settled."""
        return not self._replies

    @property
    def aside(self) -> int:
        """How many of them wait for :meth:`emit_one_aside`."""
        return len(self._aside)

    def deliver(self, epoch: int, arrived: Arrived) -> None:
        """A message came; it is emitted unless it is in hand already."""
        if not self._is_known(epoch, arrived):
            self._arrive(epoch, arrived)

    def put_aside(self, epoch: int, arrived: Arrived) -> None:
        """A message came that is to be emitted alone; it is put aside unless it is in hand already."""
        if not self._is_known(epoch, arrived):
            self._aside[epoch, arrived.sequence] = arrived

    def emit_one_aside(self) -> None:
        """Have one of those that are put aside emitted."""
        turn = max(arrived.deliveries for arrived in self._aside.values())
        key = min(self._aside) if turn % 2 else max(self._aside)
        self._arrive(key[0], self._aside.pop(key))

    def _is_known(self, epoch: int, arrived: Arrived) -> bool:
        """Whether it was in hand before; it is now."""
        key = (epoch, arrived.sequence)
        known = key in self._replies
        self._replies[key] = arrived.message.reply
        return known

    def _arrive(self, epoch: int, arrived: Arrived) -> None:
        with self._changed:
            self._arrived.append((epoch, arrived))
            if len(self._arrived) == 1:
                self._changed.notify_all()

    def settlements(self, epoch: int | None) -> Iterator[tuple[str, bytes]]:
        """(subject, payload) of each publish that settles what the engine is done with.

        :param epoch: of the stream as it is now; None when nobody can be told, and all is only forgotten.
        """
        while self._settled:
            events, delay = self._settled.popleft()
            for event in events:
                key = event.sequence
                reply = self._replies.pop(key, None) if key is not None else None
                if key is None or reply is None or key[0] != epoch:
                    continue
                yield reply, (ACK if delay is None else _later(delay, event.deliveries))

    def unemitted(self, epoch: int | None) -> list[str]:
        """Where to give back what has arrived and is not emitted; it is in hand no more."""
        with self._changed:
            keys = [(came, arrived.sequence) for came, arrived in self._arrived]
            self._arrived.clear()
        keys += self._aside
        self._aside.clear()
        replies = [(key, self._replies.pop(key, "")) for key in keys]
        return [reply for (came, _), reply in replies if came == epoch and reply]

    def rest(self, epoch: int) -> list[str]:
        """Where to give back what is still in hand at the end; it is in hand no more."""
        replies = self.held(epoch)
        self._replies.clear()
        return replies

    def held(self, epoch: int) -> list[str]:
        """Where to prolong what is in hand."""
        return [reply for (came, _), reply in self._replies.items() if came == epoch]


def _later(delay: float, deliveries: int) -> bytes:
    """The settlement that has a message delivered again, later each time."""
    seconds = min(LONGEST_DELAY, delay * 2.0 ** min(deliveries - 1, 30))
    if seconds <= 0:
        return GIVE_BACK
    return GIVE_BACK + b" " + msgspec.json.encode({"delay": int(seconds * 1e9)})
