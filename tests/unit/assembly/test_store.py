# SPDX-License-Identifier: Apache-2.0
"""A kind without a fitting table is left out, and the log has one line for it."""

from __future__ import annotations

import pytest
from oslo_config import cfg

from tests.migrated import migrate
from watcher_sync.assembly import store as assembly
from watcher_sync.conf import opts
from watcher_sync.exceptions import ConfigError
from watcher_sync.storage.schema import schema
from watcher_sync.testing.kinds import builtin_kinds


def test_a_kind_that_the_database_lacks_is_left_out_and_logged_once_by_parent_and_children(
    tmp_path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    opts.register_database(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("connection", f"sqlite:///{tmp_path / 'ws.sqlite'}", group="database")
    monkeypatch.setattr(assembly, "_reported_problems", set())
    monkeypatch.setattr(schema, "check", lambda *_: {"aggregate": "entity kind 'aggregate' of here: it lacks a column"})
    for _ in range(2):  # as the parent does to check, and its worker after the fork
        store = assembly.open_store(conf, builtin_kinds())
        assert "aggregate" not in store.kinds
        assert "instance" in store.kinds
        store.dispose()
    lines = [record.getMessage() for record in caplog.records if "it lacks a column" in record.getMessage()]
    assert lines == ["entity kind 'aggregate' of here: it lacks a column; until then its events go to the quarantine"]


SIZES = [
    (1, 0, True),
    (1, 1, False),
    (1, -1, False),
    (2, 0, False),
    (0, 0, False),
    (None, None, False),
    (None, 0, False),
]
"""(size, overflow, whether it is refused). A size of 0, and an overflow of -1, are no limit."""


@pytest.mark.parametrize(("size", "overflow", "is_refused"), SIZES)
@pytest.mark.parametrize("url", ["postgresql+psycopg://127.0.0.1/ws", "mysql+pymysql://127.0.0.1/ws"])
def test_a_pool_of_one_connection_is_refused_because_commits_retain_one(url, size, overflow, is_refused) -> None:
    conf = _with_pool(url, size, overflow)
    if is_refused:
        with pytest.raises(ConfigError, match="max_pool_size, max_overflow"):
            assembly.open_store(conf, builtin_kinds(), checked=False)
    else:
        assembly.open_store(conf, builtin_kinds(), checked=False).dispose()


def test_a_pool_of_one_connection_changes_nothing_on_sqlite_which_has_no_pool(tmp_path) -> None:
    conf = _with_pool(f"sqlite:///{tmp_path / 'ws.sqlite'}", 1, 0)
    store = assembly.open_store(conf, builtin_kinds(), checked=False)
    migrate(store)
    with store.database.connect(), store.database.connect():
        assert store.head() == 0
    store.dispose()


def _with_pool(url: str, size: int | None, overflow: int | None) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    opts.register_database(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    for option, value in {"connection": url, "max_pool_size": size, "max_overflow": overflow}.items():
        if value is not None:
            conf.set_override(option, value, group="database")
    return conf
