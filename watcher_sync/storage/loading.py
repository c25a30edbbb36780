# SPDX-License-Identifier: Apache-2.0
"""Loads the model from the tables, at a start, without a request to the live systems.

It reads inside one transaction with a stable view, so that rows and the journal's head belong together.

A start waits for it, and it decides how much memory an entity needs. So the rows arrive as the driver gives them, and a
function that is generated for the kind makes the entities. Equal values of a column become one object, as long as at
least a quarter of them are equal to others.
"""

from __future__ import annotations

import contextlib
import datetime
import gc
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from watcher_sync.model.kinds import Entity, Kind, Kinds
from watcher_sync.model.model import Model, Written
from watcher_sync.model.tombstones import Tombstone
from watcher_sync.storage.database.types import UtcDateTime, reader, time_as_text, utc_time
from watcher_sync.storage.epochs import read_position
from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.writing.journal import versions_of, versions_reader

_CHUNK_ROWS: Final = 200
_MAX_IDS: Final = 500
"""Ids in one statement."""
_SAMPLE: Final = 5_000
"""Values in a cache before it counts how often they are equal."""

Only = Mapping[str, Collection[str] | None]
"""Kind -> the ids to load; None: all entities of the kind."""


def load_rows(connection: sa.Connection, tables: Tables, kinds: Kinds, only: Only | None = None) -> Model:
    """:param connection: with a stable view of the database; its transaction begins here.

    :param only: what is to be loaded; None: all entities of all kinds.
    """
    model = Model(kinds)
    position = read_position(connection, tables)
    wanted: Only = dict.fromkeys(kinds) if only is None else only
    with _uncollected():
        for name, ids in wanted.items():
            _load_kind(connection, tables.entities[name], kinds[name], model, ids)
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
        if row.kind in kinds and model.get(row.kind, row.id) is None
    ]
    model.write(written, position.seq, position.mark)
    model.epoch = position.epoch
    return model


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """No garbage collection meanwhile: it would search what is loaded, which has no reference cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _load_kind(
    connection: sa.Connection, table: sa.Table, kind: Kind, model: Model, ids: Collection[str] | None
) -> None:
    maker = _Maker(kind, table)
    seen: dict[str, datetime.datetime] = {}

    def parts() -> Iterator[list[Entity]]:
        for where in _conditions(table.c.id, ids):
            for rows in _read(connection, table, where):
                yield maker.entities(rows)
                if kind.last_seen_field is not None:
                    seen.update(maker.last_seen(rows))

    model.add(kind.name, parts())
    model.set_last_seen(kind.name, seen)


def _read(
    connection: sa.Connection, table: sa.Table, where: sa.ColumnElement[bool]
) -> Iterator[Sequence[Sequence[Any]]]:
    """The rows of a table as the driver gives them, but those of MariaDB as JSON.

    Its driver is written in Python. A text for each row costs it a quarter of what a value for each column costs. The
    server has NULL for a row that is longer than ``max_allowed_packet`` as JSON.
    """
    if connection.dialect.name != "mysql":
        yield from _rows(connection, sa.select(*_raw(table.columns)), where)
        return
    columns = [time_as_text(c, "mysql") if isinstance(c.type, UtcDateTime) else c for c in table.columns]
    row_as_json = sa.func.json_array(*_raw(columns), type_=sa.Text())
    large: list[str] = []
    for rows in _rows(connection, sa.select(table.c.id, row_as_json), where):
        large += [row[0] for row in rows if row[1] is None]
        yield [_decode_row(row[1]) for row in rows if row[1] is not None]
    for some in _conditions(table.c.id, large):
        yield from _rows(connection, sa.select(*_raw(table.columns)), some)


def _raw(columns: Iterable[sa.ColumnElement[Any]]) -> list[sa.ColumnElement[Any]]:
    """The columns without a conversion."""
    return [sa.type_coerce(column, sa.types.NULLTYPE) for column in columns]


def _rows(
    connection: sa.Connection, query: sa.Select[Any], where: sa.ColumnElement[bool]
) -> Iterator[Sequence[Sequence[Any]]]:
    return connection.execution_options(yield_per=_CHUNK_ROWS).execute(query.where(where)).partitions()


_decode_row: Final = msgspec.json.Decoder(list[Any]).decode


def _conditions(column: sa.Column[Any], ids: Collection[str] | None) -> Iterator[sa.ColumnElement[bool]]:
    """Conditions of statements that together find these ids."""
    if ids is None:
        yield sa.true()
        return
    known = list(ids)
    for start in range(0, len(known), _MAX_IDS):
        yield column.in_(known[start : start + _MAX_IDS])


class _Cache(dict[Any, Any]):
    """A value as the driver gives it -> the object that the model has for it."""

    def __init__(self, convert: Callable[[Any], Any]) -> None:
        super().__init__({None: None})
        self._convert = convert

    def __missing__(self, raw: Any) -> Any:
        value = self[raw] = self._convert(raw)
        return value


class _Maker:
    """Makes the entities of the rows of one kind."""

    def __init__(self, kind: Kind, table: sa.Table) -> None:
        self._kind = kind
        self._columns = [column.name for column in table.columns]
        self._read = {name: reader(table.c[name].type) for name in kind.fields if name != kind.last_seen_field}
        for name, read in self._read.items():
            if read is not None and kind.fields[name].python is list:
                self._read[name] = _without_room(read)
        self._caches = {
            name: _Cache(read or (sys.intern if kind.fields[name].python is str else _same))
            for name, read in self._read.items()
        }
        self._versions: dict[str, str] = {}
        """The last ones, to find equal ones."""
        self._rows = 0
        self._make = self._generated()

    def entities(self, rows: Sequence[Sequence[Any]]) -> list[Entity]:
        """The entities of some rows."""
        if len(self._versions) > _SAMPLE:
            self._versions.clear()
        made = self._make(rows)
        self._rows += len(rows)
        limit = max(_SAMPLE, 3 * self._rows // 4)
        unique = [n for n, cache in self._caches.items() if len(cache) > limit and n not in self._kind.indexes]
        if unique:
            for name in unique:
                del self._caches[name]
            self._make = self._generated()
        return made

    def last_seen(self, rows: Sequence[Sequence[Any]]) -> Iterator[tuple[str, datetime.datetime]]:
        """Id and time of those that were seen."""
        at_id, at_time = self._columns.index("id"), self._columns.index(self._kind.last_seen_field or "")
        return ((row[at_id], utc_time(row[at_time])) for row in rows if row[at_time] is not None)

    def _generated(self) -> Callable[[Sequence[Any]], list[Entity]]:
        """A function of rows, with an expression for each field: a loop over fields would double its time."""
        place = {name: i for i, name in enumerate(self._columns)}
        known: dict[str, Any] = {
            "new": self._kind.cls,
            "versions": versions_reader(self._kind),
            "same": self._versions.setdefault,
        }
        values = {"versions": f"tuple(map(same, all := versions(v{place['versions']}), all))"}
        title = f"v{place.get(self._kind.name_field or 'id')}"
        for name, read in self._read.items():
            raw, convert = f"v{place[name]}", f"c{place[name]}"
            if name in self._caches:
                known[convert] = self._caches[name]
                values[name] = f"{convert}[{raw}]"
            elif read is not None:
                known[convert] = read
                values[name] = f"None if {raw} is None else {convert}({raw})"
            elif self._kind.fields[name].python is str:
                values[name] = f"{title} if {raw} == {title} else {raw}"  # names are often equal
        fields = [f.name for f in msgspec.structs.fields(self._kind.cls) if f.name != self._kind.last_seen_field]
        arguments = ", ".join(f"{name}={values.get(name, f'v{place[name]}')}" for name in fields)
        row = ", ".join(f"v{i}" for i in range(len(self._columns)))
        make: Callable[[Sequence[Any]], list[Entity]] = eval(  # noqa: S307 - of the names of declared fields
            f"lambda rows: [new({arguments}) for {row} in rows]", known
        )
        return make


def _without_room(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same without the room in which a list grew: 24 bytes of one with one element."""
    return lambda raw: read(raw)[:]


def _same(value: Any) -> Any:
    return value
