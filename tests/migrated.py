# SPDX-License-Identifier: Apache-2.0
"""Databases with the schema in place: migrated once a process where the database is a file, and copied from then on."""

from __future__ import annotations

import functools
import pathlib
import tempfile

import sqlalchemy as sa

from watcher_sync.model.entities import builtin_kinds
from watcher_sync.storage import schema
from watcher_sync.storage.store import Store
from watcher_sync.storage.tables import Tables


def migrate(store: Store) -> Store:
    """What ``schema.upgrade`` does to a database that is empty; the same store."""
    url = store.database.url
    file = pathlib.Path(url.database or "")
    if url.get_backend_name() == "sqlite" and not file.exists() and store.kinds.keys() == builtin_kinds().keys():
        file.write_bytes(_file())
    else:
        schema.upgrade(store.database, store.tables)
    return store


@functools.cache
def _file() -> bytes:
    with tempfile.TemporaryDirectory(prefix="watcher-sync-") as folder:
        path = pathlib.Path(folder) / "migrated.sqlite"
        engine = sa.create_engine(f"sqlite:///{path}")
        schema.upgrade(engine, Tables(builtin_kinds()))
        engine.dispose()
        return path.read_bytes()
