# SPDX-License-Identifier: Apache-2.0
"""Finds entities by their names and ids: all of one name, or those of all kinds that a text is a part of.

The comparison is exact, as that of :mod:`watcher_sync.read.filters`. For any thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from watcher_sync.model.kinds import PROJECT_FIELD, Kind
from watcher_sync.read.filters import Clause, FieldCondition, Operator, clause, has_part
from watcher_sync.storage.schema.tables import Tables

_EXACT: Final = 0
_PREFIX: Final = 1
_PART: Final = 2


class Hit(msgspec.Struct, frozen=True):
    """An entity that was found."""

    rank: int
    """0: the text is its id or its name; 1: one of them begins with it; 2: one of them contains it."""
    name: str | None
    id: str
    kind: str
    project_id: str | None

    def order(self) -> tuple[Any, ...]:
        """The best first, then by name, kind and id."""
        return (self.rank, self.name or self.id, self.kind, self.id)


def ids_of(
    connection: sa.Connection, tables: Tables, kind: Kind, name: str, *, scope: str | None, limit: int
) -> list[str]:
    """The first ids of the entities with a name.

    :param scope: only those of this project; None: of all.
    """
    assert kind.name_field is not None
    table = tables.entities[kind.name]
    wanted = [FieldCondition(kind.name_field, "eq", (name,)), *_of_project(scope)]
    where = [clause(kind, table, connection.dialect.name, each) for each in wanted]
    return list(connection.execute(sa.select(table.c.id).where(*where).order_by(table.c.id).limit(limit)).scalars())


def search(
    connection: sa.Connection, tables: Tables, kinds: Mapping[str, Kind], scope: str | None, text: str, limit: int
) -> list[Hit]:
    """The best hits in the names and the ids of some kinds.

    Whole names and beginnings come from indexes. Other parts cost a scan, which takes place only where a kind has too
    few hits.

    :param kinds: name -> kind, of those to search.
    :param scope: of kinds whose entities belong to projects, only those of this project; None: of all.
    """
    found: dict[tuple[str, str], Hit] = {}
    for search_step in (_beginning, _containing):
        for name, kind in kinds.items():
            for hit in search_step(connection, tables.entities[name], kind, scope, text, limit):
                found.setdefault((name, hit.id), hit)
        if len(found) >= limit:
            break
    return sorted(found.values(), key=Hit.order)[:limit]


def _beginning(
    connection: sa.Connection, table: sa.Table, kind: Kind, scope: str | None, text: str, limit: int
) -> Iterable[Hit]:
    names = ["id"] if kind.name_field is None else ["id", kind.name_field]
    operators: tuple[Operator, ...] = ("eq", "prefix")
    for name in names:
        for operator in operators:
            wanted = [FieldCondition(name, operator, (text,)), *(_of_project(scope) if kind.is_scoped else ())]
            where = [clause(kind, table, connection.dialect.name, each) for each in wanted]
            yield from _hits(connection, table, kind, where, text, limit)


def _containing(
    connection: sa.Connection, table: sa.Table, kind: Kind, scope: str | None, text: str, limit: int
) -> Iterable[Hit]:
    dialect = connection.dialect.name
    columns = [table.c.id] if kind.name_field is None else [table.c.id, table.c[kind.name_field]]
    where = [sa.or_(*(has_part(column, dialect, text) for column in columns))]
    if kind.is_scoped:
        where += [clause(kind, table, dialect, each) for each in _of_project(scope)]
    yield from _hits(connection, table, kind, where, text, limit)


def _hits(
    connection: sa.Connection, table: sa.Table, kind: Kind, where: Iterable[Clause], text: str, limit: int
) -> Iterable[Hit]:
    name = sa.null() if kind.name_field is None else table.c[kind.name_field]
    project = table.c[PROJECT_FIELD] if kind.is_scoped else sa.null()
    for entity_id, called, project_id in connection.execute(
        sa.select(table.c.id, name, project).where(*where).limit(limit)
    ):
        yield Hit(_rank(text, entity_id, called), called, entity_id, kind.name, project_id)


def _rank(text: str, *names: str | None) -> int:
    if text in names:
        return _EXACT
    return _PREFIX if any(name is not None and name.startswith(text) for name in names) else _PART


def _of_project(scope: str | None) -> list[FieldCondition]:
    return [] if scope is None else [FieldCondition(PROJECT_FIELD, "eq", (scope,))]
