# SPDX-License-Identifier: Apache-2.0
"""How a region's entities are named in this model: their ids, the fields that refer to entities, and their versions.

All ids get ``<site>:``, because regions use the same host and cluster names. A field that refers to an entity gets the
same prefix, so the relations inside a site hold.

Projects, images, flavors and users get none, because they are no entities here. The ids inside of documents, such as
those of pods in ``vnfc_resource_info``, get none either.

A region whose database went back in time has lower versions than the model here. So the number of its epoch leads each
version (:func:`led`). That also makes it newer than all that this installation wrote to the id.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final

from watcher_sync.model.changes import NEVER, WRITTEN_HERE, Version
from watcher_sync.model.kinds import Kind

_MORE: Final[Mapping[str, tuple[str, ...]]] = {
    "provider": ("name",),
    "provider_binding": ("provider_name", "source"),
    "service_type_instance": ("provider_name",),
}
"""Kind -> fields with names of providers and sources, which are no ids.

The id of a provider begins with its name, so the name gets the prefix, too. So does a bound source: it binds no source
of this system.
"""


@functools.cache
def references(kind: Kind) -> tuple[str, ...]:
    """The fields of a kind that get the prefix."""
    return (*(each.field for each in kind.references), *_MORE.get(kind.name, ()))


def prefix_references(kind: Kind, prefix: str, values: dict[str, Any]) -> None:
    """Put the prefix before each id that the values refer to. The order of a sorted list stays."""
    for name in references(kind):
        value = values.get(name)
        if isinstance(value, str) and value:
            values[name] = prefix + value
        elif isinstance(value, list):
            values[name] = [prefix + each if isinstance(each, str) else each for each in value]


_DIGITS: Final = 6
MAX_EPOCHS: Final = 10**_DIGITS - 1
"""The greatest number that a version has room for."""


def led(version: str, entity_id: str, number: int) -> Version:
    """A version of an epoch: newer than all that the region said in an earlier one, and all that was written here.

    Versions that a process writes itself begin with one tilde. Those of a region may be led by a number already, of a
    region that it follows in turn. The id of an entity has a colon for each region on its way. So one tilde more than
    there are colons sorts behind all of these.

    :param entity_id: with the prefix of the site.
    :param number: how many times the region went back in time.
    """
    return Version(f"{_lead(entity_id)}{number:0{_DIGITS}d}{WRITTEN_HERE}{version}")


def first_version(entity_id: str, number: int) -> Version:
    """Older than all versions of an epoch, and newer than all of an earlier one.

    :param number: as that of :func:`led`.
    """
    return led(NEVER, entity_id, number)


def number_of(version: str, entity_id: str) -> int:
    """The number of the epoch that leads a version; 0: the first one, or none does."""
    lead = _lead(entity_id)
    digits = version[len(lead) : len(lead) + _DIGITS]
    return int(digits) if version.startswith(lead) and digits.isdecimal() else 0


def _lead(entity_id: str) -> str:
    return WRITTEN_HERE * (1 + entity_id.count(":"))
