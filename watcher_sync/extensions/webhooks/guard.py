# SPDX-License-Identifier: Apache-2.0
"""Sockets that connect to permitted addresses only, and the look-ups of names before them.

The HTTP client asks for a socket for each address that it is about to connect to. The guard checks that address, and
not the name that it came from. So an answer of DNS that changes between two look-ups gains nothing.

Guaranteed: no packet goes to a refused address. The system stores a small part of an answer only.

The operating system's look-up blocks a thread for up to half a minute when a name server does not answer. The event
loop's default executor has a few threads only, so a few such names would delay all others. So look-ups have more.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from watcher_sync.wire.callback_urls import Network, address_refusal

_RECEIVE_BYTES: Final = 8_192
"""The receive buffer of a connection; Linux doubles it. The event loop parses all that it has at once."""

_LOOK_UP_THREADS: Final = 64


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


class ThreadedNames(AbstractResolver):
    """The resolver of a connector. Threads start when they are needed."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(_LOOK_UP_THREADS, thread_name_prefix="webhook-names")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses of a name as numbers.

        :raises OSError: when the name has none.
        """
        found = await asyncio.get_running_loop().run_in_executor(self._executor, self._look_up, host, port, family)
        return [
            ResolveResult(
                hostname=host,
                host=place,
                port=port,
                family=kind,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for kind, protocol, place in found
        ]

    async def close(self) -> None:
        """Ends the threads that are idle. One that waits for a name server ends by itself."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    @staticmethod
    def _look_up(host: str, port: int, family: socket.AddressFamily) -> list[tuple[int, int, str]]:
        # A trailing dot of the host says that no search domain is to be tried.
        found = socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
        # A link-local address loses its scope here. The guard refuses it in any case.
        return [(int(kind), protocol, str(place[0])) for kind, _, protocol, _, place in found]
