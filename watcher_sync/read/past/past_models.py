# SPDX-License-Identifier: Apache-2.0
"""The model as it was at a seq: a copy of its tables in an SQLite database in memory.

Filters, sorting and paging then work on the copy with the statements that they use on the tables. So they mean the
same. Texts are ordered by their code points. The model at a seq never changes, so a process keeps some copies, and all
pages of a list come from one.

A copy is made in one transaction. The rows of a kind that did not change since are copied as they are. Of the others,
the later journal rows are taken back (:mod:`watcher_sync.read.past.undoing`). A kind is copied when it is first asked
for. 20,000 entities take about 12 MB.
"""

from __future__ import annotations

import collections
import contextlib
import datetime
import threading
import time
import urllib.parse
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from watcher_sync.exceptions import DatabaseUnavailable
from watcher_sync.model.kinds import Kind, Kinds
from watcher_sync.read.past.undoing import Before, filled, in_parts, last_writes, parts_of_ids, read_before
from watcher_sync.storage.database.database import sqlite_path
from watcher_sync.storage.database.types import JsonDocument, UtcDateTime, json_text, sqlite_time, time_as_text
from watcher_sync.storage.epochs import Position, continues, read_position
from watcher_sync.storage.schema.tables import Tables

_WAIT_SECONDS: Final = 30.0
"""How long an admitted request waits for others that make or read copies."""
_ADMISSION_SECONDS: Final = 1.0
"""How long a request waits until it is one of them. Those that wait hold threads of all other requests."""
MAX_READERS: Final = 8
"""Requests of a process that read the past at one time."""

OWN_BYTES: Final = 262_144
"""What a copy takes beside its pages: a connection of SQLite and its engine. 200 KB were seen."""

_UNCHANGED: Final = Before({})
_FILE: Final = "present"
"""The name of an SQLite file in the copy's database."""

Key = tuple[str, int]
"""(epoch, seq)."""


