# SPDX-License-Identifier: Apache-2.0
"""Reads entities and their history from the tables, for a process without a replica.

A history is read in pages. A page ends after about 8 MiB of documents, too.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import sqlalchemy as sa

from watcher_sync.model.kinds import PROJECT_FIELD, Kind
from watcher_sync.storage.database.pages import RowPage
from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.writing.journal import JournalRow, StoredRow, is_of_kind, journal_page

OUTLET_EVENTS: Final = "outlet.subscription."
"""How the types of rows begin that record the end of a subscription, and change nothing of the entity."""


class EntityOwner(msgspec.Struct, frozen=True):
    """Who an entity belongs to."""

    project_id: str | None
    """None: to no project."""


def read_item(connection: sa.Connection, tables: Tables, kind: Kind, entity_id: str) -> dict[str, Any] | None:
    """One entity's fields, and the seq that wrote it."""
    table = tables.entities[kind.name]
    columns = [table.c[name] for name in ("id", *kind.fields, "seq")]
    row = connection.execute(sa.select(*columns).where(table.c.id == entity_id)).one_or_none()
    return None if row is None else dict(row._mapping)


def read_owner(
    connection: sa.Connection, tables: Tables, kind: Kind, entity_id: str, *, deleted: bool = False
) -> EntityOwner | None:
    """The owner of an entity, or None where it does not exist.

    :param deleted: whether to find a deleted entity, too, as long as the journal has its last change.
    """
    table = tables.entities[kind.name]
    column = table.c[PROJECT_FIELD] if kind.is_scoped else sa.null()
    row = connection.execute(sa.select(column).where(table.c.id == entity_id)).one_or_none()
    if row is not None:
        return EntityOwner(row[0])
    last = last_change(connection, tables, kind.name, entity_id) if deleted else None
    if last is None:
        return None
    old, new = last.delta.get(PROJECT_FIELD, (None, None))  # for a row from before the journal had projects
    return EntityOwner(last.project_id or (old if last.change == "deleted" else new))


def read_history(
    connection: sa.Connection,
    tables: Tables,
    kind: str,
    entity_id: str,
    *,
    marker: int,
    limit: int,
    newest_first: bool = False,
) -> RowPage[StoredRow]:
    """What happened to one entity, as far back as the journal reaches.

    A page has at most ``limit`` rows of about 8 MiB, but at least one. Rows that moved versions only are left out.

    :param marker: the seq after which the page begins; 0: at the beginning.
    :param newest_first: the page begins before the marker, and goes back; 0: at the end.
    """
    t = tables.journal
    shown = sa.or_(
        sa.type_coerce(t.c.delta, sa.Text()) != "{}",
        t.c.change != "updated",
        t.c.event_type.startswith(OUTLET_EVENTS),
    )
    where = [t.c.entity_id == entity_id, is_of_kind(t, kind), shown]
    if marker:
        where.append(t.c.seq < marker if newest_first else t.c.seq > marker)
    return journal_page(connection, tables, where, limit, descending=newest_first)


def last_change(connection: sa.Connection, tables: Tables, kind: str, entity_id: str) -> JournalRow | None:
    """The last journal row of an entity that the journal still has."""
    t = tables.journal
    query = sa.select(t).where(t.c.entity_id == entity_id, is_of_kind(t, kind)).order_by(t.c.seq.desc()).limit(1)
    row = connection.execute(query).one_or_none()
    return None if row is None else JournalRow(*row)


def read_last(
    connection: sa.Connection,
    tables: Tables,
    limit: int,
    *,
    kind: str | None = None,
    entity_id: str | None = None,
    project_id: str | None = None,
    before: int | None = None,
) -> list[StoredRow]:
    """The last rows of the journal, in order: at most ``limit`` of about 8 MiB, but at least one.

    :param kind: only those of entities of this kind; None: of all.
    :param entity_id: only those of the entity with this id; None: of all.
    :param project_id: only those of entities of this project; None: of all.
    :param before: only those before this seq; None: those up to the end.
    """
    t = tables.journal
    wanted = {t.c.entity_id: entity_id, t.c.project_id: project_id}
    where = [column == value for column, value in wanted.items() if value is not None]
    if kind is not None:
        where.append(t.c.kind == kind if entity_id is None else is_of_kind(t, kind))
    if before is not None:
        where.append(t.c.seq < before)
    return journal_page(connection, tables, where, limit, descending=True).rows[::-1]


def oldest_seq(connection: sa.Connection, tables: Tables) -> int | None:
    """The first seq that the journal still has, or None where it is empty."""
    return connection.execute(sa.select(sa.func.min(tables.journal.c.seq))).scalar()
