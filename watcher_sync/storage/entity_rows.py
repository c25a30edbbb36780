# SPDX-License-Identifier: Apache-2.0
"""How what became of the entities of one kind gets into their table.

A new entity is written whole, by the guarded upsert. So is a known one, but on SQLite: there, whatever a statement
sets is written again in every index over it, changed or not, and that costs more than all the rest of the row. So
on SQLite a known entity's row gets the columns of the facets that changed, and of what is derived from them.

Guaranteed: either way the row says afterwards what the entity says. Should a row be missing that the model
knows, the count tells, and the rows are written whole. The guard by seq is the same in both statements.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from watcher_sync.model.kinds import Entity, Kind
from watcher_sync.model.transaction import Staged
from watcher_sync.storage.statements import RowWriter, Statement, Statements

_MIN_ROWS = 4
"""Rows below which statements of their own are not worth it."""

Written = tuple[Entity, str]
"""An entity, and its versions as text."""


class EntityRows:
    """Writes the entities of one kind; for the thread that commits."""

    def __init__(self, statements: Statements, table: sa.Table, kind: Kind) -> None:
        self._statements = statements
        self._table = table
        self._kind = kind
        self._whole = statements.upsert(table, newer="seq", skip=[kind.last_seen_field or ""])
        self._by_part = statements.dialect == "sqlite"
        self._part_of = {field.name: field.facet or field.name for field in kind.fields.values()}
        self._parts: dict[frozenset[str], RowWriter] = {}

    def statements(self, changed: Sequence[tuple[Staged, str]]) -> list[Statement]:
        """What has the rows say what the entities say.

        :param changed: entities that exist, with their versions as text.
        """
        whole: list[Written] = []
        parts: dict[frozenset[str], list[Written]] = {}
        by_part, part_of = self._by_part and len(changed) >= _MIN_ROWS, self._part_of
        for staged, versions in changed:
            entity = staged.entity
            assert entity is not None
            if by_part and staged.base is not None:
                parts.setdefault(frozenset([part_of[name] for name in staged.touched]), []).append((entity, versions))
            else:
                whole.append((entity, versions))
        statements: list[Statement] = []
        for part, entities in parts.items():
            if len(entities) < _MIN_ROWS:
                whole += entities
            else:
                statements.append(self._update(part, entities))
        return statements + self._write(whole)

    def _write(self, entities: Sequence[Written]) -> list[Statement]:
        return self._whole.statements([self._whole.row(*each) for each in entities])

    def _update(self, part: frozenset[str], entities: Sequence[Written]) -> Statement:
        """Write some facets, and if a row is not there, all of them."""
        writer = self._parts.get(part)
        if writer is None:
            writer = self._parts[part] = self._writer(part)
        (statement,) = writer.statements([writer.row(*each) for each in entities])
        statement.rows, statement.otherwise = len(entities), lambda: self._write(entities)
        return statement

    def _writer(self, part: frozenset[str]) -> RowWriter:
        fields = [name for name, of in self._part_of.items() if of in part and name != self._kind.last_seen_field]
        return self._statements.update(self._table, fields, key="id", newer="seq")