class PastModel:
    """The model at one seq. Used by one thread at a time, which holds :attr:`lock`."""

    def __init__(self, tables: Tables, kinds: Kinds, known: Position, seq: int) -> None:
        """:param known: the position of the database when the copy was begun."""
        self.known = known
        self.seq = seq
        # Guards the database and what follows.
        self.lock = threading.Lock()
        self.is_closed = False
        self.bytes = OWN_BYTES
        self._tables = tables
        self._kinds = kinds
        self._loaded: set[str] = set()
        self._database = sa.create_engine(
            "sqlite://", poolclass=sa.StaticPool, connect_args={"check_same_thread": False, "uri": True}
        )

    def lacks(self, names: Collection[str]) -> list[str]:
        """The kinds of these that are not copied yet."""
        return [name for name in names if name not in self._loaded]

    def load(self, connection: sa.Connection, name: str) -> None:
        """Copy a kind.

        :param connection: the database, in a transaction with a stable view.
        """
        kind, table = self._kinds[name], self._tables.entities[name]
        moved: set[str] = set()
        before = read_before(connection, self._tables, kind, self.seq, moved=moved)
        copied = [column for column in table.columns if column.name != "versions"]
        copy = sa.Table(table.name, sa.MetaData(), *(sa.Column(c.name, c.type) for c in copied))
        columns = [
            (sa.null() if c.name == kind.last_seen_field else _as_stored(c, connection.dialect.name)).label(c.name)
            for c in copied
        ]
        rewrite = _Rewriter(kind, [column.name for column in copied])
        with self._attached(connection), self._database.begin() as own:
            own.exec_driver_sql(f"DROP TABLE IF EXISTS main.{table.name}")
            own.execute(sa.schema.CreateTable(copy))
            insert = f"INSERT INTO main.{table.name} VALUES ({', '.join('?' * len(copied))})"

            def put(rows: list[tuple[Any, ...]]) -> None:
                if rows:
                    own.exec_driver_sql(insert, rows)

            unchanged = sa.select(*columns).where(table.c.seq <= self.seq)
            if (missing := self._copied_from_file(own, connection, table, kind)) is not None:
                for ids in parts_of_ids(missing):
                    put(list(map(tuple, connection.execute(unchanged.where(table.c.id.in_(ids))))))
            else:
                for rows in in_parts(connection, unchanged, table.c.id, copied.index(table.c.id), ordered=False):
                    put(list(map(tuple, rows)))
            later = sa.select(*columns).where(table.c.seq > self.seq)
            changed = moved | {i for i, then in before.items() if then is not None and not then.is_whole}
            # To find a row by its id costs more than to pass over one that was created later.
            if len(changed) > sum(then is None for then in before.values()):
                parts = in_parts(connection, later, table.c.id, copied.index(table.c.id), ordered=False)
            else:
                parts = (connection.execute(later.where(table.c.id.in_(ids))).all() for ids in parts_of_ids(changed))
            for rows in parts:
                put(rewrite.present(rows, before))
            put(rewrite.deleted(before))
            own.exec_driver_sql(f"CREATE UNIQUE INDEX main.ix_{table.name}_id ON {table.name} (id)")
            pages = own.exec_driver_sql("PRAGMA page_count").scalar_one()
            self.bytes = OWN_BYTES + pages * own.exec_driver_sql("PRAGMA page_size").scalar_one()
        self._loaded.add(name)

    @contextlib.contextmanager
    def _attached(self, connection: sa.Connection) -> Iterator[None]:
        """Have the copy's database read the file of an SQLite database by itself."""
        path = sqlite_path(connection.engine.url)
        if path is None:
            yield
            return
        with self._database.connect() as own:
            own.exec_driver_sql(f"ATTACH ? AS {_FILE}", (f"file:{urllib.parse.quote(path)}?mode=ro",))
        try:
            yield
        finally:
            with self._database.connect() as own:
                own.exec_driver_sql(f"DETACH {_FILE}")

    def _copied_from_file(
        self, own: sa.Connection, connection: sa.Connection, table: sa.Table, kind: Kind
    ) -> Collection[str] | None:
        """Copy the rows that did not change since the seq, if it is an SQLite file. No row passes through Python.

        :returns: the ids of those that changed after the state of the connection; None: nothing is copied.
        """
        if sqlite_path(connection.engine.url) is None:
            return None
        quote = own.dialect.identifier_preparer.quote
        names = [quote(column.name) for column in table.columns if column.name != "versions"]
        values = ", ".join("NULL" if name == kind.last_seen_field else name for name in names)
        own.exec_driver_sql(
            f"INSERT INTO main.{table.name} SELECT {values} FROM {_FILE}.{table.name} WHERE seq <= ?",  # noqa: S608
            (self.seq,),
        )
        before = read_position(connection, self._tables)
        file = own.execution_options(schema_translate_map={None: _FILE})
        after, journal = read_position(file, self._tables), self._tables.journal.c
        later = file.execute(sa.select(journal.kind, journal.entity_id).where(journal.seq > before.seq)).all()
        if continues(file, self._tables, after, before) and len(later) == after.seq - before.seq:
            return {row.entity_id for row in later if row.kind == kind.name}
        own.exec_driver_sql(f"DELETE FROM main.{table.name}")  # noqa: S608
        return None

    def connect(self) -> sa.Connection:
        """A connection to the copy."""
        return self._database.connect()

    def close(self) -> None:
        """Free the memory."""
        self.is_closed = True
        self._database.dispose()


class _Rewriter:
    """Turns present rows into those of the past."""

    def __init__(self, kind: Kind, names: Sequence[str]) -> None:
        self._kind = kind
        self._position = {name: i for i, name in enumerate(names)}
        self._convert = {name: _converter(field.python) for name, field in kind.fields.items()}
        self._undone = {n: (self._position[n], c) for n, c in self._convert.items() if n != kind.last_seen_field}
        """Field that the journal has -> its position, and how its value is stored."""

    def present(self, rows: Sequence[Sequence[Any]], before: Mapping[str, Before | None]) -> list[tuple[Any, ...]]:
        """The rows of entities that existed at the seq, from rows that were changed later."""
        found, at_id, at_seq, undone = [], self._position["id"], self._position["seq"], self._undone
        for row in rows:
            then = before.get(row[at_id], _UNCHANGED)
            if then is None or then.is_whole:
                continue
            values = list(row)
            values[at_seq] = None
            for name, value in then.values.items():
                if (field := undone.get(name)) is not None:
                    position, convert = field
                    values[position] = value if value is None or convert is None else convert(value)
            found.append(tuple(values))
        return found

    def deleted(self, before: Mapping[str, Before | None]) -> list[tuple[Any, ...]]:
        """The rows of entities that existed at the seq and do not exist now."""
        return [tuple(self._whole(i, then.values)) for i, then in before.items() if then is not None and then.is_whole]

    def _whole(self, entity_id: str, values: Mapping[str, Any]) -> list[Any]:
        row: list[Any] = [None] * len(self._position)
        row[self._position["id"]] = entity_id
        for name, value in filled(self._kind, values).items():
            row[self._position[name]] = self._stored(name, value)
        return row

    def _stored(self, name: str, value: Any) -> Any:
        convert = self._convert[name]
        return value if value is None or convert is None else convert(value)


