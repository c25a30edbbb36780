# SPDX-License-Identifier: Apache-2.0
"""The installed commands as processes that a server of imported modules forks."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.functional.executables import BIN, start
from tests.waiting import deadline


def test_a_process_that_was_just_started_can_be_killed_with_its_group(tmp_path: Path) -> None:
    never_read = tmp_path / "never_read.conf"
    os.mkfifo(never_read)  # a process that opens it waits
    for number in range(10):
        process = start([BIN / "watcher-sync-engine", "--config-file", never_read], tmp_path / f"{number}.log")
        try:
            os.killpg(process.pid, signal.SIGKILL)
            assert process.wait(deadline(60)) == -signal.SIGKILL
        finally:
            process.kill()
