# SPDX-License-Identifier: Apache-2.0
"""``[api]``: the REST API."""

from __future__ import annotations

from oslo_config import cfg

GROUP = "api"

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "auth_strategy",
        default="keystone",
        choices=[
            ("keystone", "Tokens of Keystone, checked by keystonemiddleware as [keystone_authtoken] says."),
            ("noauth", "No tokens: whoever reaches the API may do everything. Loopback only."),
        ],
        help="""
How callers are known.

With ``noauth`` the API serves nobody but callers on the loopback interface, unless
``noauth_allow_remote`` says otherwise.

Related options:

* ``noauth_allow_remote``
* the section ``[keystone_authtoken]``
""",
    ),
    cfg.BoolOpt(
        "noauth_allow_remote",
        default=False,
        deprecated_name="noauth_beyond_loopback",
        help="""
Serve other machines without any authentication.

With ``auth_strategy = noauth`` everybody who reaches the port may read and write everything. Set this only
where something else keeps strangers away, such as a proxy that authenticates.
""",
    ),
    cfg.HostAddressOpt(
        "host",
        default="127.0.0.1",
        help="""
Address that the development server ``watcher-sync-api`` listens on.

A production WSGI server has a setting of its own for it.
""",
    ),
    cfg.PortOpt(
        "port",
        default=8775,
        help="Port that the development server ``watcher-sync-api`` listens on.",
    ),
    cfg.IntOpt(
        "max_limit",
        default=1000,
        min=1,
        max=10_000,
        help="The most entries that one page of a list may have.",
    ),
    cfg.IntOpt(
        "max_body_bytes",
        default=4_194_304,
        min=1024,
        help="The most bytes that the body of a request may have; a larger one is refused with 413.",
    ),
    cfg.IntOpt(
        "max_streams",
        default=64,
        min=0,
        help="""
Event streams and long polls that one worker process serves at a time; one more is refused with 503.

Each of them occupies a thread of the WSGI server for as long as it lasts, so this must be smaller than the
number of threads: the rest is what serves ordinary requests.
""",
    ),
    cfg.FloatOpt(
        "stream_max_age",
        default=600.0,
        min=1,
        deprecated_name="stream_life",
        help="""
Seconds after which an event stream is ended by the server.

The client connects again with the id of the last event it saw and misses nothing.
""",
    ),
    cfg.FloatOpt(
        "stream_heartbeat",
        default=5.0,
        min=0.1,
        max=10,
        help="Seconds of silence after which an event stream carries a heartbeat.",
    ),
    cfg.FloatOpt(
        "feed_poll_interval",
        default=0.1,
        min=0.01,
        max=1,
        deprecated_name="follow_interval",
        help="""
Seconds between two looks at the journal while somebody waits for events.

One thread of each worker process looks, whatever the number of streams; while nobody waits, none does.
""",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the group's options."""
    conf.register_opts(OPTS, group=GROUP)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """For oslo-config-generator."""
    return [(GROUP, OPTS)]
