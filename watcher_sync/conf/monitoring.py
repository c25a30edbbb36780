# SPDX-License-Identifier: Apache-2.0
"""``[monitoring]``: the monitoring HTTP server, and when a source is stale."""

from __future__ import annotations

from oslo_config import cfg

GROUP = "monitoring"

OPTS: list[cfg.Opt] = [
    cfg.PortOpt(
        "port",
        default=0,
        help="""
TCP port on which the engine serves ``/healthz``, ``/readyz`` and ``/metrics``; 0 disables the server.

Engines on one machine need different ports. The engine does not start if the port is in use.

Related options: ``host``.
""",
    ),
    cfg.HostAddressOpt(
        "host",
        default="127.0.0.1",
        help="""
Address on which the engine serves ``port``.

The server does not authenticate. A client can read the names of the sources and the number of entities of each kind,
and nothing more. For a Prometheus server on another machine, use an address of the management network.

Related options: ``port``.
""",
    ),
    cfg.FloatOpt(
        "stale_after",
        default=20.0,
        min=1,
        mutable=True,
        advanced=True,
        help="""
Seconds after which a source is stale because it is disconnected, or because no engine has written its status.

An engine that has not written its own row for this time is shown as gone. A stale source makes ``/readyz`` and the
API's ``/healthcheck`` answer 503. The value must exceed ``status_interval``. A SIGHUP applies a new value.

Related options: ``idle_after``, ``status_interval``.
""",
    ),
    cfg.FloatOpt(
        "idle_after",
        default=0.0,
        min=0,
        mutable=True,
        advanced=True,
        help="""
Seconds after which a connected source is stale because it received no event; 0 sets no limit.

Set it only for sources that always receive events, such as Nova with ``instance_usage_audit`` on a busy cloud. A small
site may have no events at night. A SIGHUP applies a new value.

Related options: ``stale_after``.
""",
    ),
    cfg.FloatOpt(
        "status_interval",
        default=3.0,
        min=0.1,
        max=300,
        advanced=True,
        help="""
Seconds between two writes of the engine's state and of its sources' state to the database.

The API and other processes read the states there.

Related options: ``stale_after``.
""",
    ),
]
