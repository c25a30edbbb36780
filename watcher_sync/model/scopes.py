# SPDX-License-Identifier: Apache-2.0
"""Which entities exist through one source. A source that was removed leaves them behind. Pure.

A scope of all kinds, with a prefix of ids that ends with a colon, is a *site*. Its entities are those of a region that
the source follows. No other source writes them, and no request.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Protocol, runtime_checkable

import msgspec

from watcher_sync.exceptions import FollowedEntity

AFTER_SITE: Final = ":"


def prefix_of(site: str) -> str:
    """How the ids of a site's entities begin."""
    return f"{site}{AFTER_SITE}"


class EntityScope(msgspec.Struct, frozen=True, kw_only=True):
    """Some entities that one source brings."""

    kind: str
    """Empty: any kind."""
    field: str = ""
    """A field, or ``id``, that tells to which source an entity belongs; empty: all entities of the kind do."""
    value: str = ""
    """The value of this field."""
    is_prefix: bool = False
    """Whether the value is only the begin of the field."""

    @property
    def site(self) -> str:
        """The site; empty: it is none."""
        is_site = not self.kind and self.field == "id" and self.is_prefix and self.value.endswith(AFTER_SITE)
        return self.value[:-1] if is_site else ""

    def has(self, value: object) -> bool:
        """Whether an entity with this value in :attr:`field` belongs to it."""
        if not self.field:
            return True
        return isinstance(value, str) and (value.startswith(self.value) if self.is_prefix else value == self.value)


@runtime_checkable
class DeclaresScopes(Protocol):
    """A handler that says which entities exist through a source of its."""

    def scopes(self, origin: str) -> list[EntityScope]:
        """The entities that exist through one source.

        :param origin: the origin of the source's events; empty: each event names its own.
        """


NO_SITES: Final[Mapping[str, frozenset[str]]] = MappingProxyType({})


def require_own(sites: Mapping[str, frozenset[str]], source: str, kind: str, entity_id: str) -> None:
    """Require that an entity is of no site, or of one that the source follows.

    :param sites: site -> the sources that follow it.
    :raises FollowedEntity: it is not.
    """
    site, colon, _ = entity_id.partition(AFTER_SITE)
    if colon and source not in (sources := sites.get(site, (source,))):
        raise FollowedEntity(kind, entity_id, site, sources)
