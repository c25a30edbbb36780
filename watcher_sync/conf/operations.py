# SPDX-License-Identifier: Apache-2.0
"""``[operations]``: the leases of life-cycle operations and of syncs."""

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
        help="""
Seconds that the holder of an operation lease may be silent before another may take the lease over.

A life-cycle manager says at least three times in this time that it lives. Shorter, and a crashed
manager keeps an instance from being synced and changed for a shorter time; longer, and a manager may be cut off for
longer without losing its lease. Has to be the same for all API workers and engines. Can be changed by
SIGHUP.
""",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the group's options."""
    conf.register_opts(OPTS, group=GROUP)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """For oslo-config-generator."""
    return [(GROUP, OPTS)]
