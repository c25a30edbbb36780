# SPDX-License-Identifier: Apache-2.0
"""The command that repairs an entity: what it prints, its exit statuses, and what the next event does."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.functional.executables import run_preloaded
from tests.waiting import deadline

BIN = pathlib.Path(sys.executable).parent
AGES = 9.9 * 365 * 86_400


class Site:
    """A database, and the command."""

    def __init__(self, folder: pathlib.Path, url: str) -> None:
        self.folder = folder
        self.conf = folder / "ws.conf"
        self.url = url
        self.configure(AGES)

    def configure(self, skew: float) -> None:
        self.conf.write_text(
            f"[database]\nconnection = {self.url}\n[engine]\nmax_clock_skew = {skew}\n"
            "[handler_dcm]\nunknown_instance = create\n"
        )

    def manage(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run_preloaded(
            "watcher-sync-manage",
            ["--config-file", str(self.conf), *arguments],
            program=str(BIN / "watcher-sync-manage"),
            environment=os.environ,
            timeout=deadline(120),
        )

    def told(self, name: str, status: str, time: str) -> dict[str, Any]:
        """Replay one event; the counts."""
        event = {
            "specversion": "1.0", "id": name, "source": "dcm/providers/p", "type": "dcm.status.vm", "time": time,
            "data": {"id": "vm-1", "status": status},
        }  # fmt: skip
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(event))
        done = self.manage("replay", str(path))
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found


@pytest.fixture
def site(tmp_path: pathlib.Path, sqlite_url: str) -> Site:
    site = Site(tmp_path, sqlite_url)
    assert site.manage("db_sync").returncode == 0
    return site


def test_a_frozen_row_is_written_by_the_next_event_after_a_reset(site: Site) -> None:
    ahead = (datetime.now(UTC) + timedelta(days=365)).isoformat()
    assert site.told("1", "RUNNING", ahead)["applied"] == 1
    site.configure(300)
    assert site.told("2", "STOPPED", ahead)["quarantined"] == 1
    assert site.told("3", "STOPPED", "2026-03-01T12:00:00Z")["stale"] == 1
    done = site.manage("entity", "reset", "--kind", "service_type_instance", "vm-1", "--facet", "status")
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    assert (answer["kind"], answer["id"], list(answer["facets"])) == ("service_type_instance", "vm-1", ["status"])
    assert site.told("4", "STOPPED", "2026-03-01T12:00:00Z")["applied"] == 1
    journal = [json.loads(line) for line in site.manage("journal", "tail").stdout.splitlines()]
    assert [row["event_type"] for row in journal if row["seq"] == answer["seq"]] == ["manage.entity.reset"]


REFUSED = (
    (["reset", "--kind", "instance", "x", "--facet", "colour"], 2, "--facet colour: instance has no such facet"),
    (["undelete", "--kind", "instance", "x"], 1, "instance x is unknown"),
)


def test_a_repair_that_cannot_be_done_is_one_line_and_an_exit_status(site: Site) -> None:
    for arguments, status, text in REFUSED:
        done = site.manage("entity", *arguments)
        assert (done.returncode, done.stdout) == (status, "")
        assert done.stderr.startswith("error: ")
        assert text in done.stderr
        assert len(done.stderr.splitlines()) == 1
