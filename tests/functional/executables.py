# SPDX-License-Identifier: Apache-2.0
"""The installed commands in processes of their own that need not import the libraries.

A server process imports the modules of the commands once and forks for each command. Such a process has its own
arguments, environment, files and exit status, as one that a shell starts. It omits what only a fresh interpreter runs:
the script and the handlers of ``atexit``.
"""

from __future__ import annotations

import importlib.metadata
import io
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Final

PRELOADED: Final = {
    "watcher-sync": "watcher_sync.cmd.client",
    "watcher-sync-engine": "watcher_sync.cmd.engine_service",
    "watcher-sync-manage": "watcher_sync.cmd.manage",
    "watcher-sync-status": "watcher_sync.cmd.status",
}
"""The commands that can be run so, with their modules."""

_LIBRARIES: Final = (
    "alembic.command", "cliff.app", "keystoneauth1.loading", "osc_lib.command.command", "psycopg", "pymysql", "pytest",
    "requests", "watcher_sync.client.commands.entity", "watcher_sync.client.shell",
)  # fmt: skip
"""What the commands import later. None of them chooses a backend of oslo.service, which the commands do first."""

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload([__name__, *PRELOADED.values(), *_LIBRARIES])


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


def _run(name: str, argv: list[str], environment: dict[str, str], folder: str, output: str, errors: str) -> None:
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
    sys.argv = argv
    (entry,) = importlib.metadata.entry_points(group="console_scripts", name=name)
    sys.exit(entry.load()())
