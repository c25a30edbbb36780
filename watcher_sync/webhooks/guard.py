# SPDX-License-Identifier: Apache-2.0
"""Sockets that connect to permitted addresses only.

The HTTP client asks for a socket for each address that it is about to connect to. The guard checks that address, and
not the name that it came from. So an answer of DNS that changes between two look-ups gains nothing.

Guaranteed: no packet goes to a refused address. The system stores a small part of an answer only.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import Final

import aiohttp

from watcher_sync.wire.callback_urls import Network, address_refusal

_RECEIVE_BYTES: Final = 8_192
"""The receive buffer of a connection; Linux doubles it. The event loop parses all that it has at once."""


class AddressRefused(OSError):
    """A connection to an address that the configuration does not permit. The text does not have the address."""


class GuardedSockets:
    """Makes the sockets of a connector; for :class:`aiohttp.TCPConnector`'s ``socket_factory``.

    :param allowed: gives the networks that are permitted beside globally reachable addresses, at each connect.
    """

    def __init__(self, allowed: Callable[[], Sequence[Network]]) -> None:
        self._allowed = allowed

    def __call__(self, address: aiohttp.AddrInfoType) -> socket.socket:
        """A socket for this address.

        :raises AddressRefused: when the address is not permitted.
        """
        family, kind, protocol, _, place = address
        if family not in (socket.AF_INET, socket.AF_INET6):
            raise AddressRefused("address refused: neither IPv4 nor IPv6")
        # The fourth member of an IPv6 place is the scope, for which address_refusal reads a text after a "%".
        reason = "an address with a scope" if len(place) > 3 and place[3] else None
        reason = reason or address_refusal(str(place[0]), self._allowed())
        if reason is not None:
            raise AddressRefused(f"address refused: {reason}")
        made = socket.socket(family, kind, protocol)
        # Before the connection is made: the window of TCP follows from it.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
        return made
