# SPDX-License-Identifier: Apache-2.0
"""An SQLite database whose write lock a frozen process holds."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from tests.migrated import migrate
from watcher_sync.conf import opts
from watcher_sync.exceptions import DatabaseUnavailable
from watcher_sync.storage.database import database
from watcher_sync.storage.groups.leases import EngineLease
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds

_WRITING = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("writing", flush=True)
sys.stdin.read()
"""


def test_a_standby_that_cannot_write_the_lease_names_the_frozen_process_that_holds_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_RETRY_SECONDS", 0)
    path = tmp_path / "ws.sqlite"
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    opts.register_database(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("connection", f"sqlite:///{path}", group="database")
    store = Store(database.open_database(conf), builtin_kinds())
    migrate(store)
    store.head()  # the file has a write-ahead log from here on
    sa.event.listen(store.database, "connect", lambda c, _record: c.execute("PRAGMA busy_timeout=1").close())
    frozen = subprocess.Popen([sys.executable, "-c", _WRITING, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert frozen.stdout is not None
        assert frozen.stdout.readline() == b"writing\n"
        frozen.send_signal(signal.SIGSTOP)
        lease = EngineLease(store.database, store.tables, "engine:g", seconds=6.0, holder="machine/1")
        with pytest.raises(DatabaseUnavailable, match=f"database is locked: process {frozen.pid} holds the write lock"):
            lease.try_take()
    finally:
        frozen.kill()
        frozen.communicate()
        store.database.dispose()
