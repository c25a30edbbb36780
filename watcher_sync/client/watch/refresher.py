# SPDX-License-Identifier: Apache-2.0
"""When a token is refreshed, and the thread that refreshes the tokens of all streams of a manager.

That is at 4/5 of the remaining life of a JWT, or at a fixed interval if the token is no JWT. The module reads the
expiry of a JWT (RFC 7519) without a check of its signature. The service checks the token. The client needs only the
time.

A token getter that is slow, such as Keystone's, delays no event and no answer to a PING.
"""

from __future__ import annotations

import base64
import math
import threading
import time
from collections.abc import Callable
from typing import Protocol

import msgspec

from watcher_sync.decoding import UNDECODABLE

REFRESH_INTERVAL_SECONDS = 600.0
"""How often a token that is no JWT is refreshed, unless the caller chooses another interval."""

MIN_REFRESH_SECONDS = 1.0
"""The least time until a refresh, so that an expired token causes no busy loop."""

_FRACTION = 0.8


class _Claims(msgspec.Struct):
    exp: float


def expiry(token: str) -> float | None:
    """The expiry of a JWT in seconds since the epoch; None if the token is no JWT or has no expiry."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    body = parts[1]
    try:
        found = msgspec.json.decode(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)), type=_Claims).exp
    except (*UNDECODABLE, ValueError):
        return None
    return found if math.isfinite(found) else None


def refresh_in(token: str, now: float, interval: float = REFRESH_INTERVAL_SECONDS) -> float:
    """The seconds after which the token must be refreshed.

    :param now: seconds since the epoch.
    :param interval: seconds, for a token that is no JWT.
    """
    expires = expiry(token)
    if expires is None:
        return max(MIN_REFRESH_SECONDS, interval)
    return max(MIN_REFRESH_SECONDS, (expires - now) * _FRACTION)


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
