# SPDX-License-Identifier: Apache-2.0
"""The processes of the cloud: each in its own session, with its output in a file.

Everything that :class:`Processes` started ends with it, by process id. A process that does not end on SIGTERM is killed
with all its children.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from tests.waiting import Deadline, deadline

_STOP_SECONDS = 20.0


class CloudBroken(Exception):
    """A part of the cloud failed. The message ends with what it wrote last."""


def wait_for(condition: Callable[[], object], seconds: float, what: str) -> None:
    """Wait until the condition is true.

    :raises CloudBroken: the time is over.
    """
    limit = Deadline(seconds)
    while not condition():
        if limit.is_over:
            raise CloudBroken(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.1)


class Processes:
    """Name -> process.

    :param folder: where their output goes.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def run(self, *command: str, environment: Mapping[str, str] | None = None) -> None:
        """One command, to its end. :raises CloudBroken: it failed."""
        done = subprocess.run(
            command,
            env=_environment(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise CloudBroken(f"{Path(command[0]).name} {command[-1]} failed: {(done.stdout + done.stderr)[-3000:]}")

    def start(self, name: str, *command: str, environment: Mapping[str, str] | None = None) -> None:
        """Start a service and return."""
        with self._output(name).open("ab") as output:
            self._running[name] = subprocess.Popen(
                command,
                env=_environment(environment),
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def check(self, name: str) -> None:
        """:raises CloudBroken: the service ended."""
        process = self._running[name]
        if process.poll() is not None:
            tail = self._output(name).read_text(errors="replace")[-3000:]
            raise CloudBroken(f"{name} ended with status {process.returncode}: {tail}")

    def has_ended(self, name: str) -> bool:
        """Whether the service ended by itself."""
        return self._running[name].poll() is not None

    def signal(self, name: str, number: signal.Signals) -> None:
        """A signal to the service and all its children."""
        os.killpg(self._running[name].pid, number)

    def kill(self, name: str) -> None:
        """SIGKILL to the service and all its children: as if the machine lost power."""
        process = self._running.pop(name)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(_STOP_SECONDS)

    def stop(self) -> None:
        """End all, in the reverse order of their start."""
        for process in reversed(self._running.values()):
            process.terminate()
        end = time.monotonic() + deadline(_STOP_SECONDS)
        for process in self._running.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, end - time.monotonic()))
        for name in list(self._running):
            self.kill(name)

    def _output(self, name: str) -> Path:
        return self._folder / f"{name}.output"


def _environment(more: Mapping[str, str] | None) -> dict[str, str]:
    # The tests' own interpreter must not change what the cloud's imports.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "OS_", "VIRTUAL_ENV"))}
    return {**kept, "no_proxy": "127.0.0.1,localhost", "PYTHONUNBUFFERED": "1", **(more or {})}
