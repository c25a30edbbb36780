# SPDX-License-Identifier: Apache-2.0
"""The statements of a commit, in the dialect of the database, for ``exec_driver_sql``.

A *guarded* upsert writes an entity row: it replaces a row only if its own journal seq is newer. The guard makes a
repeated statement harmless.

PostgreSQL gets all rows of a statement as one JSON document: binding a row there costs more than writing it. A number
that is not finite becomes NULL. COPY would be a fifth faster for 500 rows, and a fifth slower for 50.

SQLite and MariaDB get ``executemany``: SQLite has no server, and MariaDB's driver makes statements of about 1 MB of it.
A row above ``max_allowed_packet`` is refused here.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from watcher_sync.exceptions import RowRefused
from watcher_sync.storage.database.types import JsonDocument, MessageText, converter

Row = tuple[Any, ...]


_encode = msgspec.json.Encoder().encode


VERSIONS = "versions"
"""The column of every table that keeps versions; its values come as JSON text already."""


class Statement(msgspec.Struct, gc=False):
    """One statement with its parameters, ready to run."""

    sql: str
    parameters: Any
    rows: int = -1
    """The number of rows that it must find, if ``otherwise`` is given."""
    otherwise: Callable[[], Sequence[Statement]] | None = None
    """Makes the statements to run if it did not find them."""

    def run(self, connection: sa.Connection) -> int:
        """:returns: how many rows it found, as far as the driver tells; -1 where it does not."""
        found = connection.exec_driver_sql(self.sql, self.parameters).rowcount
        if self.otherwise is not None and found != self.rows:
            for statement in self.otherwise():
                statement.run(connection)
        return found


_WIDE = (JsonDocument, MessageText, sa.Text, sa.LargeBinary)
_NO_LIMIT = 2**40
_DEFAULT_PACKET_BYTES = 16_777_216
_OVERHEAD_BYTES = 65_536
"""Of a statement: its text, and its values beside the wide ones."""

_ESCAPED = "\0\n\r\x1a\"'\\"
"""What MariaDB's driver writes as two characters."""


def has_row_above(parameters: Any, limit: int) -> bool:
    """Whether a row of these parameters has more bytes in its texts than the limit."""
    rows = parameters if isinstance(parameters, list) else [parameters]
    return any(sum(len(v) for v in row if isinstance(v, (str, bytes))) > limit for row in rows)


