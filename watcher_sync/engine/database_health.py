# SPDX-License-Identifier: Apache-2.0
"""Whether the database is available, and the back-off while it is not.

Each change of state is logged once.
"""

from __future__ import annotations

from oslo_log import log as logging

from watcher_sync.backoff import Backoff
from watcher_sync.exceptions import DatabaseUnavailable

LOG = logging.getLogger(__name__)

_RETRY_SECONDS = (2.4, 5.0)
"""The longest pauses. Every one exceeds one second, so an engine makes less than one attempt a second."""


class DatabaseHealth:
    """The engine's view of the database. The engine's thread writes it; any thread may read it."""

    def __init__(self) -> None:
        self.problem: str | None = None
        """Why the database is unavailable; None while it is available."""
        self._backoff = Backoff(*_RETRY_SECONDS)

    def is_unavailable(self) -> bool:
        """Whether the last attempt to use the database failed."""
        return self.problem is not None

    def mark_unavailable(self, exc: DatabaseUnavailable) -> float:
        """Record a failed attempt. The first one of an outage is logged.

        :returns: the seconds to wait before the next attempt.
        """
        if self.problem is None:
            LOG.error("The database is unavailable, retrying; no event is acknowledged until it recovers: %s", exc)
        self.problem = str(exc)
        return self._backoff.failed()

    def mark_available(self) -> None:
        """Record a successful attempt. The first one after an outage is logged."""
        if self.problem is not None:
            LOG.info("The database has recovered")
            self.problem = None
            self._backoff.succeeded()
