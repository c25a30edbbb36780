# SPDX-License-Identifier: Apache-2.0
"""The faults between a client and its API server that a test can inject.

The actions of :mod:`watcher_sync.testing.http.faults` act on requests. :class:`Break`, :class:`Silence`,
:class:`ErrorEvent` and :class:`RawLine` act on watches, including open ones. There the fault also says how many events
pass first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from watcher_sync.testing.http.faults import Answer, Fault, Faults, RequestAction
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
class Break:
    """The connection of a watch ends without a last chunk."""

    half_line: bool = False
    """Within an event."""


@dataclasses.dataclass(frozen=True)
class Close:
    """The server ends a watch properly."""


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


StreamAction = Break | Close | Silence | ErrorEvent | RawLine
Action = RequestAction | StreamAction
AnyFault = Fault[RequestAction, Request] | Fault[StreamAction, Request]


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


def gateway_page(code: int = 200, page: bytes = b"<html>\n<title>Log in</title>\n</html>\n") -> Answer:
    """A page of a gateway in front of the server, which need not be in UTF-8."""
    return Answer(ApiError(code, "", "", page=page))


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


@dataclasses.dataclass(frozen=True)
class Condition:
    """Which requests a fault meets."""

    path: str
    """A prefix of the request's path."""
    verb: str | None
    when: Callable[[Request], bool] | None

    def __call__(self, request: Request) -> bool:
        return (
            request.path.startswith(self.path)
            and (self.verb is None or request.verb == self.verb)
            and (self.when is None or self.when(request))
        )


class StreamFaults(Faults[StreamAction, Request]):
    """The ordered faults of watches. For these, a fault's ``after`` and ``between`` count events."""

    def on_event(self, request: Request, *, passing: int) -> StreamAction | None:
        """What happens to the stream before its next event.

        :param passing: 1 before an event, 0 while the stream is idle.
        """
        with self._lock:
            for fault in self._faults:
                if fault.matches(request) and fault.due(passing=passing):
                    return fault.happen()
        return None

    def pending(self, request: Request) -> bool:
        """Whether a fault would reach the stream at all."""
        with self._lock:
            return any(fault.matches(request) for fault in self._faults)

    def due(self, request: Request) -> bool:
        """Whether a fault would happen to the idle stream now."""
        with self._lock:
            return any(fault.matches(request) and fault.due(passing=0) for fault in self._faults)
