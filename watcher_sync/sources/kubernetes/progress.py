# SPDX-License-Identifier: Apache-2.0
"""The phase, the counters and the log lines of one reflector.

The thread of the reflector writes; any thread reads single attributes. Between two reads they may change, so a
reader must not combine them into one statement about one moment.
"""

from __future__ import annotations

import datetime
import enum
import time
from collections.abc import Callable
from typing import Final

import msgspec
from oslo_log import log as logging

LOG = logging.getLogger(__name__)

_WARNING_INTERVAL_SECONDS: Final = 60.0
"""Between two warnings of one reflector."""


class Phase(enum.StrEnum):
    """What a reflector is doing."""

    STARTING = "starting"
    LISTING = "listing"
    WATCHING = "watching"
    FAILING = "failing"


class Since(msgspec.Struct, frozen=True):
    """When something began. The wall clock shows it, and the monotonic clock measures how long ago it was."""

    time: datetime.datetime
    monotonic: float

    @classmethod
    def now(cls) -> Since:
        """It begins now."""
        return cls(datetime.datetime.now(datetime.UTC), time.monotonic())

    @property
    def seconds(self) -> float:
        """How long ago it was."""
        return time.monotonic() - self.monotonic


class SyncProgress:
    """What one reflector is doing, and what it has done."""

    def __init__(self, source: str, name: Callable[[], str], changed: Callable[[], None]) -> None:
        """:param source: for log lines.

        :param name: returns the name of the reflector, for log lines.
        :param changed: called after each change of the phase or of the error.
        """
        self.phase = Phase.STARTING
        self.error = ""
        """Why the phase is FAILING, in one line."""
        self.failing_since: Since | None = None
        """When the reflector began to fail; None: it works, or has not failed yet."""
        self.synced_at: datetime.datetime | None = None
        """End of the last complete listing."""
        self.last_event_at: datetime.datetime | None = None
        self.last_byte_at = time.monotonic()
        """When the server last sent something, by the monotonic clock."""
        self.resumptions = 0
        """Number of watches that ended with an error and were made again, with a listing before or without."""
        self.relists = 0
        """Number of listings, the first one included."""
        self.remaining = 0
        """Objects of the running listing that did not arrive yet."""
        self._source = source
        self._name = name
        self._changed = changed
        self._warned_at = -_WARNING_INTERVAL_SECONDS
        self._has_lost_watch = False

    @property
    def has_synced(self) -> bool:
        """Whether a listing was complete at least once."""
        return self.synced_at is not None

    @property
    def lag(self) -> int | None:
        """Like :attr:`remaining`; None while it is unknown."""
        return self.remaining if self.phase in (Phase.LISTING, Phase.WATCHING) else None

    def lose_watch(self) -> None:
        """A watch ended with an error; the next one counts as resumed."""
        self._has_lost_watch = True

    def enter(self, phase: Phase, error: str = "") -> None:
        """Set the phase; log one line when the reflector begins to fail, and one when it recovers."""
        if phase is Phase.WATCHING and self._has_lost_watch:
            self.resumptions += 1
            self._has_lost_watch = False
        if (phase, error) == (self.phase, self.error):
            return
        if error and self.phase is not Phase.FAILING:
            self._log_failure(error)
        elif phase is Phase.WATCHING and self.error:
            LOG.info("source %s: %s: recovered", self._source, self._name())
        # A listing does not end the failure: only a watch proves that the reflector works again.
        if phase is Phase.WATCHING:
            self.failing_since = None
        elif error:
            self.failing_since = self.failing_since or Since.now()
        self.phase, self.error = phase, "" if phase is Phase.WATCHING else error or self.error
        self._changed()

    def _log_failure(self, error: str) -> None:
        """Log at DEBUG within the interval, so that a flapping cluster does not fill the log."""
        now = time.monotonic()
        level = logging.DEBUG
        if now - self._warned_at >= _WARNING_INTERVAL_SECONDS:
            level, self._warned_at = logging.WARNING, now
        LOG.log(level, "source %s: %s: unavailable, retrying: %s", self._source, self._name(), error)
