# SPDX-License-Identifier: Apache-2.0
"""Whether the database is available, and the back-off while it is not.

Each change of state is logged once.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from oslo_log import log as logging

from watcher_sync.exceptions import DatabaseUnavailable

LOG = logging.getLogger(__name__)

FIRST_RETRY_SECONDS = 1.2
_MAX_RETRY_SECONDS = 4.0
_JITTER_SECONDS = 0.3


class DatabaseHealth:
    """The engine's view of the database. The engine's thread writes it; any thread may read it."""

    def __init__(self) -> None:
        self.trouble: str | None = None
        """Why the database is unavailable; None while it is available."""

    def is_unavailable(self) -> bool:
        """Whether the last attempt to use the database failed."""
        return self.trouble is not None

    def mark_unavailable(self, exc: DatabaseUnavailable) -> None:
        """Record a failed attempt. The first one of an outage is logged."""
        if self.trouble is None:
            LOG.error("The database is unavailable, retrying; no event is acknowledged until it recovers: %s", exc)
        self.trouble = str(exc)

    def mark_available(self) -> None:
        """Record a successful attempt. The first one after an outage is logged."""
        if self.trouble is not None:
            LOG.info("The database has recovered")
            self.trouble = None


def backoff_delays() -> Iterator[float]:
    """Delays in seconds before each retry: endless, growing to a limit, with jitter.

    Every delay exceeds one second, so an engine makes less than one attempt a second.
    """
    delay = FIRST_RETRY_SECONDS
    while True:
        yield delay + random.uniform(0, _JITTER_SECONDS)  # noqa: S311 - jitter
        delay = min(delay * 1.5, _MAX_RETRY_SECONDS)
