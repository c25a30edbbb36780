# SPDX-License-Identifier: Apache-2.0
"""The order of Nova's events: their versions, and which orders are doubtful.

A version is ``<rank><publication><clock><event>``, 31 characters:

* rank: a copy, a building instance, everything else. An instance never returns to ``building``.
* publication: microseconds since 1970, by the publisher's clock.
* clock: a digest of the publisher's name.
* event: the message id, as the tie-break.

The payload's ``updated_at`` is no part of it: it is the time of the write before the one that the event reports.

Guaranteed: of two events of one publisher about one facet, the later one wins. Not guaranteed: the order of two
publishers whose clocks differ by more than the time between their events. :func:`is_doubtful` says when that is
possible. Pure functions, for any thread.
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import sys
from typing import Final

from watcher_sync.events import Event
from watcher_sync.handlers import sortable
from watcher_sync.model.changes import Version

_COPY: Final = "0"
"""Rank of what an event has only copied."""
_BUILDING: Final = "1"
_WRITTEN: Final = "2"

_BUILDING_STATE: Final = "building"

MAX_CLOCK_DIFFERENCE: Final = 1_000_000
"""Microseconds that the clocks of two publishers may be apart before orders become wrong unnoticed."""

_PUBLICATION: Final = slice(1, 18)
_CLOCK: Final = slice(18, 21)
_LISTED_CLOCK: Final = "000"
"""Before the clocks of all publishers: an event of the same microsecond is newer."""


def event_version(event: Event, state: object = None) -> Version:
    """The version of what an event's own writer saved.

    :param state: the instance's state in the payload, for an event of an instance.
    """
    rank = _BUILDING if state == _BUILDING_STATE else _WRITTEN
    return Version(f"{rank}{_published(event)}{_clock(event.origin)}{_name(event.id)}")


def copy_version(version: Version) -> Version:
    """The version of what the same event only copied: older than everything that an event saved."""
    return Version(_COPY + version[1:])


def request_version(version: Version) -> Version:
    """The version of what the same event tells of the request for an instance: older than every copy."""
    return Version(_COPY + sortable.NO_TIME + version[_PUBLICATION.stop :])


def lock_copy_version(version: Version, locked: bool) -> Version:
    """The version of a copied lock.

    Nearly every event copies the lock. So its version has a resolution of one second, and all events of that second
    share the text. It contains the value, because an equal version has to mean an equal value.
    """
    return Version(sys.intern(f"{_COPY}{version[1:12]}{'y' if locked else 'n'}"))


def listed_version(
    updated_at: datetime.datetime | None, listed_at: datetime.datetime, *, state: str | None = None
) -> Version:
    """The version of what Nova's API listed.

    It is newer than every event published before ``listed_at``, and older than the events published after it. It is
    the same for instances, services and aggregates.

    :param updated_at: the entity's own time; the result does not depend on it, because events do not have it.
    :param listed_at: aware time at which the listing began.
    :param state: the state of a listed instance in the words of the notifications. The events of a building one are
        older than those of the built one.
    """
    del updated_at
    rank = _BUILDING if state == _BUILDING_STATE else _WRITTEN
    return Version(f"{rank}{sortable.digits(listed_at, 'listed_at')}{_LISTED_CLOCK}")


def is_copy(version: Version) -> bool:
    """Whether an event only copied what has this version, or it has no writer yet."""
    return version[:1] <= _COPY


def is_doubtful(known: Version, new: Version) -> bool:
    """Whether two versions of one facet may have been made in the other order.

    That is so if two clocks made them at nearly the same time, and their ranks do not tell them apart.
    """
    if known[_CLOCK] == new[_CLOCK] or known[:1] != new[:1] or new[:1] == _COPY:
        return False
    first, second = known[_PUBLICATION], new[_PUBLICATION]
    if not (len(first) == len(second) == 17 and first.isdecimal() and second.isdecimal()):
        return False  # not all versions are made here
    return abs(int(first) - int(second)) < MAX_CLOCK_DIFFERENCE


def _published(event: Event) -> str:
    return sortable.digits(event.time, "timestamp") if event.time is not None else sortable.NO_TIME


@functools.lru_cache(maxsize=4096)
def _clock(origin: str) -> str:
    """Three characters for a publisher. Few publishers share them, and then a doubt is missed."""
    return hashlib.blake2b(origin.encode(errors="surrogatepass"), digest_size=2).hexdigest()[:3]


def _name(event_id: str) -> str:
    """Ten characters for a message id. They sort like the id if it has no more, and no space or ``!``."""
    size = len(event_id)
    if size == 36 and event_id[8] == "-" and event_id.isascii():
        short = event_id[:8] + event_id[34:]
        if short.isalnum():  # of a UUID
            return short
    if size <= 10 and event_id.isascii() and event_id.isprintable() and "!" not in event_id and " " not in event_id:
        return event_id
    return hashlib.blake2b(event_id.encode(errors="surrogatepass"), digest_size=5).hexdigest()
