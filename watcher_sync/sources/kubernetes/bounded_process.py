# SPDX-License-Identifier: Apache-2.0
"""Runs a program with a time limit, bounded output, and a certain end.

The program leads a process group of its own. When it has ended, or must end, the whole group gets SIGKILL. A child
that the program left behind therefore ends too.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import IO, Final

import msgspec

_CHUNK_BYTES: Final = 65536


class ProcessError(Exception):
    """The program could not be started, did not end in time, or wrote too much."""


class Output(msgspec.Struct, frozen=True):
    """What a program wrote, and how it ended."""

    status: int
    """The exit status; negative: the number of the signal that ended it."""
    stdout: bytes
    stderr: bytes
    """The beginning."""


def run(
    command: Sequence[str], environ: Mapping[str, str], *, timeout: float, max_stdout: int, max_stderr: int
) -> Output:
    """Run the program without a terminal and without input.

    :param timeout: seconds.
    :param max_stdout: bytes; more is an error.
    :param max_stderr: bytes; more is read and discarded.
    :raises ProcessError: see the class.
    """
    deadline = time.monotonic() + timeout
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environ),
            start_new_session=True,
        )
    except (OSError, ValueError) as exc:
        raise ProcessError(f"cannot be started: {getattr(exc, 'strerror', None) or exc}") from None
    try:
        stdout, stderr = _collect(process, deadline, timeout, max_stdout, max_stderr)
    finally:
        _end(process)
    return Output(process.returncode, stdout, stderr)


def _collect(
    process: subprocess.Popen[bytes], deadline: float, timeout: float, max_stdout: int, max_stderr: int
) -> tuple[bytes, bytes]:
    """Read both pipes to their ends, and wait for the end of the process. Does not reap it."""
    assert process.stdout is not None
    assert process.stderr is not None
    stdout, stderr = bytearray(), bytearray()
    pidfd = os.pidfd_open(process.pid)
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(pidfd, selectors.EVENT_READ)
            selector.register(process.stdout, selectors.EVENT_READ, stdout)
            selector.register(process.stderr, selectors.EVENT_READ, stderr)
            while selector.get_map():
                ready = selector.select(max(deadline - time.monotonic(), 0))
                if not ready:
                    raise ProcessError(f"did not end within {timeout:g} s")
                for key, _ in ready:
                    chunk = os.read(key.fd, _CHUNK_BYTES) if key.data is not None else b""
                    if not chunk:
                        selector.unregister(key.fileobj)
                    elif key.data is stderr:
                        stderr += chunk[: max_stderr - len(stderr)]
                    else:
                        stdout += chunk
                if len(stdout) > max_stdout:
                    raise ProcessError(f"wrote more than {max_stdout} bytes")
                if time.monotonic() > deadline:
                    raise ProcessError(f"did not end within {timeout:g} s")
    finally:
        os.close(pidfd)
    return bytes(stdout), bytes(stderr)


def _end(process: subprocess.Popen[bytes]) -> None:
    # The leader is not reaped yet, so the number of the group cannot belong to other processes.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    pipes: list[IO[bytes] | None] = [process.stdout, process.stderr]
    for pipe in pipes:
        if pipe is not None:
            pipe.close()
