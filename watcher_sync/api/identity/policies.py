# SPDX-License-Identifier: Apache-2.0
"""Collects the policy's rules and their defaults from the operations. A policy file overrides the defaults."""

from __future__ import annotations

from collections.abc import Iterable

from oslo_policy import policy

from watcher_sync.api.http.operation import RestOperation, Rule
from watcher_sync.api.http.rules import EVERYBODY, SCOPES, base_rules


def rules_of(operations: Iterable[tuple[str, str, RestOperation]]) -> list[policy.RuleDefault]:
    """Returns the named rules, and one default for each rule that an operation names.

    :param operations: (URI template, method, operation).
    :raises TypeError: when two operations name one rule with different defaults.
    """
    defaults: dict[str, Rule] = {}
    named: dict[str, list[tuple[str, str, RestOperation]]] = {}
    for template, method, operation in operations:
        for rule in (*operation.rules, *operation.more_rules):
            if defaults.setdefault(rule.name, rule) != rule:
                raise TypeError(f"the rule {rule.name} has two defaults")
            named.setdefault(rule.name, []).append((template, method, operation))
    return [*base_rules(), *(_documented(defaults[name], uses) for name, uses in named.items())]


def _documented(rule: Rule, uses: list[tuple[str, str, RestOperation]]) -> policy.DocumentedRuleDefault:
    summaries = "; ".join(dict.fromkeys(operation.summary for _, _, operation in uses)) + "."
    return policy.DocumentedRuleDefault(
        name=rule.name,
        check_str=rule.default,
        description=rule.description or summaries,
        operations=[{"path": template, "method": method.upper()} for template, method, _ in uses],
        scope_types=None if rule.default == EVERYBODY else SCOPES,
    )
