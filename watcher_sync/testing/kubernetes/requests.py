# SPDX-License-Identifier: Apache-2.0
"""Counts the requests of clients, so that a test can assert how many there were."""

from __future__ import annotations

import collections
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from watcher_sync.testing.kubernetes.faults import Request

KEPT = 10_000


class Requests:
    """The count of requests by verb and resource, the last :data:`KEPT` of them, and the open watches.

    Thread-safe.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._counts: collections.Counter[tuple[str, str]] = collections.Counter()
        self._last: collections.deque[Request] = collections.deque(maxlen=KEPT)
        self._watches: list[Request] = []

    def note(self, request: Request) -> None:
        with self._changed:
            self._counts[request.verb, request.resource] += 1
            self._last.append(request)
            self._changed.notify_all()

    @contextmanager
    def open_watch(self, request: Request) -> Iterator[None]:
        """The stream is open as long as the context."""
        with self._changed:
            self._watches.append(request)
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._watches = [other for other in self._watches if other is not request]
                self._changed.notify_all()

    def count(self, verb: str | None = None, resource: str | None = None) -> int:
        """Requests so far: of the verb, of the resource (its plural), of both, or all."""
        with self._changed:
            return sum(
                count
                for (v, r), count in self._counts.items()
                if (verb is None or v == verb) and (resource is None or r == resource)
            )

    def last(self) -> list[Request]:
        """The newest at the end."""
        with self._changed:
            return list(self._last)

    def watches(self, resource: str | None = None) -> int:
        """Streams that are open now."""
        with self._changed:
            return self._open(resource)

    def wait_for_watches(self, watches: int, resource: str | None = None, *, deadline: float = 60.0) -> None:
        """Return as soon as so many streams are open.

        :raises TimeoutError: when that is not so after ``deadline`` seconds.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._open(resource) >= watches, deadline):
                raise TimeoutError(f"{self._open(resource)} watches of {resource or 'all'}, not {watches}")

    def wait_until_watches_end(self, resource: str | None = None, *, deadline: float = 60.0) -> None:
        """Return as soon as no stream is open. :raises TimeoutError: as above."""
        with self._changed:
            if not self._changed.wait_for(lambda: not self._open(resource), deadline):
                raise TimeoutError(f"{self._open(resource)} watches of {resource or 'all'} are still open")

    def _open(self, resource: str | None) -> int:
        return sum(resource is None or request.resource == resource for request in self._watches)

    def clear(self) -> None:
        """Begin to count again."""
        with self._changed:
            self._counts.clear()
            self._last.clear()
