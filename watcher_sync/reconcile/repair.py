# SPDX-License-Identifier: Apache-2.0
"""Writes what a listing found, unless an event wrote the entity meanwhile.

A listing has no version in the order of events. The repair writes an entity only if nothing wrote it since before the
listing began. Then the listing is newer. The repair uses the version just after the stored one, which is older than
every event that is still to come. A new entity gets the first of all versions, or the one just after an earlier
absence. So any process may repair beside an engine. The handler knows these versions by their ``~``.

The handler makes the changes of the object and of its dependants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from oslo_log import log as logging

from watcher_sync.commit.direct import DirectWriter
from watcher_sync.dispatch import Dispatcher, HandlerMethod
from watcher_sync.events import Actor, Event
from watcher_sync.exceptions import InvalidEvent, RowRefused
from watcher_sync.model.changes import ABSENT, NEVER, Change, Delete, Doubtful, Outcome, Seen, Version, absent
from watcher_sync.model.kinds import Kinds
from watcher_sync.model.view import View
from watcher_sync.reconcile.drift import Divergence

LOG = logging.getLogger(__name__)

Absences = Mapping[tuple[str, str], Sequence[Version]]
"""(kind, id) -> versions of a deletion that only a listing suggested, before the one that is written now."""

_MAX_ENTITIES: Final = 200
"""Entities of one transaction; the head of the journal is held as long."""

FIRST: Final = Version(f"{0:017d}.{0:012d}~{1:09d}")
"""The version of an entity that no event has reported: older than every event."""

_LATEST: Final = (10**17 - 1, 10**12 - 1)
"""The sequence that a handler sees: newer than every event, so that it skips nothing."""


def after(written: Version) -> Version:
    """Return the version just after a written one, which may be that of an absence."""
    if written == NEVER:
        return FIRST
    base, _, count = written.partition("~")
    return Version(f"{base}~{int(count.removesuffix(ABSENT) or 0) + 1:09d}")


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
        written = deleted = 0
        for begin in range(0, len(found), _MAX_ENTITIES):
            portion = found[begin : begin + _MAX_ENTITIES]
            for (what, _), outcome in zip(portion, self._heal_portion(portion, since, actor), strict=True):
                if outcome is Outcome.APPLIED:
                    written += not what.gone
                    deleted += what.gone
        return written, deleted

    def _heal_portion(
        self, portion: Sequence[tuple[Divergence, Event]], since: int, actor: Actor | None
    ) -> list[Outcome]:
        try:
            with self._writes.begin(actor) as cycle:
                for kind in {what.kind for what, _ in portion}:
                    cycle.model.prefetch(kind, [what.id for what, _ in portion if what.kind == kind])
                absences = {
                    (what.kind, what.id): absence.versions
                    for what, _ in portion
                    if (absence := cycle.model.tombstone(what.kind, what.id)) is not None
                    and absence.is_of_absence
                    and absence.seq <= since
                }
                return cycle.write_all([self._write(what, event, absences) for what, event in portion])
        except (InvalidEvent, RowRefused) as exc:
            if len(portion) == 1:
                LOG.warning("%s %s cannot be written as it is: %s", portion[0][0].kind, portion[0][0].id, exc)
                return [Outcome.QUARANTINED]
            middle = len(portion) // 2
            halves = portion[:middle], portion[middle:]
            return [outcome for half in halves for outcome in self._heal_portion(half, since, actor)]

    def _write(
        self, what: Divergence, event: Event, absences: Absences
    ) -> tuple[Event, Callable[[View], Iterable[Change]]]:
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
