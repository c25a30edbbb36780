# SPDX-License-Identifier: Apache-2.0
"""The servers of an installation in processes of their own: its API under gunicorn, and its outlet."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil

from tests.benchmarks.places import Place
from tests.benchmarks.running import Broken

_START_SECONDS = 60.0


@contextlib.contextmanager
def serving(place: Place, api_port: int) -> Iterator[Sequence[psutil.Process]]:
    """Run the API with one worker, and the outlet if the place has a port for it; gives their processes."""
    programs = Path(sys.executable).parent
    environment = {**os.environ, "OS_WATCHER_SYNC_CONFIG_FILES": str(place.file)}
    options = ["--bind", f"127.0.0.1:{api_port}", "--threads", "4", "--keep-alive", "30"]
    commands = [[str(programs / "gunicorn"), *options, "watcher_sync.wsgi.api:application"]]
    has_outlet = "[outlet_watch]" in place.file.read_text()
    if has_outlet:
        commands.append([str(programs / "watcher-sync-outlet"), "--config-file", str(place.file)])
    log = place.file.with_name("servers.log")
    started: list[subprocess.Popen[bytes]] = []
    try:
        with log.open("wb") as out:
            started += [subprocess.Popen(each, env=environment, stdout=out, stderr=out) for each in commands]
        wait_until(lambda: _answers(api_port), _START_SECONDS)
        if has_outlet:
            wait_until(lambda: "watch: listening on" in log.read_text(), _START_SECONDS)
        yield [child for each in started for child in psutil.Process(each.pid).children()]
    finally:
        for each in started:
            each.terminate()
        for each in started:
            each.wait(30)


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def processor(processes: Sequence[psutil.Process]) -> float:
    """Seconds of processor time of these processes until now."""
    return sum(sum(each.cpu_times()[:2]) for each in processes)


def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    """:raises Broken: when the condition does not come true."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise Broken("not done in time")
        time.sleep(0.05)
