# SPDX-License-Identifier: Apache-2.0
"""Versions of a region whose database went back in time.

The restored region has lower versions than the model here. So the number of its epoch leads each version: what the
region says in a later epoch is newer than all that it said before. The first epoch leads nothing.

Versions that a process writes itself begin with one tilde. Those of a region may be led by a number already, of a
region that it follows in turn. The id of an entity has a colon for each region on its way. So one tilde more than there
are colons sorts behind all of these.
"""

from __future__ import annotations

from typing import Final

from watcher_sync.model.changes import WRITTEN_HERE, Version

_DIGITS: Final = 6


def led(version: str, entity_id: str, number: int) -> Version:
    """A version of an epoch.

    :param entity_id: with the prefix of the site.
    :param number: how many times the region went back in time.
    """
    return Version(f"{_lead(entity_id)}{number:0{_DIGITS}d}{WRITTEN_HERE}{version}" if number else version)


def number_of(version: str, entity_id: str) -> int:
    """The number of the epoch that leads a version; 0: none does."""
    lead = _lead(entity_id)
    digits = version[len(lead) : len(lead) + _DIGITS]
    return int(digits) if version.startswith(lead) and digits.isdecimal() else 0


def _lead(entity_id: str) -> str:
    return WRITTEN_HERE * (1 + entity_id.count(":"))
