# SPDX-License-Identifier: Apache-2.0
"""The caller of a request, as authentication has written it into the WSGI environment.

keystonemiddleware writes the identity into the environment, and removes what the caller forged. It also passes a
request without a valid token (``delay_auth_decision``), because some operations need none. Without authentication no
one writes an identity, so the middleware replaces the identity by that of ``noauth``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from oslo_config import cfg
from oslo_context import context as oslo_context
from oslo_policy import policy

from watcher_sync.api.http.request_context import RequestContext
from watcher_sync.api.http.request_ids import ids_of, note_actor

NOAUTH_USER = "noauth"

_IDENTITY = ("HTTP_X_USER", "HTTP_X_PROJECT", "HTTP_X_DOMAIN", "HTTP_X_ROLE", "HTTP_X_IDENTITY", "HTTP_X_SERVICE",
             "HTTP_X_SYSTEM", "HTTP_X_TENANT", "HTTP_X_IS_ADMIN")  # fmt: skip
"""The beginnings of the names that keystonemiddleware writes into the environment."""

Wsgi = Callable[..., Iterable[bytes]]


def wrap(application: Wsgi, conf: cfg.ConfigOpts) -> Wsgi:
    """Notes the caller of every request that authentication passes, for the logs and for the audit."""
    has_identity = conf.api.auth_strategy == "keystone"

    def wrapped(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if not has_identity:
            for name in [name for name in environ if name.startswith(_IDENTITY)]:
                del environ[name]
            environ["HTTP_X_USER_ID"] = NOAUTH_USER
        context = oslo_context.RequestContext.from_environ(environ)
        note_actor(environ, context.user_id, context.project_id)
        return application(environ, start_response)

    return wrapped


class ContextFactory:
    """Makes the context of each request. Used by all threads."""

    def __init__(self, conf: cfg.ConfigOpts, rules: list[policy.RuleDefault], strategy: str | None = None) -> None:
        """:param strategy: how callers were authenticated; None: ``[api] auth_strategy``."""
        self.strategy: str = strategy or conf.api.auth_strategy
        self._enforcer = policy.Enforcer(conf)
        self._enforcer.register_defaults(rules)
        self._enforcer.load_rules()

    def of_environ(self, environ: dict[str, Any]) -> RequestContext:
        """Makes the context of a WSGI environment that authentication has passed."""
        if self.strategy == "noauth":
            context = oslo_context.RequestContext(
                user_id=NOAUTH_USER, roles=["admin", "member", "reader"], system_scope="all", **ids_of(environ)
            )
            return RequestContext(context, self._enforcer, known=True)
        if environ.get("HTTP_X_IDENTITY_STATUS") != "Confirmed":
            return RequestContext(oslo_context.RequestContext(**ids_of(environ)), self._enforcer, known=False)
        context = oslo_context.RequestContext.from_environ(environ, system_scope=_system_scope(environ))
        return RequestContext(context, self._enforcer, known=True)

    def of_identity(
        self, user_id: str, project_id: str | None, roles: Sequence[str], system_scope: str | None
    ) -> RequestContext:
        """Makes the context of a caller whose token another component has checked."""
        context = oslo_context.RequestContext(
            user_id=user_id, project_id=project_id, roles=list(roles), system_scope=system_scope
        )
        return RequestContext(context, self._enforcer, known=True)


def _system_scope(environ: Mapping[str, Any]) -> str | None:
    """The system scope of the user's token.

    keystonemiddleware writes the header OpenStack-System-Scope for the user's token, and again for a service token. So
    the header has the scope of the service.
    """
    token = environ.get("keystone.token_info", {}).get("token", {})
    return "all" if (token.get("system") or {}).get("all") else None
