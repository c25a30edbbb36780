# SPDX-License-Identifier: Apache-2.0
"""The options of a connection to NATS, checked, and the arguments for the client library.

Sources and outlets share them. An option that is wrong whatever the server says raises
:class:`~watcher_sync.exceptions.ConfigError`, which names it. Files are checked when the settings are made and read
again at each connection: renewed certificates and credentials count without a restart.

The library gets passwords and tokens as functions, which it calls when it writes CONNECT. That is the last moment to
notice that a server does not offer the configured TLS. An imposter could otherwise ask for them in clear text.
"""

from __future__ import annotations

import importlib.util
import re
import ssl
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any, Final

from nats.aio.client import Client
from nats.errors import Error as NatsError
from oslo_config import cfg

from watcher_sync.conf import files, urls
from watcher_sync.conf.findings import NamedFile, is_local, place
from watcher_sync.exceptions import ConfigError

CONNECT_TIMEOUT_SECONDS: Final = 3
DEFAULT_PORT: Final = 4222

_SECRET_FILES: Final = ("tls_key_file", "nkey_seed_file", "credentials_file")
_NAME: Final = re.compile(r"[^\s.*>/\\\x00-\x1f]+")

CLIENT_OPTIONS: Final[list[cfg.Opt]] = [
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
        "domain",
        advanced=True,
        help="""
JetStream domain of the stream, if it is not the domain of the servers.
""",
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
    cfg.StrOpt(
        "tls_hostname", advanced=True, help="Name that the server's certificate must have. Default: the URL's host."
    ),
    cfg.BoolOpt(
        "tls_first",
        default=False,
        advanced=True,
        help="Begin with TLS before the server sends INFO, as its ``handshake_first`` demands. Requires TLS.",
    ),
]


def insecure_servers(conf: cfg.ConfigOpts, section: str) -> Iterator[str]:
    """Findings about a connection to NATS without TLS.

    :raises ConfigError: naming the option that is wrong.
    """
    settings = NatsClientSettings(section, conf[section])
    remote = [server.hostname for server in settings.servers if not is_local(server.hostname or "")]
    if remote and not settings.tls:
        yield (
            f"{place(conf, 'servers', section)}: messages and credentials for {remote[0]} cross the network without "
            "TLS; use tls:// in the URL and set tls_ca_file."
        )


def secret_files(conf: cfg.ConfigOpts, section: str) -> list[NamedFile]:
    """The files with the secrets of a connection to NATS."""
    return [NamedFile(section, option, conf[section][option]) for option in _SECRET_FILES]


class NatsClientSettings:
    """The options of one connection, checked.

    :param section: of the configuration file, for error messages.
    :param group: its values, with those of :data:`CLIENT_OPTIONS`.
    :raises ConfigError: naming the option that is wrong.
    """

    def __init__(self, section: str, group: cfg.ConfigOpts.GroupAttr) -> None:
        self._section = section
        self._group = group
        self.api_prefix = f"$JS.{group.domain}.API" if group.domain else "$JS.API"
        self._check_servers()
        if group.domain:
            self.check_name("domain")
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

    def check_name(self, option: str) -> None:
        """:raises ConfigError: the option is no name of a stream, consumer or domain."""
        if not _NAME.fullmatch(self._group[option] or ""):
            raise self.wrong(option, "is no name: no spaces, dots, wildcards or slashes")

    def wrong(self, option: str, why: str) -> ConfigError:
        """The error that names an option."""
        return ConfigError(f"[{self._section}] {option}: {why}")

    def _check_servers(self) -> None:
        if not self._group.servers:
            raise self.wrong("servers", "names no server")
        for server in self._group.servers:
            urls.check_login(self._section, "servers", server if "://" in server else f"nats://{server}")
            if not _is_whole(server):
                # Without the URL, and without the library's error, which shows a part of a password as the port.
                raise self.wrong("servers", "has a URL that is neither nats://host:port nor tls://host:port")

    def _check_login(self) -> None:
        group = self._group
        ways = [way for way in ("user", "token", "nkey_seed_file", "credentials_file") if group[way]]
        if len(ways) > 1:
            raise self.wrong(ways[1], f"cannot be set beside {ways[0]}")
        if group.password and not group.user:
            raise self.wrong("password", "is set without user")
        if group.tls_key_file and not group.tls_cert_file:
            raise self.wrong("tls_key_file", "is set without tls_cert_file")
        for way in ("nkey_seed_file", "credentials_file"):
            if group[way] and importlib.util.find_spec("nkeys") is None:
                raise self.wrong(way, "needs the package nkeys: pip install watcher-sync[nkeys]")

    def _check_files(self) -> None:
        for option in ("nkey_seed_file", "credentials_file"):
            if self._group[option]:
                files.read_text(self._section, option, self._group[option])
        names = ("tls_ca_file", "tls_cert_file", "tls_key_file")
        files.check_tls(self._section, *((name, self._group[name]) for name in names))


def _is_whole(server: str) -> bool:
    """Whether it is the URL of a server: a "/" in a password makes the port of it a text."""
    try:
        url = urllib.parse.urlsplit(server if "://" in server else f"nats://{server}")
        return url.scheme in ("nats", "tls") and bool(url.hostname) and (url.port is None or url.port > 0)
    except ValueError:
        return False
