# SPDX-License-Identifier: Apache-2.0
"""The thread that keeps a leader's lease alive, whatever its commits are doing."""

from __future__ import annotations

import threading
from collections.abc import Callable

from oslo_log import log as logging

from watcher_sync.exceptions import DatabaseUnavailable, LeaseLost
from watcher_sync.storage.leases import EngineLease

LOG = logging.getLogger(__name__)


class Heartbeat:
    """Beats a taken lease three times per lease time, until stopped or until the lease is lost."""

    def __init__(self, lease: EngineLease, lost: Callable[[], None]) -> None:
        """:param lost: called from the heartbeat's thread, once, when another engine took the lease."""
        self._lease = lease
        self._lost = lost
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    def start(self) -> None:
        """Begin to beat."""
        self._thread.start()

    def stop(self) -> None:
        """Beat no more; returns when the thread has ended, or after some seconds where it hangs."""
        self._stop.set()
        self._thread.join(5)

    def _run(self) -> None:
        away = False
        while not self._stop.wait(self._lease.seconds / 3):
            try:
                self._lease.beat()
                away = False
            except LeaseLost as exc:
                LOG.error("%s", exc)
                self._lost()
                return
            except DatabaseUnavailable as exc:
                if not away:
                    LOG.warning("The lease %s cannot be renewed: %s", self._lease.name, exc)
                away = True
