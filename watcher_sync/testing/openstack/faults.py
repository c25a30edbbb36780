# SPDX-License-Identifier: Apache-2.0
"""The faults between a client and the fake cloud that a test can inject.

The actions of :mod:`watcher_sync.testing.http.faults` are among them. After an :class:`ExpireTokens` or a :class:`Do`
the request goes on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from watcher_sync.testing.http.faults import Answer, Preliminary, RequestAction
from watcher_sync.testing.openstack.messages import ApiError, Request, ServiceType


@dataclasses.dataclass(frozen=True)
class Garbage:
    """An answer whose body is this."""

    body: bytes = b"<html>The proxy is being restarted</html>"
    status: int = 200


@dataclasses.dataclass(frozen=True)
class Rewrite:
    """The service's own answer, with what this makes of its body."""

    function: Callable[[bytes], bytes]


@dataclasses.dataclass(frozen=True)
class ExpireTokens(Preliminary):
    """All tokens expire just before the request is served."""


@dataclasses.dataclass(frozen=True)
class Do(Preliminary):
    """Something happens to the cloud just before the request is served, in the thread of the request."""

    function: Callable[[Request], object]


Action = RequestAction | Garbage | Rewrite | ExpireTokens | Do


def too_many_requests(retry_after: int = 1) -> Answer:
    """429 with Retry-After in seconds."""
    return Answer(ApiError(429, "This request was rate-limited.", {"Retry-After": str(retry_after)}))


def server_error(status: int = 500) -> Answer:
    """500, or another error of the server's own."""
    return Answer(ApiError(status, "Unexpected API Error. Please report this at http://bugs.launchpad.net/nova/"))


def forbidden(message: str = "Policy doesn't allow this to be performed.") -> Answer:
    """403."""
    return Answer(ApiError(403, message))


def marker_not_found(marker: str = "gone") -> Answer:
    """400, as Nova answers when the server that is the marker was archived."""
    return Answer(ApiError(400, f"marker [{marker}] not found"))


@dataclasses.dataclass(frozen=True)
class Condition:
    """Which requests a fault meets."""

    path: str
    """Part of the request's path."""
    service: ServiceType | None
    method: str | None
    when: Callable[[Request], bool] | None

    def __call__(self, request: Request) -> bool:
        return (
            self.service in (None, request.service)
            and self.method in (None, request.method)
            and self.path in request.path
            and (self.when is None or self.when(request))
        )
