# SPDX-License-Identifier: Apache-2.0
"""Sources that are started, watched, and started again for ever.

A driver looks after its own connection; what is handled here is a driver that cannot start at all, or
that has given up (state FAILED). It is stopped, and a new one is made after a back-off that doubles up
to a minute, with full jitter. One source's trouble is no other's business: each has its own thread.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

from oslo_log import log as logging

from watcher_sync.exceptions import DatabaseUnavailable
from watcher_sync.sources.base import Emit, Source, SourceState, SourceStatus

LOG = logging.getLogger(__name__)

_LONGEST = 60.0
_LOOK = 1.0
"""Seconds between two looks at a running source."""

MakeSource = Callable[[], Source]


class Supervisor:
    """One source's keeper, with a thread of its own."""

    def __init__(self, name: str, make: MakeSource, emitter: Callable[[Source], Emit]) -> None:
        """:param make: makes a new driver instance; may raise.

        :param emitter: gives the function that an instance emits with.
        """
        self.name = name
        self.restarts = 0
        self._make = make
        self._emitter = emitter
        self._trouble = ""
        self._source: Source | None = None
        self._stopping = threading.Event()
        self._restarting = threading.Event()
        self._deadline = 0.0
        self._thread = threading.Thread(target=self._keep, name=f"source-{name}", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def restart(self) -> None:
        """Make the source anew, because its configuration changed."""
        self._restarting.set()

    def begin_stop(self, deadline: float) -> None:
        """Have the source stop by ``time.monotonic()`` = deadline; returns at once."""
        self._deadline = deadline
        self._stopping.set()
        self._restarting.set()

    def is_alive(self) -> bool:
        """Whether the source still runs or stops."""
        return self._thread.is_alive()

    def join(self, timeout: float) -> None:
        """Wait for the end of the stop."""
        self._thread.join(timeout)

    def status(self) -> SourceStatus:
        """The source's own figures, or why there is none."""
        source = self._source
        if source is not None:
            return source.status()
        state = SourceState.FAILED if self._trouble else SourceState.STARTING
        return SourceStatus(state=SourceState.STOPPED if self._stopping.is_set() else state, detail=self._trouble)

    def _keep(self) -> None:
        pause = 1.0
        while not self._stopping.is_set():
            self._restarting.clear()
            began = time.monotonic()
            trouble = self._run_once()
            if self._stopping.is_set():
                return
            self.restarts += 1
            if trouble is None:
                continue
            if time.monotonic() - began > _LONGEST:
                pause = 1.0
            if trouble != self._trouble:
                LOG.warning("The source %s does not run: %s; trying again for ever", self.name, trouble)
            self._trouble = trouble
            self._stopping.wait(random.uniform(pause / 2, pause))  # noqa: S311 - jitter
            pause = min(pause * 2, _LONGEST)

    def _run_once(self) -> str | None:
        """One life of the source; what ended it, None when it was told to."""
        try:
            source = self._make()
            source.start(self._emitter(source))
        except DatabaseUnavailable as exc:
            return f"its cursor cannot be read: {exc}"
        except Exception as exc:  # noqa: BLE001 - the supervised edge: reported, and tried again
            return f"{type(exc).__name__}: {exc}"
        self._source = source
        if self._trouble:
            LOG.info("The source %s runs again", self.name)
            self._trouble = ""
        trouble: str | None = None
        while not self._restarting.wait(_LOOK):
            trouble = _trouble_of(source)
            if trouble is not None:
                break
        deadline = self._deadline if self._stopping.is_set() else time.monotonic() + 10
        try:
            source.stop(deadline)
        except Exception as exc:  # noqa: BLE001 - the supervised edge
            trouble = f"it does not stop: {type(exc).__name__}: {exc}"
            LOG.warning("The source %s: %s", self.name, trouble)
        self._source = None
        return trouble


def _trouble_of(source: Source) -> str | None:
    """Why the source has to be made anew; None while it works."""
    try:
        status = source.status()
    except Exception as exc:  # noqa: BLE001 - the supervised edge
        return f"it does not tell its status: {type(exc).__name__}: {exc}"
    return (status.detail or "it gave up") if status.state is SourceState.FAILED else None
