# SPDX-License-Identifier: Apache-2.0
"""The API of a process that starts before its database: it answers 503 until the database answers.

Requests make the attempts, and no thread does: a server may load the application, and fork its workers afterwards. The
request of a load balancer to ``/healthcheck`` is enough.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import falcon
from oslo_log import log as logging

from watcher_sync.api.http import problems
from watcher_sync.exceptions import DatabaseUnavailable, StorageError

LOG = logging.getLogger(__name__)

Wsgi = Callable[..., Iterable[bytes]]


class LateDatabase:
    """WSGI: the application, as soon as it can be made; until then another one."""

    def __init__(self, make: Callable[[], Wsgi], until_then: Wsgi, interval: float, problem: StorageError) -> None:
        """:param make: makes the application; it raises a :class:`StorageError` while the database does not permit it.

        :param interval: the least seconds between two attempts.
        :param problem: why the first attempt failed.
        """
        self._make = make
        self._application = until_then
        self._interval = interval
        self._problem = ""
        self._next = 0.0
        # Held by the one request that makes an attempt. The others do not wait for it.
        self._attempt = threading.Lock()
        self._note(problem)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """WSGI."""
        if self._is_due() and self._attempt.acquire(blocking=False):
            try:
                if self._is_due():
                    self._try()
            finally:
                self._attempt.release()
        return self._application(environ, start_response)

    def _is_due(self) -> bool:
        return time.monotonic() >= self._next

    def _try(self) -> None:
        try:
            self._application = self._make()
        except StorageError as exc:
            self._note(exc)
        else:
            self._next = math.inf
            LOG.info("The database has recovered")

    def _note(self, problem: StorageError) -> None:
        """Log a reason that is another one than before."""
        if str(problem) != self._problem:
            LOG.warning("The database is unavailable: %s; requests are answered with 503 until it answers", problem)
        self._problem = str(problem)
        self._next = time.monotonic() + self._interval


def make_unavailable() -> Wsgi:
    """Makes the application that answers every request with 503."""
    app: falcon.App[Any, Any] = falcon.App()
    problems.install(app)
    app.add_sink(_refuse)
    return app


def _refuse(req: Any, resp: Any, **_groups: Any) -> None:
    raise DatabaseUnavailable("the database has not answered since the start of this process")
