# SPDX-License-Identifier: Apache-2.0
"""What every request and its answer have, whatever it asks for: an id, an actor, log lines, headers of security.

The id is in the answer (``X-OpenStack-Request-ID``), in logs and in the journal. A caller may send the id of its own
request in the same header, in exactly the form ``req-<uuid>``. It is then the *global* request id of the logs.
oslo.middleware passes answers through WebOb, which makes ``Location`` absolute with the caller's ``Host``.

A request has a line in the log ``watcher_sync.access``, a write also in ``watcher_sync.audit``. It has the path
without the query, because a caller may put a secret there by mistake, and no header and no body. A stream's line is
written at its end.
"""

from __future__ import annotations

import re
import time
import urllib.parse
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from oslo_config import cfg
from oslo_context import context as oslo_context
from oslo_log import log as logging
from oslo_middleware import request_id as oslo

from watcher_sync.api.http.request_input import discarding
from watcher_sync.events import Actor

ACCESS = logging.getLogger("watcher_sync.access")
AUDIT = logging.getLogger("watcher_sync.audit")

HEADER = "X-OpenStack-Request-ID"
REQUEST_ID: str = oslo.ENV_REQUEST_ID
"""The name in the WSGI environment that OpenStack's libraries read."""
GLOBAL_REQUEST_ID: str = oslo.GLOBAL_REQ_ID

VARY = "X-Auth-Token, Accept, OpenStack-API-Version"
"""The headers of the request on which an answer depends."""

_SECURITY: Final = (("X-Content-Type-Options", "nosniff"), ("Cache-Control", "no-store"), ("Vary", VARY))
"""Headers of every answer that has no others of these names.

A browser does not guess another media type, and no cache stores what one caller may see.
"""
_ACTOR = "watcher_sync.actor"
_FORMAT = re.compile(oslo.ID_FORMAT)
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_MAX_PATH_LENGTH = 1000

Wsgi = Callable[..., Iterable[bytes]]


def wrap(application: Wsgi, conf: cfg.ConfigOpts) -> Wsgi:
    """Wraps the application, outermost."""
    has_access_log: bool = conf.api.access_log

    def wrapped(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        envelope = _Envelope(environ, start_response, has_access_log=has_access_log)
        start = envelope.start
        if environ.get("CONTENT_LENGTH", "") not in ("", "0") or "HTTP_TRANSFER_ENCODING" in environ:
            start = discarding(environ, start)
        try:
            return _LoggedBody(application(environ, start), envelope)
        except BaseException:
            envelope.log()
            raise

    return wrapped


def ids_of(environ: dict[str, Any]) -> dict[str, Any]:
    """The ids of the request, as oslo.context expects them."""
    ids = {"request_id": environ.get(REQUEST_ID), "global_request_id": environ.get(GLOBAL_REQUEST_ID)}
    return {name: value for name, value in ids.items() if value is not None}


def note_actor(environ: dict[str, Any], user_id: str | None, project_id: str | None) -> None:
    """Names the caller of the request in the lines of the access log and of the audit log."""
    environ[_ACTOR] = Actor(user_id, project_id, environ.get(REQUEST_ID))


class _Envelope:
    """One request and its answer, until its lines are written."""

    def __init__(self, environ: dict[str, Any], start_response: Callable[..., Any], *, has_access_log: bool) -> None:
        self._environ = environ
        self._start_response = start_response
        self._has_access_log = has_access_log
        # Other middlewares may shift the path.
        self._path = urllib.parse.quote(
            (environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")).encode("latin-1", "replace")
        )[:_MAX_PATH_LENGTH]
        self._began = time.monotonic()
        self._status = "500"
        self.has_body = environ.get("REQUEST_METHOD") != "HEAD"
        self.size = 0
        given = environ.get("HTTP_X_OPENSTACK_REQUEST_ID", "")
        environ.pop(GLOBAL_REQUEST_ID, None)
        if _FORMAT.fullmatch(given):
            environ[GLOBAL_REQUEST_ID] = given
        self._id = environ[REQUEST_ID] = oslo_context.generate_request_id()
        # The context of the thread's last request must not be in the log lines of this one.
        oslo_context.RequestContext(request_id=self._id, global_request_id=environ.get(GLOBAL_REQUEST_ID))

    def start(self, status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
        """WSGI's ``start_response``: completes the headers."""
        self._status = status[:3]
        own = [(name, value) for name, value in headers if name.lower() != HEADER.lower()]
        given = {name.lower() for name, _ in own}
        own += [header for header in _SECURITY if header[0].lower() not in given]
        return self._start_response(status, [*own, (HEADER, self._id)], *more)

    def log(self) -> None:
        """Write the lines. Call it once."""
        environ = self._environ
        # Without user and project if authentication did not pass the request.
        actor: Actor = environ.get(_ACTOR) or Actor(None, None, self._id)
        who = (actor.id or "-", actor.project_id or "-", actor.request_id or "-")
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
        if method not in _READING:
            AUDIT.info('"%s %s" status: %s user: %s project: %s request: %s', method, self._path, self._status, *who)


class _LoggedBody:
    """The body of an answer, whose end writes the lines."""

    def __init__(self, chunks: Iterable[bytes], envelope: _Envelope) -> None:
        self._chunks = chunks
        self._envelope: _Envelope | None = envelope

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            if self._envelope is not None:
                if not self._envelope.has_body:
                    return  # the status and the headers are known: WSGI has them before the first chunk
                self._envelope.size += len(chunk)
            yield chunk

    def close(self) -> None:
        """WSGI: the server calls it after the last chunk, and when the client disconnects."""
        try:
            close = getattr(self._chunks, "close", None)
            if close is not None:
                close()
        finally:
            envelope, self._envelope = self._envelope, None
            if envelope is not None:
                envelope.log()
