# SPDX-License-Identifier: Apache-2.0
"""The options of a JetStream source, checked, and the arguments for the client library.

An option that is wrong whatever the server says raises :class:`~watcher_sync.exceptions.ConfigError`, which names it.
Files are checked when the source is made and read again at each connection: renewed certificates and credentials
count without a restart.

The library gets passwords and tokens as functions, which it calls when it writes CONNECT. That is the last moment to
notice that a server does not offer the configured TLS. An imposter could otherwise ask for them in clear text.
"""

from __future__ import annotations

import importlib.util
import re
import ssl
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from nats.aio.client import Client
from nats.errors import Error as NatsError
from oslo_config import cfg

from watcher_sync.exceptions import ConfigError
from watcher_sync.sources.nats.cursor import stream_id
from watcher_sync.sources.nats.stream import ConsumerSpec
from watcher_sync.wire.json import MAX_SIZE

OPEN_REQUESTS: Final = 2
"""Requests for a batch that are open at the same time."""

CONNECT_TIMEOUT_SECONDS: Final = 3
DEFAULT_PORT: Final = 4222

_MIN_DELIVERIES_TO_ISOLATE: Final = 4
"""Half of fewer deliveries would isolate messages that were interrupted once."""

_NAME: Final = re.compile(r"[^\s.*>/\\\x00-\x1f]+")
_SUBJECT: Final = re.compile(r"[^\s.]+(\.[^\s.]+)*")
_FILES: Final = ("tls_ca_file", "tls_cert_file", "tls_key_file", "nkey_seed_file", "credentials_file")

OPTIONS: Final[list[cfg.Opt]] = [
    cfg.ListOpt(
        "servers",
        default=["nats://127.0.0.1:4222"],
        secret=True,
        help="""
URLs of the servers of one NATS cluster: ``nats://host:port``, or ``tls://host:port``, which requires TLS.

A URL may contain user and password; the options ``user`` and ``password`` are the alternative.
""",
    ),
    cfg.StrOpt(
        "stream",
        default="dcm-status",
        help="""
Name of the stream to read.

Related options: ``stream_mode``, ``subject``, ``domain``.
""",
    ),
    cfg.StrOpt(
        "subject",
        default="dcm.*",
        help="""
Subjects to read of the stream, with NATS wildcards. ``dcm.*`` is exactly two words.
""",
    ),
    cfg.StrOpt(
        "durable",
        default="watcher-sync",
        help="""
Name of the durable consumer, which the source creates if it does not exist. It remembers what was acknowledged.

Engines with the same durable share the messages. Never name another program's consumer, such as DCM's
``service-provider-manager``: each message goes to one reader only.
""",
    ),
    cfg.StrOpt(
        "stream_mode",
        default="verify",
        choices=[
            ("verify", "The stream belongs to another program: wait until it exists, and create only the consumer."),
            ("create", "Create the stream, too, if it does not exist. An existing stream is never changed."),
        ],
        help="""
What to do if the stream does not exist.
""",
    ),
    cfg.StrOpt(
        "domain",
        help="""
JetStream domain of the stream, if it is not the domain of the servers.
""",
    ),
    cfg.IntOpt(
        "batch",
        default=500,
        min=1,
        max=10_000,
        help="""
Messages that one request to the server asks for. Two requests are open at a time, so the engine's memory may
hold twice as many.

Related options: ``max_ack_pending``.
""",
    ),
    cfg.IntOpt(
        "max_bytes",
        default=8_388_608,
        min=65_536,
        help="""
Bytes that one request to the server asks for. Two requests are open at a time.

A server closes a connection for which it has too many bytes to send (its ``max_pending``, 64 MB by default). So the
value must be well below half of that. It is raised to the largest message that the server accepts.

Related options: ``batch``, ``max_event_size``.
""",
    ),
    cfg.FloatOpt(
        "linger",
        default=0.002,
        min=0,
        max=1,
        help="""
Seconds that a batch which is not full waits for more messages under load. A lone message is never delayed.
""",
    ),
    cfg.FloatOpt(
        "ack_wait",
        default=30.0,
        min=0.5,
        max=3600,
        help="""
Seconds after which the server delivers a message again that was not acknowledged.

The source extends this time for messages in flight, so only the messages of a dead engine wait so long. It must be
longer than ``[engine] batch_linger`` and a transaction. An existing consumer may have more, not less.
""",
    ),
    cfg.IntOpt(
        "max_ack_pending",
        default=10_000,
        min=1,
        help="""
Messages that may be unacknowledged at once, for all engines that share the durable. The consumer is created with
this value. An existing consumer may have less, but not less than twice ``batch``.
""",
    ),
    cfg.IntOpt(
        "max_deliveries",
        default=10,
        min=0,
        help="""
Deliveries after which a message goes to quarantine, because it may end the engine each time. 0: no limit.

When an engine is killed, the server counts a delivery for each message in flight. So above half of this number, if it
is 4 or more, a message is isolated: the source emits it when nothing else is in flight.
""",
    ),
    cfg.IntOpt(
        "max_event_size",
        default=MAX_SIZE,
        min=1024,
        help="Bytes that one event may have. A larger one goes to quarantine.",
    ),
    cfg.StrOpt("user", help="User to log in as, with ``password``."),
    cfg.StrOpt("password", secret=True, help="Password of ``user``."),
    cfg.StrOpt("token", secret=True, help="Token to log in with, instead of a user."),
    cfg.StrOpt(
        "nkey_seed_file",
        help="""
File with the seed of an NKey to log in with. Needs the package nkeys (``pip install watcher-sync[nkeys]``).
""",
    ),
    cfg.StrOpt(
        "credentials_file",
        help="""
File with a JWT and a seed to log in with, as ``nsc`` writes it. Needs the package nkeys
(``pip install watcher-sync[nkeys]``).
""",
    ),
    cfg.StrOpt(
        "tls_ca_file",
        help="""
File with the certificates to trust, PEM. Setting it requires TLS. Default: those of the system.
""",
    ),
    cfg.StrOpt(
        "tls_cert_file", help="File with the client certificate, PEM, if the server asks for one. Requires TLS."
    ),
    cfg.StrOpt("tls_key_file", help="File with the key of ``tls_cert_file``, PEM."),
    cfg.StrOpt("tls_hostname", help="Name that the server's certificate must have. Default: the URL's host."),
    cfg.BoolOpt(
        "tls_first",
        default=False,
        help="Begin with TLS before the server sends INFO, as its ``handshake_first`` demands. Requires TLS.",
    ),
]


