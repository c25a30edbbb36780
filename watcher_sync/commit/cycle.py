# SPDX-License-Identifier: Apache-2.0
"""The commit cycle over a replica: it follows the journal, and recovers from a database that went back in time.

:mod:`watcher_sync.commit.batch_committer` commits the batches. This module moves the replica to the head of the journal
when another writer was first. After some conflicts it locks the head before it dispatches. If the database has another
history, the replica is loaded again.

:class:`LastSeenWriter` shares the times at which entities were last seen. Almost every event changes these times, so
they are held in memory and written at intervals, without a journal row.

All of it runs in the thread that writes the model, but :meth:`CommitCycle.add_awaited` in any thread.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Sequence

from oslo_log import log as logging

from watcher_sync.commit.batch_committer import BatchCommitter
from watcher_sync.commit.batch_dispatch import CommitLimits
from watcher_sync.exceptions import HeadMoved, HistoryChanged, JournalPurged
from watcher_sync.model.kinds import Entity
from watcher_sync.model.model import Key, Model, Written
from watcher_sync.storage.epochs import Position
from watcher_sync.storage.stored.parking import Awaited
from watcher_sync.storage.writing.commits import Commit
from watcher_sync.storage.writing.store import Store

LOG = logging.getLogger(__name__)

CONFLICTS_BEFORE_LOCK = 2
"""Conflicts of one batch after which its commit locks the journal's head before it is dispatched again. A writer that
overlaps dispatch and commit moves the head sooner than another can dispatch, until its backlog is empty."""


class CommitCycle(BatchCommitter):
    """The commit cycle over a replica: what an engine runs, and a process that replays events."""

    store: Store
    model: Model
    _counted: Awaited | None = None
    """What parked events wait for, by the latest count; None once it is merged."""

    def follow(self) -> None:
        """Move the replica to the head of the journal and write nothing. A standby does only this.

        :raises HistoryChanged: the database went back in time, or is another one. It has a new epoch, and the replica
            was loaded from it. Nothing from before may be committed: its positions belong to another history.
        :raises DatabaseUnavailable: the database is unavailable.
        """
        try:
            self._follow()
        except HistoryChanged as exc:
            model, position = self.store.reload(exc.before)
            self._replace_model(model)
            self.read_parked()
            self.stats.restorations += 1
            _report_recovery(exc.before, position)
            raise

    def _follow(self) -> None:
        """As :meth:`follow`, without the recovery from another history."""
        before: dict[Key, Entity | None] = {}
        try:
            written = self.store.catch_up(self.model, before=before)
            self._mark_appeared(written)
            self._mark_created([w for w in written if w.entity is not None and before.get((w.kind, w.id)) is None])
        except JournalPurged:
            LOG.info("The journal no longer reaches back to seq %d; loading the tables", self.model.generation)
            self._replace_model(self.store.load())
        finally:
            if before:
                self.evaluation.followed(before, self.model)

    def _replace_model(self, model: Model) -> None:
        self.model.replace_with(model)
        self.evaluation.reset()
        self._awaited.mark_all_appeared()

    def _base(self) -> tuple[str | None, int | None]:
        return self.model.epoch, self.model.mark

    def _write(self, make: Callable[[], Commit], conflicts: int) -> float | None:
        """As the base class does; after some conflicts, with the journal's head locked from before the dispatch."""
        if conflicts < CONFLICTS_BEFORE_LOCK:
            return super()._write(make, conflicts)

        def follow_and_make() -> Commit:
            self._follow()
            return make()

        began = self._monotonic()
        try:
            self.store.commit_locked(follow_and_make)
        except HistoryChanged as exc:  # the recovery needs the lock
            raise HeadMoved(str(exc)) from exc
        return self._monotonic() - began

    def read_parked(self) -> None:
        """Read which events are parked now; another engine may have parked some.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        self._awaited.reset(self._parked.awaited())

    def add_awaited(self, awaited: Awaited) -> None:
        """Learn what parked events wait for, including those of other writers. Any thread may call it."""
        self._counted = awaited

    def catch_up(self) -> None:
        """As the base class does, with what :meth:`add_awaited` was called with."""
        counted, self._counted = self._counted, None
        if counted is not None:
            self._awaited.replace_with(counted)
        super().catch_up()

    def _mark_created(self, written: Sequence[Written]) -> None:
        """Mark those of these new entities as ready that events of another writer wait for."""
        keys = self._awaited.unknown(written)
        if keys:
            self._awaited.mark_ready(self._parked.existing(keys))


def _report_recovery(known: Position, position: Position) -> None:
    """Log what happened, and what an operator can expect.

    :param known: the last commit of the history that the database lost.
    :param position: where it continues.
    """
    LOG.error(
        "The database went back in time, or was replaced: it has no commit at %s. It continues at %s. The tables are "
        "loaded again, the sources continue from their positions in the database, and the reconcilers run. What was "
        "acknowledged meanwhile is lost unless a source or a reconciler repeats it",
        known,
        position,
    )


class LastSeenWriter:
    """Writes the times of this replica and reads those of other engines. For the engine's thread."""

    def __init__(self, store: Store, model: Model, limits: CommitLimits) -> None:
        self._store = store
        self._model = model
        self._limits = limits
        self._written: dict[str, dict[str, datetime.datetime]] = {}
        self._next = time.monotonic() + limits.liveness_interval

    def persist_if_due(self) -> None:
        """Write new times if the interval is over; after an error, the next interval writes them.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + self._limits.liveness_interval
        self.persist()
        for kind, seen in self._store.read_last_seen().items():
            self._model.set_last_seen(kind, seen)

    def persist(self) -> None:
        """Write new times now.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        for name, kind in self._model.kinds.items():
            if kind.last_seen_field is None:
                continue
            written = self._written.setdefault(name, {})
            fresh = {
                entity_id: seen
                for entity_id, seen in self._model.last_seen(name).items()
                if written.get(entity_id) != seen and self._model.get(name, entity_id) is not None
            }
            self._store.persist_last_seen({name: fresh})
            written.update(fresh)
