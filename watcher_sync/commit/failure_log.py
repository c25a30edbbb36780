# SPDX-License-Identifier: Apache-2.0
"""Logs why events go to quarantine, at most once a minute for each handler that fails and each source that errs."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from oslo_log import log as logging

from watcher_sync.exceptions import UNAUTHORISED
from watcher_sync.storage.stored.stored_events import RefusedEvent

LOG = logging.getLogger(__name__)

_LOG_INTERVAL_SECONDS = 60.0


class FailureLog:
    """For one thread. It remembers a time for each handler and each source, of which there are few."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._logged_at: dict[tuple[str, str], float] = {}

    def log_failure(self, handler: str, reason: str) -> None:
        """Log that a handler raised an exception that it should not."""
        if self._is_due("handler", handler):
            LOG.error("%s (the event is in quarantine, with the traceback)", reason)

    def log_unauthorised(self, quarantined: Iterable[RefusedEvent]) -> None:
        """Log those of these events that their source may not bring: one of each source."""
        for kept in quarantined:
            if kept.reason.startswith(UNAUTHORISED) and self._is_due("source", kept.event.source):
                LOG.warning("source %s: %s (the event is in quarantine)", kept.event.source, kept.reason)

    def _is_due(self, what: str, name: str) -> bool:
        """Whether its last line is a minute old; then this counts as the next one."""
        now = self._monotonic()
        if now - self._logged_at.get((what, name), -_LOG_INTERVAL_SECONDS) < _LOG_INTERVAL_SECONDS:
            return False
        self._logged_at[what, name] = now
        return True
