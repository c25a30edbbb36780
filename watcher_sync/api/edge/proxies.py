# SPDX-License-Identifier: Apache-2.0
"""What the trusted proxies of ``[api] trusted_proxies`` tell of a request: its client, and the path that they removed.

A proxy that serves the API below a path, and removes it, says so in ``X-Forwarded-Prefix``. Then it is a part of
``SCRIPT_NAME``, where WSGI has such a path, and the links of the answer begin with it.
"""

from __future__ import annotations

import ipaddress
import urllib.parse
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from oslo_config import cfg

from watcher_sync.conf.networks import Network

Wsgi = Callable[..., Iterable[bytes]]

_IPV6_PREFIX: Final = 64
"""One client has all addresses of such a network."""

_PROXIES: Final = "watcher_sync.trusted_proxies"


def wrap(application: Wsgi, conf: cfg.ConfigOpts) -> Wsgi:
    """Tells the application which proxies are trusted, and the path below which clients see it."""
    proxies = [ipaddress.ip_network(text) for text in conf.api.trusted_proxies]

    def wrapped(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        environ[_PROXIES] = proxies
        environ["SCRIPT_NAME"] = _script_name(environ, proxies)
        return application(environ, start_response)

    return wrapped


def _script_name(environ: Mapping[str, Any], proxies: Sequence[Network]) -> str:
    """The path before those of the API, which begins with one slash: ``//name`` would be a host in a link.

    Each proxy of a chain appends the path that it removed, after a comma.
    """
    path = str(environ.get("SCRIPT_NAME", ""))
    if _is_trusted(str(environ.get("REMOTE_ADDR") or ""), proxies):
        removed = str(environ.get("HTTP_X_FORWARDED_PREFIX", "")).split(",")
        path = "/".join([*(urllib.parse.unquote(each.strip(), "latin-1") for each in removed), path])
    return "".join(f"/{segment}" for segment in path.split("/") if segment not in ("", ".", ".."))


def client_of(environ: Mapping[str, Any]) -> str:
    """The address of the client of a request; without the middleware no proxy is trusted."""
    return client_address(environ, environ.get(_PROXIES, ()))


def client_address(environ: Mapping[str, Any], proxies: Sequence[Network]) -> str:
    """The address of the client; of IPv6 its network of 64 bits; empty for a Unix socket.

    Each proxy appends the address of its own client to ``X-Forwarded-For``. So the header is read from its end, while
    the address before is that of a trusted proxy. What a client sent in the header itself has no effect.

    :param proxies: networks of proxies whose ``X-Forwarded-For`` counts.
    """
    address = str(environ.get("REMOTE_ADDR") or "")
    for before in reversed(str(environ.get("HTTP_X_FORWARDED_FOR", "")).split(",")):
        if not (_is_trusted(address, proxies) and before.strip()):
            break
        address = before.strip()
    return _grouped(address)


def _is_trusted(address: str, proxies: Sequence[Network]) -> bool:
    if not address:
        return bool(proxies)
    found = _parsed(address)
    return found is not None and any(found in network for network in proxies)


def _grouped(address: str) -> str:
    found = _parsed(address)
    if found is None:
        return address[:100]
    if found.version == 6:
        return str(ipaddress.IPv6Network((found, _IPV6_PREFIX), strict=False))
    return str(found)


def _parsed(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An address, also with brackets; an IPv4 address in the form of IPv6 as IPv4."""
    try:
        found = ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found
