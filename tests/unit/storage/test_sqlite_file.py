# SPDX-License-Identifier: Apache-2.0
"""An SQLite file that another one replaces while it is open, and a file that gets its first write-ahead log."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from tests.migrated import migrate
from tests.simulated import by_facet, telling, told
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.conf import opts
from watcher_sync.exceptions import DatabaseUnavailable
from watcher_sync.model.changes import Upsert
from watcher_sync.storage.database import database
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ws.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    opts.register_database(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("connection", f"sqlite:///{path}", group="database")
    store = Store(database.open_database(conf), builtin_kinds())
    migrate(store)
    yield store
    store.close()
    store.database.dispose()


def commit(cycle: CommitCycle, number: int) -> None:
    change = Upsert("instance", f"i{number}", "1", by_facet("instance", name=f"n{number}"))
    cycle.run(Batch(events=[told(number, change)]))


def backed_up(path: Path) -> Path:
    """A consistent copy of an SQLite file, beside it."""
    backup = path.with_suffix(".backup")
    with sqlite3.connect(path) as source, sqlite3.connect(backup) as target:
        source.backup(target)
    return backup


def test_the_first_connection_after_a_replacement_reads_nothing_of_the_replaced_log(store: Store, path: Path) -> None:
    """It is opened before a commit notices the replacement, as one of another thread may be."""
    cycle = CommitCycle(store, store.load(), telling())
    commit(cycle, 1)
    backup = backed_up(path)
    commit(cycle, 2)
    os.replace(backup, path)
    assert [each.id for each in store.load().snapshot().all("instance")] == ["i1"]
    with pytest.raises(DatabaseUnavailable, match="was deleted or replaced"):
        commit(cycle, 3)
    assert store.load().generation == 1
    again = CommitCycle(store, store.load(), telling())
    commit(again, 4)
    assert {each.id for each in store.load().snapshot().all("instance")} == {"i1", "i4"}


def test_the_log_of_the_new_file_is_not_set_aside(store: Store, path: Path) -> None:
    """A connection to the replaced file may be checked after the new one has a log."""
    cycle = CommitCycle(store, store.load(), telling())
    commit(cycle, 1)
    os.replace(backed_up(path), path)
    with store.database.connect() as connection:
        connection.exec_driver_sql("SELECT * FROM journal_head").fetchall()
        with pytest.raises(DatabaseUnavailable, match="was deleted or replaced"):
            commit(cycle, 2)
        assert path.with_name(f"{path.name}-wal").exists()
        commit(CommitCycle(store, store.load(), telling()), 3)
    assert {each.id for each in store.load().snapshot().all("instance")} == {"i1", "i3"}


def test_a_writer_of_a_file_without_a_log_is_waited_for(store: Store, path: Path) -> None:
    """Such a file is a fresh copy, and the writer another first connection. SQLite itself does not wait for it."""
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    attempts = []

    def trace(statement: str) -> None:
        if statement == "PRAGMA journal_mode=WAL":
            attempts.append(statement)
            if len(attempts) == 2:
                writer.execute("ROLLBACK")

    @sa.event.listens_for(store.database, "connect", insert=True)
    def traced(connection: sqlite3.Connection, _record: object) -> None:
        connection.set_trace_callback(trace)

    assert store.load().generation == 0
    assert len(attempts) >= 2
    writer.close()


def test_a_commit_of_20_megabytes_is_not_yet_copied_from_the_log_into_the_file(store: Store, path: Path) -> None:
    """So that pages which the next commits change, too, are copied once."""
    with store.database.connect() as connection:
        connection.exec_driver_sql("CREATE TABLE large AS SELECT zeroblob(20000000) AS content")
        connection.commit()
        assert path.stat().st_size < 2_000_000
        assert path.with_name(f"{path.name}-wal").stat().st_size > 20_000_000
