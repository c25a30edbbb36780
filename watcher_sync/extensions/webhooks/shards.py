# SPDX-License-Identifier: Apache-2.0
"""Divides the shards of an outlet among its live workers, on all machines.

Each worker has a row with a beat. The others watch the beat by their own clock, as standbys of an engine do
(:mod:`watcher_sync.storage.groups.leases`). They remove the row of a dead worker, and take its shards. A worker without
its row owns nothing, until it takes shards again. A worker with more than its share gives some back. A shard's token
grows with every owner, and fences earlier owners.

A worker that was frozen does not know that time passed. So :meth:`ShardLeases.holds` compares a clock that also counts
the time of a suspended machine, and says no before any other worker may take over.
"""

from __future__ import annotations

import datetime
import math
import threading
import time
from collections.abc import Callable, Mapping

import msgspec
import sqlalchemy as sa
from oslo_log import log as logging

from watcher_sync.exceptions import RowRefused
from watcher_sync.extensions.webhooks.rows import OUTLET, SHARDS
from watcher_sync.periodic import Outage, PeriodicThread
from watcher_sync.storage.database.database import retried, translated
from watcher_sync.storage.groups.leases import is_dead_here, process_name
from watcher_sync.storage.schema.tables import Tables

LOG = logging.getLogger(__name__)

_MARGIN = 0.2
"""The part of the lease time that a worker stops sending before its lease ends."""


