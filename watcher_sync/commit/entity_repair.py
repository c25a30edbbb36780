# SPDX-License-Identifier: Apache-2.0
"""Repairs of single entities by an administrator: reset versions, and undelete.

Both write one journal row under the locked head. So every replica follows: running engines, their standbys and the
API. The types of the rows are :data:`RESET` and :data:`UNDELETE`.

A facet that this system wrote last (its API, the evaluation) is never reset. Its next write is newer in any case, and
no event is.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import sqlalchemy as sa

from watcher_sync.commit.direct import DirectCommitCycle, DirectWriter
from watcher_sync.events import Event
from watcher_sync.exceptions import WatcherSyncError
from watcher_sync.model.changes import WRITTEN_HERE, Version
from watcher_sync.model.kinds import Kind
from watcher_sync.model.scopes import require_own
from watcher_sync.storage.database.database import retried
from watcher_sync.storage.writing.journal import FORGETS_LAST_SEEN, JournalRow, is_of_kind, versions_of

RESET: Final = FORGETS_LAST_SEEN
UNDELETE: Final = "manage.entity.undelete"
SOURCE: Final = "manage"

OLDEST: Final = Version("!")
"""The version of a facet after a reset: older than every event's, which begin with a digit or a letter."""

_MAX_ROWS: Final = 1000
"""Journal rows of the entity, without remarks, in which its deletion is searched."""


class CannotRepair(WatcherSyncError):
    """The entity cannot be repaired in this way; the message says why, and what can be done."""


class Repaired(msgspec.Struct, frozen=True):
    """What was written."""

    kind: str
    id: str
    facets: Mapping[str, str]
    """Facet -> the version that it had before a reset, or that it has after an undelete."""
    seq: int
    """Of the journal row."""


@retried
def reset(writer: DirectWriter, kind: Kind, entity_id: str, facet: str | None = None) -> Repaired:
    """Set the versions of an entity back, so that the next event writes it whatever its time.

    :param facet: the only facet to reset; None: all that events write.
    :raises CannotRepair: there is no such entity, or nothing to reset.
    :raises FollowedEntity: it is that of a followed site.
    :raises DatabaseUnavailable: the database is unavailable; nothing is written.
    """
    with writer.begin() as cycle:
        require_own(cycle.store.sites.sources, SOURCE, kind.name, entity_id)
        entity = cycle.view.get(kind.name, entity_id)
        tombstone = None if entity is not None else cycle.model.tombstone(kind.name, entity_id)
        if entity is not None:
            versions = entity.versions
        elif tombstone is None:
            raise CannotRepair(f"{kind.name} {entity_id} does not exist")
        elif not kind.ids_reused:
            raise CannotRepair(f"{kind.name} {entity_id} is deleted; entity undelete restores it")
        else:
            versions = tombstone.versions
        before = _resettable(kind, entity_id, versions, facet)
        fresh = tuple(OLDEST if f in before else v for f, v in zip(kind.facets, versions, strict=True))
        cycle.repair(_event(RESET, entity_id), kind.name, entity_id, None if entity is None else {}, fresh)
        _forget_last_seen(cycle, kind, entity_id)
        return Repaired(kind.name, entity_id, before, cycle.generation)


@retried
def undelete(writer: DirectWriter, kind: Kind, entity_id: str) -> Repaired:
    """Restore the last state before an entity's deletion from the journal, and remove its tombstone.

    :raises CannotRepair: it is not deleted, or the journal does not have its last state any more.
    :raises FollowedEntity: it is that of a followed site.
    :raises DatabaseUnavailable: the database is unavailable; nothing is written.
    """
    with writer.begin() as cycle:
        require_own(cycle.store.sites.sources, SOURCE, kind.name, entity_id)
        entity = cycle.view.get(kind.name, entity_id)
        if entity is not None and not getattr(entity, "gone", False):
            raise CannotRepair(f"{kind.name} {entity_id} is not deleted")
        deletion, earlier = _find_deletion(cycle, kind, entity_id)
        values = kind.from_json({field: old for field, (old, _) in deletion.delta.items()})
        if entity is None:
            values = {n: v for n, v in values.items() if v is not None or kind.defaults[n] is None}
        if kind.is_placeholder:
            values |= {"gone": False, "discovered": False}
        versions = _versions_before(kind, deletion, earlier)
        cycle.repair(_event(UNDELETE, entity_id), kind.name, entity_id, values, versions)
        t = cycle.store.tables.tombstones
        with cycle.store.connect() as connection:
            connection.execute(sa.delete(t).where(t.c.kind == kind.name, t.c.id == entity_id))
        restored = {f: v for f, v in zip(kind.facets, versions, strict=True) if v}
        return Repaired(kind.name, entity_id, restored, cycle.generation)


