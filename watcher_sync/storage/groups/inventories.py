# SPDX-License-Identifier: Apache-2.0
"""Whether the model has everything that a live system has: one row for each system that is compared as a whole.

An inventory is complete after the first comparison that could list everything. It stays complete: later comparisons
repair what notifications lose. Its row exists as soon as an engine is configured to compare the system, so that other
processes know that an inventory is still incomplete.
"""

from __future__ import annotations

import datetime

import msgspec
import sqlalchemy as sa

from watcher_sync.exceptions import RowRefused
from watcher_sync.model.kinds import Kinds
from watcher_sync.storage.database.conflicts import retried
from watcher_sync.storage.database.database import translated
from watcher_sync.storage.schema.tables import Tables

_TABLE = Tables(Kinds()).inventories
"""It does not depend on the entity kinds."""


class InventoryRow(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one live system as a whole."""

    source: str
    """The scope of the comparison, such as ``nova``."""
    complete_since: datetime.datetime | None = None
    """When the first complete comparison ended; None: there was none."""
    last_complete_at: datetime.datetime | None = None
    """When the last complete comparison ended."""
    changes_since: datetime.datetime | None = None
    """The time from which on the system is to be asked for changes: the begin of the last comparison."""
    problem: str = ""
    """Why the last comparison was not complete; empty if it was."""
    updated_at: datetime.datetime


def list_inventories(database: sa.Engine) -> list[InventoryRow]:
    """All inventories, by name.

    :raises DatabaseUnavailable: the database is unavailable.
    """
    query = sa.select(_TABLE).order_by(_TABLE.c.source)
    with translated(), database.connect() as connection:
        return [InventoryRow(**row._mapping) for row in connection.execute(query)]


def read_inventory(database: sa.Engine, source: str) -> InventoryRow | None:
    """One inventory, or None where there is none.

    :raises DatabaseUnavailable: the database is unavailable.
    """
    query = sa.select(_TABLE).where(_TABLE.c.source == source)
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
            connection.execute(sa.insert(_TABLE).values(**msgspec.structs.asdict(new)))
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
        connection.execute(sa.update(_TABLE).where(_TABLE.c.source == inventory.source).values(**values))


@retried
def forget_inventory(database: sa.Engine, source: str) -> None:
    """Delete an inventory, because nothing compares the system any more.

    :raises DatabaseUnavailable: the database is unavailable.
    """
    with translated(), database.begin() as connection:
        connection.execute(sa.delete(_TABLE).where(_TABLE.c.source == source))
