# SPDX-License-Identifier: Apache-2.0
"""The caller of one request, and what the policy allows it.

The rule of the operation decides. If it refuses the request, the answer is 401 without a valid token, else 403. Only
what is declared public needs no token.

An entity with a ``project_id`` is visible to this project, to administrators, and to readers of the system. To every
other caller it does not exist (404). The module ``rules`` has the roles.

keystonemiddleware writes the identity into the WSGI environment, and removes what the caller forged. It also passes a
request without a valid token (``delay_auth_decision``), because some operations need none. Without authentication no
one writes an identity, so the middleware replaces the identity by that of ``noauth``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from oslo_config import cfg
from oslo_context import context as oslo_context
from oslo_policy import policy

from watcher_sync.api.http.envelope import ids_of, note_actor
from watcher_sync.api.http.policy_files import Policy
from watcher_sync.api.http.problems import Problem
from watcher_sync.api.http.rules import ADMIN_ONLY_FIELDS, ALL_PROJECTS
from watcher_sync.events import Actor
from watcher_sync.model.kinds import Kind
from watcher_sync.model.visibility import NOTHING_HIDDEN, Hidden

NO_PROJECT = ""
"""The project of the policy's target where there is none. No token has it."""

NOAUTH_USER = "noauth"

CLAIMS = "watcher_sync.claims"
"""The claims of a JWT in the WSGI environment. It is the name of no header, so no client can send it."""

IDENTITY = ("HTTP_X_USER", "HTTP_X_PROJECT", "HTTP_X_DOMAIN", "HTTP_X_ROLE", "HTTP_X_IDENTITY", "HTTP_X_SERVICE",
            "HTTP_X_SYSTEM", "HTTP_X_TENANT", "HTTP_X_IS_ADMIN")  # fmt: skip
"""The beginnings of the names that keystonemiddleware writes into the environment."""

Wsgi = Callable[..., Iterable[bytes]]


class Claims(msgspec.Struct, frozen=True):
    """What a JWT says of its caller."""

    subject: str
    project_id: str | None
    roles: tuple[str, ...]
    system_scope: str | None
    expires_at: float


class RequestContext:
    """The caller of one request."""

    def __init__(self, context: oslo_context.RequestContext, policy_in_force: Policy, *, known: bool) -> None:
        self.user_id: str | None = context.user_id
        # A text that is empty would be equal to that of a target without a project.
        context.project_id = context.project_id or None
        self.project_id: str | None = context.project_id
        self.known = known
        self.actor = Actor(context.user_id, context.project_id, context.request_id)
        """The caller, as the journal records it."""
        self._context = context
        self._policy = policy_in_force

    def may(self, rule: str) -> bool:
        """Whether the policy allows the caller an action on its own project."""
        return self.may_on(rule, self.project_id)

    def may_on(self, rule: str, project_id: str | None) -> bool:
        """Whether the policy allows the caller an action on an entity.

        :param rule: the name of the rule.
        :param project_id: the project of the entity; None: it belongs to no project.
        """
        target = {"project_id": project_id or NO_PROJECT}
        return self._policy.allows(rule, target, self._context, known=self.known)

    def require(self, *rules: str) -> None:
        """Requires that one of the rules allows the action on the caller's own project.

        :raises Problem: 401 or 403 when none does.
        """
        if not any(self.may(rule) for rule in rules):
            raise self.refusal(rules)

    def require_on(self, rule: str, project_id: str | None) -> None:
        """:raises Problem: 401 or 403 when the policy does not allow the action on an entity of the project."""
        if not self.may_on(rule, project_id):
            raise self.refusal((rule,))

    def require_everything(self) -> None:
        """:raises Problem: 401 or 403 when there is an entity, or a field of one, that the caller does not see."""
        if self.scope is not None:
            raise self.refusal([ALL_PROJECTS])
        if not self.sees_admin_only:
            raise self.refusal([ADMIN_ONLY_FIELDS])

    def refusal(self, rules: Sequence[str]) -> Problem:
        """Makes the problem of a request that these rules refuse: 401 without a token, else 403."""
        if not self.known:
            return Problem(401, "A valid token is needed")
        return Problem(403, f"The policy does not allow the request: {' or '.join(rules)}")

    @property
    def scope(self) -> str | None:
        """The only project whose entities the caller sees; None: it sees those of all projects."""
        return None if self.may_on(ALL_PROJECTS, None) else self.project_id or NO_PROJECT

    def scope_of(self, all_projects: bool | None) -> str | None:
        """The only project whose entities the caller asks for; None: it asks for those of all projects.

        :param all_projects: what the request asks for; None: everything that the caller sees.
        :raises Problem: 401 or 403 when it asks for all projects and does not see all.
        """
        scope = self.scope
        if all_projects and scope is not None:
            raise self.refusal([ALL_PROJECTS])
        return (self.project_id or NO_PROJECT) if all_projects is False else scope

    @property
    def sees_admin_only(self) -> bool:
        """Whether the caller sees the fields that tell of hosts."""
        return self.may_on(ADMIN_ONLY_FIELDS, None)

    def hidden(self, kind: Kind) -> Hidden:
        """What the caller does not see of the entities of a kind."""
        return NOTHING_HIDDEN if not kind.admin_only or self.sees_admin_only else kind.admin_only

    def require_visible(self, kind: Kind, names: Iterable[str]) -> Hidden:
        """Requires that the caller sees the fields that the request names.

        :returns: what the caller does not see of the kind.
        :raises Problem: 403 when the request names a field that it does not see.
        """
        hidden = self.hidden(kind)
        for name in names:
            if hidden.get(name) == ():
                refused = self.refusal([ADMIN_ONLY_FIELDS])
                raise Problem(refused.status, f"{refused.detail} (field {name})")
        return hidden


