# SPDX-License-Identifier: Apache-2.0
"""``watcher-sync-manage reconcile``: what an operator reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from oslo_config import cfg

from tests.sites import Site
from watcher_sync.assembly import process
from watcher_sync.cmd.manage import add_commands
from watcher_sync.cmd.reconciling import reconcile
from watcher_sync.exceptions import ConfigError


@pytest.mark.parametrize("scopes", [[], ["nova"]])
def test_without_a_reconciler_the_error_names_the_options_that_enable_one(tmp_path: Path, scopes: list[str]) -> None:
    conf = process._unread([cfg.SubCommandOpt("command", handler=add_commands)])
    file = tmp_path / "watcher-sync.conf"
    file.write_text("")
    process._read(conf, ["--config-file", str(file), "reconcile", *scopes], "watcher-sync-manage")
    site = Site(tmp_path, conf=conf)
    try:
        with pytest.raises(ConfigError, match=r"^nothing to compare: .*\[reconcile_nova\] enabled"):
            reconcile(conf)
    finally:
        site.close()
