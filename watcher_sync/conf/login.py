# SPDX-License-Identifier: Apache-2.0
"""Further options of ``[api]``: the login with user and password, which the page offers."""

from __future__ import annotations

from oslo_config import cfg

from watcher_sync.conf.api import GROUP
from watcher_sync.conf.networks import NetworkText

OPTS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "page_login",
        default=True,
        help="""
Offer a login with user and password: ``POST /v1/login``, and a form on the page.

The API gets a token from Keystone at the ``auth_url`` of ``[keystone_authtoken]``, or else at its
``www_authenticate_uri``, and gives it to the client. It stores neither the password nor the token.

The option has no effect with ``auth_strategy = noauth``. If it is false, the page only takes a token.

Related options: ``auth_strategy``, ``login_failure_rate``, ``login_failure_burst``.
""",
    ),
    cfg.FloatOpt(
        "login_failure_rate",
        default=0.1,
        min=0,
        help="""
Number of failed logins a second that one client address may have in one worker process. 0: no limit. The API answers a
further login with 429 and ``Retry-After``, without asking Keystone.

The addresses of one IPv6 network of 64 bits count as one.

Related options: ``login_failure_burst``, ``trusted_proxies``.
""",
    ),
    cfg.IntOpt(
        "login_failure_burst",
        default=10,
        min=1,
        help="""
Number of failed logins that one client address may have at once, after it had none for a while.

Related options: ``login_failure_rate``.
""",
    ),
    cfg.ListOpt(
        "trusted_proxies",
        default=[],
        item_type=NetworkText(),
        help="""
Networks and addresses of proxies whose ``X-Forwarded-For`` names the client of a request. The limits of failed logins,
and those of writes and event streams without a token, hold for this client. If the option is not empty, a Unix socket
counts as such a proxy, too.

A proxy of this list must append the address of its client to the header, or replace the header. Without the option, all
clients behind a proxy share the limits of the address of the proxy.

Related options: ``login_failure_rate``, ``write_rate``, ``stream_rate``, ``max_streams_per_identity``.
""",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the options."""
    conf.register_opts(OPTS, group=GROUP)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """For oslo-config-generator."""
    return [(GROUP, OPTS)]
