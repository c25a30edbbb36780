# SPDX-License-Identifier: Apache-2.0
"""What the engine reports of the systems that it follows: the state of each source, and of each inventory.

The engine that leads a group runs the group's sources. It writes their rows every few seconds, in a transaction that
touches neither the journal nor any row of a commit. A row does not prove that a source works now: ``updated_at`` is
the age of the report, and :func:`problem_of` checks both against the clock. Times are of the database's clock, aware
UTC.

A source that its group no longer has is *removed*. Its row remains until ``watcher-sync-manage forget-source`` deletes
it, or the source comes back. Only reconciliation writes ``last_full_sync_at``.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Sequence

import msgspec
import sqlalchemy as sa

from watcher_sync.exceptions import RowRefused
from watcher_sync.model.kinds import Kinds
from watcher_sync.storage.database.database import retried, translated
from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.writing.statements import Statements

_TABLE = Tables(Kinds()).source_status
_INVENTORIES = Tables(Kinds()).inventories
"""They do not depend on the entity kinds."""

CONNECTED = "connected"
STOPPED = "stopped"
REMOVED = "removed"


class SourceRow(msgspec.Struct, frozen=True, kw_only=True):
    """One source, as its engine last saw it."""

    source: str
    engine_group: str
    host: str
    """Name of the machine on which the engine runs."""
    pid: int
    state: str
    """starting, connected, disconnected, stopped, failed or removed."""
    detail: str = ""
    """One line for a person: why it is not connected."""
    since: datetime.datetime
    """When it came into this state."""
    lag: int | None = None
    """Events that wait in the transport; None if unknown."""
    last_event_at: datetime.datetime | None = None
    last_full_sync_at: datetime.datetime | None = None
    """When reconciliation last compared everything; None where it never did."""
    reconnects: int = 0
    """How often the connection was made again since the driver was started."""
    restarts: int = 0
    """How often the driver was started again since its engine leads."""
    updated_at: datetime.datetime
    """When the engine wrote this row."""
    current_until: datetime.datetime | None = None
    """The model has all events that were published until then; None: unknown."""
    notes: str | None = None
    """Why its data is not up to date although it is connected, such as deletions that are held back."""
    scopes: str | None = None
    """The entities that exist through it: a JSON list of :class:`~watcher_sync.model.scopes.EntityScope`; None: its
    engine did not say."""


def list_sources(database: sa.Engine, *, removed: bool = False) -> list[SourceRow]:
    """The sources of all engines, by name.

    :param removed: also those that no engine has any more.
    :raises DatabaseUnavailable: the database is unavailable.
    """
    query = sa.select(_TABLE).order_by(_TABLE.c.source)
    if not removed:
        query = query.where(_TABLE.c.state != REMOVED)
    with translated(), database.connect() as connection:
        return [SourceRow(**row._mapping) for row in connection.execute(query)]


@retried
def write_sources(database: sa.Engine, rows: Sequence[SourceRow]) -> None:
    """Insert or replace these rows, except for ``last_full_sync_at``, in one short transaction.

    :raises DatabaseUnavailable: the database is unavailable.
    :raises RowRefused: when it refuses a value.
    """
    if not rows:
        return
    writer = Statements(database).upsert(_TABLE, skip=["last_full_sync_at"])
    columns = [c.name for c in _TABLE.columns if c.name != "last_full_sync_at"]
    values = [writer.values(tuple(getattr(row, name) for name in columns)) for row in rows]
    with translated(), database.begin() as connection:
        connection.exec_driver_sql(writer.sql, values)


@retried
def mark_removed(database: sa.Engine, engine_group: str, enabled: Collection[str], now: datetime.datetime) -> int:
    """Mark the sources that the group does not have any more as removed; how many there were.

    :param now: by the database's clock.
    :raises DatabaseUnavailable: the database is unavailable.
    """
    t = _TABLE.c
    gone = sa.update(_TABLE).where(t.engine_group == engine_group, t.source.not_in(list(enabled)), t.state != REMOVED)
    values = {"state": REMOVED, "since": now, "updated_at": now, "detail": ""}
    cleared = dict.fromkeys(("lag", "current_until", "notes"))
    with translated(), database.begin() as connection:
        return int(connection.execute(gone.values(**values, **cleared)).rowcount)


@retried
def record_full_sync(database: sa.Engine, source: str, at: datetime.datetime) -> bool:
    """Remember when a source was last compared with the live system as a whole; whether its row is there.

    :raises DatabaseUnavailable: the database is unavailable.
    """
    change = sa.update(_TABLE).where(_TABLE.c.source == source).values(last_full_sync_at=at)
    with translated(), database.begin() as connection:
        return bool(connection.execute(change).rowcount)


def behind_of(row: SourceRow, now: datetime.datetime, *, stale_after: float) -> float | None:
    """Seconds by which the model is behind a source; None if that is unknown.

    :param stale_after: seconds without news from the engine after which nothing is taken for granted.
    """
    if row.current_until is None:
        return None
    is_current = row.current_until >= row.updated_at
    if is_current and (now - row.updated_at).total_seconds() <= stale_after:
        return 0.0
    return max((now - row.current_until).total_seconds(), 0.0)


def problem_of(row: SourceRow, now: datetime.datetime, *, stale_after: float, idle_after: float = 0) -> str:
    """Why a source is stale, in one line; empty while it is not.

    :param stale_after: seconds without a connection, or without news from the engine, that are borne.
    :param idle_after: seconds without an event that are borne; 0: as many as there may be.
    """
    if row.state == REMOVED:  # no engine has it
        return ""
    if (unheard := (now - row.updated_at).total_seconds()) > stale_after:
        return f"no engine has reported it for {unheard:.0f} s"
    if row.state == STOPPED:  # everything is read, or the engine has ended: no more reports follow
        return ""
    if row.state != CONNECTED:
        return disconnection_of(row, now) if (now - row.since).total_seconds() > stale_after else ""
    if idle_after and (silent := (now - (row.last_event_at or row.since)).total_seconds()) > idle_after:
        return f"connected, but no event for {silent:.0f} s"
    return ""


def disconnection_of(row: SourceRow, now: datetime.datetime) -> str:
    """Why a source has no connection, and so is not fresh, in one line; empty while it has one, or needs none."""
    if row.state in (CONNECTED, STOPPED, REMOVED):
        return ""
    return f"{row.state} for {(now - row.since).total_seconds():.0f} s" + (f": {row.detail}" if row.detail else "")


class InventoryRow(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one live system as a whole.

    An inventory is complete after the first comparison that could list everything. It stays complete: later comparisons
    repair what notifications lose. Its row exists as soon as an engine is configured to compare the system, so that
    other processes know that an inventory is still incomplete.
    """

    source: str
    """The scope of the comparison, such as ``nova``."""
    complete_since: datetime.datetime | None = None
    """When the first complete comparison ended; None: there was none."""
    last_complete_at: datetime.datetime | None = None
    """When the last complete comparison ended."""
    changes_since: datetime.datetime | None = None
    """The time from which on the system is to be asked for changes: the begin of the last comparison."""
    problem: str = ""
    """Why the last comparison was not complete, and what is hidden; else empty."""
    updated_at: datetime.datetime

    def after(self, problem: str, now: datetime.datetime) -> InventoryRow:
        """Return the inventory after a comparison.

        :param problem: why it was not complete; empty if it was.
        """
        known = self if problem else msgspec.structs.replace(self, complete_since=self.complete_since or now)
        last = self.last_complete_at if problem else now
        return msgspec.structs.replace(known, last_complete_at=last, problem=problem, updated_at=now)


