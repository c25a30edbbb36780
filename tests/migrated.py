# SPDX-License-Identifier: Apache-2.0
"""Databases with the schema in place. A process runs the migrations once for each kind of database.

Further empty databases get a copy of the file (SQLite), or the statements that the migrations sent the first time.
"""

from __future__ import annotations

import pathlib
import tempfile
from typing import Any

import sqlalchemy as sa

from watcher_sync.model.kinds import Kinds
from watcher_sync.storage.schema import schema
from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.writing.store import Store

_Schema = tuple[str, frozenset[Any]]
"""A dialect, and the kinds that have tables."""

_Statement = tuple[str, Any, bool]
"""SQL, its parameters, and whether it runs once for each of them."""

_files: dict[_Schema, bytes] = {}
_statements: dict[_Schema, list[_Statement]] = {}


def migrate(store: Store) -> Store:
    """What ``schema.upgrade`` does to a database; fast where the database is empty. The same store."""
    url = store.database.url
    key = (url.get_backend_name(), frozenset(store.kinds.items()))
    if url.get_backend_name() == "sqlite":
        file = pathlib.Path(url.database or "")
        if file.exists():
            schema.upgrade(store.database, store.tables)
        else:
            file.touch(mode=0o640)  # as the store creates it
            file.write_bytes(_file(key, store.kinds))
    elif sa.inspect(store.database).get_table_names():
        schema.upgrade(store.database, store.tables)
    elif key in _statements:
        _replay(store, _statements[key])
    else:
        _statements[key] = _record(store)
    return store


def _file(key: _Schema, kinds: Kinds) -> bytes:
    if key not in _files:
        with tempfile.TemporaryDirectory(prefix="watcher-sync-") as folder:
            path = pathlib.Path(folder) / "migrated.sqlite"
            engine = sa.create_engine(f"sqlite:///{path}")
            schema.upgrade(engine, Tables(kinds))
            engine.dispose()
            _files[key] = path.read_bytes()
    return _files[key]


def _record(store: Store) -> list[_Statement]:
    """Migrate an empty database. :returns: what changed it."""
    sent: list[_Statement] = []

    def listen(_connection: Any, _cursor: Any, sql: str, parameters: Any, _context: Any, many: bool) -> None:
        if not sql.lstrip().upper().startswith(("SELECT", "SHOW", "DESCRIBE")):
            sent.append((sql, parameters, many))

    sa.event.listen(store.database, "before_cursor_execute", listen)
    try:
        schema.upgrade(store.database, store.tables)
    finally:
        sa.event.remove(store.database, "before_cursor_execute", listen)
    return sent


def _replay(store: Store, statements: list[_Statement]) -> None:
    with store.database.begin() as connection:
        cursor = connection.connection.cursor()
        for sql, parameters, many in statements:
            if many:
                cursor.executemany(sql, parameters)
            else:
                cursor.execute(sql, parameters or None)
        cursor.close()
    schema.check(store.database, store.tables)
