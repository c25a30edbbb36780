# SPDX-License-Identifier: Apache-2.0
"""An installation in a virtual environment of its own, and what its operator does.

The services run with the commands of the systemd units of the first installation. SIGTERM ends a service, and the
same command starts it again.
"""

from __future__ import annotations

import itertools
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from tests.functional.engine.driving import EngineProcess, Installation
from tests.functional.security import documented
from tests.services.servers import free_port
from tests.upgrade.releases import Release, run
from tests.waiting import deadline, wait_until

PREFIX = "/opt/watcher-sync"
CONFIG = "/etc/watcher-sync/watcher-sync.conf"
PATIENCE_SECONDS = 180
_UNITS = {
    "engine-1": "watcher-sync-engine", "engine-2": "watcher-sync-engine", "api": "watcher-sync-api",
    "outlet": "watcher-sync-outlet",
}  # fmt: skip
"""Service -> its unit."""


class OperatedInstallation(Installation):
    """Two engines, the API and the outlet of one release.

    :param options: ``group.option`` -> value.
    """

    def __init__(self, folder: Path, url: str, options: Mapping[str, object], release: Release) -> None:
        super().__init__(folder, url, options)
        self.release = release
        self.prefix = folder / "opt"
        self.config_path = folder / "watcher-sync.conf"
        self.write_config(self.config_path, {})
        self.services: dict[str, EngineProcess] = {}
        self._starts = itertools.count(1)
        port = free_port()
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=deadline(60))
        self.environment |= {
            "OS_WATCHER_SYNC_CONFIG_FILES": str(self.config_path),
            "GUNICORN_CMD_ARGS": f"--bind 127.0.0.1:{port}",
        }
        run([sys.executable, "-m", "venv", self.prefix], folder)
        install, _plugins = documented.commands("admin/install.rst", f"{PREFIX}/bin/pip")
        self.execute(install)
        self._commands = {unit: self._command_of(unit) for unit in set(_UNITS.values())}

    def command(self, name: str, config: Path) -> list[str]:
        return [str(self.prefix / "bin" / name), "--config-file", str(config)]

    def execute(self, command: Sequence[str], *accepted: int) -> str:
        """Run a command of the documentation.

        :param accepted: its exit statuses; by default 0.
        :returns: what it printed.
        :raises AssertionError: it has another exit status.
        """
        program, *rest = (self._here(word) for word in command)
        words = [str(self.prefix / "bin" / Path(program).name), *rest]
        done = subprocess.run(
            words, cwd=self.release.source, env=self.environment, capture_output=True, text=True,
            timeout=deadline(400),
        )  # fmt: skip
        assert done.returncode in (accepted or (0,)), f"{words}: {done.stdout[-2000:]}{done.stderr[-3000:]}"
        return done.stdout

    def start(self, service: str) -> EngineProcess:
        """Start a service, and return at once."""
        log = self.folder / f"{service}-{next(self._starts)}.log"
        # gunicorn imports from its working directory first, which must not have another release.
        command = ["/usr/bin/env", f"--chdir={self.folder}", *self._commands[_UNITS[service]]]
        process = EngineProcess(command, log, self.environment)
        self.services[service] = process
        self.engines.append(process)
        return process

    def start_all(self) -> None:
        """Start all services."""
        for service in _UNITS:
            self.start(service)
        for service in ("api", *_UNITS):
            self._wait_for(service)

    def restart(self, which: str) -> None:
        """Restart services one after the other.

        :param which: as the documentation names them.
        """
        for service in self._named(which):
            status, _ = self.services[service].terminate(PATIENCE_SECONDS)
            assert status == 0, f"{service}: {status}\n{self.services[service].log[-3000:]}"
            self.start(service)
            self._wait_for(service)

    def engine_rows(self) -> dict[int, dict[str, Any]]:
        """pid -> the row of an engine that runs, as the API lists it."""
        rows = self.client.get("/v1/engines").json()["engines"]
        return {row["pid"]: row for row in rows if row["state"] in ("leading", "standby")}

    def leader(self) -> str:
        """The engine that leads."""
        return wait_until(lambda: next(iter(self._engines_in("leading")), ""), PATIENCE_SECONDS, "a leading engine")

    def has_instances(self, count: int) -> bool:
        """Whether the API lists so many instances."""
        return len(self.client.get("/v1/instances", params={"limit": count}).json()["instances"]) == count

    def answers(self) -> bool:
        """Whether the API answers."""
        try:
            return self.client.get("/v1").status_code == 200
        except httpx.TransportError:
            return False

    def _named(self, which: str) -> list[str]:
        return {
            "the standby engines": lambda: self._engines_in("standby"),
            "the leading engine": lambda: [self.leader()],
            "the API": lambda: ["api"],
            "the outlets": lambda: ["outlet"],
        }[which]()

    def _engines_in(self, state: str) -> list[str]:
        pids = {pid for pid, row in self.engine_rows().items() if row["state"] == state}
        return [name for name in ("engine-1", "engine-2") if pids.intersection(self.services[name].processes)]

    def _wait_for(self, service: str) -> None:
        """Wait until a service does its work. An engine leads or stands by with its model, and one of them leads."""
        process = self.services[service]
        if service == "outlet":
            process.wait_for_log("took 32 shards", PATIENCE_SECONDS)
            return
        ready: Callable[[], object] = self.answers
        if service != "api":
            process.wait_for_log("Loaded the model", PATIENCE_SECONDS)

            def ready() -> bool:
                return service in self._engines_in("leading") + self._engines_in("standby") and bool(self.leader())

        wait_until(ready, PATIENCE_SECONDS, service)

    def _here(self, word: str) -> str:
        """A word of the documentation with this machine's paths."""
        if word.startswith("dist/"):
            return str(self.release.wheel)
        return word.replace(PREFIX, str(self.prefix)).replace(CONFIG, str(self.config_path))

    def _command_of(self, unit: str) -> list[str]:
        lines = (self.prefix / "etc" / "systemd" / f"{unit}.service").read_text().splitlines()
        (line,) = (line.partition("=")[2] for line in lines if line.startswith("ExecStart="))
        return [self._here(word) for word in shlex.split(line)]