def list_inventories(database: sa.Engine) -> list[InventoryRow]:
    """All inventories, by name.

    :raises DatabaseUnavailable: the database is unavailable.
    """
    query = sa.select(_INVENTORIES).order_by(_INVENTORIES.c.source)
    with translated(), database.connect() as connection:
        return [InventoryRow(**row._mapping) for row in connection.execute(query)]


def read_inventory(database: sa.Engine, source: str) -> InventoryRow | None:
    """One inventory, or None where there is none.

    :raises DatabaseUnavailable: the database is unavailable.
    """
    query = sa.select(_INVENTORIES).where(_INVENTORIES.c.source == source)
    with translated(), database.connect() as connection:
        row = connection.execute(query).one_or_none()
        return None if row is None else InventoryRow(**row._mapping)


@retried
def declare_inventory(database: sa.Engine, source: str, now: datetime.datetime) -> InventoryRow:
    """Return an inventory, and create an incomplete one where there is none.

    :raises DatabaseUnavailable: the database is unavailable.
    """
    found = read_inventory(database, source)
    if found is not None:
        return found
    new = InventoryRow(source=source, updated_at=now)
    try:
        with translated(), database.begin() as connection:
            connection.execute(sa.insert(_INVENTORIES).values(**msgspec.structs.asdict(new)))
    except RowRefused:  # another process has created it meanwhile
        return read_inventory(database, source) or new
    return new


@retried
def write_inventory(database: sa.Engine, inventory: InventoryRow) -> None:
    """Insert or replace one inventory.

    :raises DatabaseUnavailable: the database is unavailable.
    """
    declare_inventory(database, inventory.source, inventory.updated_at)
    values = msgspec.structs.asdict(inventory)
    with translated(), database.begin() as connection:
        connection.execute(sa.update(_INVENTORIES).where(_INVENTORIES.c.source == inventory.source).values(**values))


@retried
def forget_inventory(database: sa.Engine, source: str) -> None:
    """Delete an inventory, because nothing compares the system any more.

    :raises DatabaseUnavailable: the database is unavailable.
    """
    with translated(), database.begin() as connection:
        connection.execute(sa.delete(_INVENTORIES).where(_INVENTORIES.c.source == source))
