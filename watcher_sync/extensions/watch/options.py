# SPDX-License-Identifier: Apache-2.0
"""``[outlet_watch]``: the gRPC watch stream of ``watcher-sync-outlet``."""

from __future__ import annotations

from oslo_config import cfg

GROUP = "outlet_watch"

OPTS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "enabled",
        help="""
Serve the watch stream.

By default it is served if a configuration file has the section ``[outlet_watch]``.
""",
    ),
    cfg.HostAddressOpt(
        "host",
        default="127.0.0.1",
        help="""
Address that the watch stream is served on.

Related options: ``port``, ``tls_cert``.
""",
    ),
    cfg.PortOpt(
        "port",
        default=8776,
        min=1,
        help="""
TCP port that the watch stream is served on. If it is in use, the outlet retries.

Related options: ``host``.
""",
    ),
    cfg.StrOpt(
        "auth_strategy",
        choices=[
            ("keystone", "Keystone tokens, which keystonemiddleware checks as configured in [keystone_authtoken]."),
            ("jwt", "Signed JSON Web Tokens, which a key of jwt_key_files verifies."),
            ("noauth", "No authentication. Every client on the loopback interface may see everything."),
        ],
        help="""
How the watch stream authenticates its clients. By default as the API: ``[api] auth_strategy``.

With ``jwt`` the API takes these tokens, too: as Bearer tokens for watch topics, their events, and all below ``/apis``.

The rules of the API's policy decide what a client may see, with each strategy.

With ``noauth`` the outlet serves an address of the loopback interface only, unless ``noauth_allow_remote`` is set.

Related options:

* ``noauth_allow_remote``
* ``jwt_key_files``, ``jwt_algorithms``, ``jwt_issuer``, ``jwt_audience``, ``jwt_accept_any``
* the section ``[keystone_authtoken]``
""",
    ),
    cfg.BoolOpt(
        "noauth_allow_remote",
        default=False,
        advanced=True,
        help="""
Serve clients on other machines without authentication.

With ``auth_strategy = noauth`` every client that reaches the port may see everything. Set this option only if another
component restricts access, such as a proxy that authenticates.

Related options: ``auth_strategy``, ``host``.
""",
    ),
    cfg.ListOpt(
        "jwt_key_files",
        default=[],
        help="""
Files with the keys that verify JSON Web Tokens: a public key in PEM, or a secret of at least 32 bytes. A token may be
signed with the key of any of the files, so a new key can be added before the old one is removed.

Related options: ``auth_strategy``, ``jwt_algorithms``.
""",
    ),
    cfg.ListOpt(
        "jwt_algorithms",
        default=["RS256"],
        advanced=True,
        help="""
Signature algorithms (RFC 7518) that a JSON Web Token may have.

Those with a public key are RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512 and EdDSA. Those with a secret
are HS256, HS384 and HS512. The two kinds exclude each other. Each key must fit one of the algorithms.

Related options: ``jwt_key_files``.
""",
    ),
    cfg.StrOpt(
        "jwt_issuer",
        help="""
The claim ``iss`` that a JSON Web Token must have. By default the claim is not checked.

Related options: ``jwt_audience``, ``jwt_accept_any``.
""",
    ),
    cfg.StrOpt(
        "jwt_audience",
        help="""
The audience that the claim ``aud`` of a JSON Web Token must name. By default the claim is not checked.

Related options: ``jwt_issuer``, ``jwt_accept_any``.
""",
    ),
    cfg.BoolOpt(
        "jwt_accept_any",
        default=False,
        advanced=True,
        help="""
Accept JSON Web Tokens of any issuer and for any audience.

With ``auth_strategy = jwt``, the API and the outlet start only if ``jwt_issuer`` or ``jwt_audience`` is set, or this
option. With this option, a token that a key signed for another service opens this one, too.

Related options: ``jwt_issuer``, ``jwt_audience``.
""",
    ),
    cfg.StrOpt(
        "tls_cert",
        help="""
File with the certificate of the server (PEM), followed by those of intermediate authorities. By default connections
have no TLS. A SIGHUP reads the file again, for new connections.

Related options: ``tls_key``, ``tls_client_ca``.
""",
    ),
    cfg.StrOpt(
        "tls_key",
        help="""
File with the private key of ``tls_cert`` (PEM). A SIGHUP reads the file again.

Related options: ``tls_cert``.
""",
    ),
    cfg.StrOpt(
        "tls_client_ca",
        help="""
File with the certificates (PEM) of the authorities of client certificates. If it is set, a client needs such a
certificate, and a token as well. A SIGHUP reads the file again.

Related options: ``tls_cert``.
""",
    ),
    cfg.IntOpt(
        "max_streams",
        default=10_000,
        min=1,
        advanced=True,
        help="""
Maximum number of open streams. A further one ends with RESOURCE_EXHAUSTED. A stream needs about 50 KiB of memory, and
a connection of its own needs a file descriptor. At most half of these streams may have no topic yet. Health watches and
calls of reflection have a limit of their own, which is half of this one.

Related options: ``max_streams_per_identity``.
""",
    ),
    cfg.IntOpt(
        "max_streams_per_identity",
        default=256,
        min=1,
        advanced=True,
        help="""
Maximum number of open streams of one identity. A further one ends with RESOURCE_EXHAUSTED.

An identity is a user in a project. Before a stream has a topic, it is the address of the client, with IPv6 its /64
network. Health watches and calls of reflection of an address have the same limit, and count separately.
A connection has at most twice as many streams, and at least 100.

Related options: ``max_streams``.
""",
    ),
    cfg.IntOpt(
        "max_queued_events",
        default=1_000,
        min=10,
        max=100_000,
        advanced=True,
        help="""
Maximum number of events that wait for one client. A further one ends its stream with RESOURCE_EXHAUSTED. The client
then resumes after the last event that it received. Events of 16 MiB together are the limit, too.
""",
    ),
    cfg.IntOpt(
        "max_request_bytes",
        default=65_536,
        min=4_096,
        max=4_194_304,
        advanced=True,
        help="Maximum size of a client's message in bytes, with its token.",
    ),
    cfg.FloatOpt(
        "first_request_timeout",
        default=360.0,
        min=330,
        max=3_600,
        advanced=True,
        help="""
Seconds after which a stream ends if its client has not subscribed to a topic. Agents open a stream before they catch
up, which may last five minutes.
""",
    ),
    cfg.FloatOpt(
        "ping_interval",
        default=30.0,
        min=0.1,
        max=3_600,
        advanced=True,
        help="Seconds between two pings in a stream whose client offers the capability ``ping``.",
    ),
    cfg.FloatOpt(
        "min_keepalive_interval",
        default=10.0,
        min=0.1,
        max=3_600,
        advanced=True,
        help="""
Shortest interval in seconds of a client's HTTP/2 pings. gRPC ends a connection with more frequent pings
(``too_many_pings``).
""",
    ),
    cfg.BoolOpt(
        "reflection",
        default=False,
        advanced=True,
        help="""
Serve the reflection service of gRPC, so that tools such as grpcurl know the messages. It needs no token.
""",
    ),
    cfg.PortOpt(
        "monitoring_port",
        default=0,
        help="""
TCP port on which the watch process serves ``/healthz`` and ``/metrics``. 0 disables the server.

Related options: ``[monitoring] host``.
""",
    ),
]


def is_enabled(conf: cfg.ConfigOpts) -> bool:
    """Whether the watch stream is served."""
    enabled: bool | None = conf.outlet_watch.enabled
    return GROUP in conf.list_all_sections() if enabled is None else enabled


def auth_strategy(conf: cfg.ConfigOpts) -> str:
    """The strategy: of the group, or of the API."""
    return str(conf.outlet_watch.auth_strategy or conf.api.auth_strategy)
