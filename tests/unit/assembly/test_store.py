# SPDX-License-Identifier: Apache-2.0
"""A kind without a fitting table is left out, and the log has one line for it."""

from __future__ import annotations

import pytest
from oslo_config import cfg

from watcher_sync.assembly import store as assembly
from watcher_sync.conf import opts
from watcher_sync.exceptions import ConfigError
from watcher_sync.model.entities import builtin_kinds
from watcher_sync.storage.schema import schema


def test_a_kind_that_the_database_lacks_is_left_out_and_logged_once_by_a_process_and_its_children(
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


@pytest.mark.parametrize(
    ("size", "overflow", "is_refused"),
    [(1, 0, True), (1, 1, False), (1, -1, False), (2, 0, False), (0, 0, False), (None, None, False), (None, 0, False)],
)
def test_a_pool_of_one_connection_is_refused_because_commits_retain_one(tmp_path, size, overflow, is_refused) -> None:
    """A size of 0, and an overflow of -1, are no limit."""
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    opts.register_database(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("connection", f"sqlite:///{tmp_path / 'ws.sqlite'}", group="database")
    for option, value in (("max_pool_size", size), ("max_overflow", overflow)):
        if value is not None:
            conf.set_override(option, value, group="database")
    if is_refused:
        with pytest.raises(ConfigError, match="max_pool_size, max_overflow"):
            assembly.open_store(conf, builtin_kinds(), checked=False)
    else:
        assembly.open_store(conf, builtin_kinds(), checked=False).dispose()
