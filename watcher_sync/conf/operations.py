# SPDX-License-Identifier: Apache-2.0
"""``[operations]``: the leases of life-cycle operations and syncs."""

from __future__ import annotations

from oslo_config import cfg

GROUP = "operations"

OPTS: list[cfg.Opt] = [
    cfg.FloatOpt(
        "lease_time",
        default=30.0,
        min=1,
        max=86_400,
        mutable=True,
        advanced=True,
        help="""
Seconds without a heartbeat after which an operation lease expires and another client may take it over.

A life-cycle manager sends at least three heartbeats in this time. With a short time a crashed manager blocks its
instance only briefly. With a long time a manager survives a longer interruption of its network. The value must be the
same for all API workers and engines. A SIGHUP applies a new value.
""",
    ),
]
