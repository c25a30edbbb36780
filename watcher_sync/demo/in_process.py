# SPDX-License-Identifier: Apache-2.0
"""A source that receives events from code in the same process, for use without a server.

It follows the contract of sources: uncommitted events are emitted again, none is lost, and the back-pressure of the
engine delays the emission. Events that were not emitted before the stop are lost with the process.

Any thread may call :meth:`~InProcessSource.put`; the source's own thread emits.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Collection, Sequence
from typing import ClassVar, Final

from watcher_sync.events import CLOUD_EVENTS, Event
from watcher_sync.sources.base import Emit, IntakeClosed, Source, SourceState, SourceStatus

_PORTION: Final = 200


class InProcessSource(Source):
    """Emits what is put into it, in that order: events of DCM's simulated providers."""

    envelopes: ClassVar[Collection[str]] = (CLOUD_EVENTS,)
    event_types: ClassVar[Collection[str]] = ("dcm.*",)

    def __init__(self, name: str) -> None:
        self.name = name
        self._changed = threading.Condition()
        # Guarded by _changed: what is to be emitted, how much of what was emitted is in the engine's hands.
        self._waiting: deque[Event] = deque()
        self._in_hand = 0
        self._stopping = False
        self._thread: threading.Thread | None = None

    def put(self, *events: Event) -> None:
        """Have these emitted; returns at once."""
        with self._changed:
            self._waiting.extend(events)
            self._changed.notify_all()

    def settled(self) -> bool:
        """Whether everything that was put is committed."""
        with self._changed:
            return not self._waiting and self._in_hand == 0

    def start(self, emit: Emit) -> None:
        """Begin to emit."""
        self._thread = threading.Thread(target=self._run, args=(emit,), name=f"source-{self.name}", daemon=True)
        self._thread.start()

    def ack(self, events: Sequence[Event]) -> None:
        """They are done."""
        with self._changed:
            self._in_hand -= len(events)
            self._changed.notify_all()

    def nack(self, events: Sequence[Event], delay: float) -> None:
        """They come again, before the others; the delay is the engine's own pause."""
        with self._changed:
            self._in_hand -= len(events)
            self._waiting.extendleft(reversed(events))
            self._changed.notify_all()

    def stop(self, deadline: float) -> None:
        """Emit nothing more, and wait for what is in hand."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._in_hand == 0, max(0.0, deadline - time.monotonic()))

    def status(self) -> SourceStatus:
        """What waits is the lag."""
        if self._thread is None:
            return SourceStatus(state=SourceState.STARTING)
        state = SourceState.STOPPED if self._stopping else SourceState.CONNECTED
        return SourceStatus(state=state, detail="in this process", lag=len(self._waiting))

    def _run(self, emit: Emit) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._stopping)
                if self._stopping:
                    return
                portion = [self._waiting.popleft() for _ in range(min(_PORTION, len(self._waiting)))]
                self._in_hand += len(portion)
            try:
                emit(portion)
            except IntakeClosed:
                self.nack(portion, 0.0)
                return
