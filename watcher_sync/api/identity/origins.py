# SPDX-License-Identifier: Apache-2.0
"""Which hosts and web pages a request may name, and through which proxies a local request may come.

A browser sends the ``Origin`` of the page that makes a request. A page of another host gets 403, unless
``[api] allowed_origins`` names it. ``[api] allowed_hosts`` restricts the ``Host`` header. So a web page cannot use the
API by a name of its own that resolves to the address of the API (DNS rebinding).
"""

from __future__ import annotations

import ipaddress
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

_FORWARDING = ("HTTP_X_FORWARDED_FOR", "HTTP_X_REAL_IP", "HTTP_TRUE_CLIENT_IP", "HTTP_X_CLIENT_IP")
_PORTS = {"http": "80", "https": "443"}


def is_loopback(host: str) -> bool:
    """Whether a host name or an address belongs to the loopback interface."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def host_of(environ: Mapping[str, Any]) -> str:
    """The host name of the ``Host`` header without the port; empty if the header is malformed."""
    try:
        return urllib.parse.urlsplit("//" + environ.get("HTTP_HOST", "localhost")).hostname or ""
    except ValueError:
        return ""


def is_foreign_origin(environ: Mapping[str, Any], allowed: frozenset[str]) -> bool:
    """Whether a page of another host makes the request.

    :param allowed: origins of other hosts that may, such as ``https://console.example.com``.
    """
    origin: str | None = environ.get("HTTP_ORIGIN")
    if origin is None or origin.lower() in allowed:
        return False
    try:
        page = urllib.parse.urlsplit(origin)
        host = urllib.parse.urlsplit(f"//{environ.get('HTTP_HOST', '')}")
        default = _PORTS.get(page.scheme)
        if default is None or not page.hostname or page.hostname != host.hostname:
            return True
        if page.scheme == "http" and environ.get("wsgi.url_scheme") == "https":
            return True  # an attacker in the network can make such a page
        return str(page.port or default) != str(host.port or default)
    except ValueError:
        return True


def is_forwarded_stranger(environ: Mapping[str, Any]) -> bool:
    """Whether a proxy sends the request for another machine, or does not say for which one."""
    is_forwarded = any(name in environ for name in (*_FORWARDING, "HTTP_FORWARDED", "HTTP_VIA"))
    addresses = list(_forwarded_for(environ))
    return is_forwarded and not (addresses and all(is_loopback(address) for address in addresses))


def _forwarded_for(environ: Mapping[str, Any]) -> Iterator[str]:
    for name in _FORWARDING:
        if name in environ:
            yield from (part.strip() for part in environ[name].split(","))
    for element in environ.get("HTTP_FORWARDED", "").replace(";", ",").split(","):
        key, _, value = element.strip().partition("=")
        if key.lower() == "for":
            node = value.strip('"')
            yield node.partition("]")[0] if node.startswith("[") else node.partition(":")[0]
