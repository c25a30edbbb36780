# SPDX-License-Identifier: Apache-2.0
"""Drifts: where reconciliation found the model and the live system to differ, and since when.

A reconciliation replaces what the table says about its scope, which is one source and the kinds that it
listed completely. A difference that is found again keeps its row, its id and its ``since``; one that is
found no more goes. Writing nothing new writes nothing.

A repair or an event may heal a drift long before the next comparison. :func:`forget_healed` deletes a drift whose value
the model has by now. What the live system has now, the next comparison says.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal

import msgspec
import sqlalchemy as sa
from oslo_log import log as logging

from watcher_sync.exceptions import RowRefused
from watcher_sync.model.kinds import PROJECT_FIELD, Entity, Kinds
from watcher_sync.storage.database.database import retried, translated
from watcher_sync.storage.database.pages import MAX_PAGE_BYTES, DecodedPage, bounded_page
from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.table_model import TableModel

LOG = logging.getLogger(__name__)

_TABLE = Tables(Kinds()).drifts
"""It does not depend on the entity kinds."""

Side = Literal["live", "model"]
"""A side of the comparison: the live system, or the model."""


class FieldDifference(msgspec.Struct, frozen=True, kw_only=True):
    """One field of one entity that is not what it should be."""

    kind: str
    entity_id: str
    field: str
    """Empty where the entity as a whole is missing on one side."""
    model_value: Any = None
    live_value: Any = None
    policy: str
    """heal or observe."""


class DriftRow(FieldDifference, frozen=True, kw_only=True):
    """A difference as the table keeps it."""

    id: int
    """Grows; a page's marker."""
    source: str
    since: datetime.datetime
    """When it was first found, aware UTC."""


class Owned(msgspec.Struct, frozen=True):
    """The entities that belong to one project."""

    tables: Tables
    project_id: str

    def has(self) -> sa.ColumnElement[bool]:
        """Whether the entity of a drift is one of them. An entity that does not exist belongs to no project."""
        kinds = [(name, self.tables.entities[name]) for name, kind in self.tables.kinds.items() if kind.is_scoped]
        owned = [
            sa.and_(
                _TABLE.c.kind == name,
                sa.exists().where(table.c.id == _TABLE.c.entity_id, table.c[PROJECT_FIELD] == self.project_id),
            )
            for name, table in kinds
        ]
        return sa.or_(sa.false(), *owned)


