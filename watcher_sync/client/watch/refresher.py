# SPDX-License-Identifier: Apache-2.0
"""Refreshes the tokens of all streams of a manager, in one thread of its own.

A token getter that is slow, such as Keystone's, delays no event and no answer to a PING.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from watcher_sync.client.watch.tokens import refresh_in

RETRY_SECONDS = 10.0
"""When to try again after the token getter raised."""


class Refreshable(Protocol):
    """What accepts a new token, such as a stream."""

    def refresh(self, token: str) -> None:
        """Replaces the token. Must not wait."""
        ...


class TokenRefresher:
    """A schedule of refreshes, and the thread that runs them. The thread starts with the first entry."""

    def __init__(
        self,
        token_getter: Callable[[], str],
        interval: float | Callable[[], float],
        *,
        on_failure: Callable[[Exception], None],
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """:param interval: seconds between refreshes of a token that is no JWT, or a function that returns them.

        :param on_failure: gets what the token getter raised.
        """
        self._token_getter = token_getter
        self._interval = interval
        self._on_failure = on_failure
        self._now = now
        self._monotonic = monotonic
        self._due: dict[Refreshable, float] = {}
        self._is_closed = False
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()
        """Guards the schedule, ``_is_closed`` and ``_thread``."""

    def add(self, target: Refreshable, token: str) -> None:
        """Schedules the refreshes of a stream that begins with this token."""
        due = self._due_after(token)
        with self._changed:
            if self._is_closed:
                return
            self._due[target] = due
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="watch-tokens", daemon=True)
                self._thread.start()
            self._changed.notify()

    def remove(self, target: Refreshable) -> None:
        """Ends the refreshes of a stream."""
        with self._changed:
            self._due.pop(target, None)

    def close(self) -> None:
        """Ends the thread. It does not wait for a token getter that is running."""
        with self._changed:
            self._is_closed = True
            self._due.clear()
            self._changed.notify()

    def _due_after(self, token: str) -> float:
        interval = self._interval
        try:
            seconds = interval() if callable(interval) else interval
        except Exception as exc:  # noqa: BLE001 - the caller reports it
            self._on_failure(exc)
            seconds = RETRY_SECONDS
        return self._monotonic() + refresh_in(token, self._now(), seconds)

    def _run(self) -> None:
        while (target := self._next()) is not None:
            try:
                token = self._token_getter()
            except Exception as exc:  # noqa: BLE001 - the caller reports it
                self._on_failure(exc)
                self._reschedule(target, self._monotonic() + RETRY_SECONDS)
                continue
            if self._reschedule(target, self._due_after(token)):
                target.refresh(token)

    def _next(self) -> Refreshable | None:
        """Waits until a refresh is due; None after :meth:`close`."""
        with self._changed:
            while not self._is_closed:
                if not self._due:
                    self._changed.wait()
                    continue
                target = min(self._due, key=self._due.__getitem__)
                seconds = self._due[target] - self._monotonic()
                if seconds <= 0:
                    return target
                self._changed.wait(min(seconds, threading.TIMEOUT_MAX))
        return None

    def _reschedule(self, target: Refreshable, due: float) -> bool:
        with self._changed:
            if target not in self._due:
                return False
            self._due[target] = due
            return True
