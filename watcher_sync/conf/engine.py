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
Names of the sources that this engine reads, such as ``nova, edge``.

Each name refers to a section ``[source_<name>]``, whose option ``driver`` names the driver. Several sources may use the
same driver. To scale out, give engines of different groups different sources and the same database.

Related options: ``group``.
""",
    ),
    cfg.IntOpt(
        "batch_size",
        default=500,
        min=1,
        max=10_000,
        mutable=True,
        advanced=True,
        help="""
Maximum number of events in a batch. The engine commits each batch in one database transaction.

While at least a whole batch waits, up to four batches share a transaction. The engine dispatches the next ones during
the commit. It then holds up to ten batches of each source in memory. Larger batches increase throughput and memory
use. A SIGHUP applies a new value.

Related options: ``batch_linger``.
""",
    ),
    cfg.IntOpt(
        "max_bytes_in_hand",
        default=16_777_216,
        min=1_048_576,
        mutable=True,
        advanced=True,
        help="""
Maximum bytes of the events of one source that the engine has accepted and not yet acknowledged.

Above it the source waits. Batches are limited by the same value: a batch by a tenth of it, a joined transaction by four
tenths. One event that is larger passes alone. A SIGHUP applies a new value.

Related options: ``batch_size``, and ``max_event_size`` of the sources.
""",
    ),
    cfg.FloatOpt(
        "batch_linger",
        default=0.02,
        min=0,
        max=5,
        mutable=True,
        advanced=True,
        help="""
Seconds to wait for a batch to fill while events are flowing; 0 does not wait.

A lone event is never delayed. A SIGHUP applies a new value.

Related options: ``batch_size``.
""",
    ),
    cfg.StrOpt(
        "group",
        default="default",
        max_length=200,
        help="""
Name of the engine group.

The engines of a group share a lease in the database: one of them leads, and the others are standbys. Engines with
different sources must be in different groups.

Related options: ``standby``, ``[database] lease_time``.
""",
    ),
    cfg.BoolOpt(
        "standby",
        default=False,
        help="""
Whether this engine may be a standby while another engine of its group leads.

True: the engine maintains a warm replica of the model, and takes over when the leader stops or fails. False: the
engine refuses to start, because a second engine was probably started by mistake.

Related options: ``group``, ``[database] lease_time``.
""",
    ),
    cfg.IntOpt(
        "graceful_shutdown_timeout",
        default=10,
        min=1,
        max=600,
        advanced=True,
        help="""
Seconds that the engine has after a SIGTERM to commit and acknowledge the events in hand.

Events that are not committed by then are not acknowledged, and their transport delivers them again.
""",
    ),
    cfg.FloatOpt(
        "parked_ttl",
        default=3600,
        min=1,
        mutable=True,
        advanced=True,
        help="""
Seconds that a parked event waits for its entity.

After this time the engine drops the event, counts it as expired, and logs a warning. A SIGHUP applies a new value.
""",
    ),
    cfg.FloatOpt(
        "max_clock_skew",
        default=300,
        min=0,
        max=10 * 365 * 86_400,
        mutable=True,
        advanced=True,
        help="""
Seconds that a time in an event may be ahead of this system's clock.

An event whose time is further ahead is quarantined. Its change would be newer than every change to come, so the entity
would never change again. The event can be replayed from quarantine when its time has come. This applies to the time of
an event, to times in payloads that order changes, and to the creation time of a stream. It also applies to events from
``POST /v1/events`` and ``watcher-sync-manage replay``.

Synchronize the clocks of all hosts that publish events, of the brokers and of this system by NTP, and alert on skew.
With NTP, one second suffices. A SIGHUP applies a new value.
""",
    ),
    cfg.FloatOpt(
        "event_watchdog",
        default=10,
        min=0,
        mutable=True,
        advanced=True,
        help="""
Seconds after which the engine reports an event whose handler has not ended; 0 never reports.

The report is an error in the log. It names the event, its source, its handler and the place in the code. The log
repeats it after twice the time, four times the time, and so on. Meanwhile ``/readyz`` answers 503, and ``/healthz``
does after six times the time. A SIGHUP applies a new value.
""",
    ),
    cfg.IntOpt(
        "max_deliveries",
        default=3,
        min=1,
        mutable=True,
        advanced=True,
        help="""
Ends of the engine's process after which an event that was alone in hand at each of them is quarantined.

A handler may end the process, such as by a defect in a C extension. The next process finds the events that were in hand
in a file in ``state_path``, and dispatches them one by one. An end with a batch of several events in hand does not
count. No handler gets an event that reached this number. A SIGHUP applies a new value, and a higher one lets handlers
have the refused events again.

Related options: ``max_deliveries`` of a source with the driver ``nats_jetstream``, which counts deliveries.
""",
    ),
    cfg.FloatOpt(
        "liveness_interval",
        default=60,
        min=1,
        mutable=True,
        advanced=True,
        help="""
Seconds between two writes of an entity's ``last_heard`` to the database.

The value in memory is always current. A SIGHUP applies a new value.
""",
    ),
]
