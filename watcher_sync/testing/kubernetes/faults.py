# SPDX-License-Identifier: Apache-2.0
"""The faults between a client and its API server that a test can inject.

A fault has an action and a scope. The scope says which requests fail and how often. In a stream it also
says how many events pass first.

:class:`Answer`, :class:`Delay`, :class:`Hang` and :class:`Cut` act on requests.
:class:`Break`, :class:`Silence`, :class:`ErrorEvent` and :class:`RawLine` act on watches, including
open ones. The oldest matching fault acts first.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Mapping

from watcher_sync.testing.kubernetes import errors
from watcher_sync.testing.kubernetes.errors import ApiError


@dataclasses.dataclass(frozen=True)
class Request:
    """A request as faults and counts see it."""

    verb: str
    """get, list, watch, create, update, patch, delete, deletecollection; for discovery: get."""
    resource: str
    """The plural; empty for discovery."""
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)


@dataclasses.dataclass(frozen=True)
class Answer:
    """A Status object instead of the answer."""

    error: ApiError


@dataclasses.dataclass(frozen=True)
class Delay:
    """The answer comes late."""

    seconds: float


@dataclasses.dataclass(frozen=True)
class Hang:
    """The request is read and never answered, as behind a half-open connection."""


@dataclasses.dataclass(frozen=True)
class Cut:
    """The connection ends within the body of the answer."""

    at: float = 0.5
    """After this part of the bytes."""


@dataclasses.dataclass(frozen=True)
class Break:
    """The connection of a watch ends without a last chunk."""

    half_line: bool = False
    """Within an event."""


@dataclasses.dataclass(frozen=True)
class Silence:
    """The watch stays open and nothing more comes, no bookmark either."""


@dataclasses.dataclass(frozen=True)
class ErrorEvent:
    """An ERROR event; the stream ends after it."""

    error: ApiError


@dataclasses.dataclass(frozen=True)
class RawLine:
    """A line of any content, which need not be JSON; the stream goes on."""

    line: bytes = b'{"type":"ADDED","object":{"kind":"Pod","met\n'


RequestAction = Answer | Delay | Hang | Cut
StreamAction = Break | Silence | ErrorEvent | RawLine
Action = RequestAction | StreamAction


def too_many_requests(retry_after: int = 1) -> Answer:
    """429 with Retry-After in seconds."""
    return Answer(
        ApiError(
            429,
            "TooManyRequests",
            "the server has received too many requests and has asked us to try again later",
            details={"retryAfterSeconds": retry_after},
            headers={"Retry-After": str(retry_after)},
        )
    )


def internal_error(code: int = 500) -> Answer:
    """500, or another code of the server's own."""
    return Answer(ApiError(code, "InternalError" if code == 500 else "ServiceUnavailable", "an error on the server"))


def unauthorized() -> Answer:
    """401."""
    return Answer(errors.unauthorized())


def forbidden() -> Answer:
    """403."""
    return Answer(errors.forbidden())


def gone() -> Answer:
    """410 as the status of the answer, to a watch or to a page of a list."""
    return Answer(errors.too_old(1, 2))


def version_too_large(retry_after: int = 1) -> Answer:
    """504: the server has not seen that version yet; Retry-After in seconds."""
    error = errors.too_large(2, 1)
    error.details = {**(error.details or {}), "retryAfterSeconds": retry_after}
    error.headers = {"Retry-After": str(retry_after)}
    return Answer(error)


def error_event(
    code: int = 410, reason: str = "Expired", message: str = "too old resource version: 1 (2)"
) -> ErrorEvent:
    """An ERROR event; 410 Expired by default."""
    return ErrorEvent(ApiError(code, reason, message))


class Fault:
    """An ordered fault, and how often it happened."""

    def __init__(
        self,
        action: Action,
        *,
        path: str,
        verb: str | None,
        when: Callable[[Request], bool] | None,
        count: int | None,
        after: int,
    ) -> None:
        self.action = action
        self.hits = 0
        self._path = path
        self._verb = verb
        self._when = when
        self._count = count
        self._after = self._left = after

    def matches(self, request: Request) -> bool:
        return (
            (self._count is None or self.hits < self._count)
            and request.path.startswith(self._path)
            and (self._verb is None or request.verb == self._verb)
            and (self._when is None or self._when(request))
        )

    def due(self, *, passing: int) -> bool:
        """Whether it happens now; otherwise what passes is counted."""
        if self._left:
            self._left -= min(passing, self._left)
            return False
        return True

    def happen(self) -> Action:
        self.hits += 1
        self._left = self._after
        return self.action

    def stop(self) -> None:
        """It happens no more."""
        self._count = self.hits


class Faults:
    """The faults of one server. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault] = []

    def add(self, fault: Fault) -> None:
        with self._lock:
            self._faults.append(fault)

    def clear(self) -> None:
        """Everything works again, for what is asked from now on."""
        with self._lock:
            for fault in self._faults:
                fault.stop()
            self._faults.clear()

    def on_request(self, request: Request) -> list[RequestAction]:
        """What happens to the request: any delays, and then one other thing at most. For these, ``after``
        counts requests."""
        actions: list[RequestAction] = []
        with self._lock:
            for fault in self._faults:
                if isinstance(fault.action, RequestAction) and fault.matches(request) and fault.due(passing=1):
                    fault.happen()
                    actions.append(fault.action)
                    if not isinstance(fault.action, Delay):
                        break
        return actions

    def on_stream(self, request: Request, *, passing: int) -> StreamAction | None:
        """What happens to the stream before its next event.

        :param passing: 1 before an event, 0 while the stream is idle.
        """
        with self._lock:
            for fault in self._faults:
                if isinstance(fault.action, StreamAction) and fault.matches(request) and fault.due(passing=passing):
                    fault.happen()
                    return fault.action
        return None

    def pending(self, request: Request) -> bool:
        """Whether a fault would reach the stream at all."""
        with self._lock:
            return any(isinstance(f.action, StreamAction) and f.matches(request) for f in self._faults)

    def due(self, request: Request) -> bool:
        """Whether a fault would happen to the idle stream now."""
        with self._lock:
            return any(
                isinstance(f.action, StreamAction) and f.matches(request) and f.due(passing=0) for f in self._faults
            )
