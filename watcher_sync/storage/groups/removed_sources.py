# SPDX-License-Identifier: Apache-2.0
"""The entities that removed sources left behind, and the deletion of everything else that is stored of such a source.

A removed source has the entities of its scopes, as its last engine stored them. It does not have those of a scope that
another source has, too: that one goes on to bring them. While a source does not say what it has, it may have
everything. A scope without a field, such as all servers, does not contain the entities of followed sites.

For any thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from watcher_sync.model.kinds import Kinds
from watcher_sync.model.scopes import EntityScope
from watcher_sync.storage.database.database import retried, translated
from watcher_sync.storage.groups.source_status import REMOVED, SourceRow
from watcher_sync.storage.schema.tables import Tables

_MAX_IDS: Final = 500
"""Ids in one statement."""

_decode = msgspec.json.Decoder(list[EntityScope]).decode


class Removed(msgspec.Struct, frozen=True):
    """The scopes that removed sources left behind."""

    scopes: Mapping[str, Sequence[EntityScope]]
    """Source -> its scopes."""
    sites: Sequence[str] = ()
    """How the ids of the entities of followed sites begin."""

    def of_kind(self, kind: str) -> RemovedOfKind | None:
        """What they left behind of a kind; None: nothing."""
        scopes = [scope for scopes in self.scopes.values() for scope in scopes if scope.kind in ("", kind)]
        return RemovedOfKind(scopes, tuple(self.sites)) if scopes else None


class RemovedOfKind(msgspec.Struct, frozen=True):
    """What removed sources left behind of one kind."""

    scopes: Sequence[EntityScope]
    sites: tuple[str, ...]

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields by which an entity is in one of the scopes, beside its id."""
        return tuple(scope.field for scope in self.scopes if scope.field)

    def has(self, entity: Mapping[str, Any]) -> bool:
        """Whether an entity is that of a removed source.

        :param entity: its id, and :attr:`fields`.
        """
        return any(
            scope.has(entity[scope.field]) if scope.field else not entity["id"].startswith(self.sites)
            for scope in self.scopes
        )


def read_removed(rows: Sequence[SourceRow], configured: Iterable[EntityScope] = ()) -> Removed:
    """What the removed ones of these sources left behind.

    :param rows: of all sources.
    :param configured: scopes of sources that may have no row yet.
    """
    scopes = {row.source: scopes_of(row) for row in rows}
    present = {*configured, *(scope for row in rows if row.state != REMOVED for scope in scopes[row.source])}
    is_known = all(row.scopes is not None for row in rows if row.state != REMOVED)
    return Removed(
        {
            row.source: [scope for scope in scopes[row.source] if is_known and scope not in present]
            for row in rows
            if row.state == REMOVED
        },
        sorted({scope.value for scope in present.union(*scopes.values()) if scope.is_prefix}),
    )


def scopes_of(row: SourceRow) -> list[EntityScope]:
    """What a source has, as its engine said; empty: it did not."""
    return _decode(row.scopes) if row.scopes else []


def count_entities(connection: sa.Connection, tables: Tables, kinds: Kinds, removed: Removed, source: str) -> int:
    """How many entities of a removed source remain."""
    total = 0
    for kind in kinds:
        if where := _conditions(tables, removed, source, kind):
            query = sa.select(sa.func.count()).select_from(tables.entities[kind]).where(sa.or_(*where))
            total += int(connection.execute(query).scalar_one())
    return total


def entity_ids(
    connection: sa.Connection, tables: Tables, kinds: Kinds, removed: Removed, source: str
) -> dict[str, list[str]]:
    """Kind -> ids of the entities of a removed source, sorted.

    A kind that others refer to comes last, so that its entities are not referred to any more when it is their turn.
    """
    found: dict[str, list[str]] = {}
    for kind in sorted(kinds, key=lambda name: (kinds[name].is_placeholder, name)):
        if where := _conditions(tables, removed, source, kind):
            column = tables.entities[kind].c.id
            found[kind] = list(connection.execute(sa.select(column).where(sa.or_(*where)).order_by(column)).scalars())
    return found


def forget_tombstones(connection: sa.Connection, tables: Tables, keys: Iterable[tuple[str, str]]) -> None:
    """Delete the tombstones of entities, so that they may appear again. The caller has locked the head."""
    t = tables.tombstones
    of_kind: dict[str, list[str]] = {}
    for kind, entity_id in keys:
        of_kind.setdefault(kind, []).append(entity_id)
    for kind, ids in of_kind.items():
        for start in range(0, len(ids), _MAX_IDS):
            part = ids[start : start + _MAX_IDS]
            connection.execute(sa.delete(t).where(t.c.kind == kind, t.c.id.in_(part)))


def count_rows(connection: sa.Connection, tables: Tables, removed: Removed, source: str) -> dict[str, int]:
    """Table -> rows that are stored of a source beside its entities."""
    return {
        table.name: int(connection.execute(sa.select(sa.func.count()).select_from(table).where(where)).scalar_one())
        for table, where in _rows_of(tables, removed, source)
    }


@retried
def forget_rows(database: sa.Engine, tables: Tables, removed: Removed, source: str) -> dict[str, int]:
    """Delete what is stored of a source beside its entities, in one transaction.

    :returns: table -> number of rows.
    :raises DatabaseUnavailable: the database is unavailable.
    """
    with translated(), database.begin() as connection:
        return {
            table.name: int(connection.execute(sa.delete(table).where(where)).rowcount)
            for table, where in _rows_of(tables, removed, source)
        }


def _rows_of(tables: Tables, removed: Removed, source: str) -> Iterator[tuple[sa.Table, sa.ColumnElement[bool]]]:
    """A drift has the name of the scope that was compared, such as the cluster."""
    scopes, drifts = removed.scopes.get(source, ()), tables.drifts.c
    names = {source, *(scope.value for scope in scopes if scope.field and not scope.is_prefix)}
    whole = [scope.kind for scope in scopes if not scope.field]
    own = [~_begins(drifts.entity_id, site) for site in removed.sites]
    yield tables.drifts, sa.or_(drifts.source.in_(sorted(names)), sa.and_(drifts.kind.in_(whole), *own))
    for table in (tables.quarantine, tables.parked, tables.source_cursors, tables.inventories, tables.source_status):
        yield table, table.c.source == source


def _conditions(tables: Tables, removed: Removed, source: str, kind: str) -> list[sa.ColumnElement[bool]]:
    """What selects the entities of a kind that a removed source left behind."""
    table = tables.entities[kind]
    found: list[sa.ColumnElement[bool]] = []
    for scope in removed.scopes.get(source, ()):
        if scope.kind not in ("", kind):
            continue
        if not scope.field:
            found.append(sa.and_(sa.true(), *(~_begins(table.c.id, site) for site in removed.sites)))
        elif scope.is_prefix:
            found.append(_begins(table.c[scope.field], scope.value))
        else:
            found.append(table.c[scope.field] == scope.value)
    return found


def _begins(column: sa.Column[Any], prefix: str) -> sa.ColumnElement[bool]:
    """LIKE takes upper for lower case on some databases."""
    return sa.func.substr(column, 1, len(prefix)) == prefix
