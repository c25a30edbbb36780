# SPDX-License-Identifier: Apache-2.0
"""The read-only face of the model: what handlers, reconcilers and readers see of it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol

from watcher_sync.model.kinds import Entity


class View(Protocol):
    """One consistent state of the model."""

    def get(self, kind: str, entity_id: str) -> Entity | None:
        """The entity, or None where it does not exist. O(1)."""

    def by(self, kind: str, index: str, value: Any) -> Collection[Entity]:
        """The entities whose indexed field has this value; for a list field, that contain it.

        O(number found).

        :raises KeyError: when the kind declares no such index.
        """
