# SPDX-License-Identifier: Apache-2.0
"""A source with a session: its threads, settlements and figures.

The thread ``source-<name>`` runs the event loop of the session and owns the connection. The thread
``source-<name>-emit`` decodes and emits. The engine may block it, which is the back-pressure. The engine's thread
queues acks and nacks and wakes the loop. So heartbeats do not depend on the engine's pace.
"""

from __future__ import annotations

import abc
import asyncio
import datetime
import threading
import time
from collections.abc import Sequence
from typing import Any, Protocol

from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.events import Event
from watcher_sync.exceptions import described
from watcher_sync.sources.base import Emit, Gaps, IntakeClosed, Source, SourceState, SourceStatus
from watcher_sync.sources.session import Session

LOG = logging.getLogger(__name__)


class Settlements(Protocol):
    """What the engine's thread and a stop ask of the messages in flight."""

    def settle(self, events: Sequence[Event], delay: float | None) -> None:
        """These are done: acked, or with a delay nacked."""

    def wake(self) -> None:
        """Have the emitting thread notice a stop."""


class SessionSource(Source):
    """Base of the drivers whose server delivers to a session.

    A constructor of a driver sets the three attributes below.
    """

    in_flight: Settlements
    gaps: Gaps
    _session: Session[Any, Any]

    def __init__(self, name: str, conf: cfg.ConfigOpts, *, cursor: str | None = None) -> None:
        """:raises ConfigError: naming the option that is wrong."""
        super().__init__(name, conf, cursor=cursor)
        self._stopping = threading.Event()
        self._emit: Emit | None = None
        self._last_event_at: datetime.datetime | None = None
        self._thread = threading.Thread(target=self._run, name=f"source-{name}", daemon=True)
        self._emitter = threading.Thread(target=self._emit_all, name=f"source-{name}-emit", daemon=True)

    # What the engine calls

    def start(self, emit: Emit) -> None:
        """Begin to connect and return."""
        self._emit = emit
        self._session.on_state = self.log_state
        self._thread.start()
        self._emitter.start()

    def ack(self, events: Sequence[Event]) -> None:
        """Queue the acks and wake the session's thread, which sends them."""
        self._settle(events, None)

    def nack(self, events: Sequence[Event], delay: float) -> None:
        """Delivered again after ``delay`` seconds, or later."""
        self._settle(events, delay)

    def stop(self, deadline: float) -> None:
        """End as the module of the driver's session describes."""
        self._session.stop(deadline)
        self.in_flight.wake()
        for thread in (self._thread, self._emitter):
            if thread.ident is not None:
                thread.join(max(0.0, deadline - time.monotonic()))
        if self._thread.is_alive():
            LOG.warning("source %s: stop timed out; the server redelivers what was not acked", self.name)
        self._set_ended(SourceState.STOPPED, "")

    def status(self) -> SourceStatus:
        """The figures of this moment. The lag counts what the server has not delivered to any consumer yet."""
        status, gaps = self._session.status, self.gaps.total
        return SourceStatus(
            state=status.state,
            detail=status.detail,
            lag=status.lag,
            last_event_at=self._last_event_at,
            reconnects=max(0, status.connections - 1),
            redelivered=status.redelivered,
            gaps=gaps.count,
            lost=gaps.lost,
            last_gap_at=gaps.last_at,
        )

    # The two threads

    def _run(self) -> None:
        try:
            asyncio.run(self._session.run())
        except BaseException as exc:  # the edge of the thread
            LOG.exception("source %s: unexpected error", self.name)
            self._set_ended(SourceState.FAILED, described(exc))

    def _emit_all(self) -> None:
        """Emit what arrives, in order, until the stop."""
        while (events := self._take()) is not None:
            self._last_event_at = datetime.datetime.now(datetime.UTC)
            try:
                self._emit_events(events)
            except IntakeClosed:
                # Held until the stop: nacked now, the server would deliver it again at once.
                self._stopping.wait()
                self.nack(events, 0.0)
            except BaseException:  # the edge of the thread
                LOG.exception("source %s: a batch could not be emitted; it is nacked", self.name)
                self.nack(events, 1.0)

    @abc.abstractmethod
    def _take(self) -> list[Event] | None:
        """Wait for messages; the events of what arrived, in order, or None at the stop."""

    def _emit_events(self, events: Sequence[Event]) -> None:
        assert self._emit is not None
        self._emit(events)

    def _settle(self, events: Sequence[Event], delay: float | None) -> None:
        """Have the server forget these, or deliver them again after so many seconds."""
        self.in_flight.settle(events, delay)
        self._session.wake()

    def _set_ended(self, state: SourceState, detail: str) -> None:
        self._session.status.state, self._session.status.detail = state, detail
