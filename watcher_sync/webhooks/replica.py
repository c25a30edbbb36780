# SPDX-License-Identifier: Apache-2.0
"""The part of the model that the subscriptions of a session need.

It has the instances that they name. Owners decide which pods and workloads concern a VNF instance. So it has all pods,
workloads and VNF instances once a subscription names a VNF instance. Rows of other entities are not decoded: they move
the generation only.

For the thread of the event loop.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from watcher_sync.exceptions import JournalPurged
from watcher_sync.model.kinds import Entity, Kinds
from watcher_sync.model.model import Model, Written
from watcher_sync.model.staged import Key
from watcher_sync.storage.loading import Only
from watcher_sync.storage.writing.journal import JournalRow, StoredRow, apply
from watcher_sync.webhooks.subscription_rows import ACTIVE, Row

_WHOLE: Final = ("vnf_instance", "workload", "pod")
"""Kinds of which it has all entities or none but the named ones."""
_SPARE: Final = 1_000
"""Entities that no subscription names any more, and that are not worth a search."""


class Replica:
    """Some entities of the model, at one seq of the journal."""

    def __init__(self, kinds: Kinds) -> None:
        self.model = Model(kinds)
        self.has_begun = False
        """Whether it is at a seq of the journal."""
        self._keys: set[Key] = set()
        """The entities that it has, or would have if they existed."""
        self._whole: frozenset[str] = frozenset()
        """Kinds of which it has all entities."""

    @property
    def has_workloads(self) -> bool:
        """Whether it has pods and workloads."""
        return bool(self._whole)

    def missing(self, rows: Iterable[Row]) -> dict[str, Collection[str] | None]:
        """What has to be loaded for these subscriptions."""
        keys = {(each.instance_kind, each.instance_id) for each, _ in rows if each.state == ACTIVE}
        found: dict[str, Collection[str] | None] = {}
        for kind in sorted({kind for kind, _ in keys} - self._whole):
            if kind in _WHOLE:
                found |= dict.fromkeys(_WHOLE)
            elif ids := sorted(entity_id for each, entity_id in keys - self._keys if each == kind):
                found[kind] = ids
        return found

    def add(self, part: Model, missing: Only) -> None:
        """Take what was loaded.

        :param part: at the seq of this replica, unless that has not begun.
        """
        view = part.snapshot()
        written: list[Written] = []
        for kind, ids in missing.items():
            if ids is None:
                written += [Written(kind, entity.id, entity, None) for entity in view.all(kind)]
                self.model.take_tombstones(kind, part)
                self._whole |= {kind}
                continue
            for entity_id in ids:
                entity = view.get(kind, entity_id)
                tombstone = part.tombstone(kind, entity_id) if entity is None else None
                written.append(Written(kind, entity_id, entity, tombstone))
                self._keys.add((kind, entity_id))
        self.model.write(written, part.generation)
        self.has_begun = True

    def is_sparse(self, subscriptions: int) -> bool:
        """Whether it has many more entities than so many subscriptions need."""
        return len(self._keys) > 2 * subscriptions + _SPARE

    def retain(self, needed: Collection[Key]) -> None:
        """Forget the entities that no subscription names any more."""
        unneeded = self._keys.difference(needed)
        self._keys -= unneeded
        self.model.write([Written(kind, entity_id, None, None) for kind, entity_id in unneeded], self.model.generation)

    def select(self, rows: Iterable[StoredRow]) -> list[JournalRow]:
        """Decode the rows of its entities."""
        keys, whole = self._keys, self._whole
        return [row.decoded() for row in rows if (row.kind, row.entity_id) in keys or row.kind in whole]

    def follow(self, rows: Sequence[StoredRow]) -> tuple[list[JournalRow], dict[Key, Entity | None]]:
        """Move forward by the next rows of the journal, at least one.

        :returns: the rows of its entities, and these as they were before.
        :raises JournalPurged: the rows do not join its generation.
        """
        if rows[0].seq != self.model.generation + 1:
            raise JournalPurged(f"the journal begins after seq {self.model.generation + 1}")
        before: dict[Key, Entity | None] = {}
        selected = self.select(rows)
        apply(self.model, selected, rows[-1].seq, before)
        return selected, before
