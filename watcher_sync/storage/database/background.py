# SPDX-License-Identifier: Apache-2.0
"""Runs a function in a daemon thread and returns a Future."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def run_in_background(work: Callable[[], T], name: str) -> Future[T]:
    """Run a function in a daemon thread, which does not delay the end of the process.

    Python joins an executor's threads at exit without a time limit: a database that does not answer would block it.

    :param name: of the thread.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as exc:  # noqa: BLE001 - the future raises it
            future.set_exception(exc)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
