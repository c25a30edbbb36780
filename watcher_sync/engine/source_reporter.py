# SPDX-License-Identifier: Apache-2.0
"""The thread that writes the state of the sources to the database.

The API and other processes read the table ``source_status``. The thread is separate from the commits and from the
retention, because the rows must stay fresh while either of them takes long.
"""

from __future__ import annotations

import datetime
import os
import socket
import threading
from collections.abc import Callable, Mapping

from futurist import periodics
from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.engine.supervision import Supervisor
from watcher_sync.exceptions import StorageError
from watcher_sync.sources.base import SourceState
from watcher_sync.storage import source_status
from watcher_sync.storage.source_status import SourceRow
from watcher_sync.storage.store import Store

LOG = logging.getLogger(__name__)


class SourceReporter:
    """Writes the state of a leader's sources to the table ``source_status`` at intervals.

    A failure is logged once per outage. The age of the rows shows it to their readers.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        store: Store,
        supervisors: dict[str, Supervisor],
        *,
        is_unavailable: Callable[[], bool] = lambda: False,
        notes: Callable[[], Mapping[str, str]] = dict,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ) -> None:
        """:param supervisors: source -> its supervisor, for all sources of the engine.

        :param is_unavailable: whether the database is known to be unavailable; no row is written then.
        :param notes: returns source -> a text that is added to the detail of the source.
        """
        self._notes = notes
        self._is_unavailable = is_unavailable
        self._store = store
        self._group: str = conf.engine.group
        self._supervisors = dict(supervisors)
        self._now = now
        self._states: dict[str, tuple[str, datetime.datetime]] = {}
        self._removed_others = False
        self._failing = False
        # Guards _states: several threads call rows().
        self._states_lock = threading.Lock()
        # Guards _ended and the order of two reports. It is held during the database statements.
        self._lock = threading.Lock()
        self._ended = False

        @periodics.periodic(spacing=conf.monitoring.status_interval, run_immediately=True)
        def report() -> None:
            self.report()

        self._worker = periodics.PeriodicWorker([(report, (), {})])
        self._thread = threading.Thread(target=self._worker.start, name="source-status", daemon=True)

    def start(self) -> None:
        """Begin to report."""
        self._thread.start()

    def stop(self, *, write_stopped: bool) -> None:
        """End the thread.

        :param write_stopped: write that all sources are stopped. False once another engine owns the rows.
        """
        self._worker.stop()
        self._thread.join(5)
        if write_stopped:
            self.report(stopped=True)

    def report(self, *, stopped: bool = False) -> None:
        """Write the rows once, in the caller's thread; a database error is logged."""
        with self._lock:
            if self._ended or self._is_unavailable():
                return
            self._ended = stopped
            try:
                if not self._removed_others:
                    source_status.forget_others(self._store.database, self._group, self._supervisors)
                    self._removed_others = True
                source_status.write_sources(self._store.database, self.rows(stopped=stopped))
                if self._failing:
                    LOG.info("The status of the sources is written again")
                self._failing = False
            except StorageError as exc:
                if not self._failing:
                    LOG.warning("The status of the sources cannot be written, retrying: %s", exc)
                self._failing = True

    def rows(self, *, stopped: bool = False) -> list[SourceRow]:
        """The state of each source as a row. Any thread may call it; it never blocks."""
        now, notes = self._now(), self._notes()
        rows: list[SourceRow] = []
        for name, supervisor in self._supervisors.items():
            status = supervisor.status()
            state = (SourceState.STOPPED if stopped else status.state).value
            with self._states_lock:
                since = self._states.get(name, ("", now))
                if since[0] != state:
                    since = self._states[name] = (state, now)
            rows.append(
                SourceRow(
                    source=name,
                    engine_group=self._group,
                    host=socket.gethostname(),
                    pid=os.getpid(),
                    state=state,
                    detail="" if stopped else _one_line("; ".join(filter(None, (status.detail, notes.get(name))))),
                    since=since[1],
                    lag=status.lag,
                    last_event_at=status.last_event_at,
                    reconnects=status.reconnects,
                    restarts=supervisor.restarts,
                    updated_at=now,
                )
            )
        return rows


def _one_line(text: str) -> str:
    """At most 1,000 characters on one line, without the characters that a database refuses."""
    return " ".join(text.encode("utf-8", "replace").decode().replace("\0", "").split())[:1000]
