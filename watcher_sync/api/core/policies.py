# SPDX-License-Identifier: Apache-2.0
"""Collects the policy's rules and their defaults from the operations. A policy file overrides the defaults."""

from __future__ import annotations

from collections.abc import Iterable

from oslo_policy import policy

from watcher_sync.api.core.operation import Operation, Rule
from watcher_sync.api.core.request_context import ADMIN, ALL_PROJECTS, EVERYTHING, FORCE_END


def rules_of(operations: Iterable[tuple[str, str, Operation]]) -> list[policy.RuleDefault]:
    """Returns one default for each rule that an operation names, for ``all_projects`` and for forced ends.

    :param operations: (URI template, method, operation).
    :raises TypeError: when two operations name one rule with different defaults.
    """
    defaults: dict[str, Rule] = {}
    named: dict[str, list[tuple[str, str, Operation]]] = {}
    for template, method, operation in operations:
        rule = operation.rule
        if defaults.setdefault(rule.name, rule) != rule:
            raise TypeError(f"the rule {rule.name} has two defaults")
        named.setdefault(rule.name, []).append((template, method, operation))
    all_projects = policy.RuleDefault(ALL_PROJECTS, EVERYTHING, "See the entities of every project.")
    force_end = policy.RuleDefault(FORCE_END, ADMIN, "End an operation of another owner, without its secret.")
    return [all_projects, force_end, *(_documented(defaults[name], uses) for name, uses in named.items())]


def _documented(rule: Rule, uses: list[tuple[str, str, Operation]]) -> policy.DocumentedRuleDefault:
    return policy.DocumentedRuleDefault(
        name=rule.name,
        check_str=rule.default,
        description="; ".join(dict.fromkeys(operation.summary for _, _, operation in uses)) + ".",
        operations=[{"path": template, "method": method.upper()} for template, method, _ in uses],
    )
