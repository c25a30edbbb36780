# SPDX-License-Identifier: Apache-2.0
"""Marks the entities of removed sources: nothing updates them any more.

The scopes of the removed sources are read every few seconds, and no entity is read for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from watcher_sync.model.scopes import EntityScope
from watcher_sync.storage.groups.removed_sources import Removed, read_removed
from watcher_sync.storage.groups.source_status import list_sources

MARK: Final = "source_removed"
"""The member of a document; it is absent for all other entities."""
_MAX_AGE_SECONDS: Final = 5.0


class RemovedOfKind(msgspec.Struct, frozen=True):
    """What removed sources left behind of one kind."""

    removed: Removed
    scopes: list[EntityScope]

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields by which an entity is in one of the scopes, beside its id."""
        return tuple(scope.field for scope in self.scopes if scope.field)

    def has(self, row: Mapping[str, Any]) -> bool:
        """Whether an entity is that of a removed source.

        :param row: its id, and :attr:`fields`.
        """
        return self.removed.has(self.scopes, row)


class RemovedEntities:
    """Knows which entities are those of removed sources. For any thread: the last answer wins."""

    def __init__(self, database: sa.Engine, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._monotonic = monotonic
        self._known: tuple[float, Removed] | None = None

    def of_kind(self, kind: str) -> RemovedOfKind | None:
        """What removed sources left behind of a kind; None: nothing.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        known, now = self._known, self._monotonic()
        if known is None or now - known[0] > _MAX_AGE_SECONDS:
            known = self._known = now, read_removed(list_sources(self._database, removed=True))
        removed = known[1]
        scopes = removed.of_kind(kind) if removed.scopes else []
        return RemovedOfKind(removed, scopes) if scopes else None
