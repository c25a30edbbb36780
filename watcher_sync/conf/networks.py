# SPDX-License-Identifier: Apache-2.0
"""The type of options whose values are networks or addresses, and which addresses are this machine's own."""

from __future__ import annotations

import ipaddress

from oslo_config import types

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class NetworkText(types.ConfigType):
    """A network as text. A reload of the options refuses any other text, and changes nothing."""

    def __init__(self) -> None:
        super().__init__(type_name="network value")

    def __call__(self, value: str) -> str:
        """:raises ValueError: the text is no network."""
        ipaddress.ip_network(value)
        return value

    def __repr__(self) -> str:
        return "Network"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NetworkText)

    __hash__ = None  # type: ignore[assignment]

    def _formatter(self, value: str) -> str:
        return value


def is_loopback(host: str) -> bool:
    """Whether a host name or an address belongs to the loopback interface."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