def _event(event_type: str, entity_id: str) -> Event:
    now = datetime.datetime.now(datetime.UTC)
    return Event(id=str(uuid.uuid4()), type=event_type, source=SOURCE, subject=entity_id, time=now)


def _resettable(kind: Kind, entity_id: str, versions: Sequence[Version], facet: str | None) -> dict[str, str]:
    """Facet -> version, of those to reset.

    :raises CannotRepair: there is none.
    """
    found = {
        name: str(version)
        for name, version in zip(kind.facets, versions, strict=True)
        if version and not version.startswith(WRITTEN_HERE) and facet in (None, name)
    }
    if found:
        return found
    if facet is not None and versions[kind.facet_position[facet]]:
        raise CannotRepair(
            f"the facet {facet} of {kind.name} {entity_id} was written by watcher_sync itself, not by an event; "
            "the next write of the same kind, such as a PUT, replaces it"
        )
    raise CannotRepair(
        f"no event has written {kind.name} {entity_id}" + (f", facet {facet}" if facet is not None else "")
    )


def _find_deletion(cycle: DirectCommitCycle, kind: Kind, entity_id: str) -> tuple[JournalRow, JournalRow | None]:
    """The journal row of the deletion that has the last state, and the row before it, if the journal has one.

    :raises CannotRepair: the journal has no such row.
    """
    t = cycle.store.tables.journal
    # As JournalRow.is_remark says. The limit must not count remarks.
    is_change = sa.or_(
        t.c.change != "updated",
        sa.type_coerce(t.c.versions, sa.Text()) != "{}",
        sa.type_coerce(t.c.delta, sa.Text()) != "{}",
    )
    query = sa.select(t).where(t.c.entity_id == entity_id, is_of_kind(t, kind.name), is_change).order_by(t.c.seq.desc())
    with cycle.store.connect() as connection:
        rows = [JournalRow(*row) for row in connection.execute(query.limit(_MAX_ROWS))]
    for index, row in enumerate(rows):
        if (row.change == "deleted" and row.delta) or tuple(row.delta.get("gone", ())) == (False, True):
            return row, rows[index + 1] if index + 1 < len(rows) else None
        if row.change == "created":
            break
    if not rows and cycle.model.tombstone(kind.name, entity_id) is None:
        raise CannotRepair(f"{kind.name} {entity_id} is unknown: it has no tombstone and no row in the journal")
    raise CannotRepair(
        f"the journal no longer has the last state of {kind.name} {entity_id}: the row of its deletion was purged "
        "([retention] journal_days, journal_rows), or no commit ever had it"
    )


def _versions_before(kind: Kind, deletion: JournalRow, earlier: JournalRow | None) -> tuple[Version, ...]:
    """The versions before the deletion. If the journal lacks them, the oldest, except for what the API deleted."""
    if earlier is not None and earlier.change != "deleted":
        found: tuple[Version, ...] = versions_of(kind, earlier.versions)
        return found
    versions = [OLDEST] * len(kind.facets)
    anchor = deletion.versions.get(kind.anchor, "")
    if anchor.startswith(WRITTEN_HERE):
        versions[kind.anchor_position] = Version(anchor)
    return tuple(versions)


def _forget_last_seen(cycle: DirectCommitCycle, kind: Kind, entity_id: str) -> None:
    if kind.last_seen_field is None:
        return
    table = cycle.store.tables.entities[kind.name]
    with cycle.store.connect() as connection:
        connection.execute(sa.update(table).where(table.c.id == entity_id).values({kind.last_seen_field: None}))