class PacketLimit:
    """What one row may have on MariaDB, by the server's ``max_allowed_packet``."""

    def __init__(self) -> None:
        self.bytes = _DEFAULT_PACKET_BYTES
        """``max_allowed_packet`` of the latest connection."""

    @property
    def max_value_bytes(self) -> int:
        """Bytes of a value that fit even if each one is escaped."""
        return max(4_096, (self.bytes - 2 * _OVERHEAD_BYTES) // 2)

    def check(self, rows: Sequence[Row], wide: Sequence[int]) -> None:
        """Refuse a row that would exceed the limit.

        :param wide: the positions of values that may be long.
        :raises RowRefused: naming the bytes.
        """
        near = self.bytes // 16  # four bytes a character, each one escaped, leave room for the rest
        for row in rows:
            if sum([len(value) for i in wide if (value := row[i]) is not None]) > near:
                size = sum(_escaped_size(value) for value in row if isinstance(value, (str, bytes)))
                if size + _OVERHEAD_BYTES > self.bytes:
                    raise RowRefused(f"a row of {size} bytes exceeds max_allowed_packet of {self.bytes} bytes")


def _escaped_size(value: str | bytes) -> int:
    """The bytes that a value has in the text of a statement."""
    if isinstance(value, bytes):
        return len(value) + sum(value.count(mark.encode()) for mark in _ESCAPED)
    return len(value.encode("utf-8", "replace")) + sum(value.count(mark) for mark in _ESCAPED)


class RowWriter:
    """One statement and how an object becomes its parameters.

    :param unfolded: the statement that takes all rows as one JSON text; empty where there is none.
    :param parameter: how the driver takes that text.
    """

    def __init__(
        self,
        sql: str,
        columns: Sequence[sa.Column[Any]],
        dialect: str,
        unfolded: str = "",
        parameter: Callable[[bytes], Any] = bytes.decode,
        packet: PacketLimit | None = None,
    ) -> None:
        self.sql = sql
        self._packet = packet if dialect == "mysql" else None
        self._wide = [i for i, c in enumerate(columns) if isinstance(c.type, _WIDE)]
        self._unfolded = unfolded
        self._parameter = parameter
        if unfolded:  # what is not named is NULL; dictionaries would cost more than the rest of the document
            fields = [(str(c.name), Any, None) for c in columns]
            self._record = msgspec.defstruct("Record", fields, omit_defaults=True, gc=False)
        self._converters: list[tuple[int, Callable[[Any], Any]]] = [
            (i, convert)
            for i, c in enumerate(columns)
            if c.name != VERSIONS and (convert := converter(c.type, dialect)) is not None
        ]
        self._get = operator.attrgetter(*(c.name for c in columns if c.name != VERSIONS))

    def row(self, record: Any, versions: str) -> Row:
        """The parameters for an entity; its table ends with the versions."""
        return self._converted([*self._get(record), versions])

    def values(self, values: Row) -> Row:
        """The parameters for values in the order of the columns."""
        return self._converted(list(values))

    def statements(self, rows: Sequence[Row]) -> list[Statement]:
        """What writes rows with these parameters, in their order: one statement, or where there are none, none."""
        if not rows:
            return []
        if self._packet is not None:
            self._packet.check(rows, self._wide)
        if self._unfolded:
            record = self._record
            document = _encode([record(*row) for row in rows])
            return [Statement(self._unfolded, (self._parameter(document),))]
        return [Statement(self.sql, list(rows))]

    def _converted(self, row: list[Any]) -> Row:
        for i, convert in self._converters:
            value = row[i]
            if value is not None:
                row[i] = convert(value)
        return tuple(row)


class Statements:
    """Writes the statements in the dialect of one database."""

    def __init__(self, database: sa.Engine) -> None:
        self.dialect = database.dialect.name.replace("mariadb", "mysql")
        self._mark = "?" if database.dialect.paramstyle == "qmark" else "%s"
        self._quote = database.dialect.identifier_preparer.quote
        self._parameter = _json_of_psycopg() if database.dialect.driver == "psycopg" else bytes.decode
        self.packet = PacketLimit()

    @property
    def swap_reads_lease(self) -> bool:
        """Whether a swap may be fenced. MariaDB would lock the lease's row, which a takeover needs."""
        return self.dialect != "mysql"

    @property
    def max_value_bytes(self) -> int:
        """Bytes of one value that fit into a statement in any case."""
        return self.packet.max_value_bytes if self.dialect == "mysql" else _NO_LIMIT

    def insert(self, table: sa.Table, *, skip: Sequence[str] = ()) -> RowWriter:
        """A plain insert of all columns but the skipped."""
        columns = [c for c in table.columns if c.name not in skip]
        return self._writer(table, columns, "")

    def upsert(self, table: sa.Table, *, newer: str | None = None, skip: Sequence[str] = ()) -> RowWriter:
        """Insert or replace by primary key.

        :param newer: replace only if this column of the new row is greater.
        :param skip: columns to leave alone.
        """
        columns = [c for c in table.columns if c.name not in skip]
        names = [c.name for c in columns if not c.primary_key and c.name != newer]
        q = self._quote
        if self.dialect == "mysql":
            if newer is None:
                sets = [f"{q(n)} = VALUES({q(n)})" for n in names]
            else:
                guard = f"VALUES({q(newer)}) > {q(newer)}"
                sets = [f"{q(n)} = IF({guard}, VALUES({q(n)}), {q(n)})" for n in names]
                sets.append(f"{q(newer)} = GREATEST({q(newer)}, VALUES({q(newer)}))")
            conflict = f" ON DUPLICATE KEY UPDATE {', '.join(sets)}"
        else:
            if newer is not None:
                names.append(newer)
            keys = ", ".join(q(c.name) for c in table.primary_key.columns)
            conflict = f" ON CONFLICT ({keys}) DO UPDATE SET " + ", ".join(f"{q(n)} = excluded.{q(n)}" for n in names)
            if newer is not None:
                conflict += f" WHERE {q(table.name)}.{q(newer)} < excluded.{q(newer)}"
        return self._writer(table, columns, conflict)

    def update(self, table: sa.Table, fields: Sequence[str], *, key: str, newer: str) -> RowWriter:
        """Set these columns, ``newer`` and the versions of known rows. In the dialect of SQLite.

        :param newer: replace only if this column of the new row is greater.
        """
        names = [*fields, key, newer, VERSIONS]
        mark = {name: f"?{number}" for number, name in enumerate(names, 1)}
        q = self._quote
        sets = ", ".join(f"{q(name)} = {mark[name]}" for name in names if name != key)
        where = f"{q(key)} = {mark[key]} AND {q(newer)} < {mark[newer]}"
        sql = f"UPDATE {q(table.name)} SET {sets} WHERE {where}"
        return RowWriter(sql, [table.c[name] for name in names], self.dialect)

    def store_event(self, table: sa.Table) -> RowWriter:
        """Insert an event; an event with a stored digest only counts the delivery."""
        columns = [c for c in table.columns if c.name != "id"]
        q = self._quote
        sql = self._insert(table, columns)
        count = q("deliveries")
        if self.dialect == "mysql":
            sql += f" ON DUPLICATE KEY UPDATE {count} = {count} + 1"
        else:
            sql += f" ON CONFLICT ({q('digest')}) DO UPDATE SET {count} = {q(table.name)}.{count} + 1"
        return RowWriter(sql, columns, self.dialect, packet=self.packet)

    def swap(self, head: sa.Table, leases: sa.Table, *, marks: bool, moves: bool, compared: bool, fenced: bool) -> str:
        """Move the journal's head by a number, which comes first among the parameters.

        :param marks: to the mark that comes next among them.
        :param moves: only from the seq that comes next among them.
        :param compared: only from the mark and the epoch that come next among them.
        :param fenced: only while the lease, whose name and token come last among them, holds. Not if
            :attr:`swap_reads_lease` is false.
        """
        q, mark = self._quote, self._mark
        names = [*(["seq"] if moves else []), *(["mark", "epoch"] if compared else [])]
        conditions = [f"{q(name)} = {mark}" for name in names]
        if fenced:
            holds = f"{q('name')} = {mark} AND {q('token')} = {mark}"
            conditions.append(f"EXISTS (SELECT 1 FROM {q(leases.name)} WHERE {holds})")
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        sets = f"{q('seq')} = {q('seq')} + {mark}" + (f", {q('mark')} = {mark}" if marks else "")
        return f"UPDATE {q(head.name)} SET {sets}{where}"

    def change(self, table: sa.Table, columns: Sequence[str], key: str) -> str:
        """Set these columns of the row with a key, which comes last among the parameters."""
        changed = ", ".join(f"{self._quote(c)} = {self._mark}" for c in columns)
        return f"UPDATE {self._quote(table.name)} SET {changed} WHERE {self._quote(key)} = {self._mark}"

    def change_rows(self, table: sa.Table, columns: Sequence[str], key: str) -> RowWriter:
        """Set these columns of the rows with a key, which comes last among the values.

        On PostgreSQL it is one statement for all rows. The driver would send many statements as a pipeline. A process
        that froze within one would hold its locks, because the server does not count it as idle.
        """
        q, names = self._quote, (*columns, key)
        unfolded = ""
        if self.dialect == "postgresql":
            sets = ", ".join(f"{q(name)} = r.{q(name)}" for name in columns)
            rows = f"json_populate_recordset(NULL::{q(table.name)}, {self._mark}) AS r"
            unfolded = f"UPDATE {q(table.name)} AS t SET {sets} FROM {rows} WHERE t.{q(key)} = r.{q(key)}"
        return RowWriter(
            self.change(table, columns, key), [table.c[name] for name in names], self.dialect, unfolded,
            self._parameter, self.packet,
        )  # fmt: skip

    def insert_hex(self, table: sa.Table, *, key: str, skip: Sequence[str] = ()) -> RowWriter:
        """As :meth:`insert`; on PostgreSQL bytes are given as a text, :func:`hex_text`.

        :param key: a unique column; a row that is stored already stays as it is.
        """
        columns = [c for c in table.columns if c.name not in skip]
        name = self._quote(key)
        ignored = (
            f" ON DUPLICATE KEY UPDATE {name} = {name}"
            if self.dialect == "mysql"
            else f" ON CONFLICT ({name}) DO NOTHING"
        )
        return self._writer(table, columns, ignored, hex_bytes=True)

    def delete(self, table: sa.Table, *keys: str) -> str:
        """Delete by these columns."""
        where = " AND ".join(f"{self._quote(k)} = {self._mark}" for k in keys)
        return f"DELETE FROM {self._quote(table.name)} WHERE {where}"

    def delete_oldest(self, table: sa.Table, *keys: str) -> str:
        """Delete the rows with these columns up to an id, which comes last among the parameters."""
        where = " AND ".join(f"{self._quote(k)} = {self._mark}" for k in keys)
        return f"DELETE FROM {self._quote(table.name)} WHERE {where} AND {self._quote('id')} <= {self._mark}"

    def _writer(
        self, table: sa.Table, columns: Sequence[sa.Column[Any]], conflict: str, *, hex_bytes: bool = False
    ) -> RowWriter:
        unfolded = ""
        has_bytes = any(isinstance(c.type, sa.LargeBinary) for c in columns)
        if self.dialect == "postgresql" and (hex_bytes or not has_bytes):
            q = self._quote
            names = ", ".join(q(c.name) for c in columns)
            rows = f"json_populate_recordset(NULL::{q(table.name)}, {self._mark})"
            unfolded = f"INSERT INTO {q(table.name)} ({names}) SELECT {names} FROM {rows}{conflict}"
        return RowWriter(
            self._insert(table, columns) + conflict, columns, self.dialect, unfolded, self._parameter, self.packet
        )

    def _insert(self, table: sa.Table, columns: Sequence[sa.Column[Any]]) -> str:
        names = ", ".join(self._quote(c.name) for c in columns)
        marks = ", ".join([self._mark] * len(columns))
        return f"INSERT INTO {self._quote(table.name)} ({names}) VALUES ({marks})"


def hex_text(value: bytes) -> str:
    """The text that PostgreSQL reads as these bytes."""
    return f"\\x{value.hex()}"


def _json_of_psycopg() -> Callable[[bytes], Any]:
    """A JSON text goes as it is, instead of as a str to be encoded again. Imported for PostgreSQL only."""
    from psycopg.types.json import Json

    return lambda document: Json(document, dumps=_as_it_is)


def _as_it_is(document: bytes) -> bytes:
    return document
