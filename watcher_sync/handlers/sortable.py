# SPDX-License-Identifier: Apache-2.0
"""Times and ids as text that sorts like them, for versions.

The model compares versions by code point, so a number needs leading zeros, and an id has to be ASCII of a bounded
length. Pure functions, for any thread.
"""

from __future__ import annotations

import datetime
import hashlib
from typing import Final

from watcher_sync.events import NATIVE, Event
from watcher_sync.exceptions import InvalidEvent
from watcher_sync.model.clock import NO_LIMIT, ClockLimit, current_limit

UTC: Final = datetime.UTC

NO_TIME: Final = "0" * 17
"""The text of an unknown time: before every other."""

_UNMARKED: Final = str.maketrans("! ", "__")

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=UTC)


def digits(time: datetime.datetime, where: str) -> str:
    """Microseconds since 1970, with zeros in front: 17 digits. A time without an offset is taken for UTC.

    :param where: the path of the field with the time.
    :raises InvalidEvent: naming that path, for a time that such text cannot put in order, or that is further ahead of
        this system's clock than ``[engine] max_clock_skew``.
    """
    since = (time if time.tzinfo is UTC else utc(time, where)) - _EPOCH
    microseconds = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    limit = current_limit()
    if not 0 <= microseconds <= limit.microseconds:
        (limit if microseconds > 0 else NO_LIMIT).refuse(where, time)
    return str(microseconds).zfill(17)


def not_in_future(time: datetime.datetime, where: str) -> datetime.datetime:
    """The time, for a handler that makes its versions without :func:`digits`.

    A version with a time of the payload needs this check. The commit cycle checks :attr:`Event.time` itself.

    :param where: the path of the field with the time.
    :raises InvalidEvent: naming that path, for a time that is further ahead of this system's clock than
        ``[engine] max_clock_skew``.
    """
    limit = current_limit()
    if (aware := utc(time, where)) > limit.latest:
        limit.refuse(where, aware)
    return time


def utc(time: datetime.datetime, where: str) -> datetime.datetime:
    """The time in UTC; one without an offset is taken for UTC.

    :raises InvalidEvent: naming the path, for a time outside of the calendar.
    """
    if time.tzinfo is None:
        return time.replace(tzinfo=UTC)
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise InvalidEvent(f"{where}: a time outside of the calendar") from None


def name(text: str) -> str:
    """An id that fits into a version, without spaces and ``!``, and is another for another id."""
    if len(text) <= 64 and text.isascii() and text.isprintable() and "!" not in text and " " not in text:
        return text
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).hexdigest()
    return f"{ascii(text)[1:48].translate(_UNMARKED)}~{digest}"


def check_times(event: Event, limit: ClockLimit) -> None:
    """Check the times of an event that may become part of a version. The handler checks those of the payload.

    :raises InvalidEvent: one of them is after the limit.
    """
    time = event.time
    if time is not None and (time if time.tzinfo is UTC else utc(time, "time")) > limit.latest:
        limit.refuse("time", time)
    # Drivers that make their events themselves have a counter there and no time.
    if event.sequence is not None and event.sequence[0] > limit.microseconds and event.envelope != NATIVE:
        limit.refuse("sequence (the creation time of the stream)", event.sequence[0])
