# SPDX-License-Identifier: Apache-2.0
"""Writes the entities of one kind into their table.

A new entity is written whole, by the guarded upsert. So is a known one, except on SQLite. SQLite writes every column
that a statement sets again in each index, changed or not, which costs more than the rest of the row. There, a known
entity's row gets only the columns of the changed facets and of the fields derived from them.

Guaranteed: in both ways the row equals the entity afterwards. If a row is missing that the model knows, the row count
shows it, and the rows are written whole. Both statements have the same guard by seq.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from watcher_sync.model.kinds import Entity, Kind
from watcher_sync.model.staged import Staged
from watcher_sync.storage.writing.statements import RowWriter, Statement, Statements

_MIN_ROWS = 4
"""Fewer rows than this do not get a statement of their own."""

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
        """The statements that write these entities.

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
        """Write some facets; if a row is missing, write the rows whole."""
        writer = self._parts.get(part)
        if writer is None:
            writer = self._parts[part] = self._writer(part)
        (statement,) = writer.statements([writer.row(*each) for each in entities])
        statement.rows, statement.otherwise = len(entities), lambda: self._write(entities)
        return statement

    def _writer(self, part: frozenset[str]) -> RowWriter:
        fields = [name for name, of in self._part_of.items() if of in part and name != self._kind.last_seen_field]
        return self._statements.update(self._table, fields, key="id", newer="seq")
