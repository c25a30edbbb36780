# SPDX-License-Identifier: Apache-2.0
"""``[retention]``: how long history is stored."""

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
Days after which journal rows are purged; 0 sets no limit. A SIGHUP applies a new value.

A reader that is further behind has to start from the tables.

Related options: ``journal_rows``.
""",
    ),
    cfg.IntOpt(
        "journal_rows",
        default=10_000_000,
        min=0,
        mutable=True,
        help="""
Maximum number of journal rows; the oldest ones are purged. 0 sets no limit. A SIGHUP applies a new value.

Related options: ``journal_days``.
""",
    ),
    cfg.FloatOpt(
        "tombstone_hours",
        default=24.0,
        min=0.1,
        mutable=True,
        help="""
Hours for which the tombstone of a deleted entity is stored, so that a late event cannot recreate the entity.

The value must exceed the longest delay of any transport. A SIGHUP applies a new value.
""",
    ),
    cfg.IntOpt(
        "quarantine_days",
        default=30,
        min=0,
        mutable=True,
        help="Days after which quarantined events are purged; 0 sets no limit. A SIGHUP applies a new value.",
    ),
    cfg.IntOpt(
        "operations_days",
        default=90,
        min=0,
        mutable=True,
        help="Days after which ended operations are purged; 0 sets no limit. A SIGHUP applies a new value.",
    ),
    cfg.FloatOpt(
        "interval",
        default=300.0,
        min=1,
        mutable=True,
        help="Seconds between two purges by the leading engine. A SIGHUP applies a new value.",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the group's options."""
    conf.register_opts(OPTS, group=GROUP)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """For oslo-config-generator."""
    return [(GROUP, OPTS)]
