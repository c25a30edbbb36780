# SPDX-License-Identifier: Apache-2.0
"""``[liveness]``: when a host counts as down."""

from __future__ import annotations

from oslo_config import cfg

GROUP = "liveness"

OPTS: list[cfg.Opt] = [
    cfg.FloatOpt(
        "silent_after",
        default=600.0,
        min=0,
        mutable=True,
        help="""
Seconds without an event of a host after which the host is down, while other hosts of its source publish; 0 disables
the rule.

Only events that the compute service of the host itself publishes count. Time in which the whole source is silent or
disconnected does not count, except for the first half of this value. A newer event, or a list of services that reports
the host as up, makes it up again.

A host without work publishes nothing. With ``[reconcile_nova] enabled`` Nova's API is therefore asked before a silent
host is down, and decides. Without it, set ``instance_usage_audit = true`` and ``instance_usage_audit_period = hour``
in Nova and a value above 3600, or disable the rule. A SIGHUP applies a new value.

Related options: ``[reconcile_nova] enabled``.
""",
    ),
]
