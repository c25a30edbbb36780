# SPDX-License-Identifier: Apache-2.0
"""Column types that mean the same on SQLite, PostgreSQL and MariaDB, and how raw values reach them.

The commit writes through ``exec_driver_sql``, past SQLAlchemy's bind processing, because that costs as
much as the rest of an event. So each type also says, per dialect, how a Python value is turned into
what the driver takes (:func:`converter`); reading goes through SQLAlchemy as usual.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from watcher_sync.model.kinds import Field
from watcher_sync.model.texts import storable
from watcher_sync.wire.limits import MAX_MESSAGE_CHARS

TABLE_OPTIONS: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}
"""Options of every table: a binary collation, so that ids compare on MariaDB as they do elsewhere."""
AUTO_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
"""The type of a key that the database counts: SQLite counts INTEGER keys only."""
_MAX_VARCHAR_LENGTH = 1000
"""Texts that may be longer than this are TEXT, not VARCHAR."""


class UtcDateTime(sa.types.TypeDecorator[datetime.datetime]):
    """An aware UTC time with microseconds. SQLite keeps it as ISO 8601 text, which sorts."""

    impl = sa.DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        """Native types where they keep microseconds."""
        if dialect.name == "sqlite":
            return dialect.type_descriptor(sa.String(32))
        if dialect.name == "mysql":
            return dialect.type_descriptor(mysql.DATETIME(fsp=6))
        return dialect.type_descriptor(sa.DateTime(timezone=True))

    def process_bind_param(self, value: datetime.datetime | None, dialect: sa.Dialect) -> Any:
        """Text for SQLite, naive UTC for MariaDB."""
        if value is None:
            return None
        if dialect.name == "sqlite":
            return sqlite_time(value)
        return naive_utc(value) if dialect.name == "mysql" else value

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> datetime.datetime | None:
        """Always aware UTC."""
        return None if value is None else utc_time(value)


class MessageText(sa.types.TypeDecorator[str]):
    """A text that people read. What no database stores of it is replaced, so it never costs the row."""

    impl = sa.Text
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        """MariaDB's TEXT ends at 64 KiB."""
        return dialect.type_descriptor(mysql.MEDIUMTEXT()) if dialect.name == "mysql" else sa.Text()

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | None:
        """The text with U+FFFD for what some database refuses."""
        return None if value is None else storable(value)


class JsonDocument(sa.types.TypeDecorator[Any]):
    """A JSON document, stored as text on every database."""

    impl = sa.Text
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        """MariaDB's TEXT ends at 64 KiB."""
        return dialect.type_descriptor(mysql.MEDIUMTEXT() if dialect.name == "mysql" else sa.Text())

    def process_bind_param(self, value: Any, dialect: sa.Dialect) -> str | None:
        """JSON text."""
        return None if value is None else json_text(value)

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> Any:
        """The decoded document."""
        return None if value is None else _decode(value)


class VersionsDocument(JsonDocument):
    """Facet -> version, stored as version -> names of facets: most facets of an entity have one version in common."""

    cache_ok = True

    def process_bind_param(self, value: Mapping[str, str] | None, dialect: sa.Dialect) -> str | None:
        """JSON text."""
        return None if value is None else versions_text(value.items())

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> dict[str, str] | None:
        """The versions; equal ones share one string."""
        return None if value is None else versions_of_text(value)


class DeltaDocument(JsonDocument):
    """Field -> [old, new]. That of a creation is stored as [null, values], that of a deletion as [values, null]."""

    cache_ok = True

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> dict[str, Any] | None:
        """Field -> [old, new]."""
        return None if value is None else delta_of_text(value)


def text_type(max_length: int | None = 255) -> sa.types.TypeEngine[Any]:
    """VARCHAR for names, TEXT for what may be long."""
    if max_length is not None and max_length <= _MAX_VARCHAR_LENGTH:
        return sa.String(max_length)
    return sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql")


def blob_type() -> sa.types.TypeEngine[Any]:
    """Bytes up to 16 MiB."""
    return sa.LargeBinary().with_variant(mysql.MEDIUMBLOB(), "mysql")


def column_type(field: Field) -> sa.types.TypeEngine[Any]:
    """The column type of a declared field."""
    if field.python is str:
        return MessageText() if field.max_length == MAX_MESSAGE_CHARS else text_type(field.max_length)
    return _TYPES[field.python]()


def converter(column: sa.types.TypeEngine[Any], dialect: str) -> Callable[[Any], Any] | None:
    """How a value of this column is turned into what the driver takes; None: as it is."""
    if isinstance(column, JsonDocument):
        return json_text
    if isinstance(column, MessageText):
        return storable
    if isinstance(column, UtcDateTime):
        if dialect == "sqlite":
            return sqlite_time
        return naive_utc if dialect == "mysql" else None
    return None


