# SPDX-License-Identifier: Apache-2.0
"""The phase, the counters and the log lines of one reflector.

The thread of the reflector writes; any thread reads single attributes. Between two reads they may change, so a
reader must not combine them into one statement about one moment.
"""

from __future__ import annotations

import datetime
import enum
import math
import time
from collections.abc import Callable
from typing import Final, Protocol

import msgspec
from oslo_log import log as logging

LOG = logging.getLogger(__name__)

_WARNING_INTERVAL_SECONDS: Final = 60.0
"""Between two warnings of one reflector."""
_WARNING_AFTER_SECONDS: Final = 2.0
"""A failure that lasts so long is logged. By then, all reflectors of a cluster that is away have failed."""


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


class ProgressOwner(Protocol):
    """The source, as the progress of a reflector uses it."""

    def changed(self) -> None:
        """Is called after each change of the phase or of the error."""

    @property
    def is_disconnected(self) -> bool:
        """Whether the whole cluster is, so that the reason is in the log already."""


class SyncProgress:
    """What one reflector is doing, and what it has done."""

    def __init__(self, source: str, name: Callable[[], str], owner: ProgressOwner) -> None:
        """:param source: for log lines.

        :param name: returns the name of the reflector, for log lines.
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
        self._owner = owner
        self._is_logged = False
        """Whether the log has this failure."""
        self._warned_at = -_WARNING_INTERVAL_SECONDS
        self._has_lost_watch = False
        self._watching_at = math.inf
        self._failed_at: float | None = None
        """Since when no watch has lasted while the cluster was connected, by the monotonic clock."""

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
        if time.monotonic() - self._watching_at >= _WARNING_AFTER_SECONDS:
            self._failed_at = None

    def enter(self, phase: Phase, error: str = "", *, is_answer: bool = False) -> None:
        """Set the phase; log one line when the reflector alone fails, and one when it recovers.

        :param is_answer: the server answered with the error. Otherwise the cluster may be away, and the line waits.
        """
        if phase is Phase.WATCHING and self._has_lost_watch:
            self.resumptions += 1
            self._has_lost_watch = False
        if error:
            self.failing_since = self.failing_since or Since.now()
            if self._failed_at is None or self._owner.is_disconnected:
                self._failed_at = time.monotonic()  # the reflector has not failed alone until now
            if is_answer or time.monotonic() - self._failed_at >= _WARNING_AFTER_SECONDS:
                self._log_failure(error)
        if (phase, error) == (self.phase, self.error):
            return
        # A listing does not end the failure: only a watch proves that the reflector works again.
        if phase is Phase.WATCHING:
            self.failing_since, self._watching_at = None, time.monotonic()
            if self._is_logged:
                LOG.info("source %s: %s: recovered", self._source, self._name())
            self._is_logged = False
        self.phase, self.error = phase, "" if phase is Phase.WATCHING else error or self.error
        self._owner.changed()

    def _log_failure(self, error: str) -> None:
        """Log once, and rarely, so that neither a cluster that is away nor one that flaps fills the log."""
        now = time.monotonic()
        is_due = now - self._warned_at >= _WARNING_INTERVAL_SECONDS
        if is_due and not self._is_logged and not self._owner.is_disconnected:
            self._is_logged, self._warned_at = True, now
            LOG.warning("source %s: %s: unavailable, retrying: %s", self._source, self._name(), error)
