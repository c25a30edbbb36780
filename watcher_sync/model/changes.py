# SPDX-License-Identifier: Apache-2.0
"""The changes that a handler yields, and the outcomes of an event."""

from __future__ import annotations

import datetime
import enum
import re
from collections.abc import Mapping
from typing import Any, Final, NewType

import msgspec

from watcher_sync.events import Actor
from watcher_sync.exceptions import InvalidEvent

Version = NewType("Version", str)
"""What orders two changes of one facet: an ASCII string, compared by code point; at most 200 characters.

Each dialect builds it so that text order is the order of the changes (zero-padded numbers first). It has no spaces and
no ``!``: reconciliation continues a version with them, and so sorts just after it. A version that begins with a space
or a control character is refused.
"""

NEVER = Version("")
"""The version of a facet without a writer yet: older than every other."""

ABSENT = "!"
"""Suffix of the version of a deletion that nothing reported: a complete listing lacked the entity. It is just above the
version itself. A later change makes the entity again, also where a reported deletion would be final."""

WRITTEN_HERE = "~"
"""Prefix of the versions that our own API writes. They are newer than every event's, which begin with a digit or a
letter."""

FOLLOWED = 2 * WRITTEN_HERE
"""Prefix of the versions of followed regions. They are newer than all that this installation wrote to the same id."""


class Upsert(msgspec.Struct, frozen=True, gc=False):
    """Create the entity or overwrite some of its facets.

    The guard compares ``version`` with the version that wrote each facet last. It writes the facet whole if the
    change is newer, and not at all otherwise. A field that is left out of its facet keeps its value, so a dialect
    that leaves fields out needs a facet for them.
    """

    kind: str
    id: str
    version: Version
    facets: Mapping[str, Mapping[str, Any]]
    """facet name -> {field: value}; an absent entity needs its anchor facet among them.

    Without it the event is parked until the entity exists.
    """
    versions: Mapping[str, Version] | None = None
    """facet name -> its version, for facets whose version is not ``version``."""
    actor: Actor | None = None
    """Whom the payload names as the cause of this and all further changes, if the envelope names none."""
    completes: bool = False
    """Whether a facet of the same version gives values to fields that are at their defaults: the writer of before did
    not know these fields."""


class Delete(msgspec.Struct, frozen=True, gc=False):
    """The entity exists no more.

    Every later change with an older version is stale. For a kind whose ids are never used again, every later change
    is stale, unless the version ends with :data:`ABSENT`.
    """

    kind: str
    id: str
    version: Version


class Seen(msgspec.Struct, frozen=True, gc=False):
    """A sign of life of an entity: in memory at once, in the database at most once a minute, never in the journal.

    The newest time wins, in any order of arrival. It does not create an entity.
    """

    kind: str
    id: str
    time: datetime.datetime


class Doubtful(msgspec.Struct, frozen=True, gc=False):
    """The order of the last changes of an entity is uncertain, or an event reported it incompletely.

    It changes nothing. After the commit the reconciler of the entity's system compares the entity soon.
    """

    kind: str
    id: str


Change = Upsert | Delete | Seen | Doubtful
"""What a method of a handler yields."""


class Outcome(enum.StrEnum):
    """The result of one event."""

    APPLIED = "applied"
    STALE = "stale"
    DUPLICATE = "duplicate"
    IGNORED = "ignored"
    PARKED = "parked"
    QUARANTINED = "quarantined"


def absent(version: Version) -> Version:
    """The version of a deletion that only a listing suggests.

    :param version: of the listing.
    """
    return Version(version + ABSENT)


def after(written: Version) -> Version:
    """The version just after a written one, older than every event that is still to come.

    A space is below all characters of the versions of events. So the result is also older than a version that
    continues the written one, and the one after :data:`NEVER` is older than the first event.

    :param written: any version, that of an absence included.
    """
    found = _AFTER.fullmatch(written)
    base, count = (found[1], int(found[2])) if found is not None else (written, 0)
    return Version(f"{base}{_CONTINUED}{count + 1:09d}")


def base_of(version: Version) -> Version:
    """The version that an event wrote, without what :func:`after` appended to it."""
    return Version(version.partition(_CONTINUED)[0])


def is_after(version: Version) -> bool:
    """Whether a version is from :func:`after`: a reconciliation wrote it, and no event."""
    return _CONTINUED in version


_CONTINUED: Final = " "
_AFTER: Final = re.compile(rf"(.{{0,200}}){_CONTINUED}(\d{{9}}){ABSENT}?", re.DOTALL)
"""A version of :func:`after`; the version that it continues, and its count."""


def is_unicode(text: str) -> bool:
    """Whether a text has no half of a surrogate pair, which JSON may bring."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_id(kind: str, entity_id: str) -> None:
    """:raises InvalidEvent: the id of an entity is too long, or some databases would not tell it from another."""
    if not 0 < len(entity_id) <= 255:
        raise InvalidEvent(f"{kind}: an id of {len(entity_id)} characters; 1 to 255 are allowed")
    if entity_id[-1] == " ":  # some databases compare texts without the spaces at their ends
        raise InvalidEvent(f"{kind}: an id that ends with a space")
    if "\0" in entity_id or not (entity_id.isascii() or is_unicode(entity_id)):
        raise InvalidEvent(f"{kind}: an id with a character that no database can store")
    if "\ufffd" in entity_id:
        raise InvalidEvent(f"{kind}: an id with a replacement character, so it is unknown which entity it names")


def check_key(change: Upsert | Delete) -> None:
    """:raises InvalidEvent: the id or a version of a change is impossible."""
    check_id(change.kind, change.id)
    checked = change.version
    versions = {checked, *change.versions.values()} if change.__class__ is Upsert and change.versions else (checked,)
    for version in versions:
        if not (0 < len(version) <= 200 and version.isascii() and version >= ABSENT):
            if version.isascii() and _AFTER.fullmatch(version):
                continue
            raise InvalidEvent(
                f"{change.kind} {change.id}: a version is 1 to 200 ASCII characters, and begins with no space"
            )
