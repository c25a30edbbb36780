# SPDX-License-Identifier: Apache-2.0
"""A server in a process of its own, so that its work does not count as ours."""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any


@contextlib.contextmanager
def serving(serve: Callable[..., None], *arguments: Any) -> Iterator[Connection]:
    """Runs a function of a module in a process, and gives a pipe to it.

    :param serve: its first argument is the other end of the pipe. It returns when it receives "end".
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, *arguments), daemon=True)
    process.start()
    try:
        yield ours
        ours.send("end")
        process.join(10)
    finally:
        process.kill()
