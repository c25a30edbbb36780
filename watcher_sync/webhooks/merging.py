# SPDX-License-Identifier: Apache-2.0
"""Merges rows of the journal into the subscriptions that they concern: new rows, and older ones in passes.

It does no I/O. For one thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from oslo_log import log as logging

from watcher_sync.model.kinds import Entity
from watcher_sync.model.model import Model
from watcher_sync.model.onap.instances import INSTANCE_KINDS
from watcher_sync.model.onap.merging import Changes
from watcher_sync.model.staged import Key
from watcher_sync.storage.writing.journal import JournalRow
from watcher_sync.webhooks.lifecycle import FOREIGN
from watcher_sync.webhooks.live import Live
from watcher_sync.webhooks.matcher import entity_of
from watcher_sync.webhooks.roster import Roster

LOG = logging.getLogger(__name__)

_MEMBERSHIP = frozenset({"vdus", "cluster", "namespace"})
"""Fields of a VNF instance that say which workloads it has."""


class JournalMerger:
    """Merges rows into the subscriptions of a roster."""

    def __init__(self, roster: Roster, model: Model) -> None:
        """:param model: the replica, at the seq of the last rows of :meth:`add_rows`."""
        self._roster = roster
        self._model = model

    def add_rows(self, rows: Sequence[JournalRow], before: Mapping[Key, Entity | None]) -> None:
        """Merge new rows into the subscriptions that they concern. The model is at the last one.

        :param before: entities as they were before the first row.
        """
        for row in rows:
            if row.kind == "vnf_instance":
                self._roster.matcher.index(row.entity_id)
            for live in self._roster.matcher.match(row, before):
                if row.seq > live.after:
                    self._merge(live, row, live.changes if live.reading is None else live.later)
            if row.kind in INSTANCE_KINDS:
                for live in self._roster.matcher.of_instance(row.kind, row.entity_id).values():
                    self._instance_changed(live, row)

    def remember_deleted(self, rows: Iterable[JournalRow]) -> None:
        """Learn which workloads were deleted before; see :class:`Matcher`.

        :param rows: their deletions.
        """
        for row in rows:
            self._roster.matcher.remember(entity_of(self._model.kinds[row.kind], row))

    def begin_reading(self, lives: Iterable[Live]) -> object:
        """Begin to merge older rows into what :meth:`put` returned. Return the pass, for the other methods."""
        reading = object()
        for live in lives:
            if live.reading is not None:
                live.reading = reading
        return reading

    def add_older_rows(self, rows: Sequence[JournalRow], reading: object) -> None:
        """Merge rows that the model already contains into the subscriptions of a pass."""
        for row in rows:
            for live in self._roster.matcher.match(row, {}):
                if live.reading is reading and row.seq > live.after:
                    self._merge(live, row, live.changes)
                    live.after = row.seq
                    if row.seq <= live.done:
                        live.replayed.add((row.kind, row.entity_id))
            if row.kind in INSTANCE_KINDS:
                for live in self._roster.matcher.of_instance(row.kind, row.entity_id).values():
                    if live.reading is reading:
                        self._instance_changed(live, row)

    def end_reading(self, lives: Iterable[Live], reading: object) -> None:
        """The older rows of a pass are merged."""
        for live in lives:
            if live.reading is reading:
                live.reading = None
                live.changes.extend(live.later)
                if self._roster.live.get(live.id) is live and live.is_active:
                    self._roster.ready[live.id] = live

    def purged(self, lives: Iterable[Live], reading: object) -> None:
        """The journal no longer has the rows that a pass needs: its subscriptions get all resources."""
        for live in lives:
            if live.reading is reading:
                live.take()
                live.note(live.after + 1, resync="the journal no longer has all changes")
                LOG.warning("webhooks: subscription %s is behind the journal; it gets all resources", live.id)
        self.end_reading(lives, reading)

    def _merge(self, live: Live, row: JournalRow, into: Changes) -> None:
        if row.change == "updated" and not row.delta:
            return
        into.add(self._model.kinds[row.kind], row.entity_id, row.change, row.delta, row.seq)
        if row.change == "updated" and "owner_uid" in row.delta:
            live.note(row.seq, resync="a resource has another owner")
        if row.kind == "workload" and row.change == "created":
            for kind, entity in self._roster.matcher.below(row.entity_id):
                into.add(self._model.kinds[kind], entity.id, "created", {}, row.seq)
                live.replayed.add((kind, entity.id))  # a row before may have matched, too, as a modification
        if live.since is None:
            live.since = row.time
        self._roster.ready[live.id] = live

    def _instance_changed(self, live: Live, row: JournalRow) -> None:
        """The instance was created, deleted or written: the subscription ends, goes on, or gets all resources."""
        if row.seq <= live.after and live.reading is None:
            return
        is_vnf = row.kind == "vnf_instance"
        if row.change != "deleted" and live.is_foreign(self._model.get(row.kind, row.entity_id)):
            live.note(row.seq, ending=FOREIGN)
            self._roster.ready[live.id] = live
            return
        if row.change == "deleted":
            live.note(row.seq, ending="the instance was deleted")
        elif row.change == "created":
            if row.seq <= max(live.ended_at, live.subscription.start_after):
                return
            live.ending = ""
            if is_vnf:
                live.note(row.seq, resync="the instance was created again")
        elif is_vnf and not _MEMBERSHIP.isdisjoint(row.delta):
            live.note(row.seq, resync="the instance names other workloads")
        else:
            return
        live.since = live.since or row.time
        self._roster.ready[live.id] = live
