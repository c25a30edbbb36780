# SPDX-License-Identifier: Apache-2.0
"""The rules of the policy: those with names of their own (OpenStack's secure RBAC), and those of the operations.

An operation's default refers to them by name, so an operator changes the meaning of a role in one place.

* *admin* does everything in every project, whatever the project of the token.
* *reader* reads what belongs to its project; with a token of the system, everything but the quarantine.
* *member* also writes what belongs to its project.
* *manager* also ends operations of other users of its project.
* *service* only brings events in.

A JWT may lack the roles that a role implies. So each rule names the higher roles, too. A token of a domain has no
rights.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from oslo_policy import policy

if TYPE_CHECKING:
    from watcher_sync.api.http.operation import RestOperation, Rule

SCOPES: Final = ["system", "project"]
"""The scopes of the tokens that the rules accept."""

EVERYBODY: Final = "@"
"""No token is needed. Such a rule needs a reason."""

ADMIN: Final = "rule:admin_required"
"""An administrator. Such a rule needs a reason."""
ADMIN_OR_SERVICE: Final = "rule:admin_required or rule:service_role"
ADMIN_OR_SYSTEM_READER: Final = "rule:admin_required or rule:system_reader"
"""For what belongs to no project: hosts, clusters, sources, providers."""
PROJECT_READER: Final = "rule:project_reader or rule:all_projects"
"""For reading what belongs to a project."""
PROJECT_MEMBER: Final = "rule:project_member or rule:admin_required"
"""For writing what belongs to a project."""
PROJECT_MANAGER: Final = "rule:project_manager or rule:admin_required"
"""For what a project's members may not do to each other. Such a rule needs a reason."""

_PERSONAS: Final = {
    EVERYBODY: ("everybody, without a token", ""),
    ADMIN: ("admin", ""),
    ADMIN_OR_SERVICE: ("service", ""),
    ADMIN_OR_SYSTEM_READER: ("reader of the system", "it shows what belongs to no project, or to all"),
    PROJECT_READER: ("reader of the project or of the system", "it shows what belongs to a project"),
    PROJECT_MEMBER: ("member of the project", "it writes what belongs to a project"),
    PROJECT_MANAGER: ("manager of the project", ""),
}
"""Default -> (its lowest persona, the reason of the rules that declare none; empty: each must declare its own)."""

ALL_PROJECTS: Final = "all_projects"
"""The rule of callers who see the entities of every project."""

ADMIN_ONLY_FIELDS: Final = "admin_only_fields"
"""The rule of callers who see the fields that tell of hosts."""


_READERS: Final = "role:reader or role:member or role:manager"


def base_rules() -> list[policy.RuleDefault]:
    """The named rules with their defaults."""
    return [
        _rule("admin_required", "role:admin", "The persona admin, which does everything in every project."),
        _rule(
            "service_role", "role:service", "The persona service, such as the publisher of a control plane's events."
        ),
        _rule(
            "system_reader",
            f"({_READERS}) and system_scope:all",
            "The persona reader of the system, which reads what belongs to any project or to none.",
        ),
        _rule(
            "project_reader",
            f"({_READERS}) and project_id:%(project_id)s",
            "The persona reader of the project that the entity belongs to.",
        ),
        _rule(
            "project_member",
            "(role:member or role:manager) and project_id:%(project_id)s",
            "The persona member of the project that the entity belongs to.",
        ),
        _rule(
            "project_manager",
            "role:manager and project_id:%(project_id)s",
            "The persona manager of the project that the entity belongs to.",
        ),
        _rule(
            ALL_PROJECTS, ADMIN_OR_SYSTEM_READER, f"See the entities of every project. {_for(ADMIN_OR_SYSTEM_READER)}"
        ),
        _rule(
            ADMIN_ONLY_FIELDS,
            ADMIN_OR_SYSTEM_READER,
            "See the fields that tell of hosts, such as the host of an instance; filter and sort by them. "
            + _for(ADMIN_OR_SYSTEM_READER, "hosts belong to no project"),
        ),
    ]


def _rule(name: str, check: str, description: str) -> policy.RuleDefault:
    return policy.RuleDefault(name, check, description, scope_types=SCOPES)


def rules_of(operations: Iterable[tuple[str, str, RestOperation]]) -> list[policy.RuleDefault]:
    """Returns the named rules, and one default for each rule that an operation names.

    :param operations: (URI template, method, operation).
    :raises TypeError: when two operations name one rule with different defaults, or one has no persona or reason.
    """
    defaults: dict[str, Rule] = {}
    named: dict[str, list[tuple[str, str, RestOperation]]] = {}
    for template, method, operation in operations:
        for rule in (*operation.rules, *operation.more_rules):
            if defaults.setdefault(rule.name, rule) != rule:
                raise TypeError(f"the rule {rule.name} has two defaults")
            named.setdefault(rule.name, []).append((template, method, operation))
    return [*base_rules(), *(_documented(defaults[name], uses) for name, uses in named.items())]


def _for(default: str, reason: str = "", name: str = "") -> str:
    """The sentence that says for which persona a rule is, and why.

    :param reason: what the rule declares.
    :param name: of the rule.
    :raises TypeError: when nothing says it.
    """
    if default not in _PERSONAS:
        known = ", ".join(map(repr, _PERSONAS))
        raise TypeError(f"the rule {name}: no persona has the default {default!r}; there are {known}")
    persona, usual = _PERSONAS[default]
    if not (reason or usual):
        raise TypeError(f"the rule {name}: a rule for {persona} needs a reason")
    return f"For {persona}, because {reason or usual}."


def _documented(rule: Rule, uses: list[tuple[str, str, RestOperation]]) -> policy.DocumentedRuleDefault:
    summaries = "; ".join(dict.fromkeys(operation.summary for _, _, operation in uses)) + "."
    return policy.DocumentedRuleDefault(
        name=rule.name,
        check_str=rule.default,
        description=f"{rule.description or summaries} {_for(rule.default, rule.reason, rule.name)}",
        operations=[{"path": template, "method": method.upper()} for template, method, _ in uses],
        scope_types=None if rule.default == EVERYBODY else SCOPES,
    )
