# SPDX-License-Identifier: Apache-2.0
"""The caller of one request, and what the policy allows it.

keystonemiddleware checks the token, and writes the result into the WSGI environment. It also passes a request without a
valid token (``delay_auth_decision``), because some operations need none.

Then the rule of the operation decides. If it refuses the request, the answer is 401 without a valid token, else 403.

The roles are those of Keystone: *reader* reads, *member* writes entities of its project, *admin* does everything.
An entity with a ``project_id`` is visible to this project, to admins, and to readers of the system.
"""

from __future__ import annotations

from typing import Any

import falcon
from oslo_config import cfg
from oslo_context import context as oslo_context
from oslo_policy import policy

from watcher_sync.api.core.caller import NOAUTH_USER, ids_of
from watcher_sync.api.core.problems import Problem
from watcher_sync.events import Actor

ADMIN = "role:admin"
READER = "role:admin or role:member or role:reader"
EVERYTHING = "role:admin or (role:reader and system_scope:all)"
IN_PROJECT = f"{EVERYTHING} or ((role:member or role:reader) and project_id:%(project_id)s)"
EVERYBODY = "@"

ALL_PROJECTS = "all_projects"
"""The rule of callers that see the entities of every project."""

FORCE_END = "vnf_instances:force_end_operation"
"""The rule of callers that end an operation of another owner, without its secret."""


class RequestContext:
    """The caller of one request."""

    def __init__(self, context: oslo_context.RequestContext, enforcer: policy.Enforcer, *, known: bool) -> None:
        self.user_id: str | None = context.user_id
        self.project_id: str | None = context.project_id
        self.known = known
        self.actor = Actor(context.user_id, context.project_id, context.request_id)
        """The caller, as the journal records it."""
        self._context = context
        self._enforcer = enforcer

    def may(self, rule: str, project_id: str | None = None) -> bool:
        """Whether the policy allows the caller an action.

        :param rule: the name of the rule.
        :param project_id: the project of the entity; None: the caller's own project.
        """
        target = {"project_id": project_id if project_id is not None else self.project_id}
        return bool(self._enforcer.enforce(rule, target, self._context))

    def require(self, rule: str, project_id: str | None = None) -> None:
        """:raises Problem: 401 or 403 when the policy does not allow it."""
        if self.may(rule, project_id):
            return
        if not self.known:
            raise Problem(401, "A valid token is needed")
        raise Problem(403, f"The policy does not allow the request: {rule}")


class ContextFactory:
    """Makes the context of each request. Used by all threads."""

    def __init__(self, conf: cfg.ConfigOpts, rules: list[policy.RuleDefault]) -> None:
        self.strategy: str = conf.api.auth_strategy
        self._enforcer = policy.Enforcer(conf)
        self._enforcer.register_defaults(rules)
        self._enforcer.load_rules()

    def of(self, request: falcon.Request) -> RequestContext:
        """Makes the context of the request."""
        environ: dict[str, Any] = request.env
        if self.strategy == "noauth":
            context = oslo_context.RequestContext(
                user_id=NOAUTH_USER, roles=["admin", "member", "reader"], system_scope="all", **ids_of(environ)
            )
            return RequestContext(context, self._enforcer, known=True)
        if environ.get("HTTP_X_IDENTITY_STATUS") != "Confirmed":
            return RequestContext(oslo_context.RequestContext(**ids_of(environ)), self._enforcer, known=False)
        return RequestContext(oslo_context.RequestContext.from_environ(environ), self._enforcer, known=True)