def drift_page(
    database: sa.Engine,
    *,
    after: int,
    limit: int,
    max_bytes: int = MAX_PAGE_BYTES,
    kind: str | None = None,
    source: str | None = None,
    missing: Side | None = None,
    owned: Owned | None = None,
    hidden: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> DecodedPage[DriftRow]:
    """One page of the drifts: at most ``limit``, whose values have about ``max_bytes``, but at least one.

    :param after: the last id of the page before.
    :param missing: only those of whole entities that this side does not have; None: all.
    :param owned: only those of entities of one project; None: all.
    :param hidden: kind -> fields whose drifts are left out.
    :raises DatabaseUnavailable: the database is unavailable.
    """
    t = _TABLE
    query = sa.select(*(sa.type_coerce(c, sa.Text()) if c.name in _DOCUMENTS else c for c in t.c)).where(t.c.id > after)
    if kind is not None:
        query = query.where(t.c.kind == kind)
    if source is not None:
        query = query.where(t.c.source == source)
    if missing is not None:
        value = t.c.live_value if missing == "live" else t.c.model_value
        query = query.where(t.c.field == "", value.is_(None))
    if owned is not None:
        query = query.where(owned.has())
    for name, fields in hidden.items():
        query = query.where(sa.or_(t.c.kind != name, t.c.field.not_in(list(fields))))
    documents = {at: c for at, c in enumerate(t.c) if c.name in _DOCUMENTS}
    with translated(), database.connect() as connection:
        page = bounded_page(connection, query, [t.c.id], limit, key=t.c.id, documents=documents, max_bytes=max_bytes)
    return DecodedPage(map(_drift, page.rows), page.more)


def _drift(row: Sequence[Any]) -> DriftRow:
    columns = zip(_TABLE.c, row, strict=True)
    return DriftRow(**{c.name: msgspec.json.decode(v) if v and c.name in _DOCUMENTS else v for c, v in columns})


_DOCUMENTS: Final = ("model_value", "live_value")
_ANY_BYTES: Final = 2**31 - 1
"""What PostgreSQL takes as an integer. No process has so many drifts in memory."""


def list_drifts(
    database: sa.Engine, *, limit: int = 1000, kind: str | None = None, source: str | None = None
) -> list[DriftRow]:
    """The first drifts by id, whatever the size of their values.

    :raises DatabaseUnavailable: the database is unavailable.
    """
    return list(drift_page(database, after=0, limit=limit, max_bytes=_ANY_BYTES, kind=kind, source=source).rows)


def count_drifts(database: sa.Engine) -> dict[str, int]:
    """kind -> how many drifts there are.

    :raises DatabaseUnavailable: the database is unavailable.
    """
    query = sa.select(_TABLE.c.kind, sa.func.count().label("drifts")).group_by(_TABLE.c.kind)
    with translated(), database.connect() as connection:
        return {row.kind: row.drifts for row in connection.execute(query)}


def replace_drifts(
    database: sa.Engine,
    found: Sequence[FieldDifference],
    *,
    source: str,
    kinds: Collection[str],
    now: datetime.datetime,
) -> None:
    """Make the table say exactly this about these kinds of this source, in one transaction.

    A difference that the database refuses is logged and left out: the run that found it goes on.

    :param found: differences, all of ``kinds``, no field of an entity twice.
    :param now: since when the new ones are known, aware UTC.
    :raises DatabaseUnavailable: the database is unavailable.
    """
    try:
        _replace(database, found, source, kinds, now, _execute)
    except RowRefused:
        # One of them cannot be stored, or another who compared the same wrote the same first.
        _replace(database, found, source, kinds, now, _execute_each)


def _execute(connection: sa.Connection, statement: sa.Executable, rows: list[dict[str, Any]]) -> None:
    connection.execute(statement, rows)


def _execute_each(connection: sa.Connection, statement: sa.Executable, rows: list[dict[str, Any]]) -> None:
    """Execute a statement for each row, and leave out what the database refuses."""
    for row in rows:
        try:
            with connection.begin_nested(), translated():
                connection.execute(statement, row)
        except RowRefused as exc:
            LOG.warning("A drift of %s cannot be stored: %s", row.get("entity_id", row.get("b_entity_id")), exc)


@retried
def _replace(
    database: sa.Engine,
    found: Sequence[FieldDifference],
    source: str,
    kinds: Collection[str],
    now: datetime.datetime,
    execute: Callable[[sa.Connection, sa.Executable, list[dict[str, Any]]], None],
) -> None:
    t = _TABLE
    wanted = {(d.kind, d.entity_id, d.field): d for d in found}
    scope = sa.and_(t.c.source == source, t.c.kind.in_(list(kinds)))
    with translated(), database.begin() as connection:
        # Changes nothing. Without it SQLite refuses at once to write after it has read, where another has written.
        connection.execute(sa.update(t).where(t.c.id < 0).values(policy=t.c.policy))
        there = {(row.kind, row.entity_id, row.field): row for row in connection.execute(sa.select(t).where(scope))}
        ended = [key for key, row in there.items() if key not in wanted or _is_opposite(row, wanted[key])]
        gone = [{"b_id": there.pop(key).id} for key in ended]
        changed = [
            {"b_id": row.id, "b_entity_id": row.entity_id, **_values(difference)}
            for key, difference in wanted.items()
            if (row := there.get(key)) is not None and _values(difference) != {n: row._mapping[n] for n in _VALUES}
        ]
        new = [
            {"source": source, "since": now, **msgspec.structs.asdict(difference)}
            for key, difference in wanted.items()
            if key not in there
        ]
        if gone:
            connection.execute(sa.delete(t).where(t.c.id == sa.bindparam("b_id")), gone)
        if changed:
            change = sa.update(t).where(t.c.id == sa.bindparam("b_id"))
            execute(connection, change.values({name: sa.bindparam(name) for name in _VALUES}), changed)
        if new:
            execute(connection, sa.insert(t), new)


_VALUES = ("model_value", "live_value", "policy")


def _is_opposite(row: sa.Row[Any], difference: FieldDifference) -> bool:
    """Whether the entity was missing on one side and is missing on the other one now: that is another drift."""
    return not difference.field and (row.live_value is None) != (difference.live_value is None)


def _values(difference: FieldDifference) -> dict[str, Any]:
    return {name: getattr(difference, name) for name in _VALUES}


_PORTION_DRIFTS = 500
_PORTION_BYTES = 1_048_576


def forget_healed(database: sa.Engine, tables: Tables, kinds: Kinds) -> int:
    """Delete the drifts that are healed; how many there were.

    :raises DatabaseUnavailable: the database is unavailable.
    """
    return sum(_forget(database, tables, _healed(database, tables, kinds, portion)) for portion in _portions(database))


def _portions(database: sa.Engine) -> Iterator[list[DriftRow]]:
    after = 0
    while portion := list(drift_page(database, after=after, limit=_PORTION_DRIFTS, max_bytes=_PORTION_BYTES).rows):
        yield portion
        after = portion[-1].id


def _healed(database: sa.Engine, tables: Tables, kinds: Kinds, drifts: list[DriftRow]) -> list[DriftRow]:
    by_kind = sorted((d for d in drifts if d.kind in kinds), key=lambda drift: drift.kind)
    healed: list[DriftRow] = []
    with translated(), database.connect() as connection:
        model = TableModel(connection, tables, kinds)
        for kind, group in itertools.groupby(by_kind, key=lambda drift: drift.kind):
            found = list(group)
            model.prefetch(kind, {drift.entity_id for drift in found})
            healed += [drift for drift in found if _is_healed(drift, model.get(kind, drift.entity_id))]
    return healed


def _is_healed(drift: DriftRow, entity: Entity | None) -> bool:
    """Whether the model has what the live system had at the comparison."""
    if not drift.field:
        return (entity is None) is (drift.live_value is None)
    if entity is None:
        return True
    if drift.field not in entity.__struct_fields__:
        return False
    return bool(_plain(drift.field, getattr(entity, drift.field)) == drift.live_value)


def _plain(field: str, value: Any) -> Any:
    """A value in the form of a drift: as JSON types, vnfc entries by the names of their pods."""
    plain = msgspec.to_builtins(value)
    if field == "vnfc_resource_info" and isinstance(plain, list):
        return [(entry.get("computeResource") or {}).get("resourceId") for entry in plain]
    return plain


@retried
def _forget(database: sa.Engine, tables: Tables, drifts: list[DriftRow]) -> int:
    """Delete these drifts, unless a comparison changed them meanwhile."""
    if not drifts:
        return 0
    t = tables.drifts
    gone = sa.delete(t).where(t.c.id == sa.bindparam("b_id"), t.c.since == sa.bindparam("b_since"))
    with translated(), database.begin() as connection:
        return int(connection.execute(gone, [{"b_id": d.id, "b_since": d.since} for d in drifts]).rowcount)
