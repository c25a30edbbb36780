# SPDX-License-Identifier: Apache-2.0
"""A thread that reports the event that holds the engine's thread for too long.

Nothing is committed while a handler does not return, and a redelivery brings the event back. So the operator needs its
name. The report has the event, its handler, and the stack of the engine's thread.

A handler in a library that does not release the interpreter holds this thread, too. The event is then reported when
the call has returned. Until then the standard library's ``faulthandler`` writes all stacks to stderr; it needs no
interpreter.

An event that ends late is applied all the same: a machine that was suspended looks like a slow handler.
"""

from __future__ import annotations

import faulthandler
import math
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from oslo_log import log as logging
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from watcher_sync.commit.batch_dispatch import CommitLimits, EventInHand
from watcher_sync.events import Event

LOG = logging.getLogger(__name__)

_MAX_POLL_SECONDS: Final = 1.0
_DEAD_FACTOR: Final = 6
"""After this many times the limit a restart is better than to wait."""
_SHOWN: Final = 128
"""Characters of an id or a type in the log."""


class Watchdog:
    """Watches the thread that starts it.

    :param handler_of: (event type, channel) -> name of its handler.
    """

    def __init__(
        self,
        limits: CommitLimits,
        handler_of: Callable[[str, str], str],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.in_hand = EventInHand()
        """For the commit cycle."""
        self.reported = 0
        """Events that were reported."""
        self._limits = limits
        self._handler_of = handler_of
        self._clock = clock
        self._reported: Event | None = None
        self._report_after = 0.0
        self._watched: int | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Watch the thread that calls this."""
        self._watched = threading.get_ident()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(self._stop,), name="watchdog", daemon=True)
        self._thread.start()

    def join(self, timeout: float) -> None:
        """Stop, and wait at most ``timeout`` seconds for the end of the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout)

    def collect(self) -> Iterable[Metric]:
        """The metrics of this moment."""
        found = self.in_hand.current(self._clock)
        yield GaugeMetricFamily(
            "watcher_sync_event_in_hand_seconds",
            "Seconds since the dispatch of the current event began; 0 without one.",
            value=found[1] if found is not None else 0.0,
        )
        yield CounterMetricFamily(
            "watcher_sync_overlong_events",
            "Events that held the engine's thread longer than [engine] event_watchdog.",
            value=self.reported,
        )

    def report(self) -> Mapping[str, Any]:
        """The event in hand, and how many were reported."""
        found = self.in_hand.current(self._clock)
        return {
            "event in hand": self._named(*found) if found is not None else "none",
            "overlong events": self.reported,
        }

    # For readiness and liveness

    @property
    def problem(self) -> str:
        """Which event holds the engine's thread too long; empty if none does."""
        found = self.in_hand.current(self._clock)
        return self._named(*found) if found is not None and found[1] > self._seconds() else ""

    @property
    def is_dead(self) -> bool:
        """Whether an event holds the engine's thread so long that a restart is better than to wait."""
        found = self.in_hand.current(self._clock)
        return found is not None and found[1] > _DEAD_FACTOR * self._seconds()

    # The thread

    def _run(self, stop: threading.Event) -> None:
        try:
            while not stop.is_set():
                seconds = self.in_hand.limit = self._seconds()
                pause = min(seconds / 4, _MAX_POLL_SECONDS)
                _dump_stacks_after(seconds + pause)
                stop.wait(pause)
                self.check()
        finally:
            faulthandler.cancel_dump_traceback_later()

    def check(self) -> None:
        """Report the event in hand if it is time to, and those that ended late unreported."""
        found = self.in_hand.current(self._clock)
        if found is not None:
            self._check(*found)
        while self.in_hand.late:
            event, seconds = self.in_hand.late.popleft()
            known = event is self._reported
            if not known:
                self.reported += 1
            LOG.error("%s, and has ended", self._named(event, seconds))

    def _check(self, event: Event, seconds: float) -> None:
        if event is not self._reported:
            if seconds <= self._seconds():
                return
            self.reported += 1
            self._reported = event
        elif seconds < self._report_after:
            return
        self._report_after = 2 * seconds
        LOG.error("%s; its thread is at:\n%s", self._named(event, seconds), self._stack())

    def _seconds(self) -> float:
        return self._limits.event_watchdog or math.inf

    def _named(self, event: Event, seconds: float) -> str:
        return (
            f"source {event.source}: the event {event.id[:_SHOWN]!r} of type {event.type[:_SHOWN]!r} has held the "
            f"engine's thread for {seconds:.1f} s in the handler {self._handler_of(event.type, event.channel)}"
        )

    def _stack(self) -> str:
        # The function is documented, its name is historic.
        frame = sys._current_frames().get(self._watched or 0)  # noqa: SLF001
        return "".join(traceback.format_stack(frame)) if frame is not None else "(no such thread)"


def _dump_stacks_after(seconds: float) -> None:
    """Write all stacks to stderr, unless this is called again before the time is over."""
    if not math.isfinite(seconds):
        faulthandler.cancel_dump_traceback_later()
        return
    try:
        faulthandler.dump_traceback_later(seconds)
    except (AttributeError, OSError, ValueError):
        # stderr has no file, as under some supervisors and in tests.
        return
