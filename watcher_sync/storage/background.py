# SPDX-License-Identifier: Apache-2.0
"""Doing one thing beside what the caller goes on with."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def run_in_background(work: Callable[[], T], name: str) -> Future[T]:
    """Do this in a thread of its own, which the end of the process does not wait for.

    An executor's threads are joined at exit, without limit; a database that does not answer would keep the process.

    :param name: the thread's.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as exc:  # noqa: BLE001 - it is the future's
            future.set_exception(exc)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
