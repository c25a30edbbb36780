# SPDX-License-Identifier: Apache-2.0
"""Times and ids as text that sorts like them, for versions.

The model compares versions by code point, so a number needs leading zeros, and an id has to be ASCII of a bounded
length. Pure functions, for any thread.
"""

from __future__ import annotations

import datetime
import hashlib
from typing import Final

from watcher_sync.exceptions import InvalidEvent

UTC: Final = datetime.UTC

NO_TIME: Final = "0" * 17
"""The text of an unknown time: before every other."""

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=UTC)
_LATEST_DAY: Final = 10**17 // (86_400 * 10**6)
"""The first day whose microseconds do not all fit into 17 digits: in the year 5138."""


def digits(time: datetime.datetime, where: str) -> str:
    """Microseconds since 1970, with zeros in front: 17 digits.

    :param where: the path of the field with the time.
    :raises InvalidEvent: naming that path, for a time that such text cannot put in order.
    """
    since = (time if time.tzinfo is UTC else utc(time, where)) - _EPOCH
    if not 0 <= since.days < _LATEST_DAY:
        raise InvalidEvent(f"{where}: a time before 1970 or after 5138, which cannot be put in order")
    return str((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds).zfill(17)


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
    """An id that fits into a version, and is another for another id."""
    if len(text) <= 64 and text.isascii() and text.isprintable():
        return text
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).hexdigest()
    return f"{ascii(text)[1:48]}~{digest}"
