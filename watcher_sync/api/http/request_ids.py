# SPDX-License-Identifier: Apache-2.0
"""Every request has an id, in its answer (``X-OpenStack-Request-ID``), in logs and in the journal; and an actor.

A caller may send the id of its own request in the same header, in exactly the form ``req-<uuid>``. It is then the
*global* request id, which the logs show beside the request's own id.

oslo.middleware has such a middleware, too. It passes answers through WebOb, which makes ``Location`` absolute with the
caller's ``Host``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from oslo_config import cfg
from oslo_context import context as oslo_context
from oslo_middleware import request_id as oslo

from watcher_sync.events import Actor

HEADER = "X-OpenStack-Request-ID"
REQUEST_ID: str = oslo.ENV_REQUEST_ID
"""The name in the WSGI environment that OpenStack's libraries read."""
GLOBAL_REQUEST_ID: str = oslo.GLOBAL_REQ_ID

_ACTOR = "watcher_sync.actor"
_FORMAT = re.compile(oslo.ID_FORMAT)

Wsgi = Callable[..., Iterable[bytes]]


def wrap(application: Wsgi, _conf: cfg.ConfigOpts) -> Wsgi:
    """Gives every request an id."""

    def wrapped(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        given = environ.get("HTTP_X_OPENSTACK_REQUEST_ID", "")
        environ.pop(GLOBAL_REQUEST_ID, None)
        if _FORMAT.fullmatch(given):
            environ[GLOBAL_REQUEST_ID] = given
        request_id = environ[REQUEST_ID] = oslo_context.generate_request_id()
        # The context of the thread's last request must not be in the log lines of this one.
        oslo_context.RequestContext(request_id=request_id, global_request_id=environ.get(GLOBAL_REQUEST_ID))

        def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            own = [(name, value) for name, value in headers if name.lower() != HEADER.lower()]
            return start_response(status, [*own, (HEADER, request_id)], *more)

        return application(environ, start)

    return wrapped


def ids_of(environ: dict[str, Any]) -> dict[str, Any]:
    """The ids of the request, as oslo.context expects them."""
    ids = {"request_id": environ.get(REQUEST_ID), "global_request_id": environ.get(GLOBAL_REQUEST_ID)}
    return {name: value for name, value in ids.items() if value is not None}


def note_actor(environ: dict[str, Any], user_id: str | None, project_id: str | None) -> None:
    """Names the caller of the request in the lines of the access log and of the audit log."""
    environ[_ACTOR] = Actor(user_id, project_id, environ.get(REQUEST_ID))


def actor_of(environ: dict[str, Any]) -> Actor:
    """The caller of the request; without user and project if authentication did not pass the request."""
    actor: Actor | None = environ.get(_ACTOR)
    return actor if actor is not None else Actor(None, None, environ.get(REQUEST_ID))
