# SPDX-License-Identifier: Apache-2.0
"""Notices that the user interrupts the demo."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def until_interrupted() -> Iterator[threading.Event]:
    """Set by the first Ctrl-C, SIGTERM or closed terminal; the second one is a KeyboardInterrupt."""
    interrupted = threading.Event()

    def handle(_number: int, _frame: FrameType | None) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()

    wanted = [n for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handle) for number in wanted}
    try:
        yield interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
