# SPDX-License-Identifier: Apache-2.0
"""WSGI middleware inside of authentication: the caller's identity for the logs and for the audit.

keystonemiddleware writes the identity into the WSGI environment, and removes what the caller forged. Without
authentication no one does, so this middleware replaces the identity by that of ``noauth``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from oslo_config import cfg
from oslo_context import context as oslo_context

from watcher_sync.api.core.request_ids import GLOBAL_REQUEST_ID, REQUEST_ID
from watcher_sync.events import Actor

NOAUTH_USER = "noauth"

_ACTOR = "watcher_sync.actor"
_IDENTITY = ("HTTP_X_USER", "HTTP_X_PROJECT", "HTTP_X_DOMAIN", "HTTP_X_ROLE", "HTTP_X_IDENTITY", "HTTP_X_SERVICE",
             "HTTP_X_SYSTEM", "HTTP_X_TENANT", "HTTP_X_IS_ADMIN")  # fmt: skip
"""The beginnings of the names that keystonemiddleware writes into the environment."""

Wsgi = Callable[..., Iterable[bytes]]


def wrap(application: Wsgi, conf: cfg.ConfigOpts) -> Wsgi:
    """Notes the caller of every request that authentication passes."""
    has_identity = conf.api.auth_strategy == "keystone"

    def wrapped(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if not has_identity:
            for name in [name for name in environ if name.startswith(_IDENTITY)]:
                del environ[name]
            environ["HTTP_X_USER_ID"] = NOAUTH_USER
        context = oslo_context.RequestContext.from_environ(environ)
        environ[_ACTOR] = Actor(context.user_id, context.project_id, context.request_id)
        return application(environ, start_response)

    return wrapped


def actor_of(environ: dict[str, Any]) -> Actor:
    """The caller of the request; without user and project if authentication did not pass the request."""
    actor: Actor | None = environ.get(_ACTOR)
    return actor if actor is not None else Actor(None, None, environ.get(REQUEST_ID))


def note_login(environ: dict[str, Any], user_id: str, project_id: str | None) -> None:
    """Names the user of a login in the lines of the access log and of the audit log."""
    environ[_ACTOR] = Actor(user_id, project_id, environ.get(REQUEST_ID))


def ids_of(environ: dict[str, Any]) -> dict[str, Any]:
    """The ids of the request, as oslo.context expects them."""
    ids = {"request_id": environ.get(REQUEST_ID), "global_request_id": environ.get(GLOBAL_REQUEST_ID)}
    return {name: value for name, value in ids.items() if value is not None}