class PastModels:
    """The copies of one process. For any thread.

    :param max_bytes: when copies need more memory than this, those that were not used for the longest time go. One
        copy always remains.
    """

    def __init__(self, tables: Tables, kinds: Kinds, max_bytes: int) -> None:
        self._tables = tables
        self._kinds = kinds
        self._max_bytes = max_bytes
        # Held while a copy is made, so that a process makes one at a time.
        self._loading = threading.Lock()
        self._readers = threading.BoundedSemaphore(MAX_READERS)
        # Guards the copies.
        self._lock = threading.Lock()
        self._models: collections.OrderedDict[Key, PastModel] = collections.OrderedDict()
        """The least recently used first."""

    @contextlib.contextmanager
    def admitted(self) -> Iterator[None]:
        """Waits until few other requests read the past. Each of them has a connection to the database meanwhile.

        :raises DatabaseUnavailable: the other requests take too long.
        """
        _acquire(self._readers, time.monotonic() + _ADMISSION_SECONDS)
        try:
            yield
        finally:
            self._readers.release()

    @contextlib.contextmanager
    def reading(
        self, connection: sa.Connection, head: Position, seq: int, names: Collection[str]
    ) -> Iterator[sa.Connection]:
        """A connection to a copy of the model at a seq. Its tables have the same names and columns.

        An entity whose last change is not known has no seq there; see :func:`add_seqs`.

        :param connection: the database, in a transaction with a stable view. Its journal has every row after the seq.
        :param head: the position that was read over the connection.
        :param names: the kinds that are needed.
        :raises DatabaseUnavailable: another request makes a copy for too long.
        """
        deadline = time.monotonic() + _WAIT_SECONDS
        while True:
            model = self._get(connection, head, seq)
            _acquire(model.lock, deadline)
            if not model.is_closed:
                break
            model.lock.release()
        try:
            if missing := model.lacks(names):
                _acquire(self._loading, deadline)
                try:
                    for name in missing:
                        model.load(connection, name)
                finally:
                    self._loading.release()
            with model.connect() as copy:
                yield copy
        finally:
            model.lock.release()
            self._trim(model)

    def close(self) -> None:
        """Free the memory of all copies."""
        with self._lock:
            models = list(self._models.values())
            self._models.clear()
        for model in models:
            with model.lock:
                model.close()

    def _get(self, connection: sa.Connection, head: Position, seq: int) -> PastModel:
        key = (head.epoch, seq)
        with self._lock:
            model = self._models.get(key)
            if model is not None:
                self._models.move_to_end(key)
        if model is not None and continues(connection, self._tables, head, model.known):
            return model
        with self._lock:
            if key not in self._models or self._models[key] is model:
                self._models[key] = PastModel(self._tables, self._kinds, head, seq)
            return self._models[key]

    def _trim(self, used: PastModel) -> None:
        """Forget copies while all together are too large."""
        forgotten: list[PastModel] = []
        with self._lock:
            total = sum(model.bytes for model in self._models.values())
            for key, model in list(self._models.items()):
                if total <= self._max_bytes:
                    break
                if model is not used:
                    forgotten.append(self._models.pop(key))
                    total -= model.bytes
        for model in forgotten:
            with model.lock:
                model.close()


def _acquire(lock: threading.Lock | threading.Semaphore, deadline: float) -> None:
    """:raises DatabaseUnavailable: it is not free by the deadline, in monotonic seconds."""
    if not lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
        raise DatabaseUnavailable("other requests for the past take long")


def add_seqs(connection: sa.Connection, tables: Tables, kind: str, rows: Sequence[dict[str, Any]], seq: int) -> None:
    """Give rows of a copy the seqs that wrote them; None remains where the journal no longer has the change.

    :param connection: the database.
    """
    unknown = [row["id"] for row in rows if row["seq"] is None]
    if unknown:
        known = last_writes(connection, tables, kind, unknown, seq)
        for row in rows:
            if row["seq"] is None:
                row["seq"] = known.get(row["id"])


def _as_stored(column: sa.Column[Any], dialect: str) -> sa.ColumnElement[Any]:
    """A column as SQLite stores its values."""
    if isinstance(column.type, UtcDateTime):
        return time_as_text(column, dialect)
    if isinstance(column.type, JsonDocument):
        return sa.type_coerce(column, sa.Text())
    return sa.type_coerce(column, sa.types.NULLTYPE)


def _converter(python: type) -> Callable[[Any], Any] | None:
    """How a value of a field in JSON is stored in SQLite; None: as it is."""
    if python is datetime.datetime:
        return _time_text
    return json_text if python in (list, dict) else None


def _time_text(text: str) -> str:
    return sqlite_time(msgspec.convert(text, datetime.datetime))
