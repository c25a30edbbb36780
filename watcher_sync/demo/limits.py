# SPDX-License-Identifier: Apache-2.0
"""How long one run of the demo waits, and for what; and its interruption by the user.

All limits are seconds on an idle reference machine. A slow or busy one has more time
(:mod:`watcher_sync.testing.deadlines`).
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType
from typing import Final

import msgspec

from watcher_sync.exceptions import Interrupted, WatcherSyncError


class Limits(msgspec.Struct, frozen=True):
    """The limits of one run."""

    start: float = 30.0
    """Until the sources are connected, and again until the cloud and the cluster are listed."""
    stop: float = 10.0
    """Until the simulated systems end, and from the last commit until everything is committed."""
    settle: float = 10.0
    """Until the model has all pods and workloads of the cluster."""
    compare: float = 60.0
    """For a comparison of the reconcilers, with its repetitions."""
    catch_up: float = 10.0
    """How long the receiver of webhooks may lag behind the last commit."""
    answer: float = 30.0
    """For an answer of the NATS server or of the demo's own API."""


LIMITS: Final = Limits()
"""Those of the command."""


class DemoFailed(WatcherSyncError):
    """The demo could not be brought to its end."""


class Interruption:
    """Whether the user wants the end.

    An attribute is all that the handler of a signal sets. A lock could be held by the code that the signal interrupts,
    which may be the handler of the signal before.
    """

    came = False


@contextlib.contextmanager
def until_interrupted() -> Iterator[Interruption]:
    """Comes with the first Ctrl-C, SIGTERM or closed terminal. The third Ctrl-C raises Interrupted.

    Two may be one decision of the user: a double press, or a shell that repeats the SIGHUP of its terminal.
    """
    interruption = Interruption()
    left = iter((False, False))

    def handle(number: int, _frame: FrameType | None) -> None:
        interruption.came = True
        if number == signal.SIGINT and next(left, True):
            raise Interrupted

    wanted = [n for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handle) for number in wanted}
    try:
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
