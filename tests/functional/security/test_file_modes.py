# SPDX-License-Identifier: Apache-2.0
"""Every file that the executables write has the mode 0640 at most, whatever umask they are started with."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.functional.executables import BIN, run_preloaded
from tests.waiting import Deadline, deadline

_API = """
from watcher_sync.wsgi.api import application
"""


def _wait_until(condition: Callable[[], Any], what: str, seconds: float = 60.0) -> None:
    limit = Deadline(seconds)
    while not condition():
        assert not limit.is_over, f"{what} within {seconds:g} s"
        time.sleep(0.02)


def _modes(folder: Path) -> dict[str, str]:
    found = {}
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # the write-ahead log goes with the last connection
            mode = path.stat().st_mode
            if stat.S_ISREG(mode):
                found[path.name] = oct(stat.S_IMODE(mode))
    return found


def _too_open(folder: Path) -> dict[str, str]:
    return {name: mode for name, mode in _modes(folder).items() if int(mode, 8) & ~0o640}


@pytest.fixture
def installation(tmp_path):
    """(folder with all that the processes write, path of the configuration)"""
    written = tmp_path / "written"
    written.mkdir()
    config = tmp_path / "watcher-sync.conf"
    config.write_text(
        f"""
[DEFAULT]
state_path = {written}
log_file = {written}/watcher-sync.log
[api]
auth_strategy = noauth
[oslo_reports]
log_dir = {written}
"""
    )
    return written, config


def _start(name: str, config: Path, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """An executable, started as by a shell whose umask is 0."""
    executable = Path(sys.executable).parent / name
    return subprocess.Popen([executable, "--config-file", config, *arguments], umask=0, **options)


def _run(name: str, config: Path, *arguments: str) -> None:
    process = _start(name, config, *arguments)
    assert process.wait(deadline(120)) == 0


def test_database_logs_and_reports_of_every_process_are_not_for_others(installation):
    written, config = installation
    _run("watcher-sync-manage", config, "db_sync")
    assert "watcher-sync.sqlite" in _modes(written)
    assert _too_open(written) == {}
    with subprocess.Popen(
        [Path(sys.executable).parent / "watcher-sync-engine", "--config-file", config],
        umask=0, stderr=subprocess.DEVNULL, start_new_session=True,
    ) as engine:  # fmt: skip
        try:
            log = written / "watcher-sync.log"
            _wait_until(lambda: log.exists() and "Leading the engine group" in log.read_text(), "the engine leads")
            engine.send_signal(signal.SIGUSR2)
            _wait_until(lambda: any("gurumeditation" in name for name in _modes(written)), "the report is written")
            assert _too_open(written) == {}
        finally:
            engine.terminate()
            engine.wait(deadline(60))
    assert _too_open(written) == {}


def test_a_worker_of_the_api_restricts_the_files_of_an_earlier_release(installation):
    written, config = installation
    done = run_preloaded(
        "watcher-sync-manage", ["--config-file", str(config), "db_sync"], program=str(BIN / "watcher-sync-manage"),
        environment=os.environ, timeout=deadline(120),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert {"watcher-sync.log", "watcher-sync.sqlite"} <= set(_modes(written))
    rotated = written / "watcher-sync.log.1"
    rotated.touch()
    for path in written.iterdir():
        path.chmod(0o666)
    environ = {**os.environ, "OS_WATCHER_SYNC_CONFIG_FILES": str(config)}
    worker = subprocess.run([sys.executable, "-c", _API], umask=0, env=environ, check=False, timeout=deadline(120))
    assert worker.returncode == 0
    assert "watcher-sync.log.1" in _modes(written)
    assert _too_open(written) == {}