def wrap(application: Wsgi, conf: cfg.ConfigOpts) -> Wsgi:
    """Notes the caller of every request that authentication passes, for the logs and for the audit."""
    has_identity = conf.api.auth_strategy == "keystone"

    def wrapped(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        claims: Claims | None = environ.get(CLAIMS)
        if claims is not None:
            environ["HTTP_X_USER_ID"], environ["HTTP_X_PROJECT_ID"] = claims.subject, claims.project_id or ""
        elif not has_identity:
            for name in [name for name in environ if name.startswith(IDENTITY)]:
                del environ[name]
            environ["HTTP_X_USER_ID"] = NOAUTH_USER
        context = oslo_context.RequestContext.from_environ(environ)
        note_actor(environ, context.user_id, context.project_id)
        return application(environ, start_response)

    return wrapped


class ContextFactory:
    """Makes the context of each request. Used by all threads."""

    def __init__(self, conf: cfg.ConfigOpts, rules: list[policy.RuleDefault], strategy: str | None = None) -> None:
        """:param strategy: how callers were authenticated; None: ``[api] auth_strategy``.

        :raises ConfigError: a file of the policy is unusable, or has a mistake.
        """
        self.strategy: str = strategy or conf.api.auth_strategy
        self._policy = Policy(conf, rules)

    def of_environ(self, environ: dict[str, Any]) -> RequestContext:
        """Makes the context of a WSGI environment that authentication has passed."""
        if (claims := environ.get(CLAIMS)) is not None:
            return self.of_claims(claims, **ids_of(environ))
        if self.strategy == "noauth":
            context = oslo_context.RequestContext(
                user_id=NOAUTH_USER, roles=["admin", "member", "reader"], system_scope="all", **ids_of(environ)
            )
            return RequestContext(context, self._policy, known=True)
        if environ.get("HTTP_X_IDENTITY_STATUS") != "Confirmed":
            return RequestContext(oslo_context.RequestContext(**ids_of(environ)), self._policy, known=False)
        context = oslo_context.RequestContext.from_environ(environ, system_scope=_system_scope(environ))
        return RequestContext(context, self._policy, known=True)

    def of_claims(self, claims: Claims, **ids: Any) -> RequestContext:
        """Makes the context of the caller of a JWT that was checked.

        :param ids: of the request.
        """
        context = oslo_context.RequestContext(
            user_id=claims.subject,
            project_id=claims.project_id,
            roles=list(claims.roles),
            system_scope=claims.system_scope,
            **ids,
        )
        return RequestContext(context, self._policy, known=True)


def _system_scope(environ: Mapping[str, Any]) -> str | None:
    """The system scope of the user's token.

    keystonemiddleware writes the header OpenStack-System-Scope for the user's token, and again for a service token. So
    the header has the scope of the service.
    """
    token = environ.get("keystone.token_info", {}).get("token", {})
    return "all" if (token.get("system") or {}).get("all") else None
