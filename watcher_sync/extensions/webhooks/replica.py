# SPDX-License-Identifier: Apache-2.0
"""The part of the model that the subscriptions of a session need, and its way along the journal.

It has the instances that they name. Owners decide which pods and workloads concern a VNF instance. So it has all pods,
workloads and VNF instances once a subscription names a VNF instance. Rows of other entities are not decoded: they move
the generation only.

For the thread of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from typing import Any, Final

from oslo_log import log as logging

from watcher_sync.exceptions import DatabaseUnavailable, JournalPurged, LeaseLost
from watcher_sync.extensions.webhooks.planner import Planner
from watcher_sync.extensions.webhooks.resources import WorkerResources
from watcher_sync.extensions.webhooks.rows import ACTIVE, Row
from watcher_sync.extensions.webhooks.subscription import OlderRows
from watcher_sync.extensions.webhooks.writer import RETRY_SECONDS
from watcher_sync.model.kinds import Entity, Kinds
from watcher_sync.model.model import Key, Model, Written
from watcher_sync.storage.loading import Only
from watcher_sync.storage.writing.journal import JournalRow, StoredRow, apply

LOG = logging.getLogger(__name__)

_WHOLE: Final = ("vnf_instance", "workload", "pod")
"""Kinds of which it has all entities or none but the named ones."""
_SPARE: Final = 1_000
"""Entities that no subscription names any more, and that are not worth a search."""

_READ_ROWS: Final = 2000
_CHUNKS_AT_ONCE: Final = 10
"""So many rows of the journal are read before the other work has its turn."""
_FAR_BEHIND_ROWS: Final = 50_000
"""Subscriptions that are further behind are read in a pass of their own, so that the others do not wait for it."""
_DELETED_ROWS: Final = 200_000
"""Rows before the head in which a new session searches deleted workloads."""


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
        keys = {key for key in keys if key[0] in self.model.kinds}
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


class JournalFollower:
    """Moves the replica of a session along the journal, and merges the rows into its subscriptions."""

    def __init__(
        self,
        resources: WorkerResources,
        planner: Planner,
        replica: Replica,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        """:param spawn: begins a task of the session."""
        self._resources = resources
        self._planner = planner
        self._replica = replica
        self._spawn = spawn

    async def complete(self, rows: Sequence[Row], reached: int) -> None:
        """Load the entities that these subscriptions need, and move the replica to their seq.

        :param reached: the replica is to be there at least: a worker before has planned up to this seq.
        :raises LeaseLost: the journal ends before the replica.
        :raises DatabaseUnavailable: the database is unavailable.
        """
        replica, call = self._replica, self._resources.call
        if replica.is_sparse(len(self._planner)):
            replica.retain(self._planner.instances())
        missing = replica.missing(rows)
        if missing or not replica.has_begun:
            part = await call(self._resources.store.load, missing)
            if replica.has_begun:
                await self._follow_to(part.generation)
            had_workloads = replica.has_workloads
            replica.add(part, missing)
            if replica.has_workloads and not had_workloads:
                deleted_after = max(0, part.generation - _DELETED_ROWS)
                deleted = self._resources.rows.deleted_between
                self._planner.remember_deleted(await call(deleted, "workload", deleted_after, part.generation))
        elif reached > replica.model.generation:
            # A restored database may have positions of the lost history.
            await self._follow_to(min(reached, await call(self._resources.reader.head)))

    async def follow(self) -> None:
        """Move to the head of the journal as the reader knows it, in portions; errors are left to the next call.

        :raises LeaseLost: the journal has no rows that join the replica.
        """
        model, reader = self._replica.model, self._resources.reader
        if not self._replica.has_begun:
            return
        for _ in range(_CHUNKS_AT_ONCE):
            if reader.seen() <= model.generation:
                return
            try:
                await self._follow_some(_READ_ROWS)
            except DatabaseUnavailable as exc:
                LOG.debug("webhooks: the journal was not read: %s", exc)
                return
        self._resources.wake.set()

    def read_older(self, waiting: Sequence[OlderRows]) -> None:
        """Start the passes that read what the model already contains."""
        upto = self._replica.model.generation
        far = [each for each in waiting if each.after < upto - _FAR_BEHIND_ROWS]
        near = [each for each in waiting if each.after >= upto - _FAR_BEHIND_ROWS]
        for some in (near, far):
            if some:
                self._spawn(self._read_pass(frozenset(some), upto))

    async def _read_pass(self, waiting: Collection[OlderRows], upto: int) -> None:
        rows, call = self._resources.rows, self._resources.call
        position = min(each.after for each in waiting)
        knows_deleted, is_purged = not self._replica.has_workloads, False
        while position < upto and any(each.is_awaited for each in waiting):
            try:
                if not knows_deleted:
                    self._planner.remember_deleted(await call(rows.deleted_between, "workload", position, upto))
                    knows_deleted = True
                found = await call(self._resources.reader.read_stored, position, min(_READ_ROWS, upto - position))
            except DatabaseUnavailable:
                await asyncio.sleep(RETRY_SECONDS)
                continue
            except JournalPurged:
                is_purged = True
                break
            self._planner.add_older_rows(self._replica.select(found), waiting)
            position = found[-1].seq
            await asyncio.sleep(0)
        self._planner.end_older(waiting, purged=is_purged)
        self._resources.notify()

    async def _follow_to(self, seq: int) -> None:
        """Move the replica to a seq that was the head of the journal since the replica moved."""
        generation = self._replica.model.generation
        if seq < generation:
            raise LeaseLost(f"the journal ends at seq {seq}, before {generation}")
        while self._replica.model.generation < seq:
            await self._follow_some(min(_READ_ROWS, seq - self._replica.model.generation))

    async def _follow_some(self, limit: int) -> None:
        """Move the replica by at most so many rows, and merge them."""
        reader, known = self._resources.reader, self._replica.model.generation
        try:
            rows = reader.cached_stored(known, limit)
            if not rows:
                # It is behind what the reader keeps in memory.
                rows = await self._resources.call(reader.read_stored, known, limit)
            if not rows:
                raise LeaseLost(f"the journal ends before seq {known + 1}")
            selected, before = self._replica.follow(rows)
        except JournalPurged as exc:
            # This replica was stopped for longer than the retention.
            raise LeaseLost(str(exc)) from None
        self._planner.add_rows(selected, before)
        await asyncio.sleep(0)
