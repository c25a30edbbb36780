# SPDX-License-Identifier: Apache-2.0
"""Which URLs and addresses a callback may have: the guard against server-side request forgery.

A URL is checked when a subscription is written and before each request. Its name is not resolved here, because an
answer of DNS may change. The address is checked again where the connection is made.

Guaranteed: an address is permitted only when it is globally reachable or within an allowed network. A form that
carries an IPv4 address is judged by that address.

Pure functions, for any thread. No reason repeats the URL.

Source: the special-purpose address registries of IANA.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Sequence
from typing import Final
from urllib.parse import SplitResult, urlsplit

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

MAX_URL_LENGTH: Final = 2000
"""Characters of a callback URL."""

_MAX_HOST_LENGTH: Final = 253
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}

_UNFIT_CHARACTER: Final = re.compile(r'[^\x21-\x7e]|["<>\\^`{|}]')
"""What RFC 3986 permits nowhere in a URL. Parsers disagree about some of these."""

_LABEL: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_NUMERIC_LABEL: Final = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
"""The last label of a host that URL parsers read as an IPv4 address (URL standard of WHATWG, section 3.5)."""

_LOOPBACK: Final = ("127.0.0.1", "::1")
"""What the name localhost and the names below it resolve to (RFC 6761, section 6.3)."""

_IPV4_REFUSALS: Final = tuple(
    (ipaddress.IPv4Network(network), reason)
    for network, reason in (
        ("0.0.0.0/8", "unspecified"),
        ("127.0.0.0/8", "loopback"),
        ("10.0.0.0/8", "private"),
        ("172.16.0.0/12", "private"),
        ("192.168.0.0/16", "private"),
        ("169.254.0.0/16", "link-local"),
        ("100.64.0.0/10", "shared address space"),
        ("192.0.0.0/24", "reserved for protocols"),
        ("192.0.2.0/24", "reserved for documentation"),
        ("198.51.100.0/24", "reserved for documentation"),
        ("203.0.113.0/24", "reserved for documentation"),
        ("192.88.99.0/24", "6to4 relay"),
        ("198.18.0.0/15", "reserved for benchmarks"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
)

_IPV6_REFUSALS: Final = tuple(
    (ipaddress.IPv6Network(network), reason)
    for network, reason in (
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("::/96", "IPv4-compatible"),
        ("64:ff9b::/96", "NAT64"),
        ("64:ff9b:1::/48", "NAT64"),
        ("2001::/32", "Teredo"),
        ("2001:2::/48", "reserved for benchmarks"),
        ("2001:db8::/32", "reserved for documentation"),
        ("2001::/23", "reserved for protocols"),
        ("2002::/16", "6to4"),
        ("3fff::/20", "reserved for documentation"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
    )
)

_IPV6_GLOBAL: Final = ipaddress.IPv6Network("2000::/3")
"""Global unicast. All other IPv6 addresses are reserved."""


class BadCallback(ValueError):
    """A URL that no callback may have. The reason does not repeat the URL."""


def address_refusal(address: str, allowed: Sequence[Network]) -> str | None:
    """Why an address may not be connected to, in a few words without the address; None if it may.

    An IPv4-mapped address is allowed where the IPv4 address in it is. NAT64, 6to4 and Teredo forms are allowed only
    where a network of ``allowed`` contains the form itself.

    :param address: an IPv4 or IPv6 address in its usual text form. Other text is refused, so is a scope (``%eth0``).
    """
    if "%" in address:
        return "an address with a scope"
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return "not an address"
    if any(parsed in network for network in allowed):
        return None
    if isinstance(parsed, ipaddress.IPv4Address):
        return _first_refusal(parsed, _IPV4_REFUSALS)
    if parsed.ipv4_mapped is not None:
        inside = address_refusal(str(parsed.ipv4_mapped), allowed)
        return inside and f"{inside}, in an IPv4-mapped form"
    reason = _first_refusal(parsed, _IPV6_REFUSALS)
    return reason or (None if parsed in _IPV6_GLOBAL else "reserved")


_AUTHORITY: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:@]*)(:[0-9]+)?")
"""A host, in brackets if it is an IPv6 address, and a port."""


def check_callback(url: str, *, allow_http: bool, allowed: Sequence[Network]) -> None:
    """Checks all of a callback URL but the addresses of its name.

    :param allow_http: whether a URL without TLS is accepted.
    :param allowed: networks that a literal address may be in, beside the globally reachable ones.
    :raises BadCallback: with the reason.
    """
    if len(url) > MAX_URL_LENGTH:
        raise BadCallback(f"it is longer than {MAX_URL_LENGTH} characters")
    if _UNFIT_CHARACTER.search(url):
        raise BadCallback("it has a character that no URL may have")
    parts = _split(url)
    if parts.scheme not in _DEFAULT_PORTS:
        raise BadCallback("its scheme is not https")
    if parts.scheme == "http" and not allow_http:
        raise BadCallback("its scheme is http, and only https is accepted")
    if "@" in parts.netloc:
        raise BadCallback("it has credentials")
    if "#" in url:
        raise BadCallback("it has a fragment")
    _check_port(parts)
    if not parts.hostname:
        raise BadCallback("it has no host")
    if not _AUTHORITY.fullmatch(parts.netloc):
        raise BadCallback("its host is not valid")
    _check_host(parts.hostname, allowed, is_bracketed="[" in parts.netloc)


def host_of(url: str) -> str:
    """The key of limits per host: ``scheme://host:port`` in lower case, with the default port where there is none.

    A trailing dot of the host is left out, because it makes no other host.

    :param url: one that :func:`check_callback` accepts.
    :raises BadCallback: when the URL cannot be split.
    """
    parts = _split(url)
    host = (parts.hostname or "").removesuffix(".")
    if ":" in host:
        host = f"[{host}]"
    return f"{parts.scheme}://{host}:{_port_of(parts) or _DEFAULT_PORTS.get(parts.scheme, 0)}"


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        raise BadCallback("its host is not valid") from None


def _port_of(parts: SplitResult) -> int | None:
    try:
        return parts.port
    except ValueError:
        raise BadCallback("its port is not valid") from None


def _check_port(parts: SplitResult) -> None:
    if _port_of(parts) == 0 or parts.netloc.endswith(":"):
        raise BadCallback("its port is not valid")


def _check_host(host: str, allowed: Sequence[Network], *, is_bracketed: bool) -> None:
    if is_bracketed:
        _check_literal(host, allowed)
        return
    name = host.removesuffix(".")
    labels = name.split(".")
    if len(name) > _MAX_HOST_LENGTH or not all(_LABEL.fullmatch(label) for label in labels):
        raise BadCallback("its host is not valid")
    if _NUMERIC_LABEL.fullmatch(labels[-1]):
        _check_ipv4_text(host, allowed)
    elif labels[-1].lower() == "localhost" and all(address_refusal(each, allowed) for each in _LOOPBACK):
        raise BadCallback("its host is the local host")


def _check_ipv4_text(host: str, allowed: Sequence[Network]) -> None:
    """Refuses the forms that only some programs read as an address: decimal, octal, hexadecimal, short, dotted."""
    try:
        usual = socket.inet_ntoa(socket.inet_aton(host.removesuffix(".")))
    except OSError:
        raise BadCallback("its host is not valid") from None
    _check_literal(usual, allowed)
    if usual != host:
        raise BadCallback("its host is an unusual form of an IPv4 address")


def _check_literal(address: str, allowed: Sequence[Network]) -> None:
    reason = address_refusal(address, allowed)
    if reason is not None:
        raise BadCallback(f"its address is refused: {reason}")


def _first_refusal(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
    refusals: Sequence[tuple[Network, str]],
) -> str | None:
    return next((reason for network, reason in refusals if address in network), None)
