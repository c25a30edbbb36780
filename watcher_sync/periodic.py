# SPDX-License-Identifier: Apache-2.0
"""One log line for each outage, and daemon threads: those that work again and again, and one for a single call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from oslo_log import log as logging

from watcher_sync.exceptions import WatcherSyncError, interrupts, text_of


class Outage:
    """Logs the first failure of an outage, and its end: one line each. For one thread."""

    def __init__(self, log: Any, failing: str, recovered: str) -> None:
        """:param log: a logger of the caller's module.

        :param failing: what is not possible, such as ``the row cannot be written``.
        :param recovered: what is possible again, such as ``the row is written again``.
        """
        self._log = log
        self._failing = failing
        self._recovered = recovered
        self.reason = ""
        """Of the last failure; empty: there is no outage."""

    def failed(self, error: BaseException) -> None:
        """An attempt failed, and is repeated. An error that is not ours is logged with its traceback."""
        text = text_of(error)
        if not self.reason:
            is_known = isinstance(error, (WatcherSyncError, OSError))
            level = logging.WARNING if is_known else logging.ERROR
            self._log.log(level, "%s, retrying: %s", self._failing, text, exc_info=None if is_known else error)
        self.reason = text or type(error).__name__

    def succeeded(self) -> None:
        """An attempt succeeded."""
        if self.reason:
            self._log.info("%s", self._recovered)
        self.reason = ""

    def attempt(self, work: Callable[[], object]) -> None:
        """Call a function. What it raises is logged; a result of False says nothing about the outage."""
        try:
            if work() is not False:
                self.succeeded()
        except BaseException as exc:
            if interrupts(exc):
                raise
            self.failed(exc)


class PeriodicThread:
    """Calls a function again and again in a thread of its own, until it is stopped. An error does not end it."""

    def __init__(
        self,
        name: str,
        work: Callable[[], object],
        seconds: float,
        outage: Outage,
        *,
        at_once: bool = True,
        at_end: Callable[[], object] = bool,
    ) -> None:
        """:param name: of the thread.

        :param work: a result of False says nothing about the outage.
        :param seconds: from the end of a call to the next one.
        :param at_once: whether the first call is at the start, or after the first pause.
        :param at_end: is called in the thread when it was stopped.
        """
        self._work = work
        self.seconds = seconds
        """From the end of a call to the next one; the work may change it."""
        self._outage = outage
        self._at_once = at_once
        self._at_end = at_end
        self._stopping = threading.Event()
        self._due = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def wake(self) -> None:
        """Have the next call made now."""
        self._due.set()

    def begin_stop(self) -> None:
        """Begin no further call. The thread itself may say so, too."""
        self._stopping.set()
        self._due.set()

    def stop(self, timeout: float) -> None:
        """Begin no further call, and wait at most so many seconds for the one under way."""
        self.begin_stop()
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def _run(self) -> None:
        if not self._at_once:
            self._due.wait(self.seconds)
        while True:
            self._due.clear()
            if self._stopping.is_set():  # after the clear, or the wake of a stop between the two were lost
                break
            self._outage.attempt(self._work)
            self._due.wait(self.seconds)
        self._outage.attempt(self._at_end)


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
