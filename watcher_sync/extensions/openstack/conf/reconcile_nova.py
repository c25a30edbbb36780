# SPDX-License-Identifier: Apache-2.0
"""``[reconcile_nova]``: the cloud that the reconciler ``nova`` asks; the account is that of ``cloud_account``."""

from __future__ import annotations

from oslo_config import cfg

from watcher_sync.conf import cloud_account

GROUP = "reconcile_nova"

OPTS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "enabled",
        default=False,
        help="""
Whether the model is compared with Nova's API.

Notifications report only changes. The comparison finds what existed before, what notifications lost, and facts that
Nova never publishes. While it has never been complete, ``/readyz`` of the engine reports an incomplete inventory.

Related options: ``cloud``, ``auth_type``, ``[reconcile] enabled``.
""",
    ),
    *cloud_account.OPTS,
    cfg.FloatOpt(
        "interval",
        default=3600,
        min=1,
        mutable=True,
        advanced=True,
        help="""
Seconds between two complete comparisons.

``[reconcile] jitter`` applies to it. A SIGHUP applies a new value at once.

Related options: ``changes_interval``.
""",
    ),
    cfg.FloatOpt(
        "changes_interval",
        default=300,
        min=1,
        mutable=True,
        advanced=True,
        help="""
Seconds between two comparisons of the servers that changed since the last one (``changes-since``).

Such a comparison needs one request where nothing changed. It does not compare hosts and aggregates. A SIGHUP applies
a new value at once.

Related options: ``interval``.
""",
    ),
    cfg.FloatOpt(
        "run_timeout",
        default=600,
        min=1,
        mutable=True,
        advanced=True,
        help="""
Seconds after which a comparison counts as failed. It takes the place of ``[reconcile] timeout``.
""",
    ),
    cfg.ListOpt(
        "ignore_projects",
        default=[],
        advanced=True,
        help="""
Ids of projects whose servers are not compared. The comparison neither writes nor deletes them.
""",
    ),
    cfg.ListOpt(
        "ignore_zones",
        default=[],
        advanced=True,
        help="""
Availability zones whose hosts are not compared, nor the servers on them.
""",
    ),
    cfg.ListOpt(
        "ignore_aggregates",
        default=[],
        advanced=True,
        help="""
Names of host aggregates whose hosts are not compared, nor the servers on them. The aggregates themselves are not
compared either.
""",
    ),
    cfg.BoolOpt(
        "ignore_ironic",
        default=True,
        help="""
Whether bare metal is left out: hypervisors of the type ironic, their hosts, and the servers on them.

One compute service of ironic has many hypervisors, so its capacity is not that of one host.
""",
    ),
]


def is_configured(conf: cfg.ConfigOpts) -> bool:
    """Whether the files have the section."""
    return GROUP in conf.list_all_sections()
