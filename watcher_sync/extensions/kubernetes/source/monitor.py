# SPDX-License-Identifier: Apache-2.0
"""The thread that notices an API server that is silent because it is frozen, or cut off.

A watch without changes is silent, too: API servers send bookmarks about once a minute. So after some seconds without a
byte on any connection, the monitor asks the server for its version. If two requests in a row get no answer, the server
does not answer. The next byte or answer ends that. The watches are cut then, so that they resume over new connections.

It also has the source report its counts while they change.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from oslo_log import log as logging

from watcher_sync.extensions.kubernetes.source.progress import Since
from watcher_sync.sources.base import IntakeClosed

LOG = logging.getLogger(__name__)

_ATTEMPTS: Final = 2
_REFRESH_SECONDS: Final = 10.0
"""Between two reports of counts."""


class ClusterMonitor:
    """Watches the silence of one cluster. Its thread probes; :attr:`problem` is for any thread."""

    def __init__(
        self,
        name: str,
        *,
        interval: float,
        last_byte_at: Callable[[], float],
        probe: Callable[[], str],
        changed: Callable[[], None],
        recovered: Callable[[], None],
        refresh: Callable[[], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """:param name: of the thread.

        :param interval: seconds of silence before a probe, and between two probes; 0: no probe.
        :param last_byte_at: returns when the last byte arrived, in the seconds of ``monotonic``.
        :param probe: asks the server; returns why it does not answer, or an empty text.
        :param changed: called every second, and so soon after a change of :attr:`problem`.
        :param recovered: called before ``changed`` when the server answers again.
        :param refresh: called every 10 seconds.
        """
        self.problem = ""
        """Why the server does not answer; empty while it does."""
        self.problem_since: Since | None = None
        self._interval = interval
        self._last_byte_at = last_byte_at
        self._probe = probe
        self._changed = changed
        self._recovered = recovered
        self._refresh = refresh
        self._monotonic = monotonic
        self._probed_at = self._refreshed_at = monotonic()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def begin_stop(self) -> None:
        """Ask the thread to end."""
        self._stopping.set()

    def join(self, timeout: float) -> None:
        """Wait at most so many seconds for the end of the thread."""
        if self._thread.ident is not None:
            self._thread.join(max(0.0, timeout))

    def step(self) -> None:
        """Probe if the server is silent, and refresh if that is due."""
        now = self._monotonic()
        received_at = self._last_byte_at()
        if self._interval > 0 and now - max(received_at, self._probed_at) >= self._interval:
            why = self._ask()
            self._probed_at = self._monotonic()
            self._set(why)
        elif self.problem and received_at > self._probed_at:
            self._set("")
        self._changed()
        if now - self._refreshed_at >= _REFRESH_SECONDS:
            self._refreshed_at = now
            self._refresh()

    def _ask(self) -> str:
        why = ""
        for _ in range(_ATTEMPTS):
            if self._stopping.is_set() or not (why := self._probe()):
                return ""
        return why

    def _set(self, problem: str) -> None:
        if problem and not self.problem:
            self.problem_since = Since.now()
        before, self.problem = self.problem, problem
        if before and not problem:
            self._recovered()

    def _run(self) -> None:
        while not self._stopping.wait(min(1.0, self._interval / 4) if self._interval > 0 else 1.0):
            try:
                self.step()
            except IntakeClosed:
                return
            except Exception:  # the edge of the thread
                LOG.exception("%s: unexpected error, retrying", self._thread.name)
