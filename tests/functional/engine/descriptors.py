# SPDX-License-Identifier: Apache-2.0
"""Limits of the open files of processes that run, and the processor time that they use meanwhile."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil


def first_connection(pid: int) -> int:
    """The number of the first descriptor that is free, or closes with the connections of a process.

    With this number as the limit the process opens nothing, whatever it closes.
    """
    connections = {c.fd for c in psutil.Process(pid).net_connections() if c.status == psutil.CONN_ESTABLISHED}
    files = {int(path.name): os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir()}
    lasting = {fd for fd, name in files.items() if fd not in connections and ".sqlite" not in name}
    return next(fd for fd in range(len(files) + 1) if fd not in lasting)


@contextmanager
def may_open(pid: int, number: int) -> Iterator[None]:
    """Limits the descriptors of a process that runs."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (number, before[1]))
    yield
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


@contextmanager
def on_a_processor(pid: int, most: float) -> Iterator[None]:
    """:raises AssertionError: the process used more of one processor than this part."""
    process, began = psutil.Process(pid), time.monotonic()
    before = sum(process.cpu_times()[:2])
    yield
    used = (sum(process.cpu_times()[:2]) - before) / (time.monotonic() - began)
    assert used < most, f"the process used {used:.2f} of a processor"
