# SPDX-License-Identifier: Apache-2.0
"""The systemd units: they are correct, they restrict, and the processes work under these restrictions."""

from __future__ import annotations

import configparser
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.services.ensure import CannotEnsure, tool
from tests.services.servers import free_port
from tests.waiting import Deadline, deadline

_ROOT = Path(__file__).parents[3]
_UNITS = sorted((_ROOT / "etc" / "systemd").glob("*.service"))
_MAX_EXPOSURE = 3.0

_RESTRICTED = """
# NoNewPrivileges=, an empty CapabilityBoundingSet=, and MemoryDenyWriteExecute=, as systemd sets them.
import ctypes, os, sys
prctl = ctypes.CDLL(None, use_errno=True).prctl
if os.geteuid() == 0:
    for capability in range(64):
        if prctl(24, capability, 0, 0, 0) != 0:
            break
assert prctl(38, 1, 0, 0, 0) == 0
if prctl(65, 1, 0, 0, 0) != 0:
    print("this kernel cannot deny writable and executable memory", file=sys.stderr)
os.umask(0o027)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


@pytest.fixture(scope="module")
def systemd_analyze() -> str:
    try:
        return tool("systemd-analyze")
    except CannotEnsure as exc:
        pytest.fail(str(exc), pytrace=False)


def _read(unit: Path) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(strict=False, delimiters=("=",), comment_prefixes=("#",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(unit)
    return parser


def _names(units: list[Path]) -> list[str]:
    return [unit.name for unit in units]


def test_there_is_a_unit_for_each_service():
    assert _names(_UNITS) == ["watcher-sync-api.service", "watcher-sync-engine.service", "watcher-sync-outlet.service"]


@pytest.mark.parametrize("unit", _UNITS, ids=_names(_UNITS))
def test_systemd_accepts_the_unit(unit, tmp_path, systemd_analyze):
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("watcher-sync-engine", "watcher-sync-outlet", "gunicorn"):
        (programs / name).symlink_to("/bin/true")
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace("/opt/watcher-sync/bin", str(programs)))
    done = subprocess.run(
        [systemd_analyze, "verify", "--man=no", "--recursive-errors=no", str(copy)],
        capture_output=True, text=True, check=False, timeout=deadline(60),
    )  # fmt: skip
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("unit", _UNITS, ids=_names(_UNITS))
def test_the_exposure_is_low(unit, systemd_analyze):
    done = subprocess.run(
        [systemd_analyze, "security", "--offline=true", "--no-pager", str(unit)],
        capture_output=True, text=True, check=False, timeout=deadline(60),
    )  # fmt: skip
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)
    assert found is not None, done.stdout + done.stderr
    assert float(found[1]) <= _MAX_EXPOSURE


@pytest.mark.parametrize("unit", _UNITS, ids=_names(_UNITS))
def test_a_unit_restricts_what_the_documentation_says(unit):
    service = _read(unit)["Service"]
    assert service["User"] == "watcher-sync"
    assert service["UMask"] == "0027"
    assert service["CapabilityBoundingSet"] == ""
    assert service["MemoryDenyWriteExecute"] == "yes"
    assert service["ProtectSystem"] == "strict"
    assert "ReadWritePaths" not in service


def test_the_settings_of_the_units_are_the_same():
    own = ("Exec", "Environment", "LimitNOFILE")
    restrictions = []
    for unit in _UNITS:
        service = _read(unit)["Service"]
        restrictions.append({k: v for k, v in service.items() if not k.startswith(own)})
    assert restrictions[0] == restrictions[1]


def _wait_until(condition: Callable[[], Any], process: subprocess.Popen[bytes], log: Path) -> None:
    limit = Deadline(60)
    while not condition():
        assert process.poll() is None, log.read_text()
        assert not limit.is_over, log.read_text()
        time.sleep(0.05)


def _answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=deadline(30)).status_code == 200
    except requests.RequestException:
        return False


def _configuration(folder: Path, url: str, **monitoring: Any) -> Path:
    path = folder / "watcher-sync.conf"
    lines = [f"{name} = {value}" for name, value in monitoring.items()]
    path.write_text(
        f"[DEFAULT]\nstate_path = {folder}\n[api]\nauth_strategy = noauth\n[database]\nconnection = {url}\n"
        + "[monitoring]\n"
        + "\n".join(lines)
    )
    return path


def _start(log: Path, *arguments: str, **environ: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", _RESTRICTED, *arguments]
    with log.open("wb") as file:
        return subprocess.Popen(command, stdout=file, stderr=file, env=os.environ | environ, start_new_session=True)


def test_the_engine_works_without_capabilities_and_writable_code(one_migrated_url, tmp_path):
    port, log = free_port(), tmp_path / "log"
    config = _configuration(tmp_path, one_migrated_url, port=port)
    executable = str(Path(sys.executable).parent / "watcher-sync-engine")
    engine = _start(log, executable, "--config-file", str(config))
    try:
        _wait_until(lambda: _answers(f"http://127.0.0.1:{port}/readyz"), engine, log)
        assert _answers(f"http://127.0.0.1:{port}/metrics")
    finally:
        engine.send_signal(signal.SIGTERM)
        assert engine.wait(deadline(60)) == 0


def test_the_api_works_without_capabilities_and_writable_code(one_migrated_url, tmp_path):
    port, log = free_port(), tmp_path / "log"
    config = _configuration(tmp_path, one_migrated_url)
    arguments = ("-m", "gunicorn", "--threads", "2", "--bind", f"127.0.0.1:{port}", "watcher_sync.wsgi.api:application")
    api = _start(log, *arguments, OS_WATCHER_SYNC_CONFIG_FILES=str(config))
    try:
        _wait_until(lambda: _answers(f"http://127.0.0.1:{port}/v1/instances"), api, log)
    finally:
        api.send_signal(signal.SIGTERM)
        assert api.wait(deadline(60)) == 0
