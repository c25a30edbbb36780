# SPDX-License-Identifier: Apache-2.0
"""``[monitoring]``: the engine's own port, and when a source is taken for stale."""

from __future__ import annotations

from oslo_config import cfg

GROUP = "monitoring"

OPTS: list[cfg.Opt] = [
    cfg.PortOpt(
        "port",
        default=0,
        help="""
TCP port on which the engine answers ``/healthz``, ``/readyz`` and ``/metrics``; 0 opens none.

Engines on one machine need different ports. A port that is taken stops the engine at its start.

Related options: ``host``.
""",
    ),
    cfg.HostAddressOpt(
        "host",
        default="127.0.0.1",
        help="""
Address on which ``port`` is opened.

There is no authentication: whoever reaches it can read the names of the sources and how many entities
of each kind there are, and nothing more. Use an address of the management network for a Prometheus on
another machine.
""",
    ),
    cfg.FloatOpt(
        "stale_after",
        default=60.0,
        min=1,
        mutable=True,
        help="""
Seconds after which a source is stale that has no connection, or of which no engine has told.

A stale source makes ``/readyz`` and the API's ``/healthcheck`` answer 503. Has to be longer than
``status_interval``. Can be changed by SIGHUP.
""",
    ),
    cfg.FloatOpt(
        "idle_after",
        default=0.0,
        min=0,
        mutable=True,
        deprecated_name="silent_after",
        help="""
Seconds after which a connected source is stale because no event came in; 0 lets it be silent for ever.

Set it only where something is always heard: Nova with ``instance_usage_audit`` on a busy cloud, not a
small site at night. Can be changed by SIGHUP.
""",
    ),
    cfg.FloatOpt(
        "status_interval",
        default=3.0,
        min=0.1,
        max=300,
        help="""
Seconds between two writes of what the sources are doing to the table ``source_status``, where the API
and other processes read it.
""",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the group's options."""
    conf.register_opts(OPTS, group=GROUP)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """For oslo-config-generator."""
    return [(GROUP, OPTS)]
