# SPDX-License-Identifier: Apache-2.0
"""What a rolling upgrade is measured with: API processes, clients that never stop, and a plugin that changes."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

from tests.functional.engine.driving import Installation
from tests.functional.executables import Process, start
from tests.services.servers import free_port
from tests.waiting import deadline, wait_until
from watcher_sync.testing.nova.notifications import Document

PATIENCE_SECONDS = 180
"""How long a process may take to start or to stop on a loaded machine."""

_BIN = Path(sys.executable).parent
_PATHS = ("/v1/instances?limit=100", "/v1/compute_nodes?limit=20", "/v1/events?limit=100", "/v1/sources")

_MODULE = """
from typing import Annotated

import msgspec

from watcher_sync.handlers.base import Handler
from watcher_sync.model.changes import Upsert, Version
from watcher_sync.model.kinds import Entity, In, Text, kind


class Reading(msgspec.Struct):
    meter: str
    sequence: int


@kind("meter", plural="meters")
class Meter(Entity, frozen=True, kw_only=True, gc=False):
    '''A meter.'''

    reading: Annotated[int | None, In("state")] = None
    {field}


class MeterHandler(Handler):
    events = {{"meter.changed": "changed"}}
    drivers = ("rabbitmq",)

    def changed(self, event, view):
        '''What it reads.'''
        read = event.read(Reading)
        yield Upsert("meter", read.meter, Version(f"{{read.sequence:020d}}"), {{"state": {{"reading": read.sequence}}}})
"""


class MeterPlugin:
    """A distribution with the kind ``meter`` and its handler, in a folder that is to be on ``PYTHONPATH``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        info = folder / "meter_plugin-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: meter-plugin\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(
            "[watcher_sync.handlers]\nmeters = meter_plugin:MeterHandler\n"
            "[watcher_sync.entities]\nmeter = meter_plugin:Meter\n"
        )
        self.write(field="")

    def write(self, *, field: str) -> None:
        """:param field: the line of the declaration that this release of the plugin has in addition."""
        (self.folder / "meter_plugin.py").write_text(_MODULE.format(field=field))

    def reading(self, number: int) -> Document:
        """The notification of a reading; ten meters take turns."""
        return {
            "event_type": "meter.changed",
            "message_id": f"00000000-0000-4000-8000-{number:012d}",
            "publisher_id": "meters",
            "priority": "INFO",
            "timestamp": "2026-03-01 08:00:00.000000",
            "payload": {"meter": f"m{number % 10}", "sequence": number},
        }


class ApiProcess:
    """One gunicorn with one worker, on a port that it has again after a restart."""

    def __init__(self, site: Installation, number: int) -> None:
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        self._log = site.folder / f"api-{number}.log"
        self._command = [
            str(_BIN / "gunicorn"), "--bind", f"127.0.0.1:{port}", "--workers", "1", "--threads", "4",
            "--graceful-timeout", "10", "watcher_sync.wsgi.api:application",
        ]  # fmt: skip
        config = site.config(api__auth_strategy="noauth")
        self._environment = {**site.environment, "OS_WATCHER_SYNC_CONFIG_FILES": str(config)}
        self._process = self._started()

    def restart(self) -> None:
        """As an operator upgrades it: it ends what it serves, and a new one starts."""
        self.stop()
        self._process = self._started()

    def stop(self) -> None:
        """SIGTERM, and SIGKILL after a while."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _started(self) -> Process:
        process = start(self._command, self._log, self._environment)
        wait_until(self._answers, PATIENCE_SECONDS, "the API")
        return process

    def _answers(self) -> bool:
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"{self.url}/v1", timeout=deadline(60)).status_code == 200
        return False


class Clients:
    """Clients behind a balancer: a request goes to the next API that accepts the connection.

    Like a balancer, a client repeats a read when the connection ends before the answer begins.
    """

    def __init__(self, apis: list[ApiProcess], count: int = 2) -> None:
        self._urls = [api.url for api in apis]
        self._lock = threading.Lock()
        self._phase = ""
        self.seconds: dict[str, list[float]] = {}
        self.errors: list[str] = []
        self.repeated = 0
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(n,), daemon=True) for n in range(count)]

    def __enter__(self) -> Clients:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(deadline(60))

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Requests that begin within the block count for this phase."""
        with self._lock:
            self._phase = name
            self.seconds[name] = []
        yield
        with self._lock:
            self._phase = ""

    def p99(self, name: str) -> float:
        """Seconds that 99 of 100 requests of a phase stay below."""
        seconds = sorted(self.seconds[name])
        return seconds[int(len(seconds) * 0.99)]

    def _run(self, number: int) -> None:
        with httpx.Client(timeout=deadline(30)) as client:
            for turn in itertools.count(number):
                if self._ended.wait(0.02):
                    return
                with self._lock:
                    phase = self._phase
                began = time.monotonic()
                self._ask(client, _PATHS[turn % len(_PATHS)], turn)
                with self._lock:
                    if phase:
                        self.seconds[phase].append(time.monotonic() - began)

    def _ask(self, client: httpx.Client, path: str, turn: int) -> None:
        for attempt in range(4):
            url = self._urls[(turn + attempt) % len(self._urls)]
            try:
                status = client.get(url + path).status_code
            except (httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError):
                self.repeated += 1
                continue
            if status != 200:
                self.errors.append(f"{path}: {status}")
            return
        self.errors.append(f"{path}: no API answers")
