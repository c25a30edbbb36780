# SPDX-License-Identifier: Apache-2.0
"""WSGI middleware: a line per request in the access log, and a line per write in the audit log.

The loggers are ``watcher_sync.access`` and ``watcher_sync.audit``, so that ``log_config_append`` can send each to a
file of its own. A line has the path without the query, because a caller may put a secret into a query by mistake. It
has no header and no body.

A stream's line is written at its end.
"""

from __future__ import annotations

import time
import urllib.parse
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.api.http.request_ids import actor_of

ACCESS = logging.getLogger("watcher_sync.access")
AUDIT = logging.getLogger("watcher_sync.audit")

_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_MAX_PATH_LENGTH = 1000

Wsgi = Callable[..., Iterable[bytes]]


def wrap(application: Wsgi, conf: cfg.ConfigOpts) -> Wsgi:
    """Logs the requests of an application."""
    has_access_log: bool = conf.api.access_log

    def wrapped(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        is_write = environ.get("REQUEST_METHOD") not in _READING
        if not (has_access_log or is_write):
            return application(environ, start_response)
        request = _Request(environ, has_access_log=has_access_log, is_write=is_write)
        try:
            return _Body(application(environ, request.starting(start_response)), request)
        except BaseException:
            request.log()
            raise

    return wrapped


class _Request:
    """One request, until its line is written."""

    def __init__(self, environ: dict[str, Any], *, has_access_log: bool, is_write: bool) -> None:
        self._environ = environ
        self._has_access_log, self._is_write = has_access_log, is_write
        # Other middlewares may shift the path.
        self._path = urllib.parse.quote(
            (environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")).encode("latin-1", "replace")
        )[:_MAX_PATH_LENGTH]
        self._began = time.monotonic()
        self._status = "500"
        self.size = 0

    def starting(self, start_response: Callable[..., Any]) -> Callable[..., Any]:
        """A ``start_response`` that notes the status."""

        def start(status: str, *more: Any) -> Any:
            self._status = status[:3]
            return start_response(status, *more)

        return start

    def log(self) -> None:
        """Write the lines. Call it once."""
        environ, actor = self._environ, actor_of(self._environ)
        who = (actor.user_id or "-", actor.project_id or "-", actor.request_id or "-")
        method = environ.get("REQUEST_METHOD", "-")
        if self._has_access_log:
            ACCESS.info(
                '%s "%s %s" status: %s bytes: %d ms: %.1f user: %s project: %s request: %s',
                environ.get("REMOTE_ADDR") or "-",
                method,
                self._path,
                self._status,
                self.size,
                (time.monotonic() - self._began) * 1000,
                *who,
            )
        if self._is_write:
            AUDIT.info('"%s %s" status: %s user: %s project: %s request: %s', method, self._path, self._status, *who)


class _Body:
    """The body of an answer, whose end writes the lines."""

    def __init__(self, chunks: Iterable[bytes], request: _Request) -> None:
        self._chunks = chunks
        self._request: _Request | None = request

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            if self._request is not None:
                self._request.size += len(chunk)
            yield chunk

    def close(self) -> None:
        """WSGI: the server calls it after the last chunk, and when the client disconnects."""
        try:
            close = getattr(self._chunks, "close", None)
            if close is not None:
                close()
        finally:
            request, self._request = self._request, None
            if request is not None:
                request.log()
