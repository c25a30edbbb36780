# SPDX-License-Identifier: Apache-2.0
"""``[retention]``: how long history is kept."""

from __future__ import annotations

from oslo_config import cfg

GROUP = "retention"

OPTS: list[cfg.Opt] = [
    cfg.IntOpt(
        "journal_days",
        default=7,
        min=0,
        mutable=True,
        help="""
Days after which journal rows are purged; 0 keeps them for ever.

A reader that is further behind than this has to start from the tables.
""",
    ),
    cfg.IntOpt(
        "journal_rows",
        default=10_000_000,
        min=0,
        mutable=True,
        help="Journal rows to keep at most; 0 sets no limit.",
    ),
    cfg.FloatOpt(
        "tombstone_hours",
        default=24.0,
        min=0.1,
        mutable=True,
        help="""
Hours that a deleted entity is remembered, so that an event that comes too late cannot bring it back.

Must be longer than the longest delay of any transport.
""",
    ),
    cfg.IntOpt(
        "quarantine_days",
        default=30,
        min=0,
        mutable=True,
        help="Days after which quarantined events are purged; 0 keeps them for ever.",
    ),
    cfg.IntOpt(
        "operations_days",
        default=90,
        min=0,
        mutable=True,
        help="Days after which operations that ended are purged; 0 keeps them for ever.",
    ),
    cfg.FloatOpt(
        "interval",
        default=300.0,
        min=1,
        mutable=True,
        help="Seconds between two purges by the leading engine.",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the group's options."""
    conf.register_opts(OPTS, group=GROUP)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """For oslo-config-generator."""
    return [(GROUP, OPTS)]
