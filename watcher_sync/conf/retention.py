# SPDX-License-Identifier: Apache-2.0
"""``[retention]``: how long history is stored, and how much of it."""

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
        advanced=True,
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
        advanced=True,
        help="Days after which quarantined events are purged; 0 sets no limit. A SIGHUP applies a new value.",
    ),
    cfg.IntOpt(
        "quarantine_events",
        default=200_000,
        min=0,
        mutable=True,
        advanced=True,
        help="""
Maximum number of quarantined events of all sources; 0 sets no limit.

Beyond it the oldest events of the source that has most are dropped, counted and logged. A SIGHUP applies a new value.
""",
    ),
    cfg.IntOpt(
        "quarantine_bytes",
        default=2_147_483_648,
        min=0,
        mutable=True,
        advanced=True,
        help="""
Maximum bytes of the quarantined events of all sources; 0 sets no limit.

Beyond it the oldest events of the source that has most are dropped, counted and logged. A SIGHUP applies a new value.
""",
    ),
    cfg.IntOpt(
        "quarantine_events_per_source",
        default=50_000,
        min=0,
        mutable=True,
        advanced=True,
        help="""
Maximum number of quarantined events of one source; 0 sets no limit.

Beyond nine tenths of it the oldest events are dropped, counted and logged.

A SIGHUP applies a new value.
""",
    ),
    cfg.IntOpt(
        "quarantine_bytes_per_source",
        default=536_870_912,
        min=0,
        mutable=True,
        advanced=True,
        help="""
Maximum bytes of the quarantined events of one source; 0 sets no limit.

Beyond nine tenths of it the oldest events are dropped, counted and logged.

A SIGHUP applies a new value.
""",
    ),
    cfg.IntOpt(
        "parked_events_per_source",
        default=20_000,
        min=0,
        mutable=True,
        advanced=True,
        help="""
Maximum number of parked events of one source; 0 sets no limit.

Beyond nine tenths of it the oldest events are dropped, counted and logged.

A SIGHUP applies a new value.

Related options: ``[engine] parked_ttl``.
""",
    ),
    cfg.IntOpt(
        "parked_bytes_per_source",
        default=67_108_864,
        min=0,
        mutable=True,
        advanced=True,
        help="""
Maximum bytes of the parked events of one source; 0 sets no limit.

Beyond nine tenths of it the oldest events are dropped, counted and logged.

A SIGHUP applies a new value.
""",
    ),
    cfg.IntOpt(
        "parked_events_per_entity",
        default=10_000,
        min=0,
        mutable=True,
        advanced=True,
        help="""
Maximum number of events that may wait for one entity; 0 sets no limit.

Beyond it the oldest events are dropped, counted and logged. A SIGHUP applies a new value.
""",
    ),
    cfg.IntOpt(
        "operations_days",
        default=90,
        min=0,
        mutable=True,
        advanced=True,
        help="Days after which ended operations are purged; 0 sets no limit. A SIGHUP applies a new value.",
    ),
    cfg.FloatOpt(
        "interval",
        default=300.0,
        min=1,
        mutable=True,
        advanced=True,
        help="Seconds between two purges by the leading engine. A SIGHUP applies a new value.",
    ),
]
