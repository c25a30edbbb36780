# SPDX-License-Identifier: Apache-2.0
"""Which process publishes an outlet: the holder of a lease, as for engines (:mod:`watcher_sync.storage.groups.leases`).

A thread takes the lease and renews it, so that no slow log lets it end. A publisher that was frozen does not know that
time passed: :meth:`PublisherLease.token` compares a clock that counts the time of a suspended machine, too. What it
sends nevertheless, the log refuses.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from oslo_log import log as logging

from watcher_sync.exceptions import LeaseLost
from watcher_sync.periodic import Outage, PeriodicThread
from watcher_sync.storage.groups.leases import EngineLease

LOG = logging.getLogger(__name__)

LEASE_PREFIX = "outlet:"
_MARGIN = 0.2
"""The part of the lease time that a publisher stops before its lease ends."""


def boot_time() -> float:
    """Seconds since the start of the machine, suspended time included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class PublisherLease:
    """The lease of one outlet. Any thread may ask for the token."""

    def __init__(self, lease: EngineLease, outlet: str, clock: Callable[[], float] = boot_time) -> None:
        self._lease = lease
        self._outlet = outlet
        self._clock = clock
        # Guards the two below, and is notified when they change.
        self._changed = threading.Condition()
        self._token: int | None = None
        self._valid_until = -math.inf
        outage = Outage(
            LOG, f"outlet {outlet}: the lease cannot be renewed", f"outlet {outlet}: the lease is renewed again"
        )
        self.thread = PeriodicThread(f"outlet-lease-{outlet}", self.renew, lease.seconds / 4, outage, at_end=self._end)

    def token(self) -> int | None:
        """The token of the lease; None: this process must not publish now."""
        with self._changed:
            return self._token if self._clock() < self._valid_until else None

    def wait(self, seconds: float) -> int | None:
        """Wait for the lease, at most so many seconds. Return :meth:`token`."""
        with self._changed:
            if self._token is None or self._clock() >= self._valid_until:
                self._changed.wait(seconds)
        return self.token()

    def renew(self) -> None:
        """Take the lease if it is free, or renew it.

        :raises DatabaseUnavailable: the database is unavailable; what this process has remains until the lease ends.
        """
        began = self._clock()
        if self._token is None:
            if not self._lease.try_take():
                return
        else:
            try:
                self._lease.beat()
            except LeaseLost:
                self._lease.forget()
                self._set(None, began)
                LOG.warning("outlet %s: another process publishes now", self._outlet)
                return
        self._set(self._lease.require_fence().token, began)

    def _set(self, token: int | None, began: float) -> None:
        with self._changed:
            self._token = token
            self._valid_until = began + self._lease.seconds * (1 - _MARGIN)
            self._changed.notify_all()

    def _end(self) -> None:
        self._set(None, self._clock())
        self._lease.give_back()
