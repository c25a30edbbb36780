# SPDX-License-Identifier: Apache-2.0
"""Warm restart: the model as the tables have it, without asking the live systems.

Read inside one transaction with a stable view, so that rows and the journal's head belong together.
Texts that many rows share (hosts, projects, states) become one object each, as the handlers make them.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from watcher_sync.model.kinds import Kind, Kinds
from watcher_sync.model.model import Model, Written
from watcher_sync.model.tombstones import Tombstone
from watcher_sync.storage.epochs import read_position
from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.writing.journal import versions_of

_CHUNK_ROWS = 5000
_MAX_IDS = 500
"""Ids in one statement."""


Only = Mapping[str, Collection[str] | None]
"""Kind -> the ids to load; None: all entities of the kind."""


def load_rows(connection: sa.Connection, tables: Tables, kinds: Kinds, only: Only | None = None) -> Model:
    """:param connection: with a stable view of the database; its transaction begins here.

    :param only: what is to be loaded; None: all entities of all kinds.
    """
    model = Model(kinds)
    position = read_position(connection, tables)
    head = position.seq
    wanted: Only = dict.fromkeys(kinds) if only is None else only
    for name, ids in wanted.items():
        table = tables.entities[name]
        for where in _conditions(table.c.id, ids):
            _load_kind(connection, sa.select(table).where(where), kinds[name], model, head)
    t = tables.tombstones
    tombstones = sa.select(t)
    if only is not None:
        tombstones = tombstones.where(t.c.kind.in_(list(only)))
    written = [
        Written(
            row.kind,
            row.id,
            None,
            Tombstone(row.id, versions_of(kinds[row.kind], row.versions), row.deleted_at, row.seq),
        )
        for row in connection.execute(tombstones)
        if row.kind in kinds
    ]
    model.write(written, head, position.mark)
    model.epoch = position.epoch
    return model


def _conditions(column: sa.Column[Any], ids: Collection[str] | None) -> Iterator[sa.ColumnElement[bool]]:
    """Conditions of statements that together find these ids."""
    if ids is None:
        yield sa.true()
        return
    known = list(ids)
    for start in range(0, len(known), _MAX_IDS):
        yield column.in_(known[start : start + _MAX_IDS])


def _load_kind(connection: sa.Connection, query: sa.Select[Any], kind: Kind, model: Model, head: int) -> None:
    names = [c.name for c in query.selected_columns]
    shared = {n for n, f in kind.fields.items() if f.python is str and n != "name"}
    documents: dict[str, Any] = {}
    seen = {}
    result = connection.execution_options(yield_per=_CHUNK_ROWS).execute(query)
    for rows in result.partitions():
        written = []
        for row in rows:
            values = dict(zip(names, row, strict=True))
            values["versions"] = versions_of(kind, values["versions"])
            for name in shared:
                value = values[name]
                if value is not None:
                    values[name] = sys.intern(value)
            for name, field in kind.fields.items():
                if field.python in (dict, list) and values[name] is not None:
                    values[name] = documents.setdefault(repr(values[name]), values[name])
            if kind.last_seen_field is not None:
                time = values.pop(kind.last_seen_field)
                if time is not None:
                    seen[values["id"]] = time
            written.append(Written(kind.name, values["id"], kind.cls(**values), None))
        model.write(written, head)
    if seen:
        model.set_last_seen(kind.name, seen)
