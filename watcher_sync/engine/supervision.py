# SPDX-License-Identifier: Apache-2.0
"""Starts each source, checks it, and restarts it after a failure.

A driver reconnects by itself. A supervisor handles a driver that cannot start, or that has given up (state FAILED). It
stops the driver and makes a new one after a back-off, which doubles up to a minute and has jitter. A source that waits
for the database is tried again within seconds, so that it starts soon after the database's return. Each source has a
supervisor with a thread of its own, so the failure of one source does not affect the others. The supervisor logs each
change of the state.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from oslo_log import log as logging

from watcher_sync.backoff import Backoff
from watcher_sync.exceptions import DatabaseUnavailable, described
from watcher_sync.sources.base import Emit, Source, SourceState, SourceStatus, StateLog

LOG = logging.getLogger(__name__)

_FIRST_BACKOFF_SECONDS = 1.0
_MAX_BACKOFF_SECONDS = 60.0
_MAX_DATABASE_BACKOFF_SECONDS = 4.0
_CHECK_INTERVAL_SECONDS = 1.0
_RESTART_STOP_SECONDS = 10.0
"""The time that a source has to stop before it is restarted."""

MakeSource = Callable[[], Source]


class Supervisor:
    """Keeps one source running, in a thread of its own."""

    def __init__(
        self, name: str, make: MakeSource, emitter: Callable[[Source], Emit], rewinds: PendingRewinds | None = None
    ) -> None:
        """:param make: makes a new driver instance; may raise.

        :param emitter: returns the function with which an instance emits.
        :param rewinds: says whether the source has to repeat events; None: it never has to.
        """
        self.name = name
        self._rewinds = rewinds
        self.restarts = 0
        self._make = make
        self._emitter = emitter
        self._problem = ""
        self._log = StateLog(name)
        self._source: Source | None = None
        self._stopping = threading.Event()
        self._restarting = threading.Event()
        self._deadline = 0.0
        self._thread = threading.Thread(target=self._run, name=f"source-{name}", daemon=True)

    def start(self) -> None:
        """Start the source; returns at once."""
        self._thread.start()

    def restart(self) -> None:
        """Stop the source and make a new instance, because its configuration changed."""
        self._restarting.set()

    def begin_stop(self, deadline: float) -> None:
        """Have the source stop by ``deadline`` on the monotonic clock; returns at once."""
        self._deadline = deadline
        self._stopping.set()
        self._restarting.set()

    def is_alive(self) -> bool:
        """Whether the source is running or stopping."""
        return self._thread.is_alive()

    def join(self, timeout: float) -> None:
        """Wait at most ``timeout`` seconds for the end of the stop."""
        self._thread.join(timeout)

    def status(self) -> SourceStatus:
        """The status of the source, or why no instance runs."""
        source = self._source
        if source is not None:
            return source.status()
        state = SourceState.FAILED if self._problem else SourceState.STARTING
        return SourceStatus(state=SourceState.STOPPED if self._stopping.is_set() else state, detail=self._problem)

    def _run(self) -> None:
        backoff = Backoff(_FIRST_BACKOFF_SECONDS, _MAX_BACKOFF_SECONDS)
        database_backoff = Backoff(_FIRST_BACKOFF_SECONDS, _MAX_DATABASE_BACKOFF_SECONDS)
        while self._goes_on():
            began = time.monotonic()
            try:
                problem = self._run_once()
                if self._stopping.is_set():
                    return
            except DatabaseUnavailable as exc:
                self._wait_to_retry(f"the database with its cursor is unavailable: {exc}", database_backoff)
                continue
            database_backoff.succeeded()
            if problem is None:
                self.restarts += 1
                continue
            if time.monotonic() - began > _MAX_BACKOFF_SECONDS:
                backoff.succeeded()
            self._wait_to_retry(problem, backoff)

    def _goes_on(self) -> bool:
        """Forget the last restart, and return whether a further instance is to run."""
        # Cleared before the check: a stop sets both events, and one that begins between the two must not be lost.
        self._restarting.clear()
        return not self._stopping.is_set()

    def _wait_to_retry(self, problem: str, backoff: Backoff) -> None:
        """Record why there is no instance, and wait before the next attempt."""
        self.restarts += 1
        self._problem = problem
        self._log.observe(lambda: SourceStatus(state=SourceState.FAILED, detail=problem))
        self._stopping.wait(backoff.failed())

    def _run_once(self) -> str | None:
        """Run one instance of the source; returns why it failed, None after a stop or a restart on request.

        :raises DatabaseUnavailable: the position of the source cannot be read.
        """
        try:
            source = self._make()
            source.state_log = self._log
            self._log.observe(lambda: SourceStatus(state=SourceState.STARTING))
            goes_back = self._rewinds is not None and self._rewinds.is_pending(self.name) and self._rewind(source)
            source.start(self._emitter(source))
        except DatabaseUnavailable:
            raise
        except BaseException as exc:  # noqa: BLE001 - the supervised edge: reported, and tried again
            return described(exc)
        self._source = source
        self._problem = ""
        problem: str | None = None
        while not self._restarting.wait(_CHECK_INTERVAL_SECONDS):
            problem, is_connected = _condition_of(source, self._log)
            if goes_back and is_connected:
                self._end_rewind()
                goes_back = False
            if problem is not None:
                break
        deadline = self._deadline if self._stopping.is_set() else time.monotonic() + _RESTART_STOP_SECONDS
        try:
            source.stop(deadline)
        except BaseException as exc:  # noqa: BLE001 - the supervised edge
            problem = f"stop failed: {described(exc)}"
            if self._stopping.is_set():
                LOG.warning("source %s: %s", self.name, problem)
        self._source = None
        return problem

    def _rewind(self, source: Source) -> bool:
        """Have the transport repeat events, because the database lost them; whether it does so once it is connected."""
        goes_back = source.rewind_to_cursor()
        if goes_back:
            LOG.info("source %s: goes back to its position in the database", self.name)
        else:
            LOG.warning(
                "source %s: what the database lost is acknowledged, and its transport has it no more; "
                "a reconciliation repairs the model", self.name,
            )  # fmt: skip
            self._end_rewind()
        return goes_back

    def _end_rewind(self) -> None:
        if self._rewinds is not None:
            self._rewinds.done(self.name)


def _condition_of(source: Source, log: StateLog) -> tuple[str | None, bool]:
    """Log its state; why the source needs a new instance, None while it works; and whether it is connected."""
    if source.broken:
        return source.broken, False
    try:
        status = source.status()
        if status.state is not SourceState.FAILED:  # a failure is logged when its instance has stopped
            log.observe(source.status)
    except BaseException as exc:  # noqa: BLE001 - the supervised edge
        return f"status failed: {described(exc)}", False
    problem = (status.detail or "the driver gave up") if status.state is SourceState.FAILED else None
    return problem, status.state is SourceState.CONNECTED


class PendingRewinds:
    """The sources that have to repeat events, because the database lost what they brought. For any thread.

    Most positions are in the database, and went back with it. Where the transport itself remembers the position, the
    driver makes it go back to the one in the database (:meth:`~watcher_sync.sources.base.Source.rewind_to_cursor`). The
    ordering guard recognises what is delivered again.
    """

    def __init__(self, names: Iterable[str]) -> None:
        """:param names: of all sources."""
        self._names = tuple(names)
        self._lock = threading.Lock()  # guards the set
        self._pending: set[str] = set()

    def begin(self) -> None:
        """Have all sources go back to their positions in the database."""
        with self._lock:
            self._pending.update(self._names)

    def is_pending(self, name: str) -> bool:
        """Whether a source has to go back."""
        with self._lock:
            return name in self._pending

    def done(self, name: str) -> None:
        """A source has gone back."""
        with self._lock:
            self._pending.discard(name)