def reader(column: sa.types.TypeEngine[Any]) -> Callable[[Any], Any] | None:
    """How a value of this column, as the driver or JSON has it, is turned into that of the model; None: as it is.

    The value is not NULL.
    """
    if isinstance(column, JsonDocument):
        return _decode
    if isinstance(column, UtcDateTime):
        return utc_time
    if isinstance(column, sa.Double):
        return float
    return bool if isinstance(column, sa.Boolean) else None


def utc_time(value: Any) -> datetime.datetime:
    """A time as a driver gives it, aware UTC."""
    time: datetime.datetime = value
    if isinstance(value, str):
        # With "Z", it needs no replacement, which costs five times as much.
        time = datetime.datetime.fromisoformat(value + "Z" if len(value) == _TIME_CHARS else value)
    if time.tzinfo is datetime.UTC:
        return time
    return time.replace(tzinfo=datetime.UTC) if time.tzinfo is None else time.astimezone(datetime.UTC)


_TIME_CHARS: Final = 26
"""Characters of a time in SQLite (:func:`sqlite_time`)."""
_EMPTY: dict[str, Any] = {}
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_Values = dict[str, msgspec.Raw]
_delta_of_update = msgspec.json.Decoder(dict[str, tuple[msgspec.Raw, msgspec.Raw]]).decode
_delta_of_whole = msgspec.json.Decoder(tuple[_Values | None, _Values | None]).decode
facets_of_text = msgspec.json.Decoder(dict[str, str]).decode
"""Version -> names of facets, of the text of :func:`versions_text`."""


def json_text(value: Any) -> str:
    """JSON as text."""
    return "{}" if value == _EMPTY else _encode(value).decode()


def versions_text(versions: Iterable[tuple[str, str]]) -> str:
    """(facet, version) as stored in a row; facets without a version are left out."""
    facets: dict[str, str] = {}
    for facet, version in versions:
        if version:
            facets[version] = f"{facets[version]} {facet}" if version in facets else facet
    return _encode(facets).decode()


def versions_of_text(text: str) -> dict[str, str]:
    """The inverse of :func:`versions_text`."""
    return {facet: version for version, facets in facets_of_text(text).items() for facet in facets.split()}


def delta_of_text(text: str) -> dict[str, Any]:
    """Field -> [old, new] of either form of a delta."""
    stored = _decode(text)
    if isinstance(stored, dict):
        return stored
    old, new = stored
    return {name: [None, v] for name, v in new.items()} if old is None else {name: [v, None] for name, v in old.items()}


def undecoded_delta_of_text(text: str) -> dict[str, tuple[Any, Any]]:
    """Field -> (old, new) as :func:`delta_of_text`, with values that are still JSON: a ``msgspec.Raw``, or None."""
    if text.startswith("{"):
        return _delta_of_update(text)
    old, new = _delta_of_whole(text)
    return {name: (None, v) for name, v in new.items()} if new else {name: (v, None) for name, v in (old or {}).items()}


@functools.lru_cache(maxsize=4096)
def sqlite_time(value: datetime.datetime) -> str:
    """``YYYY-mm-dd HH:MM:SS.ffffff``, UTC.

    Results are cached: one commit has the same time in all its journal rows, and most times of a row do not change.
    Formatting a time costs ten times as much as a cached result. Two times are one to the cache if they are the same
    instant, whatever their offsets.
    """
    return naive_utc(value).isoformat(" ", "microseconds")


def naive_utc(value: datetime.datetime) -> datetime.datetime:
    """The same instant without an offset, in UTC."""
    if value.tzinfo is not None and value.tzinfo is not datetime.UTC:
        value = value.astimezone(datetime.UTC)
    return value.replace(tzinfo=None)


def time_as_text(column: sa.ColumnElement[Any], dialect: str) -> sa.ColumnElement[str]:
    """A time as the database's text of the form of :func:`sqlite_time`, which costs less than a datetime per row."""
    if dialect == "postgresql":
        return sa.func.to_char(sa.func.timezone("UTC", column), "YYYY-MM-DD HH24:MI:SS.US")
    if dialect == "mysql":
        return sa.cast(column, sa.CHAR(26))
    return sa.type_coerce(column, sa.Text())


_TYPES: dict[type, Callable[[], sa.types.TypeEngine[Any]]] = {
    int: sa.BigInteger,
    float: sa.Double,
    bool: sa.Boolean,
    datetime.datetime: UtcDateTime,
    list: JsonDocument,
    dict: JsonDocument,
}
