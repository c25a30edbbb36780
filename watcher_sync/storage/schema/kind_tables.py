# SPDX-License-Identifier: Apache-2.0
"""The tables of kinds, held against the declarations and brought up to date.

A newer release or plugin may declare a field more. ``db_sync`` adds the column, and nothing else is done to a table
that has rows. No column changes its type or goes away. Until then the kind is unusable, and so is one whose table
cannot be made to fit. The rest of the process works on.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from watcher_sync.model.kinds import Field, Kind
from watcher_sync.storage.database.types import column_type, json_text
from watcher_sync.storage.schema.tables import Tables

_FAMILIES: Final[dict[type, tuple[type, ...]]] = {
    str: (sa.String,),
    int: (sa.Integer,),
    float: (sa.Float, sa.Numeric),
    bool: (sa.Boolean, sa.Integer),
    datetime.datetime: (sa.DateTime, sa.String),
    list: (sa.String,),
    dict: (sa.String,),
}
"""Python type of a field -> the types that a database may report for its column."""


class Addition(msgspec.Struct, frozen=True):
    """Something that ``db_sync`` can add to the table of a kind."""

    text: str
    apply: Callable[[sa.Connection], None]
    needed: bool = True
    """Whether the kind is unusable without it."""


class Fit(msgspec.Struct, frozen=True):
    """How the table of one kind fits its declaration."""

    kind: str
    module: str
    """That of its class."""
    additions: list[Addition]
    refusals: list[str]
    """What differs and cannot be added."""

    @property
    def problem(self) -> str | None:
        """Why entities of this kind cannot be stored now; None if they can."""
        if self.refusals:
            return f"entity kind {self.kind!r} of {self.module}: {'; '.join(self.refusals)}; db_sync adds columns only"
        if missing := [addition.text for addition in self.additions if addition.needed]:
            return (
                f"entity kind {self.kind!r} of {self.module}: the database lacks {', '.join(missing)}:"
                " run watcher-sync-manage db_sync"
            )
        return None


def examine(connection: sa.Connection, tables: Tables) -> list[Fit]:
    """Hold the tables of all kinds against the declarations; changes nothing."""
    inspector = sa.inspect(connection)
    there = set(inspector.get_table_names())
    wanted = sorted(tables.entities.items())
    return [_fit(inspector, tables.kinds[name], table, table.name in there) for name, table in wanted]


def _fit(inspector: sa.Inspector, declared: Kind, table: sa.Table, exists: bool) -> Fit:
    if not exists:
        addition = Addition(f"the table {table.name}", lambda connection: table.create(connection))
        return Fit(declared.name, declared.cls.__module__, [addition], [])
    found: dict[str, Any] = {column["name"]: column for column in inspector.get_columns(table.name)}
    indexes = {index["name"] for index in inspector.get_indexes(table.name)}
    missing = [field for field in declared.fields.values() if field.name not in found]
    additions = [_new_column(declared, table, field) for field in missing if _has_default(declared, field)]
    additions.extend(_new_index(index) for index in table.indexes if index.name not in indexes)
    refusals = [
        f"the column {table.name}.{field.name} is missing, and the field has neither None nor a constant as its default"
        for field in missing
        if not _has_default(declared, field)
    ]
    refusals.extend(_mismatches(declared, table, found))
    return Fit(declared.name, declared.cls.__module__, additions, refusals)


def _mismatches(declared: Kind, table: sa.Table, found: dict[str, Any]) -> Iterator[str]:
    """What is wrong with the columns that are there."""
    for name, column in found.items():
        field = declared.fields.get(name)
        if field is None:
            if name not in table.c and not column["nullable"] and column.get("default") is None:
                yield f"the column {table.name}.{name}, which is not declared, must not be NULL"
        elif problem := _mismatch(field, table.c[name].type, column):
            yield f"the column {table.name}.{name} {problem}"


def _mismatch(field: Field, wanted: sa.types.TypeEngine[Any], column: Any) -> str | None:
    actual = column["type"]
    # PostgreSQL with quote_all_identifiers quotes the names of types, and the library does not read them then.
    if not isinstance(actual, (*_FAMILIES[field.python], sa.types.NullType)):
        return f"has the type {actual} in the database, and {wanted} is declared"
    limit, length = getattr(actual, "length", None), getattr(wanted, "length", None)
    if field.python is str and limit and (length is None or length > limit):
        return f"has room for {limit} characters, and {length or 'more'} are declared"
    if field.nullable and not column["nullable"]:
        return "must not be NULL in the database, and None is declared"
    return None


def _has_default(declared: Kind, field: Field) -> bool:
    """Whether rows that are there already can get a value."""
    return field.nullable or _server_default(declared, field) is not None


def _server_default(declared: Kind, field: Field) -> Any:
    """The field's default as the database gives it to the rows that are there; None if there is none."""
    (known,) = (f for f in msgspec.structs.fields(declared.cls) if f.name == field.name)
    default = known.default if known.default_factory is msgspec.NODEFAULT else known.default_factory()
    if isinstance(default, (list, dict, tuple)):
        return json_text(default)
    if isinstance(default, bool):
        return sa.true() if default else sa.false()
    return str(default) if isinstance(default, (str, int, float)) else None


def _new_column(declared: Kind, table: sa.Table, field: Field) -> Addition:
    default = None if field.nullable else _server_default(declared, field)

    def apply(connection: sa.Connection) -> None:
        from alembic.migration import MigrationContext
        from alembic.operations import Operations

        column = sa.Column(field.name, column_type(field), nullable=field.nullable, server_default=default)
        Operations(MigrationContext.configure(connection)).add_column(table.name, column)

    return Addition(f"the column {table.name}.{field.name}", apply)


def _new_index(index: sa.Index) -> Addition:
    return Addition(f"the index {index.name}", lambda connection: index.create(connection), needed=False)
