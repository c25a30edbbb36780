# SPDX-License-Identifier: Apache-2.0
"""The limit of times that become part of versions: this system's clock, and a skew that is allowed.

A version with a time in the far future is newer than every version to come, so the entity would never change again.
The commit cycle sets the limit once per batch, for its own thread. The guard and the versions of handlers read it.
"""

from __future__ import annotations

import contextvars
import datetime
from typing import Final, NoReturn

import msgspec

from watcher_sync.exceptions import InvalidEvent

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)

_LAST: Final = 10**17 - 1
"""The last microsecond since 1970 that has 17 digits: in the year 5138."""


class ClockLimit(msgspec.Struct, frozen=True):
    """The latest time that a version may have."""

    latest: datetime.datetime
    microseconds: int
    """The same, since 1970."""
    skew: float | None = None
    """Seconds after this system's clock; None: without a limit, but for what can be put in order."""

    def refuse(self, where: str, time: datetime.datetime | int) -> NoReturn:
        """Refuse a time that is after the limit.

        :param where: the path of the field with the time.
        :param time: aware, or microseconds since 1970.
        :raises InvalidEvent: always.
        """
        if self.skew is None:
            raise InvalidEvent(f"{where}: a time before 1970 or after 5138, which cannot be put in order")
        value = (time - _EPOCH) // _MICROSECOND if isinstance(time, datetime.datetime) else time
        ahead = (value - self.microseconds) / 1_000_000 + self.skew
        raise InvalidEvent(
            f"{where}: {_text_of(value)} is {ahead:.0f} s ahead of this system's clock, "
            f"more than the {self.skew:g} s of [engine] max_clock_skew"
        )


def limit_at(now: datetime.datetime, skew: float) -> ClockLimit:
    """The limit at a time.

    :param now: this system's clock, aware.
    :param skew: seconds that other clocks may be ahead.
    """
    latest = now + datetime.timedelta(seconds=skew)
    return ClockLimit(latest, (latest - _EPOCH) // _MICROSECOND, skew)


NO_LIMIT: Final = ClockLimit(datetime.datetime.max.replace(tzinfo=datetime.UTC), _LAST)

_CURRENT: Final[contextvars.ContextVar[ClockLimit]] = contextvars.ContextVar("clock_limit", default=NO_LIMIT)

current_limit = _CURRENT.get
"""The limit that is set in this thread; :data:`NO_LIMIT` if there is none."""

set_limit = _CURRENT.set
"""Set the limit of this thread; returns a token for :data:`reset_limit`."""

reset_limit = _CURRENT.reset


def _text_of(microseconds: int) -> str:
    try:
        return (_EPOCH + datetime.timedelta(microseconds=microseconds)).isoformat()
    except OverflowError:
        return f"a time {microseconds} us after 1970"
