# SPDX-License-Identifier: Apache-2.0
"""Look-ups of names in threads of their own.

The operating system's look-up blocks a thread for up to half a minute when a name server does not answer. The event
loop's default executor has a few threads only, so a few such names would delay all others. This resolver has more
threads, and nothing else uses them.
"""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from aiohttp.abc import AbstractResolver, ResolveResult

_THREADS: Final = 64


class ThreadedNames(AbstractResolver):
    """The resolver of a connector. Threads start when they are needed."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="webhook-names")

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
