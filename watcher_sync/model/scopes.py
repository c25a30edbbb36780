# SPDX-License-Identifier: Apache-2.0
"""Which entities exist through one source. A source that was removed leaves them behind. Pure."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import msgspec


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
