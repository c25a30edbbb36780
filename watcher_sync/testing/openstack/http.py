# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 for the services: requests and their count, answers and the injected faults.

Each service listens on a port of its own, so that a test can take one away and let clients find its port closed.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import threading
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from watcher_sync.testing.http.faults import Faults
from watcher_sync.testing.http.handler import Handler
from watcher_sync.testing.http.listener import Listener
from watcher_sync.testing.openstack.faults import Action, Do, ExpireTokens, Garbage, Rewrite
from watcher_sync.testing.openstack.messages import ApiError, Request, Response, ServiceType

STORED: Final = 20_000
"""How many of the last requests are stored."""


class OpenStackRequests:
    """The count of requests by service, method and path, and the last :data:`STORED` of them. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: collections.Counter[tuple[ServiceType, str, str]] = collections.Counter()
        self._last: collections.deque[Request] = collections.deque(maxlen=STORED)

    def add(self, request: Request) -> None:
        with self._lock:
            self._counts[request.service, request.method, request.path] += 1
            self._last.append(request)

    def count(self, path: str = "", *, service: ServiceType | None = None, method: str | None = None) -> int:
        """Requests so far.

        :param path: part of the path, such as ``/servers/detail``.
        """
        with self._lock:
            return sum(
                count
                for (a_service, a_method, a_path), count in self._counts.items()
                if path in a_path and service in (None, a_service) and method in (None, a_method)
            )

    def by_path(self) -> dict[tuple[ServiceType, str, str], int]:
        """(service, method, path) -> count."""
        with self._lock:
            return dict(self._counts)

    def last(self) -> list[Request]:
        """The newest at the end."""
        with self._lock:
            return list(self._last)

    def clear(self) -> None:
        """Begin to count again."""
        with self._lock:
            self._counts.clear()
            self._last.clear()


Serve = Callable[[Request], Response]


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """What all connections to one service share."""

    service: ServiceType
    serve: Serve
    faults: Faults[Action, Request]
    requests: OpenStackRequests
    expire_tokens: Callable[[], None]
    clock: Callable[[], datetime.datetime]
    """The time of the header ``Date``."""


class ServiceHandler(Handler):
    """One connection to a service."""

    server_version = "fake-openstack"

    def __init__(self, endpoint: Endpoint, listener: Listener, *connection: Any) -> None:
        self.endpoint = endpoint
        super().__init__(listener, *connection)

    do_HEAD = Handler.do_GET  # noqa: N815 - the name that http.server requires

    def serve(self, body: bytes) -> None:
        endpoint = self.endpoint
        request = self._request(body)
        endpoint.requests.add(request)
        cut: float | None = None
        rewrites: list[Callable[[bytes], bytes]] = []
        try:
            for action in endpoint.faults.on_request(request):
                match action:
                    case Garbage(garbage, status):
                        return self.send(status, {"Content-Type": "text/html"}, garbage)
                    case Rewrite(rewrite):
                        rewrites.append(rewrite)
                    case ExpireTokens():
                        endpoint.expire_tokens()
                    case Do(function):
                        function(request)
                    case _:
                        cut = self.act(action)
            response = endpoint.serve(request)
            for rewrite in rewrites:
                response = dataclasses.replace(response, body=rewrite(response.body))
        except ApiError as exc:
            response = exc.response(endpoint.service)
        self._send(response, cut)

    def date_time_string(self, timestamp: float | None = None) -> str:
        """The header ``Date``, by the clock of the cloud."""
        return super().date_time_string(self.endpoint.clock().timestamp() if timestamp is None else timestamp)

    def _request(self, body: bytes) -> Request:
        split = urlsplit(self.path)
        query: dict[str, tuple[str, ...]] = {}
        for name, value in parse_qsl(split.query, keep_blank_values=True):
            query[name] = (*query.get(name, ()), value)
        path = "/" + unquote(split.path).lstrip("/")
        return Request(self.endpoint.service, self.command, path, query, self.header_values(), body, self.listener.url)

    def _send(self, response: Response, cut: float | None) -> None:
        headers = {"Content-Type": "application/json", **response.headers}
        if response.status == 401:
            headers["WWW-Authenticate"] = 'Keystone uri="fake"'
        self.send(response.status, headers, response.body, cut=cut)
