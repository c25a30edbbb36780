# SPDX-License-Identifier: Apache-2.0
"""Prefixes the ids of a region's entities, and the fields that refer to other entities.

All ids get ``<site>:``, because regions use the same host and cluster names. A field that refers to an entity gets the
same prefix, so the relations inside a site hold.

Projects, images, flavors and users get none, because they are no entities here. The ids inside of documents, such as
those of pods in ``vnfc_resource_info``, get none either.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final

from watcher_sync.model.kinds import Kind
from watcher_sync.model.watch.resources import resource_kind

_MORE: Final[Mapping[str, tuple[str, ...]]] = {
    "provider": ("name",),
    "service_type_instance": ("provider_name",),
    "workload": ("owner_uid",),
    "pod": ("owner_uid",),
}
"""Kind -> fields that refer to entities, and that no declaration names as references.

The id of a provider begins with its name, so the name gets the prefix, too.
"""


def prefix_of(site: str) -> str:
    """How the ids of a site's entities begin."""
    return f"{site}:"


@functools.cache
def references(kind: Kind) -> tuple[str, ...]:
    """The fields of a kind that have ids of entities."""
    shown = resource_kind(kind)
    links = [*shown.references, *([shown.scope] if shown.scope is not None else [])]
    found = [*(each.field for each in kind.references), *(each.field for each in links), *_MORE.get(kind.name, ())]
    return tuple(dict.fromkeys(found))


def prefix_references(kind: Kind, prefix: str, values: dict[str, Any]) -> None:
    """Put the prefix before each id that the values refer to. The order of a sorted list stays."""
    for name in references(kind):
        value = values.get(name)
        if isinstance(value, str) and value:
            values[name] = prefix + value
        elif isinstance(value, list):
            values[name] = [prefix + each if isinstance(each, str) else each for each in value]
