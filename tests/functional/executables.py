# SPDX-License-Identifier: Apache-2.0
"""The installed commands in processes of their own that need not import the libraries.

A server process imports the modules of the commands once and forks for each command. Such a process has its own
arguments, environment, files, session and exit status, as one that a shell starts. It omits what only a fresh
interpreter runs: the script and the handlers of ``atexit``. The imports of an engine take seconds.
"""

from __future__ import annotations

import importlib.metadata
import io
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from watcher_sync.testing.deadlines import deadline

BIN: Final = Path(sys.executable).parent
"""The folder of the installed commands."""

PRELOADED: Final = {
    "gunicorn": "gunicorn.app.wsgiapp",
    "watcher-sync": "watcher_sync.client.shell",
    "watcher-sync-api": "watcher_sync.cmd.api_server",
    "watcher-sync-engine": "watcher_sync.cmd.engine_service",
    "watcher-sync-manage": "watcher_sync.cmd.manage",
    "watcher-sync-outlet": "watcher_sync.cmd.outlet_services",
    "watcher-sync-status": "watcher_sync.cmd.checks.upgrade",
}
"""The commands that can be run so, with their modules."""

_LIBRARIES: Final = (
    *(f"watcher_sync.cmd.{module}" for module in ("database", "events", "handlers", "model", "reconciling", "repairs")),
    "alembic.command", "cliff.app", "keystoneauth1.loading", "osc_lib.command.command", "psycopg", "pymysql", "pytest",
    "requests", "sqlalchemy.dialects.mysql", "sqlalchemy.dialects.postgresql", "sqlalchemy.dialects.sqlite",
    "watcher_sync.client.commands.entity",
)  # fmt: skip
"""What the commands import later. None of them chooses a backend of oslo.service, which the commands do first."""

_PLUGINS: Final = tuple(
    entry.module
    for group in ("sources", "handlers", "entities", "reconcilers", "capacity_providers", "service_types")
    for entry in importlib.metadata.entry_points(group=f"watcher_sync.{group}")
    if entry.module.startswith("watcher_sync.")
)

_path: Final = list(sys.path)
"""In the fork server, its own. The entry points that it read are those of this path."""

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.functional.preloaded", __name__, *PRELOADED.values(), *_LIBRARIES, *_PLUGINS])


def may_be_forked(environment: Mapping[str, str]) -> bool:
    """Whether what the loader and the interpreter read at their start is as it was for this process."""
    return _read_at_start(environment) == _read_at_start(os.environ)


def _read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(("LD_", "PYTHON"))}


def start(command: Sequence[str | Path], log: Path, environment: Mapping[str, str] = os.environ) -> Process:
    """Start a command in a session of its own, with an empty stdin and a log that has its output at the end.

    A command of :data:`PRELOADED` is forked, if it :func:`may_be_forked`.
    """
    program = Path(command[0])
    if program.parent == BIN and program.name in PRELOADED and may_be_forked(environment):
        return PreloadedProcess(command, log, environment)
    with log.open("ab") as out:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True, env=environment
        )


class PreloadedProcess:
    """A running command of :data:`PRELOADED`: the part of ``subprocess.Popen`` that the tests use."""

    def __init__(self, command: Sequence[str | Path], log: Path, environment: Mapping[str, str]) -> None:
        self.args = [str(part) for part in command]
        name, output = Path(self.args[0]).name, str(log.absolute())
        log.touch()
        leads, ready = _context.Pipe(duplex=False)
        self._process = _context.Process(
            target=_run, args=(name, self.args, dict(environment), os.getcwd(), output, output, ready)
        )
        self._process.start()
        ready.close()
        with leads:  # until the process leads its session: before, its group cannot be killed
            assert leads.poll(deadline(60)), f"{self.args} was not forked in time"

    @property
    def pid(self) -> int:
        """The process, which leads a session."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit status; the negative number of the signal that ended it; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """The same."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit status, when it has ended.

        :raises subprocess.TimeoutExpired: it has not.
        """
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """To a process that runs."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


Process = subprocess.Popen[bytes] | PreloadedProcess
"""What :func:`start` returns."""


def run_preloaded(
    name: str, arguments: Sequence[str], *, program: str, environment: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run a command of :data:`PRELOADED` to its end, with an empty stdin.

    :param program: the path of its script, as ``sys.argv`` has it.
    :raises subprocess.TimeoutExpired: it takes longer; it is killed.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        paths = [f"/proc/{os.getpid()}/fd/{file.fileno()}" for file in (output, errors)]
        process = _context.Process(
            target=_run, args=(name, [program, *arguments], dict(environment), os.getcwd(), *paths)
        )
        process.start()
        try:
            process.join(timeout)
            if process.exitcode is None:
                raise subprocess.TimeoutExpired([program, *arguments], timeout)
        finally:
            process.kill()
            process.join()
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read().decode())
        return subprocess.CompletedProcess([program, *arguments], process.exitcode, *texts)


def _run(
    name: str,
    argv: list[str],
    environment: dict[str, str],
    folder: str,
    output: str,
    errors: str,
    ready: Connection | None = None,
) -> None:
    """:param ready: closed when the process leads its session."""
    os.setsid()
    if ready is not None:
        ready.close()
    multiprocessing.set_start_method(None, force=True)  # the default, as in a process that no fork server started
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, path, flags in ((0, os.devnull, os.O_RDONLY), (1, output, os.O_WRONLY), (2, errors, os.O_WRONLY)):
        opened = os.open(path, flags | os.O_APPEND)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False))
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)))
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(2, "w", closefd=False)), errors="backslashreplace", line_buffering=True
    )
    sys.path[:] = _path
    sys.argv = argv
    (entry,) = importlib.metadata.entry_points(group="console_scripts", name=name)
    sys.exit(entry.load()())
