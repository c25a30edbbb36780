# SPDX-License-Identifier: Apache-2.0
"""SIGHUP while a service starts: it never ends the service, and the service reads its files."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.functional.engine.driving import EngineProcess, Installation
from tests.services.servers import free_port
from tests.waiting import seconds_until, wait_until

_SECONDS = 1.5
_OFFSETS = 20
_INTERPRETER_SECONDS = 1.0
"""The longest start of the interpreter on a busy machine. No code of ours can run before its end."""


@pytest.mark.rare
@pytest.mark.timeout(900)
@pytest.mark.parametrize("service", ["engine", "api", "outlet"])
def test_a_sighup_in_the_first_seconds_never_ends_a_service(
    install: Callable[..., Installation], sqlite_url: str, figure: Callable[[str], None], service: str
) -> None:
    site = _site(install, sqlite_url)
    unprotected = 0.0
    for i in range(_OFFSETS):
        with _started(site, service) as process:
            unprotected = max(unprotected, seconds_until(lambda: handles_sighup(process.pid), _INTERPRETER_SECONDS))
            _send_after(process, i * _SECONDS / (_OFFSETS - 1))
            _wait_until_serving(site, process, service)
            assert process.running, process.log[-4000:]
    figure(f"{service}: SIGHUP ends the bare interpreter for the first {unprotected:.2f} s")


def test_a_unit_of_systemd_starts_with_sighup_ignored(install: Callable[..., Installation], sqlite_url: str) -> None:
    site = _site(install, sqlite_url)
    for unit in Path("etc/systemd").glob("*.service"):
        assert "ExecStart=/usr/bin/env --ignore-signal=HUP " in unit.read_text(), unit
    with _started(site, "engine", "/usr/bin/env", "--ignore-signal=HUP") as process:
        wait_until(lambda: handles_sighup(process.pid))
        process.signal(signal.SIGHUP)
        process.wait_until_leading()
        assert process.terminate()[0] == 0


def _site(install: Callable[..., Installation], url: str) -> Installation:
    site = install(url, engine__enabled_sources="", monitoring__port=free_port(), api__auth_strategy="noauth")
    site.options |= {
        "api.port": free_port(), "outlet_webhook.enabled": "true", "outlet_webhook.workers": 2,
        "outlet_webhook.monitoring_port": free_port(),
        "outlet_webhook.secret_keys": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
    }  # fmt: skip
    site.upgrade()
    return site


@contextlib.contextmanager
def _started(site: Installation, service: str, *launcher: str) -> Iterator[EngineProcess]:
    """A service in a fresh interpreter, whose parent does not ignore SIGHUP."""
    command = [*(launcher or [sys.executable]), *site.command(f"watcher-sync-{service}", site.config())]
    log = site.folder / f"{service}-{time.monotonic_ns()}.log"
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        process = EngineProcess(command, log, site.environment)
    finally:
        signal.signal(signal.SIGHUP, before)
    try:
        yield process
    finally:
        process.kill()


def handles_sighup(pid: int) -> bool:
    """Whether SIGHUP has no default action in a process."""
    masks = {}
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            name, _, value = line.partition(":")
            masks[name] = value.strip()
    bit = 1 << (signal.SIGHUP - 1)
    return any(int(masks.get(name, "0"), 16) & bit for name in ("SigIgn", "SigCgt"))


def _send_after(process: EngineProcess, seconds: float) -> None:
    began = time.monotonic()
    wait_until(lambda: time.monotonic() - began >= seconds)
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGHUP)


def _wait_until_serving(site: Installation, process: EngineProcess, service: str) -> None:
    if service == "engine":
        process.wait_until_leading()
        return
    port = int(str(site.options["api.port" if service == "api" else "outlet_webhook.monitoring_port"]))
    ports = [port] if service == "api" else [port, port + 1]

    def serves() -> bool:
        assert process.running, process.log[-4000:]
        for each in ports:
            try:
                socket.create_connection(("127.0.0.1", each), 1).close()
            except OSError:
                return False
        return True

    wait_until(serves, 60, f"the ports of {service}")
