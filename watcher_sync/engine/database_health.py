# SPDX-License-Identifier: Apache-2.0
"""The database's comings and goings: said once each, and tried again at less than once a second."""

from __future__ import annotations

import random
from collections.abc import Iterator

from oslo_log import log as logging

from watcher_sync.exceptions import DatabaseUnavailable

LOG = logging.getLogger(__name__)

FIRST_RETRY = 1.2
_LONGEST_RETRY = 4.0
"""Seconds between two attempts at a database that is away: less than one a second, and soon back."""


class DatabaseHealth:
    """Whether the database is away. One thread tells, any thread asks."""

    def __init__(self) -> None:
        self.trouble: str | None = None
        """Why the database cannot be used; None while it can."""

    def is_on(self) -> bool:
        """Whether the database cannot be used."""
        return self.trouble is not None

    def begins(self, exc: DatabaseUnavailable) -> None:
        """It was found away (again)."""
        if self.trouble is None:
            LOG.error("The database is away, nothing is acknowledged until it is back: %s", exc)
        self.trouble = str(exc)

    def ends(self) -> None:
        """It was found at work."""
        if self.trouble is not None:
            LOG.info("The database is back")
            self.trouble = None


def pauses() -> Iterator[float]:
    """Endless back-off: seconds, growing, jittered, never below what keeps us under one attempt a second."""
    pause = FIRST_RETRY
    while True:
        yield pause + random.uniform(0, 0.3)  # noqa: S311 - jitter
        pause = min(pause * 1.5, _LONGEST_RETRY)
