# SPDX-License-Identifier: Apache-2.0
"""One entity that a batch touched, and how its values differ from before."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from watcher_sync.events import Event
from watcher_sync.model.kinds import Entity, Kind
from watcher_sync.model.tombstones import Tombstone

Key = tuple[str, str]
"""(kind, id)."""


class Staged(msgspec.Struct, gc=False):
    """One entity that the batch touched, from what it was to what it is now."""

    kind: Kind
    id: str
    seq: int
    base: Entity | None
    entity: Entity | None
    tombstone: Tombstone | None
    event: Event
    """The last event that touched it."""
    merged: int
    """How many events touched it."""
    touched: set[str]
    """At least the fields that differ between base and entity, when there are both."""

    def delta(self) -> dict[str, tuple[Any, Any]]:
        """field -> (old, new) of the public fields that differ; empty when only versions moved."""
        base, entity = self.base, self.entity
        if base is entity:
            return {}
        if base is None:
            return {n: (None, v) for n in self.kind.fields if (v := getattr(entity, n)) is not None}
        if entity is None:
            return {n: (v, None) for n in self.kind.fields if (v := getattr(base, n)) is not None}
        names = [n for n in self.kind.fields if n in self.touched] if len(self.touched) > 1 else self.touched
        return {n: (old, new) for n in names if differ(old := getattr(base, n), new := getattr(entity, n))}

    def change(self) -> str:
        """created, updated or deleted.

        An entity that did not exist before and does not exist now has an empty update: only versions moved.
        """
        if self.entity is None:
            return "updated" if self.base is None else "deleted"
        return "created" if self.base is None else "updated"


_canonical = msgspec.json.Encoder(order="deterministic").encode

NESTED: Final = frozenset({dict, list})
"""The classes of values that contain others."""


def differ(old: Any, new: Any) -> bool:
    """Whether two values are not the same in JSON either: to Python 1, 1.0 and true are equal."""
    if old != new or old.__class__ is not new.__class__:
        return True
    return bool(old) and old.__class__ in NESTED and _canonical(old) != _canonical(new)
