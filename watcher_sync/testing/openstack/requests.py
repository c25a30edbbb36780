# SPDX-License-Identifier: Apache-2.0
"""Counts the requests of clients, so that a test can assert how many there were."""

from __future__ import annotations

import collections
import threading
from typing import Final

from watcher_sync.testing.openstack.messages import Request, ServiceType

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