def boot_time() -> float:
    """Seconds since the start of the machine, suspended time included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class ShardOwnership(msgspec.Struct, frozen=True):
    """What one heartbeat found."""

    shards: Mapping[int, int] = {}
    """shard -> token, of all that this worker owns."""
    excess: int = 0
    """How many of them other live workers should own."""


class ShardLeases:
    """The shards of one worker. Any thread may use it."""

    def __init__(
        self,
        database: sa.Engine,
        tables: Tables,
        *,
        seconds: float,
        name: str | None = None,
        outlet: str = OUTLET,
        shards: int = SHARDS,
        clock: Callable[[], float] = boot_time,
    ) -> None:
        """:param seconds: how long a beat may rest before its worker counts as dead."""
        self.name = name or process_name()
        self.seconds = seconds
        self._database = database
        self._workers = tables.outlet_workers
        self._table = tables.outlet_shards
        self._outlet = outlet
        self._count = shards
        self._clock = clock
        self._seen: dict[str, tuple[int, float]] = {}
        # Held while the rows of this worker are written, so that a beat does not undo what is given back meanwhile.
        self._writing = threading.Lock()
        # Guards the two below.
        self._lock = threading.Lock()
        self._owned: dict[int, int] = {}
        self._valid_until = -math.inf

    def holds(self, shard: int, token: int | None = None) -> bool:
        """Whether this worker may send deliveries of a shard now.

        :param token: the one under which the caller loaded the shard; None: any.
        """
        with self._lock:
            owned = self._owned.get(shard)
            return owned is not None and token in (None, owned) and self._clock() < self._valid_until

    @property
    def owned(self) -> dict[int, int]:
        """shard -> token, as of the last heartbeat."""
        with self._lock:
            return dict(self._owned)

    @retried
    def beat(self) -> ShardOwnership:
        """Show that this worker runs, and take the shards that it should have.

        :raises DatabaseUnavailable: the database is unavailable; the shards remain until the lease ends.
        """
        with self._writing:
            began = self._clock()
            with translated():
                was_alive = self._increment_beat()
                shards, free, live = self._read_workers()
            owned = {shard: token for shard, (owner, token) in shards.items() if owner == self.name}
            if not was_alive:
                # Another worker may be about to take these. The new tokens decide who has them.
                free, owned = free | owned.keys(), {}
            share = math.ceil(self._count / max(1, live))
            for shard in sorted(free):
                if len(owned) >= share:
                    break
                token = shards[shard][1] if shard in shards else 0
                if self._take(shard, token, exists=shard in shards):
                    owned[shard] = token + 1
            with self._lock:
                self._owned = dict(owned)
                self._valid_until = began + self.seconds * (1 - _MARGIN)
            return ShardOwnership(owned, max(0, len(owned) - share))

    def give_back(self, shards: list[int]) -> None:
        """Let other workers take these shards at once. Their deliveries must not be sent any more.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        with self._writing:
            with self._lock:
                tokens = {shard: self._owned.pop(shard) for shard in shards if shard in self._owned}
            t = self._table
            with translated(), self._database.begin() as connection:
                for shard, token in tokens.items():
                    connection.execute(
                        sa.update(t)
                        .where(t.c.outlet == self._outlet, t.c.shard == shard, t.c.token == token)
                        .values(owner="")
                    )

    def leave(self) -> None:
        """Give everything back, and remove the worker's row.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        self.give_back(list(self.owned))
        with self._writing, translated(), self._database.begin() as connection:
            connection.execute(sa.delete(self._workers).where(self._workers.c.name == self.name))

    def _increment_beat(self) -> bool:
        """Increment the beat. Return whether the worker's row was still there."""
        t, at = self._workers, datetime.datetime.now(datetime.UTC)
        with self._database.begin() as connection:
            update = sa.update(t).where(t.c.name == self.name).values(beat=t.c.beat + 1, heartbeat_at=at)
            if connection.execute(update).rowcount:
                return True
            connection.execute(
                sa.insert(t).values(name=self.name, outlet=self._outlet, beat=1, since=at, heartbeat_at=at)
            )
            return False

    def _read_workers(self) -> tuple[dict[int, tuple[str, int]], set[int], int]:
        """shard -> (owner, token); the shards that may be taken; and the number of live workers.

        The shards are read before the workers. So a worker that joins between the two is not taken for dead.
        """
        t, s = self._workers, self._table
        # Each query shall see what is committed now, so each has a transaction of its own.
        with self._database.connect() as connection:
            query = sa.select(s.c.shard, s.c.owner, s.c.token).where(s.c.outlet == self._outlet)
            shards = {row.shard: (row.owner, row.token) for row in connection.execute(query)}
        with self._database.connect() as connection:
            rows = connection.execute(sa.select(t.c.name, t.c.beat).where(t.c.outlet == self._outlet))
            beats = {row.name: row.beat for row in rows}
        alive = beats.keys() - self._bury(beats)
        free = {shard for shard in range(self._count) if shard not in shards or shards[shard][0] not in alive}
        return shards, free, len(alive)

    def _bury(self, beats: Mapping[str, int]) -> set[str]:
        """Remove the rows of workers whose beat rests. Return their names."""
        now, dead = self._clock(), set()
        for name, beat in beats.items():
            known = self._seen.get(name)
            if known is None or known[0] != beat:
                self._seen[name] = known = (beat, now)
            if name != self.name and (is_dead_here(name) or now - known[1] >= self.seconds):
                dead.add(name)
        self._seen = {name: seen for name, seen in self._seen.items() if name in beats}
        if not dead:
            return dead
        t = self._workers
        with self._database.begin() as connection:
            # One that beats again meanwhile is alive.
            return {
                name
                for name in sorted(dead)
                if connection.execute(sa.delete(t).where(t.c.name == name, t.c.beat == beats[name])).rowcount
            }

    def _take(self, shard: int, token: int, *, exists: bool) -> bool:
        """Take a shard. Return False if another worker was first."""
        t = self._table
        try:
            with translated(), self._database.begin() as connection:
                if not exists:
                    connection.execute(
                        sa.insert(t).values(
                            outlet=self._outlet, shard=shard, owner=self.name, token=token + 1, sequence=0
                        )
                    )
                    return True
                where = (t.c.outlet == self._outlet, t.c.shard == shard)
                update = sa.update(t).where(*where, t.c.token == token).values(owner=self.name, token=token + 1)
                return bool(connection.execute(update).rowcount == 1)
        except RowRefused:  # another worker inserted it first
            return False


class WorkerHeartbeat:
    """Renews the lease of a worker in a thread of its own, so that no long work lets it end.

    It beats at once, and then four times in a lease time.

    :param notify: called by the thread after each beat.
    """

    def __init__(self, leases: ShardLeases, notify: Callable[[], None]) -> None:
        self._leases = leases
        self._notify = notify
        self._found: ShardOwnership | None = None
        outage = Outage(LOG, "webhooks: the lease cannot be renewed", "webhooks: the lease is renewed again")
        self.thread = PeriodicThread("webhook-lease", self._beat, leases.seconds / 4, outage)

    def take(self) -> ShardOwnership | None:
        """What the last beat found; None if it was taken already."""
        found, self._found = self._found, None
        return found

    def _beat(self) -> None:
        try:
            self._found = self._leases.beat()
        finally:
            self._notify()
