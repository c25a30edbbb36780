# SPDX-License-Identifier: Apache-2.0
"""How a watch client reaches the service: TLS, keepalives, an HTTP proxy, and a single entry address.

A proxy gets ``CONNECT``, with Basic authentication if its URL has a user. The only scheme of a proxy is ``http``: with
any other, gRPC ignores the proxy and connects directly. So the client refuses it.

A single entry address is dialled instead of the service's host, such as the address of an ingress. Authority, SNI and
certificate are still those of the service's host.
"""

from __future__ import annotations

import ssl
import urllib.parse
from base64 import b64encode
from pathlib import Path
from typing import Any

import grpc
import msgspec
import urllib3

from watcher_sync.client.watch.errors import InvalidSettings, UnsupportedProxy

_MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""Bytes of one event: as many as a page of the catch-up may have. gRPC's default is 4 MiB."""


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """Paths of PEM files. The client reads them when it connects.

    :ivar ca_file: the authorities to trust; None: those that come with the libraries.
    :ivar cert_file: the client's certificate chain for mutual TLS; needs ``key_file``.
    :ivar key_file: the key of the certificate.
    """

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None

    def credentials(self) -> grpc.ChannelCredentials:
        """The credentials for gRPC.

        :raises InvalidSettings: when a file cannot be read.
        """
        return grpc.ssl_channel_credentials(
            root_certificates=_content(self.ca_file),
            private_key=_content(self.key_file),
            certificate_chain=_content(self.cert_file),
        )

    def context(self) -> ssl.SSLContext:
        """The same for HTTPS.

        :raises InvalidSettings: when a file cannot be read.
        """
        try:
            made = ssl.create_default_context(cafile=self.ca_file)
            if self.cert_file is not None:
                made.load_cert_chain(self.cert_file, self.key_file)
        except OSError as exc:  # an SSLError is one, too
            names = ", ".join(name for name in (self.ca_file, self.cert_file, self.key_file) if name)
            raise InvalidSettings(f"one of the TLS files {names} cannot be used: {exc}") from None
        return made


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """The way to a host.

    :ivar tls: None: without TLS.
    :ivar proxy: ``http://[user:password@]host:port``; None: what the environment says.
    :ivar single_entry_address: ``host`` or ``host:port``, dialled instead of the host of the service.
    """

    tls: Tls | None = None
    proxy: str | None = None
    single_entry_address: str | None = None

    def __post_init__(self) -> None:
        if self.proxy is not None:
            check_proxy(self.proxy)
        if self.single_entry_address is not None:
            split_address(self.single_entry_address, 0)

    def channel(
        self,
        host: str,
        port: int,
        *,
        keepalive: tuple[float, float],
        max_pause_seconds: float,
        user_agent: str | None = None,
    ) -> grpc.Channel:
        """Opens a channel. It connects at the first call.

        :param keepalive: the seconds between two keepalives, and those to wait for an answer.
        :param max_pause_seconds: the longest pause between two attempts of the channel to connect.
        :param user_agent: the program; gRPC adds itself.
        """
        options = self._options(host, port, keepalive, max_pause_seconds)
        if user_agent is not None:
            options.append(("grpc.primary_user_agent", user_agent))
        target = _joined(*self._dialled(host, port))
        if self.tls is None:
            return grpc.insecure_channel(target, options)
        return grpc.secure_channel(target, self.tls.credentials(), options)

    def pool(self, url: str) -> tuple[urllib3.PoolManager, str]:
        """A pool of HTTP connections on the same way, and the URL to request instead of ``url``."""
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidSettings(f"the URL {url!r} of the catch-up is no http or https URL")
        default = 443 if parts.scheme == "https" else 80
        settings: dict[str, Any] = {}
        if parts.scheme == "https":
            settings["ssl_context"] = (self.tls or Tls()).context()
        if self.single_entry_address is not None:
            settings["headers"] = {"Host": parts.netloc.rpartition("@")[2]}
            if parts.scheme == "https":
                settings.update(server_hostname=parts.hostname, assert_hostname=parts.hostname)
        dialled = _joined(*self._dialled(parts.hostname, parts.port or default))
        root = urllib.parse.urlunsplit((parts.scheme, dialled, parts.path.rstrip("/"), "", ""))
        if self.proxy is None:
            return urllib3.PoolManager(**settings), root
        proxy = urllib.parse.urlsplit(self.proxy)
        if proxy.username is not None:
            user = f"{urllib.parse.unquote(proxy.username)}:{urllib.parse.unquote(proxy.password or '')}"
            # As gRPC does it: in UTF-8.
            settings["proxy_headers"] = {"proxy-authorization": f"Basic {b64encode(user.encode()).decode()}"}
        address = _joined(proxy.hostname or "", proxy.port or 80)
        return urllib3.ProxyManager(f"http://{address}", **settings), root

    def _dialled(self, host: str, port: int) -> tuple[str, int]:
        return (host, port) if self.single_entry_address is None else split_address(self.single_entry_address, port)

    def _options(
        self, host: str, port: int, keepalive: tuple[float, float], max_pause_seconds: float
    ) -> list[tuple[str, Any]]:
        pause = max(100, int(max_pause_seconds * 1000))
        options: list[tuple[str, Any]] = [
            ("grpc.keepalive_time_ms", int(keepalive[0] * 1000)),
            ("grpc.keepalive_timeout_ms", int(keepalive[1] * 1000)),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_pings_without_data", 0),
            # The client's own back-off decides when to connect; the channel must not add its two minutes.
            ("grpc.initial_reconnect_backoff_ms", min(1000, pause)),
            ("grpc.min_reconnect_backoff_ms", min(1000, pause)),
            ("grpc.max_reconnect_backoff_ms", pause),
            ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
            # Another manager's broken connection must not delay this one.
            ("grpc.use_local_subchannel_pool", 1),
        ]
        if self.proxy is not None:
            options.append(("grpc.http_proxy", self.proxy))
        if self.single_entry_address is not None:
            options.append(("grpc.default_authority", _joined(host, port)))
            if self.tls is not None:
                options.append(("grpc.ssl_target_name_override", host))
        return options


def check_proxy(url: str) -> None:
    """Checks the URL of a proxy.

    :raises UnsupportedProxy: when gRPC would ignore it.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "http":
        raise UnsupportedProxy(
            f"a proxy of the scheme {parts.scheme or '(none)'!r} is not supported: gRPC would bypass it; "
            "give http://[user:password@]host:port, which tunnels TLS as well"
        )
    if not parts.hostname:
        raise UnsupportedProxy("the URL of the proxy has no host; give http://[user:password@]host:port")


def split_address(address: str, default_port: int) -> tuple[str, int]:
    """Splits ``host``, ``host:port`` or ``[IPv6]:port``.

    :raises InvalidSettings: when it is none of them.
    """
    try:
        parts = urllib.parse.urlsplit(f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or "/" in address or "@" in address:
        raise InvalidSettings(f"the address {address!r} is not host or host:port")
    return host, port or default_port


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _content(path: str | None) -> bytes | None:
    if path is None:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as exc:
        raise InvalidSettings(f"the TLS file {path} cannot be read: {exc}") from None
