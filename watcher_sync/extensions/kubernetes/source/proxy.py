# SPDX-License-Identifier: Apache-2.0
"""Finds the proxy to an API server, by kubectl's rules.

``proxy-url`` of a kubeconfig counts always. Without it the environment counts, as in Go's ``ProxyFromEnvironment``:
``HTTPS_PROXY`` or ``HTTP_PROXY``, except for this machine and for what ``NO_PROXY`` names.

Reference: https://pkg.go.dev/golang.org/x/net/http/httpproxy
"""

from __future__ import annotations

import importlib.util
import ipaddress
import os
import re
import urllib.parse
from collections.abc import Mapping
from typing import Final

import msgspec

_SCHEMES: Final = ("http", "https", "socks5", "socks5h")
_PORTS: Final = {"http": 80, "https": 443}


class ProxyError(Exception):
    """The URL of a proxy cannot be used; the message continues "proxy-url", and has no part of the URL."""


class Proxy(msgspec.Struct, frozen=True):
    """A proxy, and our login there."""

    url: str
    """Without the login."""
    user: str | None = None
    password: str = ""

    @property
    def is_socks(self) -> bool:
        """Whether it speaks SOCKS, which needs the package PySocks."""
        return self.url.startswith("socks")


def parse_proxy(url: str) -> Proxy:
    """Read the URL of a proxy. Its login is percent-encoded.

    :raises ProxyError: see the class.
    """
    try:
        parts = urllib.parse.urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urllib.parse.urlsplit(""), None, None
    if parts.scheme not in _SCHEMES or not host:
        raise ProxyError(f"must be a URL with a host, and with one of the schemes {', '.join(_SCHEMES)}")
    if parts.netloc.count("@") > 1 or "@" in parts.path + parts.query + parts.fragment:
        raise ProxyError("has an @ that is not before the host; write @ / : ? # in the login as %40 %2F %3A %3F %23")
    # The proxy resolves names, as for kubectl.
    scheme = "socks5h" if parts.scheme == "socks5" else parts.scheme
    if scheme == "socks5h" and not _has_socks():
        raise ProxyError("is a SOCKS proxy, which needs the package PySocks")
    address = f"[{host}]" if ":" in host else host
    found = f"{scheme}://{address}" if port is None else f"{scheme}://{address}:{port}"
    user = None if parts.username is None else urllib.parse.unquote(parts.username)
    return Proxy(found, user, urllib.parse.unquote(parts.password or ""))


def _has_socks() -> bool:
    try:
        return importlib.util.find_spec("socks") is not None
    except ValueError:  # what is None in sys.modules
        return False


def find_proxy(server: str, proxy_url: str | None, environ: Mapping[str, str] = os.environ) -> Proxy | None:
    """The proxy to a server; None: there is none.

    :param server: its URL.
    :param proxy_url: that of the kubeconfig.
    :raises ProxyError: see the class.
    """
    if proxy_url:
        return parse_proxy(proxy_url)
    parts = urllib.parse.urlsplit(server)
    name = f"{parts.scheme}_proxy"
    url = _variable(environ, name)
    port = parts.port or _PORTS[parts.scheme]
    if not url or not _goes_through(parts.hostname or "", port, _variable(environ, "no_proxy")):
        return None
    try:
        return parse_proxy(url if "://" in url else f"http://{url}")
    except ProxyError as exc:
        raise ProxyError(f"of the environment ({name.upper()}) {exc}") from None


def _variable(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name.upper()) or environ.get(name) or ""


def _goes_through(host: str, port: int, no_proxy: str) -> bool:
    """Whether a host is reached by the proxy."""
    address = _address(host.partition("%")[0])
    if host == "localhost" or (address is not None and address.is_loopback):
        return False
    return not any(_matches(entry.strip().lower(), host, address, port) for entry in no_proxy.split(","))


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _address(text: str) -> _Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _matches(entry: str, host: str, address: _Address | None, port: int) -> bool:
    """Whether an entry of ``NO_PROXY`` names a host: ``*``, a network, an address or a domain."""
    if entry == "*":
        return True
    if "/" in entry:
        try:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    found = re.fullmatch(r"(\[.*\]|[^:]*):([0-9]+)", entry)
    if found is not None:
        if int(found[2]) != port:
            return False
        entry = found[1]
    entry = entry.removeprefix("[").removesuffix("]")
    entry = entry[1:] if entry.startswith("*.") else entry
    if (named := _address(entry)) is not None:
        return named == address
    return bool(entry) and (host == entry or host.endswith(f".{entry.removeprefix('.')}"))
