# SPDX-License-Identifier: Apache-2.0
"""Writes what a listing found, unless an event wrote the entity meanwhile.

A listing has no version in the order of events. The repair writes an entity only if nothing wrote it since before the
listing began. Then the listing is newer. The repair uses the version just after the stored one, which is older than
every event that is still to come. A new entity gets the first of all versions, or the one just after its earlier
deletion, if that yields. So any process may repair beside an engine.

:class:`Healer` has the handler make the changes of the object and of its dependants.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

import msgspec
from oslo_log import log as logging

from watcher_sync.commit.direct import DirectCommitCycle, DirectWriter
from watcher_sync.dispatch import Dispatcher, HandlerMethod
from watcher_sync.events import Actor, Event
from watcher_sync.exceptions import InvalidEvent, NotYet, RowRefused
from watcher_sync.model.changes import ABSENT, NEVER, Change, Delete, Doubtful, Outcome, Seen, Version, absent, after
from watcher_sync.model.kinds import Kinds
from watcher_sync.model.model import Staged
from watcher_sync.model.view import View
from watcher_sync.reconcile.drift import Divergence
from watcher_sync.storage.database.database import retried

LOG = logging.getLogger(__name__)

Absences = Mapping[tuple[str, str], Sequence[Version]]
"""(kind, id) -> versions of a deletion that yields, because it is older than the listing and not final."""

_MAX_ENTITIES: Final = 200
"""Entities of one transaction; the head of the journal is held as long."""

_LATEST: Final = (10**17 - 1, 10**12 - 1)
"""The sequence that a handler sees: newer than every event, so that it skips nothing."""


T = TypeVar("T")

Write = tuple[Event, Callable[[View], Iterable[Change]]]
"""What is recorded as the cause, and what makes the changes from the state inside the transaction."""


def write_portions(
    writes: DirectWriter,
    found: Sequence[T],
    make: Callable[[DirectCommitCycle, Sequence[T]], Sequence[Write]],
    refused: Callable[[T, Exception], None],
    *,
    actor: Actor | None = None,
    committed: Callable[[Sequence[Staged]], object] = len,
) -> Iterator[tuple[T, Outcome]]:
    """Write what was found, in one transaction per 200 entities. A portion that is refused is bisected.

    :param make: returns the write of each, in order, at the begin of a transaction.
    :param refused: gets what the model or the database refuses, and why; its outcome is QUARANTINED.
    :param actor: recorded as the writer.
    :param committed: is called after each transaction, with what that wrote.
    :raises DatabaseUnavailable: the database is unavailable; earlier portions are written.
    """

    @retried
    def commit(portion: Sequence[T]) -> list[Outcome]:
        with writes.begin(actor) as cycle:
            outcomes = cycle.write_all(make(cycle, portion))
        committed(cycle.staged)
        return outcomes

    def write(portion: Sequence[T]) -> list[Outcome]:
        try:
            return commit(portion)
        except (InvalidEvent, NotYet, RowRefused) as exc:
            if len(portion) == 1:
                refused(portion[0], exc)
                return [Outcome.QUARANTINED]
            middle = len(portion) // 2
            return write(portion[:middle]) + write(portion[middle:])

    for begin in range(0, len(found), _MAX_ENTITIES):
        portion = found[begin : begin + _MAX_ENTITIES]
        yield from zip(portion, write(portion), strict=True)


def prefetch(cycle: DirectCommitCycle, found: Iterable[Divergence]) -> None:
    """Read the entities of a portion and their tombstones, in two queries a kind."""
    ids: dict[str, list[str]] = collections.defaultdict(list)
    for what in found:
        ids[what.kind].append(what.id)
    for kind, found_ids in ids.items():
        cycle.model.prefetch(kind, found_ids)


class Healer:
    """Writes the differences of a comparison."""

    def __init__(self, writes: DirectWriter, dispatcher: Dispatcher, kinds: Kinds) -> None:
        self._writes = writes
        self._dispatcher = dispatcher
        self._kinds = kinds

    def heal(
        self, found: Sequence[tuple[Divergence, Event]], *, since: int, actor: Actor | None = None
    ) -> tuple[int, int]:
        """Write the state of the live system to the model.

        :param found: (what differs, the event that corrects it).
        :param since: the journal's seq before the listing began.
        :param actor: recorded as the writer, if a caller of the API asked for the comparison.
        :returns: how many entities were written, and how many deleted.
        :raises DatabaseUnavailable: when the database is unavailable; earlier portions are written.
        """

        def make(cycle: DirectCommitCycle, portion: Sequence[tuple[Divergence, Event]]) -> list[Write]:
            prefetch(cycle, [what for what, _ in portion])
            absences = {
                (what.kind, what.id): absence.versions
                for what, _ in portion
                if (absence := cycle.model.tombstone(what.kind, what.id)) is not None
                and (absence.is_of_absence or self._kinds[what.kind].ids_reused)
                and absence.seq <= since
            }
            return [self._write(what, event, absences) for what, event in portion]

        def refused(one: tuple[Divergence, Event], error: Exception) -> None:
            LOG.warning("%s %s cannot be written as it is: %s", one[0].kind, one[0].id, error)

        outcomes = write_portions(self._writes, found, make, refused, actor=actor)
        applied = [what for (what, _), outcome in outcomes if outcome is Outcome.APPLIED]
        deleted = sum(what.gone for what in applied)
        return len(applied) - deleted, deleted

    def _write(self, what: Divergence, event: Event, absences: Absences) -> Write:
        entry = self._dispatcher.find(event.type)
        assert entry is not None
        assert entry.call is not None
        call = entry.call
        cause = msgspec.structs.replace(
            event, id=f"{what.id}/reconciled", type=f"{event.type.rpartition('.')[0]}.reconciled", data=None
        )
        return cause, lambda view: self._changes(what, event, call, view, absences)

    def _changes(
        self, what: Divergence, event: Event, call: HandlerMethod, view: View, absences: Absences
    ) -> Iterator[Change]:
        if not what.is_unwritten_since(view):
            return
        for change in call(msgspec.structs.replace(event, sequence=_LATEST), view) or ():
            yield self._dated(change, view, absences)

    def _dated(self, change: Change, view: View, absences: Absences) -> Change:
        """Return the change with the version just after the stored one."""
        if isinstance(change, (Seen, Doubtful)):
            return change
        kind, entity = self._kinds[change.kind], view.get(change.kind, change.id)
        if entity is None:
            written = max(absences.get((change.kind, change.id), (NEVER,)))
            return msgspec.structs.replace(change, version=after(written))
        if isinstance(change, Delete):
            version = after(max(entity.versions))
            return msgspec.structs.replace(
                change, version=absent(version) if change.version.endswith(ABSENT) else version
            )
        else:
            written = max(entity.versions[kind.facet_position[facet]] for facet in change.facets)
            if change.version == written:
                return change  # it says nothing new
        return msgspec.structs.replace(change, version=after(written))
