# SPDX-License-Identifier: Apache-2.0
"""``[engine]``: sources, batches, leadership and shutdown."""

from __future__ import annotations

from oslo_config import cfg

GROUP = "engine"

OPTS: list[cfg.Opt] = [
    cfg.ListOpt(
        "enabled_sources",
        default=[],
        help="""
Names of the sources that this engine listens to, such as ``nova, edge``.

Each name stands for a group ``[source_<name>]`` whose option ``driver`` says what it is. Several sources
may use the same driver. Scale out by giving engines of different ``group`` different sources and the
same database.
""",
    ),
    cfg.IntOpt(
        "batch_size",
        default=500,
        min=1,
        max=10_000,
        mutable=True,
        help="""
How many events are collected for one database transaction.

While more wait than that, up to four batches share a transaction, and the next ones are dispatched while the
database works at it; up to ten batches of a source are in the engine's hands then. Larger batches raise the
throughput and the memory needed. Can be changed by SIGHUP.
""",
    ),
    cfg.FloatOpt(
        "batch_linger",
        default=0.02,
        min=0,
        max=5,
        mutable=True,
        help="""
How long, in seconds, to wait for a batch to fill up while events are flowing.

It never delays an event that comes alone. Can be changed by SIGHUP.
""",
    ),
    cfg.StrOpt(
        "group",
        default="default",
        max_length=200,
        help="""
Name of the engine group. Engines of one group share a lease in the database: one leads, the others
stand by. Engines with different sources belong in different groups.
""",
    ),
    cfg.BoolOpt(
        "standby",
        default=False,
        help="""
Whether to stand by while another engine of the group leads.

True: keep a warm replica and take over when the leader stops or dies. False: refuse to start, because a
second engine was probably started by mistake.
""",
    ),
    cfg.FloatOpt(
        "lease_time",
        default=6.0,
        min=1,
        max=300,
        help="""
Seconds without a sign of life after which the leader is taken for dead and a standby takes over.

Must be the same for all engines of a group.
""",
    ),
    cfg.FloatOpt(
        "journal_poll_interval",
        default=0.5,
        min=0.05,
        max=60,
        mutable=True,
        deprecated_name="follow_interval",
        help="""
Seconds between two looks at the journal of a replica that has nothing else to do: a standby's, or an
idle engine's beside other writers.
""",
    ),
    cfg.IntOpt(
        "graceful_shutdown_timeout",
        default=10,
        min=1,
        max=600,
        help="""
Seconds that a SIGTERM gives the engine to finish and acknowledge what is in hand. What is not finished
by then was not acknowledged and is delivered again.
""",
    ),
    cfg.FloatOpt(
        "parked_ttl",
        default=3600,
        min=1,
        mutable=True,
        deprecated_name="parked_time",
        help="""
Seconds that an event waits for the entity it speaks of. After that it is counted as expired and dropped
with one warning.
""",
    ),
    cfg.FloatOpt(
        "liveness_interval",
        default=60,
        min=1,
        mutable=True,
        help="""
Seconds between two writes of one entity's ``last_heard``. In memory it is always current.
""",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the group's options."""
    conf.register_opts(OPTS, group=GROUP)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """For oslo-config-generator."""
    return [(GROUP, OPTS)]
