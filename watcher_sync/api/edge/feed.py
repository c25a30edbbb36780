# SPDX-License-Identifier: Apache-2.0
"""The end of the journal for the streams and long polls of a process, and how many of them there may be.

One thread reads new rows for all (:mod:`watcher_sync.read.journal_reader`). PostgreSQL announces each commit, so idle
streams cost it nothing. Other databases are polled: 64 idle streams cost 20 one-row queries a second, not 1,280.

A waiting request occupies a thread of the WSGI server. ``[api] max_streams`` limits their number; further requests get
503. ``[api] max_streams_per_identity`` limits those of one caller (429). A :class:`ResponseStream` releases the slot of
its request when the answer ends.
"""

from __future__ import annotations

import collections
import functools
import time
from collections.abc import Callable, Generator, Iterator

import sqlalchemy as sa

from watcher_sync.api.edge.rate_limits import Identity, TokenBuckets
from watcher_sync.api.http.problems import Problem
from watcher_sync.read.journal_reader import MAX_CACHED_BYTES, MAX_CACHED_ROWS, JournalReader
from watcher_sync.storage.schema.tables import Tables

_BUSY_SECONDS = 0.05
"""The pause after a read of many rows: a busy engine commits more often than streams need."""

_IDLE_SECONDS = 60.0
"""How long the thread continues without a waiting stream."""

__all__ = ["MAX_CACHED_BYTES", "MAX_CACHED_ROWS", "Feed", "ResponseStream", "Slot"]


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


class ResponseStream:
    """The chunks of one answer, made in the thread that sends them.

    The end of the answer, or of its client's connection, releases what it holds.
    """

    def __init__(self, chunks: Generator[bytes, None, None], release: Callable[[], None]) -> None:
        """:param release: called once or more often when the answer ends."""
        self._chunks = chunks
        self._release = release

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            return next(self._chunks)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends the answer. The WSGI server calls this when the client has disconnected."""
        self._chunks.close()
        self._release()


class Feed(JournalReader):
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

        :param interval: seconds between two polls of the journal's head, where the database does not announce commits.

        :param rates: limit how often an identity takes a slot; None: no limit.
        """
        super().__init__(
            engine,
            tables,
            interval=interval,
            busy_seconds=_BUSY_SECONDS,
            idle_seconds=_IDLE_SECONDS,
            monotonic=monotonic,
        )
        # The reader's lock guards these, too.
        self._slots = slots
        self._slots_per_identity = slots if slots_per_identity is None else slots_per_identity
        self._rates = rates
        self._free = slots
        self._taken: collections.Counter[Identity] = collections.Counter()
        """Identity -> its streams and long polls."""

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

    def _return_slot(self, identity: Identity) -> None:
        with self._changed:
            self._free += 1
            self._taken[identity] -= 1
            if self._taken[identity] <= 0:
                del self._taken[identity]
