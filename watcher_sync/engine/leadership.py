# SPDX-License-Identifier: Apache-2.0
"""The threads that write what other engines know of this one: its lease, and its own row.

A leader that runs but cannot commit must not prevent another engine from it: its connection may be the only broken
one. So :class:`Heartbeat` does not renew the lease while no commit succeeds for a lease time. It
also gives up leading when this release cannot work on the schema any more.

:class:`EnginePresence` writes the engine's row while it leads and while it is a standby. A row that becomes old means
that the process has ended, or that it does not reach the database.

Both are threads of their own, so that they go on during a long commit.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import socket
from collections.abc import Callable, Sequence

from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.exceptions import DatabaseUnavailable, LeaseLost, SchemaMissing
from watcher_sync.periodic import Outage, PeriodicThread
from watcher_sync.storage.database.time_limits import CommitWatch
from watcher_sync.storage.groups import engines
from watcher_sync.storage.groups.engines import EngineRow
from watcher_sync.storage.groups.leases import EngineLease
from watcher_sync.storage.writing.store import Store

LOG = logging.getLogger(__name__)


class Heartbeat:
    """Renews a taken lease three times per lease time, until it is stopped or the lease is lost."""

    def __init__(
        self,
        lease: EngineLease,
        lost: Callable[[], None],
        watch: CommitWatch,
        is_unavailable: Callable[[], bool] = lambda: False,
    ) -> None:
        """:param lost: called from the heartbeat's thread, once, when this engine must no longer lead.

        :param watch: measures for how long the database has left a commit unanswered.
        :param is_unavailable: returns whether the engine knows, and has logged, that the database is unavailable.
        """
        self._lease = lease
        self._watch = watch
        self._lost = lost
        self._is_unavailable = is_unavailable
        self._is_stalled = False
        outage = Outage(LOG, f"The lease {lease.name} cannot be renewed", f"The lease {lease.name} is renewed again")
        self._thread = PeriodicThread("lease", self._renew, lease.seconds / 3, outage, at_once=False)

    def start(self) -> None:
        """Begin to renew the lease."""
        self._thread.start()

    def stop(self) -> None:
        """Stop; returns when the thread has ended, or after 5 seconds."""
        self._thread.stop(5)

    def _renew(self) -> bool:
        seconds = self._watch.unanswered_seconds
        was_stalled, self._is_stalled = self._is_stalled, seconds >= self._lease.seconds
        if self._is_stalled:
            if not was_stalled:
                LOG.error("The lease %s is not renewed: no commit has succeeded for %.0f s", self._lease.name, seconds)
            return False
        try:
            self._lease.beat()
            self._lease.require_schema()
        except (LeaseLost, SchemaMissing) as exc:
            LOG.error("%s", exc)
            self._thread.begin_stop()
            self._lost()
            return False
        except DatabaseUnavailable:
            if not self._is_unavailable():
                raise
            return False
        return True


_JOIN_SECONDS = 5.0


class EnginePresence:
    """Writes the row of one engine every ``[monitoring] status_interval`` seconds, and its end into it.

    A failure is logged once per outage.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        store: Store,
        engine_id: str,
        *,
        sources: Sequence[str],
        seq: Callable[[], int],
        is_unavailable: Callable[[], bool] = lambda: False,
    ) -> None:
        """:param engine_id: the holder's name in the lease of the engine's group.

        :param sources: the names of its enabled sources.
        :param seq: returns the journal seq of its model.
        :param is_unavailable: returns whether the engine knows that the database is unavailable. The thread does not
            ask it then.
        """
        self._group: str = conf.engine.group
        self._store = store
        self._engine_id = engine_id
        self._sources = list(sources)
        self._seq = seq
        self._is_unavailable = is_unavailable
        self._since: datetime.datetime | None = None
        """Since when the engine is in its role; None: since the row that is written next."""
        self._began: datetime.datetime | None = None
        """Of its first row."""
        self._release = importlib.metadata.version("watcher-sync")
        self._outage = Outage(
            LOG, "The row of this engine cannot be written", "The row of this engine is written again"
        )
        self._thread = PeriodicThread(
            "engine-presence", self._write, conf.monitoring.status_interval, self._outage, at_end=self._end
        )

    def start(self) -> None:
        """Begin to write the row."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and write into the row that the engine was stopped."""
        self._thread.stop(_JOIN_SECONDS)

    def stand_by(self) -> None:
        """The engine stands by from now on."""
        self._since = None
        self._thread.wake()

    def report(self) -> None:
        """Write the row once, in the caller's thread; a database error is logged."""
        self._outage.attempt(self._write)

    def _write(self) -> bool:
        if is_available := not self._is_unavailable():
            row = self._row()
            self._began = self._began or row.since
            engines.write_engine(self._store.commits, row, self._began)
        return is_available

    def _end(self) -> bool:
        if is_available := not self._is_unavailable():
            engines.end_engine(self._store.commits, self._engine_id, self._store.time.observe())
        return is_available

    def _row(self) -> EngineRow:
        now, seq = self._store.time.observe(), self._seq()
        self._since = self._since or now
        return EngineRow(
            id=self._engine_id,
            engine_group=self._group,
            host=socket.gethostname(),
            pid=os.getpid(),
            release=self._release,
            since=self._since,
            heartbeat_at=now,
            seq=seq,
            lag_seconds=engines.read_lag(self._store.commits, seq, now),
            sources=self._sources,
        )
