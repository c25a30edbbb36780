# SPDX-License-Identifier: Apache-2.0
"""The addresses of a broker's name, for the drivers with an event loop.

The libraries of RabbitMQ and NATS connect to a name, and a silent first address uses up the time of all. So a driver
connects to each address by itself, with the time of one connection.
"""

from __future__ import annotations

import asyncio
import socket


async def addresses_of(host: str, port: int) -> list[str]:
    """The addresses of a name, in the order of the resolver.

    :raises OSError: it has none.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
