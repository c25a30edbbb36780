# SPDX-License-Identifier: Apache-2.0
"""Logs when the database becomes unavailable to a worker, and when it recovers: one line each. For one thread."""

from __future__ import annotations

from oslo_log import log as logging

from watcher_sync.exceptions import StorageError

LOG = logging.getLogger(__name__)


class DatabaseAvailability:
    """Whether the last call of the database succeeded."""

    def __init__(self) -> None:
        self.is_available = True

    def failed(self, error: StorageError) -> None:
        """A call failed, and is retried."""
        if self.is_available:
            LOG.warning("webhooks: database unavailable, retrying: %s", error)
        self.is_available = False

    def succeeded(self) -> None:
        """A call succeeded."""
        if not self.is_available:
            LOG.info("webhooks: database recovered")
        self.is_available = True
