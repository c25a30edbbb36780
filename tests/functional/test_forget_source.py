# SPDX-License-Identifier: Apache-2.0
"""The command ``forget-source``: what it prints and its exit statuses."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable

import msgspec
import pytest

from tests.functional.executables import run_preloaded
from tests.functional.storage.conftest import opened
from tests.functional.storage.writing import commit, cycle_on
from tests.simulated import by_facet, told
from tests.waiting import deadline
from watcher_sync.extensions.kubernetes.handler.handler import KubernetesHandler
from watcher_sync.model.changes import Upsert
from watcher_sync.model.kinds import Kinds
from watcher_sync.storage.database.database_time import read_clock
from watcher_sync.storage.groups.source_status import SourceRow, mark_removed, write_sources
from watcher_sync.testing.kinds import builtin_kinds

Manage = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def declared_kinds() -> Kinds:
    """Ours, as the command has them."""
    return builtin_kinds()


@pytest.fixture
def manage(tmp_path: pathlib.Path, one_migrated_url: str) -> Manage:
    """The command on a database with two pods of a cluster that an engine follows."""
    store = opened(one_migrated_url, builtin_kinds())
    pods = [Upsert("pod", uid, "1", by_facet("pod", name=uid, cluster="edge")) for uid in ("a", "b")]
    commit(cycle_on(store), told(1, *pods))
    scopes, now = msgspec.json.encode(KubernetesHandler().scopes("edge")).decode(), read_clock(store.database)
    common = {"engine_group": "g", "host": "h", "pid": 1, "state": "connected", "since": now, "updated_at": now}
    write_sources(store.database, [SourceRow(source="edge", scopes=scopes, **common)])
    conf = tmp_path / "ws.conf"
    conf.write_text(f"[database]\nconnection = {one_migrated_url}\n[monitoring]\nstale_after = 3600\n")

    def run(*arguments: str, removed: bool = True) -> subprocess.CompletedProcess[str]:
        if removed:
            mark_removed(store.database, "g", [], now)
        return run_preloaded(
            "watcher-sync-manage",
            ["--config-file", str(conf), "forget-source", *arguments],
            program=str(pathlib.Path(sys.executable).parent / "watcher-sync-manage"),
            environment=os.environ,
            timeout=deadline(240),
        )

    return run


def test_the_command_shows_what_it_would_delete_deletes_it_and_then_knows_no_such_source(manage: Manage) -> None:
    refused = manage("edge", removed=False)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert len(refused.stderr.splitlines()) == 1
    assert "remove it from [engine] enabled_sources there and restart the engine" in refused.stderr
    for is_dry_run in (True, False):
        done = manage("edge", *(["--dry-run"] if is_dry_run else []))
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == {
            "source": "edge",
            "dry_run": is_dry_run,
            "entities": {"pod": 2},
            "rows": {"source_status": 1},
        }
    again = manage("edge")
    assert (again.returncode, again.stdout) == (2, "")
    assert "edge: nothing is stored of such a source" in again.stderr
