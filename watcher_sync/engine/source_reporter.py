# SPDX-License-Identifier: Apache-2.0
"""The thread that writes the state of the sources to the database, and up to which moment the model has their events.

The API and other processes read the table ``source_status``. The thread is separate from the commits and from the
retention, because the rows must stay fresh while either of them takes long.
"""

from __future__ import annotations

import datetime
import os
import socket
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

import msgspec
from futurist import periodics
from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.engine.supervision import Supervisor
from watcher_sync.model.scopes import EntityScope
from watcher_sync.periodic import Outage
from watcher_sync.sources.base import SourceState, SourceStatus
from watcher_sync.storage.database.database_time import read_clock
from watcher_sync.storage.groups import source_status
from watcher_sync.storage.groups.source_status import SourceRow
from watcher_sync.storage.writing.store import Store

LOG = logging.getLogger(__name__)


class Moments(msgspec.Struct, frozen=True):
    """What is known of one source. Times are aware UTC."""

    current_until: datetime.datetime | None = None
    """The model has all events that were published until then; None: unknown."""
    last_event_at: datetime.datetime | None = None


class Timeliness:
    """The moments of each source of one engine. For any thread.

    While a source is connected, nothing waits in its transport and nothing is in hand, the model has everything until
    now. Otherwise it has everything up to the publication of the last committed event, or up to the last moment without
    waiting events, whichever is later. A source that catches up is behind by the age of its last committed event. A
    disconnected source falls behind by a second each second.

    The moments, and the time of the last event, are stored with the state of the source. They survive a restart.
    """

    def __init__(self) -> None:
        # Guards _moments.
        self._lock = threading.Lock()
        self._moments: dict[str, Moments] = {}
        self._last: dict[str, SourceStatus] = {}
        """The last status of each source before it stopped."""

    def restore(self, rows: Iterable[SourceRow]) -> None:
        """Continue from what an engine stored before."""
        with self._lock:
            for row in rows:
                known = self._moments.get(row.source, Moments())
                self._moments[row.source] = Moments(
                    _latest(known.current_until, row.current_until), _latest(known.last_event_at, row.last_event_at)
                )

    def observe(
        self,
        source: str,
        status: SourceStatus,
        *,
        in_hand: int,
        published_at: datetime.datetime | None,
        now: datetime.datetime,
    ) -> Moments:
        """Note the state of a source at this moment, and return what is known of it.

        :param in_hand: its events that the engine has accepted and not acknowledged.
        :param published_at: when the last committed event was published; None: none was, or its time is unknown.
        """
        with self._lock:
            is_complete = not in_hand and self._has_nothing_waiting(source, status)
            until = now if is_complete else min(published_at, now) if published_at is not None else None
            known = self._moments.get(source, Moments())
            found = self._moments[source] = Moments(
                _latest(known.current_until, until), _latest(known.last_event_at, status.last_event_at)
            )
        return found

    def _has_nothing_waiting(self, source: str, status: SourceStatus) -> bool:
        """Whether a source is connected, or stopped while it was, and nothing waits in its transport."""
        if status.state is not SourceState.STOPPED:
            self._last[source] = status
            return status.state is SourceState.CONNECTED and not status.lag
        before = self._last.get(source)
        if before is None or before.state is not SourceState.CONNECTED:
            return False
        return not (before.lag if status.lag is None else status.lag)


def _latest(*times: datetime.datetime | None) -> datetime.datetime | None:
    return max((time for time in times if time is not None), default=None)


_SAME_TIME = datetime.timedelta(seconds=1)
"""Clocks that differ by less are the same, so the time of an event does not vary with each report."""


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
        in_hand: Callable[[], Mapping[str, int]] = dict,
        published: Callable[[], Mapping[str, datetime.datetime]] = dict,
        scopes: Mapping[str, Sequence[EntityScope]] = MappingProxyType({}),
    ) -> None:
        """:param supervisors: source -> its supervisor, for all sources of the engine.

        :param is_unavailable: whether the database is known to be unavailable; no row is written then.
        :param notes: returns source -> why its data is not up to date although it is connected.
        :param in_hand: returns source -> its events that the engine has accepted and not acknowledged.
        :param published: returns source -> when the last of its committed events was published.
        :param scopes: source -> the entities that exist through it.
        """
        self._scopes = {name: msgspec.json.encode(found).decode() for name, found in scopes.items()}
        self._in_hand = in_hand
        self._published = published
        self._timeliness = Timeliness()
        self._is_restored = False
        self._notes = notes
        self._is_unavailable = is_unavailable
        self._store = store
        self._group: str = conf.engine.group
        self._supervisors = dict(supervisors)
        self._states: dict[str, tuple[str, datetime.datetime]] = {}
        self._marked_others = False
        self._outage = Outage(
            LOG, "The status of the sources cannot be written", "The status of the sources is written again"
        )
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
            self._outage.attempt(lambda: self._write(stopped=stopped))

    def _write(self, *, stopped: bool) -> None:
        """:raises StorageError: the rows cannot be written now."""
        if not self._marked_others:
            now = read_clock(self._store.commits)
            source_status.mark_removed(self._store.commits, self._group, self._supervisors, now)
            self._marked_others = True
        if not self._is_restored:
            self._timeliness.restore(source_status.list_sources(self._store.commits))
            self._is_restored = True
        self._store.time.observe()
        source_status.write_sources(self._store.commits, self.rows(stopped=stopped))
        self._store.sites.refresh()

    def rows(self, *, stopped: bool = False) -> list[SourceRow]:
        """The state of each source as a row, by the database's clock. Any thread may call it; it never blocks."""
        now, notes = self._store.time.observed(), self._notes()
        ahead = datetime.datetime.now(datetime.UTC) - now
        in_hand, published = self._in_hand(), self._published()
        rows: list[SourceRow] = []
        for name, supervisor in self._supervisors.items():
            status = _by_database_time(supervisor.status(), ahead)
            state = (SourceState.STOPPED if stopped else status.state).value
            with self._states_lock:
                since = self._states.get(name, ("", now))
                if since[0] != state:
                    since = self._states[name] = (state, now)
            moments = self._timeliness.observe(
                name,
                status,
                in_hand=in_hand.get(name, 0),
                published_at=published.get(name),
                now=now,
            )
            rows.append(
                SourceRow(
                    source=name,
                    engine_group=self._group,
                    host=socket.gethostname(),
                    pid=os.getpid(),
                    state=state,
                    detail="" if stopped else _one_line(status.detail),
                    since=since[1],
                    lag=status.lag,
                    last_event_at=moments.last_event_at,
                    reconnects=status.reconnects,
                    restarts=supervisor.restarts,
                    updated_at=now,
                    current_until=moments.current_until,
                    notes=_one_line(notes.get(name, "")),
                    scopes=self._scopes.get(name),
                )
            )
        return rows


def _by_database_time(status: SourceStatus, ahead: datetime.timedelta) -> SourceStatus:
    """The status of a driver, which has this machine's clock, with the time of the database.

    :param ahead: by how much this machine's clock is ahead of it.
    """
    if status.last_event_at is None or abs(ahead) < _SAME_TIME:
        return status
    return msgspec.structs.replace(status, last_event_at=status.last_event_at - ahead)


def _one_line(text: str) -> str:
    """At most 1,000 characters on one line, without the characters that a database refuses."""
    return " ".join(text.encode("utf-8", "replace").decode().replace("\0", "").split())[:1000]
