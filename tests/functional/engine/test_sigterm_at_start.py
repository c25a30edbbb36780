# SPDX-License-Identifier: Apache-2.0
"""SIGTERM while a service starts: it ends at once with status 0, whatever the moment."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.functional.engine.driving import Installation
from tests.functional.engine.test_sighup_at_start import _site, _started, _wait_until_serving, handles_sighup
from tests.waiting import Deadline, deadline, wait_until

SERVICES = ("engine", "outlet", "api")
_SECONDS = 3.0
_OFFSETS = 16
_PROMPT_SECONDS = 8.0
"""A stop of an idle service takes half a second, and several on a busy machine."""


@pytest.mark.rare
@pytest.mark.timeout(900)
@pytest.mark.parametrize("service", SERVICES)
def test_a_sigterm_in_the_first_seconds_ends_a_service_at_once_with_status_0(
    install: Callable[..., Installation], sqlite_url: str, service: str
) -> None:
    site = _site(install, sqlite_url)
    for i in range(_OFFSETS):
        with _started(site, service) as process:
            wait_until(lambda: _catches(process.pid, signal.SIGTERM), what="the handler of SIGTERM")
            moment = Deadline(i * _SECONDS / (_OFFSETS - 1))
            wait_until(lambda moment=moment: moment.is_over)
            status, seconds = process.terminate()
            assert status == 0, f"after {i * _SECONDS / (_OFFSETS - 1):.1f} s:\n{process.log[-4000:]}"
            assert seconds < deadline(_PROMPT_SECONDS)
            assert " ERROR " not in process.log, process.log[-4000:]


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("moment", ["its first step", "a worker", "its port"])
def test_a_sigterm_at_a_step_of_the_start_ends_a_service_at_once_with_status_0(
    install: Callable[..., Installation], sqlite_url: str, service: str, moment: str
) -> None:
    site = _site(install, sqlite_url)
    with _started(site, service) as process:
        wait_until(lambda: handles_sighup(process.pid), what="the first step of the start")
        if moment == "a worker" and service != "api":
            wait_until(lambda: process.workers, what=moment)
        elif moment == "its port":
            _wait_until_serving(site, process, service)
        status, seconds = process.terminate()
        assert status == 0, process.log[-4000:]
        assert seconds < deadline(_PROMPT_SECONDS)
        assert " ERROR " not in process.log, process.log[-4000:]


@pytest.mark.parametrize("service", ["engine", "outlet"])
def test_a_sigterm_that_comes_between_the_fork_and_the_handlers_of_a_worker_is_not_lost(
    install: Callable[..., Installation], sqlite_url: str, service: str
) -> None:
    site = _site(install, sqlite_url)
    # A worker on a slow machine: longer than the master waits for its start.
    (site.folder / "sitecustomize.py").write_text(
        "import os, time\nos.register_at_fork(after_in_child=lambda: time.sleep(3))\n"
    )
    site.environment["PYTHONPATH"] = str(site.folder)
    with _started(site, service) as process:
        wait_until(lambda: process.workers, what="a worker")
        process.signal(signal.SIGTERM)
        assert process.wait() == 0, process.log[-4000:]


def test_a_worker_that_does_not_end_is_killed_and_the_service_ends(
    install: Callable[..., Installation], sqlite_url: str
) -> None:
    site = _site(install, sqlite_url)
    site.options["engine.graceful_shutdown_timeout"] = 1
    with _started(site, "engine") as process:
        process.wait_until_leading()
        (worker,) = process.workers
        os.kill(worker, signal.SIGSTOP)
        process.signal(signal.SIGTERM)
        assert process.wait(deadline(30)) == 1, process.log[-4000:]
        assert "did not end in time" in process.log
        wait_until(lambda: not Path(f"/proc/{worker}").exists(), what="the end of the worker")


def _status(pid: int) -> dict[str, str]:
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return {}


def _has(pid: int, mask: str, number: signal.Signals) -> bool:
    return bool(int(_status(pid).get(mask, "0"), 16) & 1 << (number - 1))


def _catches(pid: int, number: signal.Signals) -> bool:
    return _has(pid, "SigCgt", number)
