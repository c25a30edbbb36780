# SPDX-License-Identifier: Apache-2.0
"""``[api]``: the REST API, and the login with user and password, which the page offers."""

from __future__ import annotations

from oslo_config import cfg

from watcher_sync.conf.networks import NetworkText

GROUP = "api"

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "auth_strategy",
        default="keystone",
        choices=[
            ("keystone", "Keystone tokens, which keystonemiddleware checks as configured in [keystone_authtoken]."),
            ("noauth", "No authentication. Every client on the loopback interface may read and write everything."),
        ],
        help="""
How the API authenticates its clients.

With ``noauth`` the API serves only clients on the loopback interface, unless ``noauth_allow_remote`` is set.

Related options:

* ``noauth_allow_remote``
* the section ``[keystone_authtoken]``
""",
    ),
    cfg.BoolOpt(
        "noauth_allow_remote",
        default=False,
        advanced=True,
        help="""
Serve clients on other machines without authentication.

With ``auth_strategy = noauth`` every client that reaches the port may read and write everything. Set this option only
if another component restricts access, such as a proxy that authenticates.

Related options: ``auth_strategy``.
""",
    ),
    cfg.ListOpt(
        "allowed_hosts",
        default=[],
        help="""
Host names, without ports, that the ``Host`` header of a request may have. The API answers another one with 403.

By default every host is allowed with ``auth_strategy = keystone``. With ``noauth`` only the hosts of the loopback
interface are allowed, and those of this option.
""",
    ),
    cfg.ListOpt(
        "allowed_origins",
        default=[],
        advanced=True,
        help="""
Origins of web pages of other hosts that may use the API, such as ``https://console.example.com``.

A browser sends the header ``Origin``. The API answers a request with another origin than its own ``Host`` with 403.
Set this option if a proxy replaces the ``Host`` header.
""",
    ),
    cfg.HostAddressOpt(
        "host",
        default="127.0.0.1",
        help="""
Address that the development server ``watcher-sync-api`` listens on.

A production WSGI server has a setting of its own for its address.

Related options: ``port``.
""",
    ),
    cfg.PortOpt(
        "port",
        default=8790,
        help="""
TCP port that the development server ``watcher-sync-api`` listens on.

Related options: ``host``.
""",
    ),
    cfg.BoolOpt(
        "metrics",
        default=False,
        advanced=True,
        help="""
Serve ``/metrics`` for Prometheus: the engines, their sources, the journal and the drifts, as the database has them.

The request needs no token. A client can read the names of engine groups, hosts of engines and sources, and nothing
more. Let the proxy in front of the API restrict the path to the monitoring system.
""",
    ),
    cfg.BoolOpt(
        "access_log",
        default=True,
        advanced=True,
        help="""
Write a log line for each request: method, path without the query, status, bytes, milliseconds, user, project and
request id.

The logger is ``watcher_sync.access``. A write also has a line in the logger ``watcher_sync.audit``, in any case.
""",
    ),
    cfg.BoolOpt(
        "audit",
        default=False,
        help="""
Send CADF notifications of requests by keystonemiddleware's audit middleware.

Related options:

* ``audit_map_file``
* ``audit_ignored_methods``
* the sections ``[audit_middleware_notifications]`` and ``[oslo_messaging_notifications]``
""",
    ),
    cfg.StrOpt(
        "audit_map_file",
        default="/etc/watcher-sync/api_audit_map.conf",
        help="""
File that maps the API's paths to the resources of CADF notifications.

Related options: ``audit``.
""",
    ),
    cfg.ListOpt(
        "audit_ignored_methods",
        default=["GET", "HEAD", "OPTIONS"],
        help="""
HTTP methods of which no CADF notification is sent. The default sends notifications of writes only.

Related options: ``audit``.
""",
    ),
    cfg.IntOpt(
        "max_limit",
        default=1000,
        min=1,
        max=10_000,
        advanced=True,
        help="Maximum number of entries in one page of a list. It limits the query parameter ``limit``.",
    ),
    cfg.IntOpt(
        "max_past_mib",
        default=256,
        min=0,
        advanced=True,
        help="""
Maximum memory in MiB that one worker process has for copies of past models, between requests.

A list with ``as_of`` comes from a copy of its kind as it was then. 20,000 instances take about 12 MiB. Later pages and
other requests of the same moment use the same copy. Above the limit, the copies that were not used for the longest time
are dropped; the last one is always retained.
""",
    ),
    cfg.IntOpt(
        "max_body_bytes",
        default=4_194_304,
        min=1024,
        advanced=True,
        help="Maximum size of a request body in bytes. The API answers a larger request with 413.",
    ),
    cfg.IntOpt(
        "max_streams",
        default=64,
        min=0,
        advanced=True,
        help="""
Maximum number of concurrent event streams and long polls in one worker process. The API answers a further one
with 503.

Each stream occupies one thread of the WSGI server. The value must be smaller than the number of threads, because the
remaining threads serve ordinary requests.
""",
    ),
    cfg.IntOpt(
        "max_streams_per_identity",
        default=16,
        min=1,
        advanced=True,
        help="""
Maximum number of concurrent event streams and long polls of one identity in one worker process. The API answers a
further one with 429.

An identity is a user in a project. Without a token it is the address of the client, with IPv6 its /64 network.

Related options: ``max_streams``, ``trusted_proxies``.
""",
    ),
    cfg.FloatOpt(
        "write_rate",
        default=100.0,
        min=0,
        advanced=True,
        help="""
Number of writes a second that one identity may make in one worker process. 0: no limit. The API answers a further
write with 429 and ``Retry-After``.

An identity is a user in a project. Without a token it is the address of the client, with IPv6 its /64 network.

Related options: ``write_burst``, ``trusted_proxies``.
""",
    ),
    cfg.IntOpt(
        "write_burst",
        default=1000,
        min=1,
        advanced=True,
        help="""
Number of writes that one identity may make at once, after it made none for a while.

Related options: ``write_rate``.
""",
    ),
    cfg.FloatOpt(
        "stream_rate",
        default=2.0,
        min=0,
        advanced=True,
        help="""
Number of event streams and long polls a second that one identity may begin in one worker process. 0: no limit. The API
answers a further one with 429 and ``Retry-After``. A long poll counts if it waits without
finding a change.

Related options: ``stream_burst``, ``max_streams_per_identity``, ``trusted_proxies``.
""",
    ),
    cfg.IntOpt(
        "stream_burst",
        default=100,
        min=1,
        advanced=True,
        help="""
Number of event streams and long polls that one identity may begin at once, after it began none for a while.

Related options: ``stream_rate``.
""",
    ),
    cfg.IntOpt(
        "quota_watch_topics",
        default=1000,
        min=-1,
        advanced=True,
        help="""
Maximum number of watch topics of one project. -1: no limit. The API answers a request that would create a further one
with 403.
""",
    ),
    cfg.IntOpt(
        "quota_vnf_instances",
        default=1000,
        min=-1,
        advanced=True,
        help="""
Maximum number of VNF instances in one project. -1: no limit. The API answers a request that would create a further
one with 403.
""",
    ),
    cfg.IntOpt(
        "quota_service_type_instances",
        default=1000,
        min=-1,
        advanced=True,
        help="""
Maximum number of instances of service types in one project. -1: no limit. The API answers a request that would create
a further one with 403.
""",
    ),
    cfg.FloatOpt(
        "stream_max_age",
        default=600.0,
        min=1,
        advanced=True,
        help="""
Maximum duration of an event stream in seconds. The server ends the stream then.

The client reconnects with the id of the last event that it received, and misses no event.

Related options: ``stream_heartbeat``.
""",
    ),
    cfg.FloatOpt(
        "stream_heartbeat",
        default=5.0,
        min=0.1,
        max=10,
        advanced=True,
        help="""
Seconds without an event after which the server sends a heartbeat in an event stream.

Related options: ``stream_max_age``.
""",
    ),
    cfg.BoolOpt(
        "page_login",
        default=True,
        advanced=True,
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
        advanced=True,
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
        advanced=True,
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

Links in answers begin with the path in ``X-Forwarded-Prefix``. A proxy of this list must set it to the path that it
removes from requests, or clear it.

Related options: ``login_failure_rate``, ``write_rate``, ``stream_rate``, ``max_streams_per_identity``.
""",
    ),
]
