# SPDX-License-Identifier: Apache-2.0
"""What a handler may ask of the model, and what came of it."""

from __future__ import annotations

import datetime
import enum
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NewType

import msgspec

from watcher_sync.deprecation import renamed_names

Version = NewType("Version", str)
"""What orders two changes of one facet: an ASCII string, compared by code point; at most 200 characters.

Each dialect builds it so that text order is the order of the changes (zero-padded numbers first).
"""

NEVER = Version("")
"""The version of a facet that nobody has written yet: older than every other."""

WRITTEN_HERE = "~"
"""What the versions of changes begin with that are written through our own API: newer than every event's, which
begin with a digit or a letter."""


class Upsert(msgspec.Struct, frozen=True, gc=False):
    """Create the entity or overwrite some of its facets.

    A facet is written whole or not at all: the guard compares ``version`` with the version that wrote
    the facet last, and only a newer one is let in. A field that is left out of its facet keeps its
    value, so a dialect that leaves fields out needs a facet for them.
    """

    kind: str
    id: str
    version: Version
    facets: Mapping[str, Mapping[str, Any]]
    """facet name -> {field: value}; an absent entity needs its anchor facet among them."""


class Delete(msgspec.Struct, frozen=True, gc=False):
    """The entity exists no more. What comes later with an older version is stale; for a kind whose ids
    are never used again, whatever comes later is."""

    kind: str
    id: str
    version: Version


class Seen(msgspec.Struct, frozen=True, gc=False):
    """A sign of life of an entity. Kept in memory, written at most once a minute, never journaled.

    The newest time wins, in whatever order they come; an entity that does not exist is not created.
    """

    kind: str
    id: str
    time: datetime.datetime


Change = Upsert | Delete | Seen


class Outcome(enum.StrEnum):
    """What became of one event."""

    APPLIED = "applied"
    STALE = "stale"
    DUPLICATE = "duplicate"
    IGNORED = "ignored"
    PARKED = "parked"
    QUARANTINED = "quarantined"


if not TYPE_CHECKING:
    __getattr__ = renamed_names(__name__, {"Heard": (__name__, "Seen")})