class JetStreamSettings:
    """The options of one source, checked.

    :raises ConfigError: naming the option that is wrong.
    """

    def __init__(self, name: str, conf: cfg.ConfigOpts) -> None:
        self._section = f"source_{name}"
        self._group = group = conf[self._section]
        self.batch: int = group.batch
        self.max_bytes: int = group.max_bytes
        self.linger: float = group.linger
        self.max_event_size: int = group.max_event_size
        self.max_deliveries: int = group.max_deliveries
        self.isolation_limit: int = (
            group.max_deliveries // 2 if group.max_deliveries >= _MIN_DELIVERIES_TO_ISOLATE else 0
        )
        self.consumer = ConsumerSpec(
            stream=group.stream,
            subject=group.subject,
            durable=group.durable,
            create=group.stream_mode == "create",
            ack_wait=group.ack_wait,
            max_ack_pending=group.max_ack_pending,
            needed_pending=OPEN_REQUESTS * group.batch,
            max_deliveries=group.max_deliveries,
        )
        self.stream_id = stream_id(group.stream, group.domain)
        self.api_prefix = f"$JS.{group.domain}.API" if group.domain else "$JS.API"
        self.pull_subject = f"{self.api_prefix}.CONSUMER.MSG.NEXT.{group.stream}.{group.durable}"
        self._check_names()
        self._check_amounts(conf)
        self._check_login()
        self._check_files()

    @property
    def tls(self) -> bool:
        """Whether the connection must be encrypted."""
        group = self._group
        return bool(
            group.tls_ca_file
            or group.tls_cert_file
            or group.tls_first
            or group.tls_hostname
            or any(server.startswith("tls://") for server in group.servers)
        )

    @property
    def servers(self) -> list[urllib.parse.SplitResult]:
        """The URLs of the servers."""
        return [urllib.parse.urlsplit(each if "://" in each else f"nats://{each}") for each in self._group.servers]

    def connect_arguments(self, client: Client, hostname: str) -> dict[str, Any]:
        """Arguments for ``client.connect`` that concern the login and TLS.

        :param hostname: of the server.
        :raises ssl.SSLError, OSError: when a file cannot be read or is no certificate.
        """
        group = self._group
        arguments: dict[str, Any] = {"tls_handshake_first": group.tls_first}
        if self.tls:
            arguments["tls"] = self._tls_context()
            arguments["tls_hostname"] = group.tls_hostname or hostname
        if group.user:
            arguments["user"] = group.user
            arguments["password"] = self._only_by_tls(client, group.password or "")
        elif group.token:
            arguments["token"] = self._only_by_tls(client, group.token)
        elif group.nkey_seed_file:
            arguments["nkeys_seed"] = group.nkey_seed_file
        elif group.credentials_file:
            arguments["user_credentials"] = group.credentials_file
        return arguments

    def require_tls(self, client: Client) -> None:
        """:raises nats.errors.Error: when TLS is wanted and this connection has none."""
        if self.tls and not self._group.tls_first and not client._server_info.get("tls_required"):
            raise NatsError("the server does not offer TLS, which is configured")

    def _only_by_tls(self, client: Client, secret: str) -> Callable[[], str]:
        def give() -> str:
            self.require_tls(client)
            return secret

        return give

    def _tls_context(self) -> ssl.SSLContext:
        group = self._group
        context = ssl.create_default_context(cafile=group.tls_ca_file or None)
        if group.tls_cert_file:
            context.load_cert_chain(group.tls_cert_file, group.tls_key_file or None)
        return context

    def _wrong(self, option: str, why: str) -> ConfigError:
        return ConfigError(f"[{self._section}] {option}: {why}")

    def _check_names(self) -> None:
        group = self._group
        if not group.servers:
            raise self._wrong("servers", "names no server")
        for server in group.servers:
            scheme = server.partition("://")[0] if "://" in server else "nats"
            if scheme not in ("nats", "tls") or not server.rpartition("@")[2]:
                raise self._wrong("servers", "has a URL that is neither nats://host:port nor tls://host:port")
        for option in ("stream", "durable", "domain"):
            value = group[option]
            if (value or option != "domain") and not _NAME.fullmatch(value or ""):
                raise self._wrong(option, "is no name: no spaces, dots, wildcards or slashes")
        if not _SUBJECT.fullmatch(group.subject or ""):
            raise self._wrong("subject", "is no NATS subject")

    def _check_amounts(self, conf: cfg.ConfigOpts) -> None:
        group = self._group
        if group.max_ack_pending < OPEN_REQUESTS * group.batch:
            raise self._wrong("max_ack_pending", f"is {group.max_ack_pending}, less than {OPEN_REQUESTS} x batch")
        if group.ack_wait <= group.linger + conf.engine.batch_linger:
            raise self._wrong("ack_wait", "is not longer than linger and [engine] batch_linger")

    def _check_login(self) -> None:
        group = self._group
        ways = [way for way in ("user", "token", "nkey_seed_file", "credentials_file") if group[way]]
        if len(ways) > 1:
            raise self._wrong(ways[1], f"cannot be set beside {ways[0]}")
        if group.password and not group.user:
            raise self._wrong("password", "is set without user")
        if group.tls_key_file and not group.tls_cert_file:
            raise self._wrong("tls_key_file", "is set without tls_cert_file")
        for way in ("nkey_seed_file", "credentials_file"):
            if group[way] and importlib.util.find_spec("nkeys") is None:
                raise self._wrong(way, "needs the package nkeys: pip install watcher-sync[nkeys]")

    def _check_files(self) -> None:
        for option in _FILES:
            path = self._group[option]
            if not path:
                continue
            try:
                with Path(path).open("rb"):
                    pass
            except OSError as exc:
                raise self._wrong(option, f"{path}: {exc.strerror}") from None
