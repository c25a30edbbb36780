# SPDX-License-Identifier: Apache-2.0
"""Which groups of engines the page calls leaderless; the page's own module answers, without a browser."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import deadline
from watcher_sync.api.ui.page import assets

_NODE = shutil.which("node")
_SCRIPT = """
import { writeSync } from "node:fs";
import { leaderless } from "./engines.js";
const at = Date.parse("2026-01-01T00:01:00Z");
writeSync(1, JSON.stringify(JSON.parse(process.argv[2]).map((engines) => leaderless(engines, at))));
process.exit(0); // before a timer of the page needs a document
"""

pytestmark = pytest.mark.skipif(_NODE is None, reason="node is not installed")


def engine(group: str, state: str, seconds: int = 1) -> dict[str, Any]:
    """:param seconds: since its last heartbeat."""
    return {"group": group, "state": state, "heartbeat_at": f"2026-01-01T00:00:{60 - seconds:02}Z"}


CASES = {
    "a leader and a standby": ([engine("a", "leading"), engine("a", "standby")], []),
    "a standby alone": ([engine("a", "standby"), engine("b", "leading")], ["a"]),
    "a silent leader": ([engine("a", "leading", 15)], ["a"]),
    "a group that was stopped beside one that leads": ([engine("a", "stopped"), engine("b", "leading")], []),
    "a stopped engine and a standby of one group": ([engine("a", "stopped"), engine("a", "standby")], ["a"]),
    "all groups were stopped": ([engine("a", "stopped"), engine("b", "stopped")], ["a", "b"]),
}


def test_a_group_that_was_stopped_is_leaderless_only_if_no_engine_runs(tmp_path: Path) -> None:
    for name, asset in assets().items():
        (tmp_path / name).write_bytes(asset.data)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "asked.mjs").write_text(_SCRIPT)
    engines = json.dumps([case for case, _ in CASES.values()])
    command = [str(_NODE), str(tmp_path / "asked.mjs"), engines]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=deadline(60)).stdout)
    assert dict(zip(CASES, found, strict=True)) == {name: groups for name, (_, groups) in CASES.items()}
